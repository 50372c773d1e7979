package runner_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// box is containers that are none: what a program does is told by its source.
type box struct {
	dir string

	mu     sync.Mutex
	builds map[sandbox.BuildKind]int
	runs   int
	source []byte
	fails  error // of every step, when it is set
	breaks error // of every run, when it is set
	sticks error // of every removal of a run, when it is set
	// figures changes what the n-th run from 1 is measured with; may be nil.
	figures func(n int, o *sandbox.RunOutcome)
	atOnce  int // runs under way, and the most there ever were
	most    int
	// busy is how long somebody else judges here before a job is opened, building how long a build takes.
	busy, building time.Duration
}

func (b *box) OpenJob(context.Context) (judge.Job, error) {
	time.Sleep(b.busy)
	dir, err := os.MkdirTemp(b.dir, "job-")
	return &boxJob{box: b, dir: dir}, err
}

type boxJob struct {
	box *box
	dir string
}

func (j *boxJob) Build(_ context.Context, b sandbox.Build) (sandbox.Built, error) {
	time.Sleep(j.box.building)
	j.box.mu.Lock()
	defer j.box.mu.Unlock()
	if j.box.fails != nil {
		return sandbox.Built{}, j.box.fails
	}
	j.box.builds[b.Kind]++
	var built sandbox.Built
	built.Stop = sandbox.OnItsOwn
	if bytes.Contains(b.Source, []byte("BROKEN")) {
		built.ExitCode, built.Stderr = 1, []byte("main.c:1: error: BROKEN\n")
		return built, nil
	}
	if b.Kind == sandbox.SubmissionBuild {
		j.box.source = b.Source
	}
	path := filepath.Join(j.dir, b.Artifact)
	if err := os.WriteFile(path, b.Source, 0o755); err != nil {
		return built, err
	}
	var err error
	built.Program, err = sandbox.ProgramAt(path)
	return built, err
}

func (j *boxJob) Prepare(_ context.Context, r sandbox.Run) (judge.Run, error) {
	return boxRun{j.box, r}, nil
}

func (j *boxJob) Close() error { return os.RemoveAll(j.dir) }

type boxRun struct {
	box *box
	r   sandbox.Run
}

func (r boxRun) Close() error { return r.box.sticks }

func (r boxRun) Container() string { return "evalhost_" + r.r.Test }

func (r boxRun) Go(ctx context.Context) (sandbox.RunOutcome, error) {
	r.box.mu.Lock()
	source, fails := string(r.box.source), cmp.Or(r.box.fails, r.box.breaks)
	r.box.runs++
	n := r.box.runs
	r.box.atOnce++
	r.box.most = max(r.box.most, r.box.atOnce)
	r.box.mu.Unlock()
	defer func() {
		time.Sleep(time.Millisecond) // so that runs of several lanes overlap
		r.box.mu.Lock()
		r.box.atOnce--
		r.box.mu.Unlock()
	}()
	if fails != nil {
		return sandbox.RunOutcome{}, fails
	}
	cpu, peak := 3*time.Millisecond, verdict.MiB
	var o sandbox.RunOutcome
	o.Stop, o.CPU, o.Peak, o.Wall = sandbox.OnItsOwn, &cpu, &peak, 5*time.Millisecond
	if r.box.figures != nil {
		r.box.figures(n, &o)
	}
	switch {
	case strings.Contains(source, "LOOPS"):
		cpu = r.r.Limits.Time + time.Second
		o.Stop = sandbox.TimeLimit
		return o, nil
	case strings.Contains(source, "SLOWLY"):
		cpu = 1200 * time.Millisecond
	case strings.Contains(source, "LASTS"):
		select {
		case <-time.After(time.Minute):
		case <-ctx.Done():
			return sandbox.RunOutcome{}, ctx.Err()
		}
	}
	if r.r.Judge != nil {
		o.Judge = &sandbox.JudgeOutcome{Answer: []byte("OK\nfine\n50\n")}
		o.Judge.Stop = sandbox.OnItsOwn
		return o, nil
	}
	var a, b int
	if _, err := fmt.Fscan(r.r.Input, &a, &b); err != nil {
		return o, err
	}
	if strings.Contains(source, "WRONG") {
		a++
	}
	if r.r.Output.Write(fmt.Appendf(nil, "%d\n", a+b)) {
		o.Stop = sandbox.Decided
	}
	return o, nil
}
