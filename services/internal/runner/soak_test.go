package runner_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
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

// Many jobs through one Runner, over real connections, with containers that are none: memory, descriptors, goroutines and
// files stay what they were. EVALHOST_SOAK_JOBS says how many; make soak takes 1,000. The reference server in this very
// process keeps every job, every file and a journal of calls: what it keeps for a job is measured along and is most of what is
// seen, so it is given a share.
func TestManyJobsLeaveNothingBehind(t *testing.T) {
	jobs := 60
	if text := os.Getenv("EVALHOST_SOAK_JOBS"); text != "" {
		var err error
		jobs, err = strconv.Atoi(text)
		must(t, err)
	}
	server, err := refserver.New(refserver.Options{ApproveAll: true})
	must(t, err)
	web := httptest.NewServer(server)
	defer web.Close()
	client, err := protocol.New(protocol.Options{BaseURL: web.URL + refserver.Prefix, Getenv: func(string) string { return "" }})
	must(t, err)
	key, _, err := identity.LoadOrCreate(filepath.Join(t.TempDir(), "identity.key"))
	must(t, err)
	rules, err := policy.Default()
	must(t, err)
	images := map[string]string{}
	for _, image := range langimages.Default().Images() {
		images[image.Key] = "sha256:" + image.Key
	}
	scratch, kept := t.TempDir(), t.TempDir()
	machine := runner.NewMachine(runner.MachineConfig{
		Source: client, Packages: &shelf{t: t, dir: kept}, Box: &box{dir: scratch, builds: map[sandbox.BuildKind]int{}},
		Table: langimages.Default(), Rules: rules, Lanes: 1, Scratch: scratch,
		Check: func(context.Context) (map[string]string, error) { return images, nil },
	}, images)
	r, err := runner.New(runner.Options{
		Client: client, Key: key, Evaluator: machine, Wait: 5 * time.Second, Log: slog.New(slog.DiscardHandler),
		Registration: protocol.Registration{Name: "soak", Version: "0.1.0", ProblemTypes: []string{"standard-io@1"}},
	})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	p, err := server.AddPackage(refserver.Package{Content: bytes.NewReader(zipped(t, adder))})
	must(t, err)
	judge := func(n int) {
		for i := range n {
			source, want := "ADDS", "Accepted"
			switch i % 4 {
			case 1:
				source, want = "WRONG", "Wrong answer"
			case 2:
				source, want = "BROKEN", "Compilation error"
			}
			j, err := server.Submit(refserver.BytesSubmission(p.ID, "main.c", "c11-gcc", []byte(source)))
			must(t, err)
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
				got, _ := server.Job(j.ID)
				if got.State.Final() {
					if got.Result.Verdict != want || got.Deliveries != 1 {
						t.Fatalf("job %d: %+v after %d deliveries", i, got.Result, got.Deliveries)
					}
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("job %d is %s", i, got.State)
				}
			}
		}
	}
	judge(20)
	before, began := measure(t, scratch, kept), time.Now()
	judge(jobs)
	after := measure(t, scratch, kept)
	t.Logf("%d jobs in %v (%v each): heap %d -> %d KiB, goroutines %d -> %d, descriptors %d -> %d, files %d -> %d", jobs,
		time.Since(began).Round(time.Millisecond), (time.Since(began) / time.Duration(jobs)).Round(10*time.Microsecond),
		before.heap/1024, after.heap/1024, before.goroutines, after.goroutines, before.descriptors, after.descriptors, before.file, after.file)
	const spare = 4 // connections come and go
	if after.goroutines > before.goroutines+2*spare || after.descriptors > before.descriptors+spare || after.file > before.file {
		t.Errorf("something grows: %+v, then %+v", before, after)
	}
	if share := uint64(jobs)*20<<10 + 4<<20; after.heap > before.heap+share {
		t.Errorf("the heap grew by %d KiB, more than the Server's share of %d KiB", (after.heap-before.heap)/1024, share/1024)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
