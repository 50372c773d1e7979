package judge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/policy"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// adder is a package with three groups: an example worth nothing, then 40 and 60 points.
var adder = map[string]string{
	"config.yml": `type: standard-io@1
limits: { timeMs: 2000, memoryBytes: 268435456 }
groups:
  - { group: 0, points: 0, examples: true }
  - { group: 1, points: 40 }
  - { group: 2, points: 60 }
`,
	"tests/0a.in": "1 2\n", "tests/0a.out": "3\n",
	"tests/1a.in": "10 20\n", "tests/1a.out": "30\n",
	"tests/2a.in": "1000000 2000000\n", "tests/2a.out": "3000000\n",
}

// open writes a package and opens it.
func open(t *testing.T, changes ...map[string]string) *problem.Problem {
	t.Helper()
	p, err := problem.Open(t.Context(), write(t, changes...), filepath.Join(t.TempDir(), "tree"), problem.Options{Type: problem.StandardIO})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// write writes the adder. Later changes replace files; an empty content takes one away.
func write(t *testing.T, changes ...map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	files := map[string]string{}
	for _, layer := range append([]map[string]string{adder}, changes...) {
		for name, content := range layer {
			files[name] = content
			if content == "" {
				delete(files, name)
			}
		}
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// fake is a box whose builds and runs are functions.
type fake struct {
	t     *testing.T
	build func(sandbox.Build) (sandbox.Built, error)
	run   func(sandbox.Run) (sandbox.RunOutcome, error)

	mu     sync.Mutex
	builds []sandbox.Build
	runs   []sandbox.Run
	jobs   int // opened and not closed
	ready  int // prepared and not closed
	most   int // the most that were going at once
	going  int
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t}
	f.build = func(b sandbox.Build) (sandbox.Built, error) { return f.builds1(b.Artifact), nil }
	f.run = func(r sandbox.Run) (sandbox.RunOutcome, error) { return adds(r, 0), nil }
	t.Cleanup(func() {
		if f.jobs != 0 || f.ready != 0 {
			t.Errorf("%d jobs and %d runs were not closed", f.jobs, f.ready)
		}
	})
	return f
}

// builds1 is a build that went well, with a program that exists.
func (f *fake) builds1(artifact string) sandbox.Built {
	path := filepath.Join(f.t.TempDir(), artifact)
	if err := os.WriteFile(path, []byte("program"), 0o755); err != nil {
		f.t.Fatal(err)
	}
	program, err := sandbox.ProgramAt(path)
	if err != nil {
		f.t.Fatal(err)
	}
	built := sandbox.Built{Program: program}
	built.Stop = sandbox.OnItsOwn
	return built
}

// ends is a run that ended by itself after 3 ms with a peak of 1 MiB.
func ends() sandbox.RunOutcome {
	cpu, peak := 3*time.Millisecond, verdict.MiB
	var o sandbox.RunOutcome
	o.Stop, o.CPU, o.Peak, o.Wall = sandbox.OnItsOwn, &cpu, &peak, 5*time.Millisecond
	return o
}

// adds is a program that adds the two numbers of its input, and something more.
func adds(r sandbox.Run, more int) sandbox.RunOutcome {
	var a, b int
	if _, err := fmt.Fscan(r.Input, &a, &b); err != nil {
		panic(err)
	}
	o := ends()
	if r.Output != nil && r.Output.Write(fmt.Appendf(nil, "%d\n", a+b+more)) {
		o.Stop = sandbox.Decided
	}
	return o
}

func (f *fake) OpenJob(context.Context) (Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs++
	return fakeJob{f}, nil
}

type fakeJob struct{ f *fake }

func (j fakeJob) Build(_ context.Context, b sandbox.Build) (sandbox.Built, error) {
	j.f.mu.Lock()
	j.f.builds = append(j.f.builds, b)
	j.f.mu.Unlock()
	return j.f.build(b)
}

func (j fakeJob) Prepare(_ context.Context, r sandbox.Run) (Run, error) {
	if (r.Output == nil) == (r.Judge == nil) {
		return nil, errors.New("a run needs a sink or a judge")
	}
	j.f.mu.Lock()
	defer j.f.mu.Unlock()
	j.f.runs = append(j.f.runs, r)
	j.f.ready++
	return fakeRun{j.f, r}, nil
}

func (j fakeJob) Close() error {
	j.f.mu.Lock()
	defer j.f.mu.Unlock()
	j.f.jobs--
	return nil
}

type fakeRun struct {
	f *fake
	r sandbox.Run
}

func (r fakeRun) Go(ctx context.Context) (sandbox.RunOutcome, error) {
	if err := ctx.Err(); err != nil {
		return sandbox.RunOutcome{}, err
	}
	r.f.mu.Lock()
	r.f.going++
	r.f.most = max(r.f.most, r.f.going)
	r.f.mu.Unlock()
	defer func() {
		r.f.mu.Lock()
		r.f.going--
		r.f.mu.Unlock()
	}()
	return r.f.run(r.r)
}

func (r fakeRun) Container() string { return "evalhost_" + r.r.Test }

func (r fakeRun) Close() error {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	r.f.ready--
	return nil
}

// bench opens a problem on a fake.
func bench(t *testing.T, f *fake, p *problem.Problem, lanes int) (*Bench, error) {
	t.Helper()
	rules, err := policy.Default()
	if err != nil {
		t.Fatal(err)
	}
	return Open(t.Context(), Config{
		Box: f, Table: langimages.Default(), Rules: rules, Products: t.TempDir(), Lanes: lanes,
		Images: map[string]string{"gcc": "sha256:gcc", "cpython": "sha256:cpython"},
	}, p)
}

// program is a submission that keeps the rules.
var program = Submission{FileName: "add.c", Source: []byte("int main(void){return 0;}\n"), Toolchain: "c11-gcc"}

// judged judges and fails the test if there was no verdict.
func judged(t *testing.T, f *fake, p *problem.Problem, s Submission) *Judged {
	t.Helper()
	b, err := bench(t, f, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	j, err := b.Judge(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// statuses is one line on all tests: "0a OK, 1a wrongAnswer".
func statuses(j *Judged) string {
	var all []string
	for _, tested := range j.Tests {
		word := string(tested.Reason)
		if tested.Status == verdict.OK {
			word = "OK"
		}
		all = append(all, tested.Name+" "+word)
	}
	return strings.Join(all, ", ")
}
