package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
)

const (
	// mostUnended is how many deliveries of a job may end this process or this host before the job is not begun here again.
	mostUnended = 2
	// maxBegun bounds the entries of a Ledger, and with maxLedger what is read of its file, in bytes.
	maxBegun  = 1000
	maxLedger = 1 << 20
	// begunFor is how old an entry may be at a start. A job that is still in the queue after it may be begun again.
	begunFor = 24 * time.Hour
)

// Ledger remembers, over the end of this process and of this host, which deliveries of jobs began here and never ended: a
// job that takes the host down must not do so again and again. It is a file beside the key, because nothing else is sure to
// outlive a boot. It never fails: a Ledger that cannot be read or written is said in the log and stops no judging, and what
// it says decides no verdict, only whether there is none from here. The nil Ledger remembers nothing. Not for use by several
// goroutines at once.
type Ledger struct {
	path  string
	log   *slog.Logger
	begun []begun // the one begun last stands last
	told  bool    // that it cannot be written
}

// begun is a job of which deliveries began here and did not end.
type begun struct {
	Job protocol.JobID `json:"job"`
	// Deliveries counts them, the one under way included.
	Deliveries int `json:"deliveries"`
	// At is when the last of them began.
	At time.Time `json:"at"`
}

// ledgerFile is the file: a JSON object with one member.
type ledgerFile struct {
	Begun []begun `json:"begun"`
}

// LedgerPath is where the Ledger of a key is.
func LedgerPath(key string) string { return key + ".begun" }

// OpenLedger reads the Ledger at path, or begins one. A file that is damaged or cannot be read is moved to path.damaged, in
// the place of an earlier one. log may be nil.
func OpenLedger(path string, log *slog.Logger) *Ledger {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l := &Ledger{path: path, log: log}
	entries, err := readLedger(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l
	}
	if err != nil {
		aside := path + ".damaged"
		if moved := os.Rename(path, aside); moved != nil {
			err = errors.Join(err, moved)
		}
		log.Warn("the record of what was begun here is damaged and begun anew; a job that took this host down may be begun here again",
			"path", path, "movedTo", aside, "error", err)
		return l
	}
	l.begun = slices.DeleteFunc(entries, func(b begun) bool { return time.Since(b.At) > begunFor })
	if over := len(l.begun) - maxBegun; over > 0 {
		l.begun = l.begun[over:]
	}
	return l
}

// readLedger reads a file that must be whole: what is half understood could count against the wrong job.
func readLedger(path string) ([]begun, error) {
	// O_NONBLOCK: a pipe by mistake must be refused, not waited for.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is no regular file but %s", info.Mode().Type())
	}
	content, err := io.ReadAll(io.LimitReader(f, maxLedger+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxLedger {
		return nil, fmt.Errorf("it is longer than %d bytes", maxLedger)
	}
	var file ledgerFile
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the record")
	}
	if file.Begun == nil {
		return nil, errors.New("the member begun is missing")
	}
	seen := map[protocol.JobID]bool{}
	for _, b := range file.Begun {
		if err := b.Job.Check(); err != nil {
			return nil, err
		}
		if seen[b.Job] || b.Deliveries < 1 || b.Deliveries > mostUnended || b.At.IsZero() {
			return nil, fmt.Errorf("the entry of job %s cannot be: twice there %v, %d deliveries, at %v", b.Job, seen[b.Job], b.Deliveries, b.At)
		}
		seen[b.Job] = true
	}
	return file.Begun, nil
}

// Begin is called before the work on a delivery begins, and returns how many deliveries of the job began here and never
// ended. When ok, this one is on the disk as one that has begun; otherwise they were too many, and it must not begin.
func (l *Ledger) Begin(job protocol.JobID) (unended int, ok bool) {
	if l == nil {
		return 0, true
	}
	b := begun{Job: job}
	at := l.find(job)
	if at >= 0 {
		b = l.begun[at]
	}
	if b.Deliveries >= mostUnended {
		return b.Deliveries, false
	}
	unended = b.Deliveries
	b.Deliveries, b.At = unended+1, time.Now().UTC()
	if at >= 0 {
		l.begun = slices.Delete(l.begun, at, at+1)
	}
	l.begun = append(l.begun, b)
	if over := len(l.begun) - maxBegun; over > 0 {
		l.begun = slices.Delete(l.begun, 0, over)
	}
	l.keep()
	return unended, true
}

// End is called when a delivery that Begin let begin has ended in order. With a verdict everything about the job is
// forgotten; without one only this delivery is, because what an earlier one did to this host may happen again.
func (l *Ledger) End(job protocol.JobID, judged bool) {
	if l == nil {
		return
	}
	at := l.find(job)
	if at < 0 {
		return // the oldest of too many
	}
	if b := &l.begun[at]; !judged && b.Deliveries > 1 {
		b.Deliveries--
	} else {
		l.begun = slices.Delete(l.begun, at, at+1)
	}
	l.keep()
}

func (l *Ledger) find(job protocol.JobID) int {
	return slices.IndexFunc(l.begun, func(b begun) bool { return b.Job == job })
}

// keep writes the Ledger. Its failure is said once, until it succeeds again: every job comes by here twice.
func (l *Ledger) keep() {
	err := l.write()
	if err != nil && !l.told {
		l.log.Warn("the record of what was begun here cannot be written; a job that takes this host down may be begun here again",
			"path", l.path, "error", err)
	}
	l.told = err != nil
}

// write puts the record at its path as a whole and onto the device: what it says matters most when the power goes next.
func (l *Ledger) write() (err error) {
	content, err := json.Marshal(ledgerFile{Begun: append([]begun{}, l.begun...)})
	if err != nil {
		return err
	}
	partial := l.path + ".partial" // one process has this key, so there is one writer
	if err := os.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(content, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(partial, l.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	dir, err := os.Open(filepath.Dir(l.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
