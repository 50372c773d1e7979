//go:build guest

package suite

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/refserver"
	"github.com/evalhost/evalhost/services/internal/sandbox/hoststate"
)

// patience bounds one wait. Under emulation a container takes seconds, and many on a busy machine.
const patience = 5 * time.Minute

const scratch = "/var/lib/evalhost/scratch"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stage is a reference server on loopback, with one problem.
type stage struct {
	*refserver.Server
	t       *testing.T
	web     *httptest.Server
	problem refserver.Problem
}

// sum is a package of two tests: two numbers and their sum.
var sum = map[string]string{
	"config.yml": "type: standard-io@1\nlimits: { timeMs: 5000, memoryBytes: 67108864 }\n" +
		"groups: [ { group: 1, points: 40 }, { group: 2, points: 60 } ]\n",
	"tests/1a.in": "1 2\n", "tests/1a.out": "3\n", "tests/2a.in": "20 30\n", "tests/2a.out": "50\n",
}

const (
	adds   = "#include <stdio.h>\nint main(void) { int a, b; if (scanf(\"%d %d\", &a, &b) != 2) return 1; printf(\"%d\\n\", a + b); return 0; }\n"
	wrong  = "#include <stdio.h>\nint main(void) { int a, b; if (scanf(\"%d %d\", &a, &b) != 2) return 1; printf(\"%d\\n\", a == 1 ? 3 : 7); return 0; }\n"
	broken = "int main(void) { return nothing; }\n"
)

func zipped(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, content := range files {
		f, err := w.Create(name)
		must(t, err)
		_, err = f.Write([]byte(content))
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

// newStage runs a Server, and compares the host with what it was when the test is over.
func newStage(t *testing.T, change ...func(*refserver.Options)) *stage {
	t.Helper()
	unchanged(t)
	o := refserver.Options{ApproveAll: true}
	for _, c := range change {
		c(&o)
	}
	server, err := refserver.New(o)
	must(t, err)
	s := &stage{Server: server, t: t, web: httptest.NewServer(server)}
	ctx, stop := context.WithCancel(context.Background())
	var sweeping sync.WaitGroup
	sweeping.Go(func() { server.Run(ctx) })
	t.Cleanup(func() {
		stop()
		sweeping.Wait()
		s.web.CloseClientConnections()
		s.web.Close()
	})
	s.problem, err = server.AddPackage(refserver.Package{Name: "sum", Content: bytes.NewReader(zipped(t, sum))})
	must(t, err)
	return s
}

// unchanged compares the host with what it was before the test, once every daemon of the test has ended.
func unchanged(t *testing.T) {
	t.Helper()
	client, err := engine.Connect(t.Context(), engine.Options{Host: "unix:///var/run/docker.sock"})
	must(t, err)
	before, err := hoststate.Take(t.Context(), client, scratch, "/run/evalhost")
	must(t, err)
	t.Cleanup(func() {
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var different []string
		for {
			after, err := hoststate.Take(ctx, client, scratch, "/run/evalhost")
			if err == nil {
				// Docker is restarted by these tests, so processes are compared by their names.
				gone := slices.DeleteFunc(before.Left(after), func(fact string) bool { return strings.HasPrefix(fact, "process ") })
				if different = append(after.Left(before), gone...); len(different) == 0 {
					return
				}
			}
			if ctx.Err() != nil {
				t.Errorf("the host is not what it was: %v\n%s", err, strings.Join(different, "\n"))
				return
			}
			time.Sleep(time.Second)
		}
	})
}

// submit hands in a C program.
func (s *stage) submit(source string) refserver.Job {
	s.t.Helper()
	j, err := s.Submit(refserver.BytesSubmission(s.problem.ID, "main.c", "c11-gcc", []byte(source)))
	must(s.t, err)
	return j
}

func (s *stage) job(id string) refserver.Job {
	s.t.Helper()
	j, ok := s.Job(id)
	if !ok {
		s.t.Fatalf("there is no job %s", id)
	}
	return j
}

// judged waits until a job is final and fails unless it got this verdict and score.
func (s *stage) judged(j refserver.Job, verdict string, score float64) refserver.Job {
	s.t.Helper()
	s.eventually("job "+j.ID+" is final", func() bool { return s.job(j.ID).State.Final() })
	got := s.job(j.ID)
	if got.State != refserver.Completed || got.Result == nil || got.Result.Verdict != verdict || *got.Result.Score != score || *got.Result.MaxScore != 100 {
		s.t.Fatalf("the job ended as %s, %q with %+v", got.State, got.FailureReason, got.Result)
	}
	var details struct {
		Tests []struct{ No, Status, Reason string }
	}
	if err := json.Unmarshal(s.Attachment(j.ID, "details"), &details); err != nil || len(details.Tests) != 2 {
		s.t.Errorf("details: %v, %s", err, s.Attachment(j.ID, "details"))
	}
	return got
}

func (s *stage) eventually(what string, ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("not seen within %v: %s", patience, what)
		}
	}
}

// fault sets a fault that must be possible.
func (s *stage) fault(f refserver.Fault) string {
	s.t.Helper()
	id, err := s.SetFault(f)
	must(s.t, err)
	return id
}

// once fails unless a job was answered once: no report was refused, and no second one was taken.
func (s *stage) once(j refserver.Job) {
	s.t.Helper()
	taken := func() (n int) {
		for _, c := range s.Calls(0) {
			if strings.Contains(c.Path, j.ID+"/report") && c.Status == http.StatusOK {
				n++
			}
		}
		return n
	}
	// The answer is there an instant before the call that brought it is written down.
	s.eventually("the report of job "+j.ID, func() bool { return taken() > 0 })
	if n := taken(); n != 1 {
		s.t.Errorf("%d reports of job %s were taken", n, j.ID)
	}
}

// daemon is a home for Runner processes: one key, one work directory.
type daemon struct {
	s    *stage
	dir  string
	env  []string
	proc *process
}

// daemon makes a home. change overrides settings.
func (s *stage) daemon(change ...string) *daemon {
	s.t.Helper()
	dir, err := os.MkdirTemp("/var/lib/evalhost", "suite-")
	must(s.t, err)
	d := &daemon{s: s, dir: dir}
	d.env = append([]string{
		"PATH=/usr/bin:/bin", "AJ_Server__BaseUrl=" + s.web.URL + refserver.Prefix, "AJ_Runner__Name=suite", "AJ_Runner__KeyPath=" + dir + "/identity.key",
		"AJ_Cache__Path=" + dir + "/cache", "AJ_Work__Path=" + scratch, "AJ_Poll__WaitSeconds=10", "AJ_Poll__MinSeconds=1", "AJ_Poll__MaxSeconds=3",
		"EVALHOST_LANGUAGES=c11-gcc", "EVALHOST_LOG_LEVEL=debug", "EVALHOST_SHIM_PATH=" + os.Getenv("EVALHOST_TEST_SHIM"),
		"EVALHOST_BUILD_WALL_FACTOR=" + os.Getenv("EVALHOST_BUILD_WALL_FACTOR"),
	}, change...)
	s.t.Cleanup(func() {
		if d.proc != nil {
			d.stop()
		}
		must(s.t, os.RemoveAll(dir))
	})
	return d
}

// process is one life of a daemon.
type process struct {
	cmd    *exec.Cmd
	ended  chan struct{} // closed when it has ended
	socket *net.UnixConn

	mu    sync.Mutex
	said  []said
	log   bytes.Buffer
	alive []time.Time
}

type said struct {
	at   time.Time
	text string
}

// Write takes a line of the log.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

// listen is the service manager's side of sd_notify.
func (p *process) listen() {
	buffer := make([]byte, 64<<10)
	for {
		n, err := p.socket.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		for line := range strings.SplitSeq(string(buffer[:n]), "\n") {
			if line == "WATCHDOG=1" {
				p.alive = append(p.alive, time.Now())
				continue
			}
			p.said = append(p.said, said{time.Now(), line})
		}
		p.mu.Unlock()
	}
}

// when is when the process first said something with these words; zero if it has not.
func (p *process) when(words string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.said {
		if strings.Contains(s.text, words) {
			return s.at
		}
	}
	return time.Time{}
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// start starts a life. It does not wait for anything.
func (d *daemon) start() *process {
	d.s.t.Helper()
	path := filepath.Join(d.dir, "notify")
	_ = os.Remove(path)
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(d.s.t, err)
	p := &process{ended: make(chan struct{}), socket: socket}
	p.cmd = exec.Command(os.Getenv("EVALHOST_TEST_RUNNER"))
	p.cmd.Env = append(slices.Clone(d.env), "NOTIFY_SOCKET="+path)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	must(d.s.t, p.cmd.Start())
	go p.listen()
	go func() {
		_ = p.cmd.Wait()
		_ = socket.Close()
		close(p.ended)
	}()
	d.proc = p
	return p
}

// run starts a life and waits until it is idle.
func (d *daemon) run() *process {
	d.s.t.Helper()
	p := d.start()
	d.until("STATUS=idle")
	return p
}

// until waits until the process has said something.
func (d *daemon) until(words string) time.Time {
	d.s.t.Helper()
	p := d.proc
	d.s.eventually("the daemon says "+words, func() bool {
		if p.hasEnded() && p.when(words).IsZero() {
			d.s.t.Fatalf("the daemon ended with %v before it said %q:\n%s", p.cmd.ProcessState, words, p.text())
		}
		return !p.when(words).IsZero()
	})
	return p.when(words)
}

// ends waits for the end of a life and gives its exit status; -1 for a signal.
func (d *daemon) ends() int {
	d.s.t.Helper()
	p := d.proc
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		d.s.t.Fatalf("the daemon has not ended:\n%s", p.text())
	}
	if d.s.t.Failed() {
		d.s.t.Logf("the daemon said:\n%s", tail(p.text()))
	}
	return p.cmd.ProcessState.ExitCode()
}

func tail(text string) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-80):], "\n")
}

// stop asks a life to end, which it must do in order and within the grace of a service manager.
func (d *daemon) stop() time.Duration {
	d.s.t.Helper()
	began := time.Now()
	if err := d.proc.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		d.s.t.Error(err)
	}
	if status := d.ends(); status != 0 {
		d.s.t.Errorf("an ordered stop ended with status %d:\n%s", status, tail(d.proc.text()))
	}
	d.proc = nil
	return time.Since(began)
}

// kill ends a life at once.
func (d *daemon) kill() {
	d.s.t.Helper()
	must(d.s.t, d.proc.cmd.Process.Kill())
	d.ends()
	d.proc = nil
}

// fed fails if the watchdog was not fed for longer than a while between two moments of a life.
func (d *daemon) fed(from, to time.Time) {
	d.s.t.Helper()
	const most = 25 * time.Second // fed every ten; the rest is a busy emulated machine
	d.proc.mu.Lock()
	defer d.proc.mu.Unlock()
	last := from
	for _, at := range append(slices.Clone(d.proc.alive), to) {
		if at.Before(from) || at.After(to) {
			continue
		}
		if at.Sub(last) > most {
			d.s.t.Errorf("the watchdog was not fed for %v", at.Sub(last))
		}
		last = at
	}
}

// command runs a program of the guest.
func command(t testing.TB, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}
