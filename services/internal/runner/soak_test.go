package runner_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/identity"
	"github.com/evalhost/evalhost/services/internal/policy"
	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/refserver"
	"github.com/evalhost/evalhost/services/internal/runner"
	"github.com/evalhost/evalhost/services/internal/sandbox"
)

// figures are what must not grow with the number of jobs.
type figures struct {
	heap                          uint64 // bytes in use after a collection
	goroutines, descriptors, file int
}

func measure(t *testing.T, dirs ...string) (f figures) {
	t.Helper()
	runtime.GC()
	runtime.GC() // what pools keep goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.heap, f.goroutines = m.HeapAlloc, runtime.NumGoroutine()
	fds, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	f.descriptors = len(fds)
	for _, dir := range dirs {
		must(t, filepath.WalkDir(dir, func(string, os.DirEntry, error) error { f.file++; return nil }))
	}
	return f
}

// soakServer in the environment makes this program a reference server, until its input ends.
const soakServer = "EVALHOST_SOAK_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(soakServer) == "" {
		os.Exit(m.Run())
	}
	server, err := refserver.New(refserver.Options{ApproveAll: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	web := httptest.NewServer(server)
	fmt.Println(web.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// remote is a reference server in a process of its own, whose memory is not the Runner's.
type remote struct {
	t    *testing.T
	base string
}

func newRemote(t *testing.T) remote {
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	cmd := exec.Command(program)
	cmd.Env, cmd.Stderr = append(os.Environ(), soakServer+"=1"), os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	base, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	return remote{t, strings.TrimSpace(base)}
}

// ask makes a call of the control surface and reads its answer into v.
func (r remote) ask(method, path string, query url.Values, body []byte, v any) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), method, r.base+refserver.ControlPrefix+path+"?"+query.Encode(), bytes.NewReader(body))
	must(r.t, err)
	q.Header.Set(refserver.ControlHeader, "1")
	resp, err := http.DefaultClient.Do(q)
	must(r.t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	must(r.t, err)
	if resp.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: %d %s", path, resp.StatusCode, answer)
	}
	must(r.t, json.Unmarshal(answer, v))
}

// Many jobs through one Runner, over real connections, with containers that are none: memory, descriptors, goroutines and
// files stay what they were. EVALHOST_SOAK_JOBS says how many; make soak takes 1,000. The Server keeps every job, in a process of
// its own; a Runner that kept as much as the source of every job would be seen with sixty.
func TestManyJobsLeaveNothingBehind(t *testing.T) {
	jobs := 60
	if text := os.Getenv("EVALHOST_SOAK_JOBS"); text != "" {
		var err error
		jobs, err = strconv.Atoi(text)
		must(t, err)
	}
	const most, padding = 1 << 20, 64 << 10 // the heap may grow by so much; a source is so large
	server := newRemote(t)
	client, err := protocol.New(protocol.Options{BaseURL: server.base + refserver.Prefix, Getenv: func(string) string { return "" }})
	must(t, err)
	key, _, err := identity.LoadOrCreate(filepath.Join(t.TempDir(), "identity.key"))
	must(t, err)
	rules, err := policy.Default()
	must(t, err)
	images := map[string]string{}
	for _, image := range langimages.Default().Images() {
		images[image.Key] = "sha256:" + image.Key
	}
	scratch, kept, ledger := t.TempDir(), t.TempDir(), t.TempDir()
	machine := runner.NewMachine(runner.MachineConfig{
		Source: client, Packages: &shelf{t: t, dir: kept}, Box: &box{dir: scratch, builds: map[sandbox.BuildKind]int{}},
		Table: langimages.Default(), Rules: rules, Lanes: 1, Scratch: scratch,
		Check: func(context.Context) (map[string]string, error) { return images, nil },
	}, images)
	quiet := slog.New(slog.DiscardHandler)
	r, err := runner.New(runner.Options{
		Client: client, Key: key, Evaluator: machine, Ledger: runner.OpenLedger(filepath.Join(ledger, "begun"), quiet), Wait: 5 * time.Second, Log: quiet,
		Registration: protocol.Registration{Name: "soak", Version: "0.1.0", ProblemTypes: []string{"standard-io@1"}},
	})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	var p refserver.Problem
	server.ask(http.MethodPost, "/packages", nil, zipped(t, adder), &p)
	judge := func(n int) {
		for i := range n {
			source, want := "ADDS", "Accepted"
			switch i % 4 {
			case 1:
				source, want = "WRONG", "Wrong answer"
			case 2:
				source, want = "BROKEN", "Compilation error"
			}
			var j refserver.Job
			server.ask(http.MethodPost, "/submissions", url.Values{"problem": {p.ID}, "fileName": {"main.c"}, "language": {"c11-gcc"}},
				[]byte(source+"\n// "+strings.Repeat("x", padding)+"\n"), &j)
			server.ask(http.MethodGet, "/jobs/"+j.ID, url.Values{"waitSeconds": {"60"}}, nil, &j)
			if j.Result == nil || j.Result.Verdict != want || j.Deliveries != 1 {
				t.Fatalf("job %d is %s after %d deliveries: %+v, %q", i, j.State, j.Deliveries, j.Result, j.FailureReason)
			}
		}
	}
	judge(20)
	before, began := measure(t, scratch, kept, ledger), time.Now()
	judge(jobs)
	after := measure(t, scratch, kept, ledger)
	t.Logf("%d jobs in %v (%v each): heap %d -> %d KiB, goroutines %d -> %d, descriptors %d -> %d, files %d -> %d", jobs,
		time.Since(began).Round(time.Millisecond), (time.Since(began) / time.Duration(jobs)).Round(10*time.Microsecond),
		before.heap/1024, after.heap/1024, before.goroutines, after.goroutines, before.descriptors, after.descriptors, before.file, after.file)
	const spare = 4 // connections come and go
	if after.goroutines > before.goroutines+2*spare || after.descriptors > before.descriptors+spare || after.file > before.file {
		t.Errorf("something grows: %+v, then %+v", before, after)
	}
	if after.heap > before.heap+most {
		t.Errorf("the heap grew by %d KiB", (after.heap-before.heap)/1024)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
