package runner_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/refserver"
	"github.com/evalhost/evalhost/services/internal/runner"
)

// line is an entry of a ledger's file.
func line(job string, deliveries int, ago time.Duration) string {
	return fmt.Sprintf(`{"job":%q,"deliveries":%d,"at":%q}`, job, deliveries, time.Now().Add(-ago).UTC().Format(time.RFC3339Nano))
}

func ledgerOf(lines ...string) string { return `{"begun":[` + strings.Join(lines, ",") + "]}\n" }

// opened opens a ledger whose log is kept.
func opened(path string) (*runner.Ledger, *bytes.Buffer) {
	var log bytes.Buffer
	return runner.OpenLedger(path, slog.New(slog.NewTextHandler(&log, nil))), &log
}

func TestTheLedgerCountsWhatBeganAndNeverEnded(t *testing.T) {
	path := runner.LedgerPath(filepath.Join(t.TempDir(), "identity.key"))
	// Each life begins with what the one before left on the disk.
	begins := func(want int, wantOK bool) *runner.Ledger {
		t.Helper()
		l, log := opened(path)
		if n, ok := l.Begin("one"); n != want || ok != wantOK || log.Len() > 0 {
			t.Errorf("%d deliveries never ended and %v; want %d and %v; said %q", n, ok, want, wantOK, log)
		}
		return l
	}
	begins(0, true)
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	begins(1, true).End("one", false) // given back, say: the first one still never ended
	l := begins(1, true)
	if n, ok := l.Begin("another"); n != 0 || !ok {
		t.Errorf("another job: %d, %v", n, ok)
	}
	begins(2, false)
	begins(2, false) // what was not begun counts as nothing
	l.End("one", false)
	begins(1, true).End("one", true) // a verdict: nothing is left of it
	begins(0, true).End("one", false)
	left, err := os.ReadDir(filepath.Dir(path))
	must(t, err)
	content, err := os.ReadFile(path)
	must(t, err)
	if len(left) != 1 || strings.Contains(string(content), `"one"`) || !strings.Contains(string(content), `"another"`) {
		t.Errorf("left are %v, and in the file %s", left, content)
	}
}

func TestALedgerThatIsNotWholeIsMovedAsideAndStopsNothing(t *testing.T) {
	whole := ledgerOf(line("one", 2, 0))
	for name, content := range map[string]string{
		"empty":               "",
		"zeros":               strings.Repeat("\x00", len(whole)),
		"cut":                 whole[:len(whole)-4],
		"followed":            whole + whole,
		"no object":           "[]",
		"null":                "null",
		"no member":           "{}",
		"another member":      `{"begun":[],"ended":[]}`,
		"an entry of another": `{"begun":[{"job":"one","deliveries":2,"at":"2026-01-01T00:00:00Z","verdict":"Accepted"}]}`,
		"no id":               ledgerOf(line("", 2, 0)),
		"a path for an id":    ledgerOf(line("../one", 2, 0)),
		"twice":               ledgerOf(line("one", 1, 0), line("one", 1, 0)),
		"no deliveries":       ledgerOf(line("one", 0, 0)),
		"too many deliveries": ledgerOf(line("one", 1<<40, 0)),
		"fewer than none":     ledgerOf(line("one", -1, 0)),
		"no time":             `{"begun":[{"job":"one","deliveries":2}]}`,
		"too long":            whole + strings.Repeat(" ", 1<<20),
	} {
		path := filepath.Join(t.TempDir(), "begun")
		must(t, os.WriteFile(path, []byte(content), 0o600))
		must(t, os.WriteFile(path+".damaged", []byte("an earlier one"), 0o600))
		l, log := opened(path)
		if n, ok := l.Begin("one"); n != 0 || !ok {
			t.Errorf("%s: %d, %v", name, n, ok)
		}
		aside, err := os.ReadFile(path + ".damaged")
		if err != nil || string(aside) != content || !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "is damaged and begun anew") {
			t.Errorf("%s: moved aside is %q, %v; said %s", name, aside, err, log)
		}
		if name == "cut" {
			l, _ := opened(path)
			if n, _ := l.Begin("one"); n != 1 {
				t.Error("what follows is not kept")
			}
		}
	}
	for name, put := range map[string]func(path string) error{
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a link": func(path string) error {
			must(t, os.WriteFile(path+".elsewhere", []byte(whole), 0o600))
			return os.Symlink(path+".elsewhere", path)
		},
	} {
		path := filepath.Join(t.TempDir(), "begun")
		must(t, put(path))
		l, log := opened(path)
		if n, ok := l.Begin("one"); n != 0 || !ok || !strings.Contains(log.String(), "is damaged and begun anew") {
			t.Errorf("%s: %d, %v, %s", name, n, ok, log)
		}
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: then there is %v, %v", name, info, err)
		}
	}
}

func TestTheLedgerIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "begun")
	var lines []string
	for i := range 1003 {
		lines = append(lines, line(fmt.Sprintf("job-%d", i), 2, time.Hour))
	}
	must(t, os.WriteFile(path, []byte(ledgerOf(lines...)), 0o600))
	l, log := opened(path)
	if n, ok := l.Begin("job-2"); n != 0 || !ok || log.Len() > 0 { // one of three that were too many; it displaces job-3
		t.Errorf("%d, %v, %s", n, ok, log)
	}
	if n, _ := l.Begin("job-3"); n != 0 { // displaces job-4
		t.Errorf("the oldest was kept: %d", n)
	}
	if n, ok := l.Begin("job-5"); n != 2 || ok {
		t.Errorf("more than the oldest was dropped: %d, %v", n, ok)
	}
	content, err := os.ReadFile(path)
	must(t, err)
	if n := strings.Count(string(content), `"job"`); n != 1000 {
		t.Errorf("%d entries are kept", n)
	}
	must(t, os.WriteFile(path, []byte(ledgerOf(line("old", 2, 25*time.Hour), line("new", 2, 23*time.Hour), line("ahead", 2, -48*time.Hour))), 0o600))
	l, _ = opened(path)
	for job, want := range map[protocol.JobID]int{"old": 0, "new": 2, "ahead": 2} { // ahead: a clock that was wrong
		if n, _ := l.Begin(job); n != want {
			t.Errorf("%s: %d, want %d", job, n, want)
		}
	}
}

func TestALedgerThatCannotBeWrittenIsSaidOnceAndStopsNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	path := filepath.Join(dir, "begun")
	l, log := opened(path)
	for range 3 {
		if _, ok := l.Begin("one"); !ok {
			t.Fatal("not begun")
		}
		l.End("one", true)
	}
	if n := strings.Count(log.String(), "cannot be written"); n != 1 || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("said %d times: %s", n, log)
	}
	must(t, os.Mkdir(dir, 0o700))
	l.Begin("one")
	must(t, os.RemoveAll(dir))
	l.End("one", true)
	if n := strings.Count(log.String(), "cannot be written"); n != 2 {
		t.Errorf("after it could be written again it was said %d times: %s", n, log)
	}
}

// fate is a host whose power goes.
type fate struct {
	r    *rig
	dir  string
	life int
}

// path is the ledger of the life that is now.
func (f *fate) path() string { return filepath.Join(f.dir, fmt.Sprintf("life-%d", f.life)) }

// ledger gives a life its ledger.
func (f *fate) ledger(o *runner.Options) { o.Ledger = runner.OpenLedger(f.path(), o.Log) }

// dies ends a life as a power failure does: the Server hears nothing, and the next life finds what is on the disk now.
func (f *fate) dies(p *play) {
	f.r.t.Helper()
	content, err := os.ReadFile(f.path())
	must(f.r.t, err)
	f.life++
	must(f.r.t, os.WriteFile(f.path(), content, 0o600))
	id := f.r.fault(refserver.Fault{Path: "/runner/jobs/*", Kind: refserver.FaultDropBefore})
	deeper := f.r.fault(refserver.Fault{Path: "/runner/jobs/*/*", Kind: refserver.FaultDropBefore})
	p.stops()
	f.r.ClearFault(id)
	f.r.ClearFault(deeper)
	time.Sleep(11 * time.Minute) // the lease
}

// deadly is a judge that never comes back.
func deadly(ctx context.Context, _ protocol.Job, _ func(runner.Step)) (runner.Answer, error) {
	<-ctx.Done()
	return runner.Answer{}, ctx.Err()
}

// C77: a job that took the host down is retried on the same host once and not more.
func TestAJobThatTookTheHostDownTwiceIsNotBegunHereAgain(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		f := &fate{r: r, dir: t.TempDir()}
		p := r.run(&evaluator{judge: deadly}, f.ledger)
		j := r.submit()
		sameKey := func(o *runner.Options) { o.Key = p.key }
		for n := range 2 {
			e := &evaluator{judge: deadly}
			if n > 0 {
				p = r.run(e, f.ledger, sameKey)
			}
			time.Sleep(4 * time.Minute) // past a renewal, so that the delivery counts
			if s, text := p.State(); s != runner.Judging {
				t.Fatalf("life %d: %v, %q", n, s, text)
			}
			f.dies(p)
			if got := r.job(j.ID); got.State != refserver.Queued || got.Deliveries != n+1 || got.Releases != 0 {
				t.Fatalf("life %d: the job is %+v", n, got)
			}
		}
		e := &evaluator{}
		third := r.run(e, f.ledger, sameKey)
		got := r.final(j.ID, 10*time.Minute)
		if got.State != refserver.Failed || got.Result == nil || got.Result.Verdict != "" || got.Result.Score != nil ||
			!strings.Contains(got.FailureReason, "begun 2 times on this host") || e.times() != 0 {
			t.Errorf("with no other host it ended as %+v with %+v, judged %d times here", got, got.Result, e.times())
		}
		if !third.said("level=WARN", "is not begun here again", "job="+j.ID, "unended=2") {
			t.Error("the log does not say so")
		}
		if ended := third.endings(); !slices.Equal(ended, []runner.Ending{runner.Failed, runner.Failed, runner.Failed}) || third.ended[0].Failure != runner.BadJob {
			t.Errorf("ended as %+v", third.ended)
		}
		r.accepted(r.submit().ID, 10*time.Minute) // other jobs are judged
		third.stops()
	})
}

// Another host gets a job that this one does not begin again.
func TestAJobThatIsNotBegunHereIsJudgedByAnotherHost(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		j := r.submit()
		path := filepath.Join(t.TempDir(), "begun")
		must(t, os.WriteFile(path, []byte(ledgerOf(line(j.ID, 2, time.Hour))), 0o600))
		e := &evaluator{}
		p := r.run(e, func(o *runner.Options) { o.Ledger = runner.OpenLedger(path, o.Log) })
		r.eventually("it was refused", time.Minute, func() bool { return len(p.endings()) > 0 })
		p.stops()
		if got := r.job(j.ID); got.State != refserver.Queued || got.Result != nil || e.times() != 0 {
			t.Errorf("the job is %+v, judged %d times", got, e.times())
		}
		r.run(&evaluator{})
		r.accepted(j.ID, time.Minute)
	})
}

// One kill in a job's life costs it a delivery and no more, and so does every delivery that ends in order.
func TestAJobIsRetriedAfterOneKillAndAfterAnyOrderedEnd(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		f := &fate{r: r, dir: t.TempDir()}
		p := r.run(&evaluator{judge: deadly}, f.ledger)
		sameKey := func(o *runner.Options) { o.Key = p.key }
		j := r.submit()
		time.Sleep(4 * time.Minute)
		f.dies(p)
		for range 3 { // given back three times
			p = r.run(&evaluator{judge: deadly}, f.ledger, sameKey)
			time.Sleep(time.Minute)
			p.stops()
			if got := p.endings(); !slices.Equal(got, []runner.Ending{runner.Released}) {
				t.Fatalf("ended as %v", got)
			}
		}
		failures := 0
		p = r.run(&evaluator{judge: func(context.Context, protocol.Job, func(runner.Step)) (runner.Answer, error) {
			if failures++; failures <= 2 {
				return runner.Answer{}, errMachine
			}
			return accepted(), nil
		}}, f.ledger, sameKey)
		r.accepted(j.ID, 10*time.Minute)
		p.stops()
		if got := p.endings(); !slices.Equal(got, []runner.Ending{runner.Failed, runner.Failed, runner.Reported}) {
			t.Errorf("ended as %v", got)
		}
		content, err := os.ReadFile(f.path())
		if err != nil || string(content) != `{"begun":[]}`+"\n" {
			t.Errorf("a judged job leaves %q, %v", content, err)
		}
	})
}
