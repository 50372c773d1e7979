package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/config"
	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// fakeHost is a machine whose programs are words: what a source says that its program does. A source with "build fails" does
// not build, one with "adds" adds the numbers of its input, "answers 7" writes 7, "runs 3000 ms" takes so long. A checker or
// interactor that "accepts all" or "refuses all" does; "compares" accepts what is the expected output; "crashes" breaks its
// contract. "machine fails" is an error of the sandbox.
type fakeHost struct {
	t    *testing.T
	mu   sync.Mutex
	keys []string // of the images that were asked for
	runs int
	// broken lets every run fail as the machine.
	broken bool
}

func (f *fakeHost) open(_ context.Context, _ config.Settings, keys []string, _, _ io.Writer) (*host, error) {
	f.keys = append(f.keys, keys...)
	images := map[string]string{}
	for _, key := range keys {
		images[key] = "sha256:" + key
	}
	return &host{judges: f, lanes: 1, images: images, messages: io.Discard, log: slog.New(slog.DiscardHandler)}, nil
}

func (f *fakeHost) OpenJob(context.Context) (judge.Job, error) { return fakeJob{f}, nil }

type fakeJob struct{ f *fakeHost }

func (j fakeJob) Close() error { return nil }

func (j fakeJob) Build(_ context.Context, b sandbox.Build) (sandbox.Built, error) {
	var built sandbox.Built
	built.Stop = sandbox.OnItsOwn
	if strings.Contains(string(b.Source), "build fails") {
		built.ExitCode, built.Stderr = 1, []byte("main.c:1: error: no\n")
		return built, nil
	}
	path := filepath.Join(j.f.t.TempDir(), b.Artifact)
	if err := os.WriteFile(path, b.Source, 0o755); err != nil {
		return built, err
	}
	var err error
	built.Program, err = sandbox.ProgramAt(path)
	return built, err
}

func (j fakeJob) Prepare(_ context.Context, r sandbox.Run) (judge.Run, error) {
	return fakeRun{j.f, r}, nil
}

type fakeRun struct {
	f *fakeHost
	r sandbox.Run
}

func (r fakeRun) Close() error { return nil }

func (r fakeRun) Container() string { return "evalhost_" + r.r.Test }

func (r fakeRun) Go(context.Context) (sandbox.RunOutcome, error) {
	r.f.mu.Lock()
	r.f.runs++
	r.f.mu.Unlock()
	words, err := os.ReadFile(r.r.Program.Path())
	if err != nil || r.f.broken || strings.Contains(string(words), "machine fails") {
		return sandbox.RunOutcome{}, errors.Join(errors.New("the daemon is gone"), err)
	}
	cpu, peak := 3*time.Millisecond, 2*verdict.MiB
	if _, after, ok := strings.Cut(string(words), "runs "); ok {
		var ms int
		fmt.Sscan(after, &ms)
		cpu = time.Duration(ms) * time.Millisecond
	}
	var o sandbox.RunOutcome
	o.Stop, o.CPU, o.Peak = sandbox.OnItsOwn, &cpu, &peak
	if peak > r.r.Limits.Memory {
		o.Stop = sandbox.Memory
	}
	output := r.output(string(words))
	if r.r.Output != nil && r.r.Output.Write(output) {
		o.Stop = sandbox.Decided
	}
	if r.r.Judge != nil {
		o.Judge, err = r.judge(output)
	}
	return o, err
}

func (r fakeRun) output(words string) []byte {
	var input []byte
	if r.r.Input != nil {
		input, _ = io.ReadAll(r.r.Input)
	}
	switch {
	case strings.Contains(words, "adds"):
		sum, n := 0, 0
		for from := bytes.NewReader(input); ; sum += n {
			if _, err := fmt.Fscan(from, &n); err != nil {
				return fmt.Appendln(nil, sum)
			}
		}
	case strings.Contains(words, "answers "):
		_, after, _ := strings.Cut(words, "answers ")
		return []byte(strings.Fields(after)[0] + "\n")
	case strings.Contains(words, "getchar"): // the repeater that checkers are tried with
		return input
	}
	return nil
}

func (r fakeRun) judge(output []byte) (*sandbox.JudgeOutcome, error) {
	words, err := os.ReadFile(r.r.Judge.Program.Path())
	if err != nil {
		return nil, err
	}
	o := &sandbox.JudgeOutcome{}
	o.Stop = sandbox.OnItsOwn
	expected, _ := os.ReadFile(filepath.Join(r.r.Judge.Tests, r.r.Test+".out"))
	switch text := string(words); {
	case strings.Contains(text, "crashes"):
		o.ExitCode = 139
	case strings.Contains(text, "accepts all"), strings.Contains(text, "compares") && bytes.Equal(expected, output):
		o.Answer = []byte("OK\nfine\n")
	default:
		o.Answer = []byte("WRONG\nno\n")
	}
	return o, nil
}

// ended is how a command ended.
type ended struct {
	status      int
	out, errout string
}

// command runs a command in this process, on a fake host.
func (f *fakeHost) command(args ...string) ended {
	var out, errout bytes.Buffer
	env := []string{"EVALHOST_SCRATCH=" + filepath.Join(f.t.TempDir(), "scratch")}
	status := runOn(f.t.Context(), args, stdio{env, &out, &errout, f.open})
	return ended{status, out.String(), errout.String()}
}

// tree writes files below a new directory; an empty content takes one of an earlier layer away.
func tree(t *testing.T, layers ...map[string]string) string {
	t.Helper()
	files := map[string]string{}
	for _, layer := range layers {
		for name, content := range layer {
			files[name] = content
			if content == "" {
				delete(files, name)
			}
		}
	}
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
