package judge

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

func TestACorrectProgramIsAccepted(t *testing.T) {
	f := newFake(t)
	p := open(t)
	b, err := bench(t, f, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	var events []Event
	j, err := b.Judge(t.Context(), program, func(e Event) { events = append(events, e) })
	if err != nil {
		t.Fatal(err)
	}
	if j.Verdict != verdict.Accepted || j.Document.Score != 100 || statuses(j) != "0a OK, 1a OK, 2a OK" {
		t.Errorf("%s, %v points, %s", j.Verdict, j.Document.Score, statuses(j))
	}
	if got := j.Tests[0]; !got.Ran || got.Time != 3*time.Millisecond || got.Memory == nil || *got.Memory != verdict.MiB {
		t.Errorf("the first test: %+v", got)
	}
	want := []Event{{Compiling, "", 0, 3}, {Testing, "0a", 1, 3}, {Testing, "1a", 2, 3}, {Testing, "2a", 3, 3}}
	if len(events) != len(want) {
		t.Fatalf("progress: %v", events)
	}
	for i := range want {
		if events[i] != want[i] {
			t.Errorf("progress %d: %+v, want %+v", i, events[i], want[i])
		}
	}
	built, run := f.builds[0], f.runs[2]
	if built.Kind != sandbox.SubmissionBuild || built.Image != "sha256:gcc" || built.SourceName != "main.c" ||
		built.Artifact != "program" || string(built.Source) != string(program.Source) {
		t.Errorf("build: %+v", built)
	}
	if run.Image != "sha256:gcc" || run.Test != "2a" || run.Limits.Time != 2*time.Second || run.Limits.Memory != 256*verdict.MiB ||
		strings.Join(run.Command, " ") != "/program/program" {
		t.Errorf("run: %+v", run)
	}
}

func TestEveryTestIsRunWhateverFailed(t *testing.T) {
	f := newFake(t)
	f.run = func(r sandbox.Run) (sandbox.RunOutcome, error) {
		if r.Test == "2a" {
			return adds(r, 0), nil
		}
		return adds(r, 1), nil
	}
	j := judged(t, f, open(t), program)
	if statuses(j) != "0a wrongAnswer, 1a wrongAnswer, 2a OK" || j.Document.Score != 60 || j.Verdict != verdict.AnswerWrong {
		t.Errorf("%s, %v points, %s", j.Verdict, j.Document.Score, statuses(j))
	}
	if got := j.Tests[1].Note; got != `token 1 differs: got "31"` {
		t.Errorf("note %q", got)
	}
}

func TestLimitsOfLanguageAndGroupReachTheRun(t *testing.T) {
	f := newFake(t)
	judged(t, f, open(t, map[string]string{"config.yml": `type: standard-io@1
limits: { timeMs: 2000, memoryBytes: 268435456 }
overrideLimits: { c: { timeMs: 3000 }, c11-gcc: { memoryBytes: 1048576 } }
groups: [ { group: 0, points: 0 }, { group: 1, points: 40, limits: { timeMs: 500 } }, { group: 2, points: 60 } ]
`}), program)
	if got := f.runs[0].Limits; got != (sandbox.Limits{Time: 3 * time.Second, Memory: verdict.MiB}) {
		t.Errorf("group 0: %+v", got)
	}
	if got := f.runs[1].Limits; got != (sandbox.Limits{Time: 500 * time.Millisecond, Memory: verdict.MiB}) {
		t.Errorf("group 1: %+v", got)
	}
}

func TestWhatIsObjectedToBeforeTheBuildRunsNothing(t *testing.T) {
	only := map[string]string{"config.yml": adder["config.yml"] + "languages: [python3]\n"}
	for _, c := range []struct {
		name    string
		change  map[string]string
		s       Submission
		verdict verdict.Verdict
		log     []string
	}{
		{"a language that is not on the list", only, program, verdict.PolicyViolated, []string{"C11 (GCC)", "python3"}},
		{
			"the list comes before the extension", only,
			Submission{FileName: "add.py", Toolchain: "c11-gcc"},
			verdict.PolicyViolated,
			[]string{"python3"},
		},
		{
			"another extension", nil,
			Submission{FileName: "solution.py", Toolchain: "cpp17-gcc"},
			verdict.CompilationFailed,
			[]string{"solution.py", ".cpp", "C++17 (GCC)"},
		},
		{
			"the extension comes before the size", nil,
			Submission{FileName: "big.py", Toolchain: "c11-gcc", Source: make([]byte, maxSource+1)},
			verdict.CompilationFailed,
			[]string{"big.py"},
		},
		{
			"too large", nil,
			Submission{FileName: "big.c", Toolchain: "c11-gcc", Source: make([]byte, maxSource+2048)},
			verdict.PolicyViolated,
			[]string{"8194 KiB", "8192 KiB"},
		},
		{
			"a source rule", nil,
			Submission{FileName: "ls.c", Toolchain: "c11-gcc", Source: []byte("#include <unistd.h>\nint main(){system(\"ls\");}\n")},
			verdict.PolicyViolated,
			[]string{"unistd.h", "Running another program", "(line 2)"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			j := judged(t, f, open(t, c.change), c.s)
			if j.Verdict != c.verdict || j.Document.Score != 0 || j.Document.MaxScore != 100 {
				t.Errorf("%s, %v of %v points", j.Verdict, j.Document.Score, j.Document.MaxScore)
			}
			for _, word := range c.log {
				if !strings.Contains(j.Log, word) {
					t.Errorf("the log does not say %q: %s", word, j.Log)
				}
			}
			if len(f.builds)+len(f.runs) > 0 {
				t.Errorf("%d builds and %d runs", len(f.builds), len(f.runs))
			}
			note := "Policy violation"
			if c.verdict == verdict.CompilationFailed {
				note = "Compilation error"
			}
			for _, tested := range j.Tests {
				if tested.Status != verdict.Error || tested.Note != note || tested.Ran || tested.Time != 0 || tested.Memory != nil {
					t.Errorf("a test that was not run: %+v", tested)
				}
			}
		})
	}
}

func TestRefusedIsRefusedEvenWhereNothingCanBeWon(t *testing.T) {
	p := open(t, map[string]string{
		"config.yml":  "type: standard-io@1\nlimits: { timeMs: 1, memoryBytes: 1 }\ngroups: [ { group: 0, points: 0 } ]\n",
		"tests/1a.in": "", "tests/1a.out": "", "tests/2a.in": "", "tests/2a.out": "",
	})
	if j := judged(t, newFake(t), p, Submission{FileName: "x.py", Toolchain: "c11-gcc"}); j.Verdict != verdict.CompilationFailed {
		t.Errorf("%s", j.Verdict)
	}
}

func TestWithoutPolicyTheOtherObjectionsStay(t *testing.T) {
	s := Submission{FileName: "ls.c", Toolchain: "c11-gcc", Source: []byte("#include <unistd.h>\n"), NoPolicy: true}
	if j := judged(t, newFake(t), open(t), s); j.Verdict != verdict.Accepted {
		t.Errorf("without source rules: %s", j.Verdict)
	}
	s.FileName = "ls.py"
	if j := judged(t, newFake(t), open(t), s); j.Verdict != verdict.CompilationFailed {
		t.Errorf("another extension: %s", j.Verdict)
	}
}

func TestABuildThatFailsIsACompilationError(t *testing.T) {
	stopped := func(stop sandbox.Stop) sandbox.Built {
		var b sandbox.Built
		b.Stop, b.ExitCode, b.Wall = stop, 137, 60*time.Second
		b.Stdout, b.Stderr = []byte("out\n"), []byte("err")
		return b
	}
	failed := stopped(sandbox.OnItsOwn)
	failed.ExitCode = 1
	silent := sandbox.Built{}
	silent.Stop, silent.ExitCode = sandbox.OnItsOwn, 1
	odd := stopped(sandbox.OnItsOwn)
	odd.ExitCode, odd.Odd = 0, "a symbolic link"
	large := stopped(sandbox.OnItsOwn)
	large.ExitCode, large.TooLarge = 0, true
	for _, c := range []struct {
		name  string
		built sandbox.Built
		log   string
	}{
		{"the compiler objects", failed, "out\nerr\n"},
		{"the compiler fails in silence", silent, "the compiler said nothing and ended with exit code 1\n"},
		{"stopped by the clock", stopped(sandbox.WallClock), "out\nerr\nthe build was stopped after 60.0 s: it took too long (exit code 137)\n"},
		{"stopped for memory", stopped(sandbox.Memory), "out\nerr\nthe build was stopped after 60.0 s: it used too much memory (exit code 137)\n"},
		{"stopped for output", stopped(sandbox.Output), "out\nerr\nthe build was stopped after 60.0 s: it wrote too much (exit code 137)\n"},
		{"something else than a program", odd, "out\nerr\nthe build left a symbolic link in the place of a program\n"},
		{"too large a program", large, "out\nerr\nthe program that was built is too large\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			f.build = func(sandbox.Build) (sandbox.Built, error) { return c.built, nil }
			j := judged(t, f, open(t), program)
			if j.Verdict != verdict.CompilationFailed || j.Log != c.log || len(f.runs) > 0 {
				t.Errorf("%s, log %q, %d runs", j.Verdict, j.Log, len(f.runs))
			}
		})
	}
}

func TestWarningsReachTheLogAlone(t *testing.T) {
	f := newFake(t)
	f.build = func(b sandbox.Build) (sandbox.Built, error) {
		built := f.builds1(b.Artifact)
		built.Stderr = []byte("main.c: warning: \xff\n")
		return built, nil
	}
	if j := judged(t, f, open(t), program); j.Verdict != verdict.Accepted || j.Log != "main.c: warning: \uFFFD\n" {
		t.Errorf("%s, log %q", j.Verdict, j.Log)
	}
}

// ended is a build that ended by itself.
func ended(exitCode int) sandbox.Built {
	var b sandbox.Built
	b.Stop, b.ExitCode, b.Stderr = sandbox.OnItsOwn, exitCode, []byte("sh: gcc: not found")
	return b
}

// Everything here must be a *Failure, and no verdict beside it.
func TestWhatTheMachineryDidIsNoVerdict(t *testing.T) {
	broken := errors.New("the daemon is gone")
	var neverStarted, noProgram sandbox.Built
	neverStarted.Stop, noProgram.Stop = sandbox.NeverStarted, sandbox.OnItsOwn
	for _, c := range []struct {
		name   string
		change func(*testing.T, *fake, *Bench)
		says   string
	}{
		{"the build could not be run", func(_ *testing.T, f *fake, _ *Bench) {
			f.build = func(sandbox.Build) (sandbox.Built, error) { return sandbox.Built{}, broken }
		}, "building the submission: the daemon is gone"},
		{"the compiler never started", func(_ *testing.T, f *fake, _ *Bench) {
			f.build = func(sandbox.Build) (sandbox.Built, error) { return neverStarted, nil }
		}, "never started"},
		{"the build left nothing", func(_ *testing.T, f *fake, _ *Bench) {
			f.build = func(sandbox.Build) (sandbox.Built, error) { return noProgram, nil }
		}, "left no program"},
		{"somebody killed the build", func(_ *testing.T, f *fake, _ *Bench) {
			f.build = func(sandbox.Build) (sandbox.Built, error) { return ended(137), nil }
		}, "exit code 137"},
		{"somebody stopped the build", func(_ *testing.T, f *fake, _ *Bench) {
			f.build = func(sandbox.Build) (sandbox.Built, error) { return ended(143), nil }
		}, "exit code 143"},
		{"there is no compiler", func(_ *testing.T, f *fake, _ *Bench) {
			f.build = func(sandbox.Build) (sandbox.Built, error) { return ended(127), nil }
		}, "exit code 127"},
		{"the compiler cannot be executed", func(_ *testing.T, f *fake, _ *Bench) {
			f.build = func(sandbox.Build) (sandbox.Built, error) { return ended(126), nil }
		}, "exit code 126"},
		{"an empty word about the build", func(_ *testing.T, f *fake, _ *Bench) {
			f.build = func(b sandbox.Build) (sandbox.Built, error) {
				built := f.builds1(b.Artifact)
				built.Stop = 0
				return built, nil
			}
		}, "no word"},
		{"a run could not be run", func(_ *testing.T, f *fake, _ *Bench) {
			f.run = func(sandbox.Run) (sandbox.RunOutcome, error) { return sandbox.RunOutcome{}, broken }
		}, "judging test 0a: the daemon is gone"},
		{"an empty word about a run", func(_ *testing.T, f *fake, _ *Bench) {
			f.run = func(sandbox.Run) (sandbox.RunOutcome, error) { return sandbox.RunOutcome{}, nil }
		}, "judging test 0a"},
		{"a run was not measured", func(_ *testing.T, f *fake, _ *Bench) {
			f.run = func(r sandbox.Run) (sandbox.RunOutcome, error) {
				o := adds(r, 0)
				o.CPU = nil
				return o, nil
			}
		}, "not measured"},
		{"an input is missing", func(t *testing.T, _ *fake, b *Bench) { gone(t, b, "tests/1a.in") }, "judging test 1a"},
		{"an expected output is missing", func(t *testing.T, _ *fake, b *Bench) { gone(t, b, "tests/1a.out") }, "judging test 1a"},
		{"an image was not proved", func(_ *testing.T, _ *fake, b *Bench) { delete(b.Images, "gcc") }, "not proved"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			b, err := bench(t, f, open(t), 1)
			if err != nil {
				t.Fatal(err)
			}
			c.change(t, f, b)
			j, err := b.Judge(t.Context(), program, nil)
			fails(t, j, err, c.says)
		})
	}
}

// fails wants a failure, with these words and without a verdict.
func fails(t *testing.T, j *Judged, err error, says string) {
	t.Helper()
	var failure *Failure
	if j != nil || !errors.As(err, &failure) || !strings.Contains(err.Error(), says) {
		t.Errorf("judged %+v, error %v; want a failure that says %q", j, err, says)
	}
}

func gone(t *testing.T, b *Bench, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(b.problem.Dir, name)); err != nil {
		t.Fatal(err)
	}
}

func TestAnUnknownLanguageIsAFailure(t *testing.T) {
	for _, id := range []string{"", "cpp17", "java", "rust"} {
		b, err := bench(t, newFake(t), open(t), 1)
		if err != nil {
			t.Fatal(err)
		}
		j, err := b.Judge(t.Context(), Submission{FileName: "x.c", Toolchain: id}, nil)
		fails(t, j, err, "no language")
	}
}

func TestBeingStoppedIsAFailure(t *testing.T) {
	f := newFake(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	f.run = func(r sandbox.Run) (sandbox.RunOutcome, error) {
		cancel(errors.New("asked to stop"))
		return adds(r, 0), nil
	}
	b, err := bench(t, f, open(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	j, err := b.Judge(ctx, program, nil)
	fails(t, j, err, "asked to stop")
	if len(f.runs) != 1 {
		t.Errorf("%d tests began", len(f.runs))
	}
}

func TestWhatWasMadeIsKeptOnRequest(t *testing.T) {
	keep := &Keep{Dir: t.TempDir()}
	s := program
	s.Keep = keep
	if j := judged(t, newFake(t), open(t), s); j.Verdict != verdict.Accepted { // what is kept is compared all the same
		t.Errorf("judged %s", j.Verdict)
	}
	for name, want := range map[string]string{"main.c": string(program.Source), "program": "program", "1a.out": "30\n", "log": ""} {
		got, err := os.ReadFile(filepath.Join(keep.Dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if err := keep.Err(); err != nil {
		t.Error(err)
	}
	lost := program
	lost.Keep = &Keep{Dir: filepath.Join(keep.Dir, "none")}
	if j := judged(t, newFake(t), open(t), lost); j.Verdict != verdict.Accepted || lost.Keep.Err() == nil {
		t.Errorf("%s, kept with the error %v", j.Verdict, lost.Keep.Err())
	}
}

func TestTheDocumentIsInTheOrderOfTheAuthorsGroups(t *testing.T) {
	f := newFake(t)
	f.run = func(r sandbox.Run) (sandbox.RunOutcome, error) {
		o := adds(r, map[bool]int{true: 1}[r.Test != "0a"])
		if r.Test == "1a" {
			o.Stop, o.Peak = sandbox.TimeLimit, nil
		}
		return o, nil
	}
	p := open(t, map[string]string{"config.yml": `type: standard-io@1
limits: { timeMs: 2000, memoryBytes: 1048576 }
overrideLimits: { c: { timeMs: 3000 } }
groups: [ { group: 2, points: 60, limits: { timeMs: 500 } }, { group: 1, points: 40 }, { group: 0, points: 0 } ]
`})
	j := judged(t, f, p, program)
	got, err := j.Document.JSON()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"standard-io@1","limits":{"timeMs":3000,"memoryBytes":1048576},"score":0.0,"maxScore":100.0,` +
		`"compilation":{"status":"OK","log":""},"groups":[{"group":2,"points":0.0,"maxPoints":60.0,"status":"ERROR"},` +
		`{"group":1,"points":0.0,"maxPoints":40.0,"status":"ERROR"},{"group":0,"points":0.0,"maxPoints":0.0,"status":"OK"}],` +
		`"tests":[{"no":"2a","group":2,"status":"ERROR","timeMs":3,"memoryBytes":1048576,"score":0.0,"maxScore":60.0,` +
		`"note":"token 1 differs: got \"3000001\"","reason":"wrongAnswer"},{"no":"1a","group":1,"status":"ERROR","timeMs":3,` +
		`"score":0.0,"maxScore":40.0,"note":"Time limit exceeded","reason":"timeLimit"},{"no":"0a","group":0,"status":"OK",` +
		`"timeMs":3,"memoryBytes":1048576,"score":0.0,"maxScore":0.0,"note":""}]}`
	if string(got) != want {
		t.Errorf("document:\n%s\nwant:\n%s", got, want)
	}
	if j.Verdict != verdict.AnswerWrong {
		t.Errorf("the verdict is that of the first failed test of the table, not %s", j.Verdict)
	}
}

func TestTheDocumentSaysWhetherACompilerWasAsked(t *testing.T) {
	failed := sandbox.Built{Stderr: []byte("main.c:1: error: what is this\n")}
	failed.Stop, failed.ExitCode = sandbox.OnItsOwn, 1
	for _, c := range []struct {
		name   string
		s      Submission
		built  *sandbox.Built
		status verdict.Status
		log    string
	}{
		{"built", program, nil, verdict.OK, ""},
		{"not built", program, &failed, verdict.Error, "main.c:1: error: what is this\n"},
		{"another extension", Submission{FileName: "x.py", Toolchain: "c11-gcc"}, nil, verdict.Error, "\"x.py\" is not a file name for C11 (GCC); accepted extensions: .c\n"},
		{
			"another extension behind a long name",
			Submission{FileName: strings.Repeat("n", 252) + ".py", Toolchain: "c11-gcc"},
			nil,
			verdict.Error, "\"" + strings.Repeat("n", 252) + ".py\" is not a file name for C11 (GCC); accepted extensions: .c\n",
		},
		{
			"a source rule",
			Submission{FileName: "x.c", Toolchain: "c11-gcc", Source: []byte("#include <unistd.h>\n")},
			nil,
			verdict.Warning, "forbidden header <unistd.h> — unistd.h (line 1)\n",
		},
	} {
		f := newFake(t)
		f.build = func(b sandbox.Build) (sandbox.Built, error) {
			if c.built != nil {
				return *c.built, nil
			}
			built := f.builds1(b.Artifact)
			built.Stderr = []byte("a warning\n")
			return built, nil
		}
		j := judged(t, f, open(t), c.s)
		if got := j.Document.Compilation; got.Status != c.status || got.Log != c.log {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
