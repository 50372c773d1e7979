//go:build guest

package adversarial

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalhost/evalhost/checks/guest/inside"
	"github.com/evalhost/evalhost/services/sandboxlab"
)

// What the suite is told: as the sandbox's own guest suite is, and
//
//	EVALHOST_TEST_VARIANT     the kind of host: systemd, cgroupfs, systemd-runc, cgroupfs-runc
//	EVALHOST_TEST_EVERYTHING  any value: every attack on this variant, and not only those that depend on the driver
const (
	testImage  = "evalhost/test-busybox:local"
	scratchDir = "/var/lib/evalhost-test"
)

func init() { inside.Demand() }

func told(variable, otherwise string) string {
	if value := os.Getenv(variable); value != "" {
		return value
	}
	return otherwise
}

// everything says whether all attacks are run here. Under systemd they always are.
func everything() bool {
	return strings.HasPrefix(told("EVALHOST_TEST_VARIANT", "systemd"), "systemd") || os.Getenv("EVALHOST_TEST_EVERYTHING") != ""
}

// lab is a sandbox with what an attacker looks for around it.
type lab struct {
	eng     *sandboxlab.Engine
	box     *sandboxlab.Sandbox
	job     *sandboxlab.Job
	program *sandboxlab.Program
	lanes   int // two, or one where the host has one processor
	host    *host
	tests   string            // a package's tests: inputs and expected outputs
	planted map[string]string // what it is: the word
	same    *os.Process       // a process of the machine with the submissions' own user
	log     *logged
}

// logged is a log that several goroutines write.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// open makes a lab whose builds are given factor times their wall clock.
func open(t *testing.T, factor float64) *lab {
	t.Helper()
	l := &lab{planted: map[string]string{}, log: &logged{}}
	l.plant(t)
	var err error
	if l.eng, err = sandboxlab.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.eng.Close() })
	must(t, os.MkdirAll(scratchDir, 0o755))
	var lanes []sandboxlab.Lane
	for _, cpuset := range sandboxlab.Cpusets() {
		lanes = append(lanes, sandboxlab.Lane{Cpuset: cpuset})
	}
	l.lanes = len(lanes)
	outer := watch(t, l.eng, scratchDir, sandboxlab.DefaultLocks)
	l.box, err = sandboxlab.Open(t.Context(), l.eng, sandboxlab.Config{
		Instance: "attack-" + sandboxlab.Secret()[:8], Scratch: scratchDir, Lanes: lanes,
		Shim: told("EVALHOST_TEST_SHIM", "/usr/local/lib/evalhost-test/aj-shim"), BuildWallFactor: factor,
		Log: slog.New(slog.NewTextHandler(l.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if l.job, err = l.box.OpenJob(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.job.Close(); err != nil {
			t.Error(err)
		}
		if n, err := l.box.Sweep(context.Background()); n != 0 || err != nil {
			t.Errorf("a sweep at the end finds %d, %v; want nothing", n, err)
		}
		if err := l.box.Close(context.Background()); err != nil {
			t.Error(err)
		}
		outer.settled(t)
		if l.log.b.Len() > 0 {
			t.Logf("the log:\n%s", &l.log.b)
		}
	})
	if l.program, err = sandboxlab.ProgramAt(filepath.Join(told("EVALHOST_TEST_PROGRAMS", "/usr/local/lib/evalhost-test"), "attack")); err != nil {
		t.Fatal(err)
	}
	return l
}

// wallFactor is by how much this machine stretches builds.
func wallFactor(t *testing.T) float64 {
	t.Helper()
	factor, err := strconv.ParseFloat(told("EVALHOST_BUILD_WALL_FACTOR", "1"), 64)
	if err != nil {
		t.Fatal(err)
	}
	return factor
}

// plant puts secrets where an attacker would look for them, one word for each kind of place.
func (l *lab) plant(t *testing.T) {
	t.Helper()
	secret := func(what string) string {
		word := "EVALHOST-SECRET-" + what + "-" + sandboxlab.Secret()
		l.planted[what] = word
		return word + "\n"
	}
	l.tests = t.TempDir()
	must(t, os.Chmod(l.tests, 0o755))
	keys := "/var/lib/evalhost-planted"
	must(t, os.MkdirAll(keys, 0o700))
	t.Cleanup(func() {
		must(t, os.RemoveAll(keys))
		must(t, os.Remove("/etc/evalhost-planted"))
	})
	for path, what := range map[string]string{
		"/etc/evalhost-planted":            "file",
		filepath.Join(keys, "runner.key"):  "key",
		filepath.Join(l.tests, "1a.out"):   "answer",
		filepath.Join(l.tests, "2a.in"):    "input",
		filepath.Join(l.tests, "2a.out"):   "answer2",
		filepath.Join(l.tests, "notes.md"): "package",
	} {
		must(t, os.WriteFile(path, []byte(secret(what)), 0o644))
	}
	must(t, os.WriteFile(filepath.Join(l.tests, "1a.in"), []byte("the input\n"), 0o644))
	must(t, os.Chmod(filepath.Join(keys, "runner.key"), 0o600))

	// A process of the machine that has the submissions' user: only namespaces are between them.
	sleeper := exec.Command("sleep", "7200")
	sleeper.Env = []string{"PLANTED=" + strings.TrimSpace(secret("process"))}
	sleeper.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	must(t, sleeper.Start())
	l.same = sleeper.Process
	t.Cleanup(func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
	})
	// What listens on the machine.
	for _, address := range [][2]string{{"tcp", "127.0.0.1:47113"}, {"unix", "@evalhost-planted"}} {
		listener, err := net.Listen(address[0], address[1])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ready makes everything that the first container of a job makes, and begins to compare the machine.
func (l *lab) ready(t *testing.T) {
	t.Helper()
	for lane := range l.lanes {
		r := l.run("exit", "0")
		r.Lane = lane
		if _, err := l.go1(t, r); err != nil {
			t.Fatal(err)
		}
	}
	l.host = watch(t, l.eng, scratchDir, sandboxlab.DefaultLocks)
}

// sink keeps what a submission writes; it settles at its first line when it is told to.
type sink struct {
	mu     sync.Mutex
	got    bytes.Buffer
	settle bool
	came   chan struct{} // closed at the first byte
	once   sync.Once
}

func newSink() *sink { return &sink{came: make(chan struct{})} }

// keep bounds what a flood leaves in the memory of the suite.
const keep = 4 << 20

func (s *sink) Write(p []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.once.Do(func() { close(s.came) })
	s.got.Write(p[:min(len(p), max(keep-s.got.Len(), 0))])
	return s.settle && bytes.IndexByte(s.got.Bytes(), '\n') >= 0
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.String()
}

// run describes a run of the attacking program.
func (l *lab) run(words ...string) sandboxlab.Run {
	return sandboxlab.Run{
		Image: testImage, Command: append([]string{"/program/attack"}, words...), Program: l.program, Test: "1a",
		Input: strings.NewReader("the input\n"), Limits: sandboxlab.Limits{Time: 20 * time.Second, Memory: 64 << 20}, Output: newSink(),
	}
}

// go1 judges one run and looks at everything that is said of any run: that no secret is in its output, that none of the
// job's files was changed, and that the machine's process of the same user lives.
func (l *lab) go1(t *testing.T, r sandboxlab.Run) (sandboxlab.RunOutcome, error) {
	t.Helper()
	p, err := l.job.Prepare(t.Context(), r)
	if err != nil {
		return sandboxlab.RunOutcome{}, err
	}
	secrets := l.secretsOf(t)
	before := files(t, scratchDir)
	o, err := p.Go(t.Context())
	after := files(t, scratchDir)
	if e := p.Close(); e != nil {
		t.Error(e)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("files of the job were changed (-before +after):\n%s", diff)
	}
	if s, ok := r.Output.(*sink); ok {
		l.noSecret(t, "its output", s.got.Bytes(), secrets...)
	}
	if o.Judge != nil { // it was told the output, and says every word of it that looks like a nonce
		l.noSecret(t, "what its judge was told", o.Judge.Answer, secrets...)
	}
	if err := l.same.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process of the machine with the submissions' user: %v", err)
	}
	return o, err
}

// noSecret looks for every planted word.
func (l *lab) noSecret(t *testing.T, where string, text []byte, more ...string) {
	t.Helper()
	for what, word := range l.planted {
		if bytes.Contains(text, []byte(word)) {
			t.Errorf("%s holds the secret %q", where, what)
		}
	}
	for _, word := range more {
		if bytes.Contains(text, []byte(word)) {
			t.Errorf("%s holds the run's nonce", where)
		}
	}
}

// secretsOf reads the nonces of the containers that are waiting or running: the daemon knows them, and no submission may.
func (l *lab) secretsOf(t *testing.T) (nonces []string) {
	t.Helper()
	found, err := l.eng.Sandboxes(t.Context())
	must(t, err)
	for _, f := range found {
		var c struct{ Config struct{ Env []string } }
		must(t, docker(t.Context(), "/containers/"+f.ID+"/json", &c))
		for _, e := range c.Config.Env {
			if nonce, ok := strings.CutPrefix(e, "AJ_SHIM_NONCE="); ok {
				nonces = append(nonces, nonce)
			}
		}
	}
	if len(nonces) == 0 {
		t.Error("no container has a nonce, so that nobody can tell whether it gets out")
	}
	return nonces
}

// docker asks the daemon itself, past the project's own engine, which does not give secrets back.
func docker(ctx context.Context, path string, answer any) error {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", "/var/run/docker.sock")
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker"+path, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

func shown(o sandboxlab.Outcome) string {
	text := func(d *time.Duration) string {
		if d == nil {
			return "none"
		}
		return d.Round(time.Millisecond).String()
	}
	peak := "none"
	if o.Peak != nil {
		peak = o.Peak.String()
	}
	return fmt.Sprintf("%v, exit %d, charged %s (report %s, home %s), peak %s, wall %v, capped %v", o.Stop, o.ExitCode, text(o.CPU),
		text(o.Report), text(o.Home), peak, o.Wall.Round(time.Millisecond), o.Capped)
}
