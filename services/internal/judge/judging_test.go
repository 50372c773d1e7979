package judge

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/policy"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// withChecker makes the adder a checker problem, in Python so that its image is another one.
var withChecker = map[string]string{
	"config.yml":       adder["config.yml"] + "checker: { source: checker/check.py, language: python }\n",
	"checker/check.py": "import sys\n",
	"tests/2a.out":     "",
}

func withInteractor(tests string) map[string]string {
	files := map[string]string{
		"config.yml": "type: standard-io@1\nlimits: { timeMs: 2000, memoryBytes: 1048576 }\n" +
			"groups: [ { group: 1, points: 10, " + tests + " } ]\ninteractor: { source: talk.c, language: c11-gcc }\n",
		"talk.c": "int main(void){return 0;}\n",
	}
	for name := range adder {
		if name != "config.yml" {
			files[name] = ""
		}
	}
	return files
}

// answers is a run whose judging program wrote a document.
func answers(document string) func(sandbox.Run) (sandbox.RunOutcome, error) {
	return func(sandbox.Run) (sandbox.RunOutcome, error) {
		o := ends()
		o.Judge = &sandbox.JudgeOutcome{Answer: []byte(document)}
		o.Judge.Stop = sandbox.OnItsOwn
		return o, nil
	}
}

func TestACheckerIsBuiltInItsOwnImageAndDecides(t *testing.T) {
	f := newFake(t)
	f.run = answers("OK\nclose\n50\n")
	p := open(t, withChecker)
	j := judged(t, f, p, program)
	if j.Verdict != verdict.Partial || j.Document.Score != 50 || j.Tests[2].Note != "close" {
		t.Errorf("%s, %v points, note %q", j.Verdict, j.Document.Score, j.Tests[2].Note)
	}
	if b := f.builds[0]; b.Kind != sandbox.JudgeBuild || b.Image != "sha256:cpython" || b.SourceName != "main.py" ||
		string(b.Source) != withChecker["checker/check.py"] {
		t.Errorf("the build of the checker: %+v", b)
	}
	if b := f.builds[1]; b.Kind != sandbox.SubmissionBuild || b.Image != "sha256:gcc" {
		t.Errorf("the build of the submission: %+v", b)
	}
	r := f.runs[1]
	if r.Output != nil || r.Input == nil || r.Judge == nil || r.Image != "sha256:gcc" {
		t.Fatalf("run: %+v", r)
	}
	if g := r.Judge; g.Kind != sandbox.Checker || g.Image != "sha256:cpython" || g.Group != 1 || g.Tests != p.Dir+"/tests" ||
		strings.Join(g.Command, " ") != "python3 /program/program.py" || g.Program.Name() != "program.py" {
		t.Errorf("the checker of a run: %+v", g)
	}
}

func TestOneCheckerServesManySubmissions(t *testing.T) {
	f := newFake(t)
	f.run = answers("WRONG\nno\n")
	b, err := bench(t, f, open(t, withChecker), 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		j, err := b.Judge(t.Context(), program, nil)
		if err != nil || j.Verdict != verdict.AnswerWrong {
			t.Fatalf("%+v, %v", j, err)
		}
	}
	if len(f.builds) != 3 {
		t.Errorf("%d builds, want one of the checker and two of submissions", len(f.builds))
	}
}

func TestAJudgingProgramThatIsKeptServesManyBenches(t *testing.T) {
	f := newFake(t)
	f.run = answers("OK\n")
	rules, err := policy.Default()
	if err != nil {
		t.Fatal(err)
	}
	shelf := t.TempDir()
	var asked []JudgingProgram
	config := Config{
		Box: f, Table: langimages.Default(), Rules: rules, Lanes: 1,
		Images: map[string]string{"gcc": "sha256:gcc", "cpython": "sha256:cpython"},
		Kept: func(ctx context.Context, p JudgingProgram, build func(context.Context, string) error) (string, error) {
			asked = append(asked, p)
			path := filepath.Join(shelf, "program.py")
			if len(asked) > 1 {
				return path, nil
			}
			return path, build(ctx, shelf)
		},
	}
	for range 3 {
		b, err := Open(t.Context(), config, open(t, withChecker))
		if err != nil {
			t.Fatal(err)
		}
		if j, err := b.Judge(t.Context(), program, nil); err != nil || j.Verdict != verdict.Accepted {
			t.Fatalf("%+v, %v", j, err)
		}
	}
	var built int
	for _, b := range f.builds {
		if b.Kind == sandbox.JudgeBuild {
			built++
		}
	}
	if built != 1 || len(asked) != 3 || asked[0].Source != "checker/check.py" || asked[0].Image != "sha256:cpython" {
		t.Errorf("built %d times, asked %+v", built, asked)
	}
}

func TestABrokenCheckerFailsEverySubmission(t *testing.T) {
	for _, document := range []string{"", "yes\n", "OK\n\n101\n"} {
		f := newFake(t)
		f.run = answers(document)
		b, err := bench(t, f, open(t, withChecker), 1)
		if err != nil {
			t.Fatal(err)
		}
		j, err := b.Judge(t.Context(), program, nil)
		fails(t, j, err, "the judging program broke its contract")
	}
}

func TestACheckerThatDoesNotBuildFailsBeforeAnySubmission(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*sandbox.Built)
		says   string
		theirs bool // the package's, to an author's tools
	}{
		{"the compiler objects", func(b *sandbox.Built) { b.ExitCode = 1 }, "exit code 1: bad", true},
		{"it is stopped", func(b *sandbox.Built) { b.Stop = sandbox.WallClock }, "it took too long", true},
		{"it is too large", func(b *sandbox.Built) { b.TooLarge = true }, "too large", true},
		{"it leaves nothing", func(*sandbox.Built) {}, "does not build", false},
		{"there is no compiler", func(b *sandbox.Built) { b.ExitCode = 127 }, "exit code 127", false},
		{"it never starts", func(b *sandbox.Built) { b.Stop = sandbox.NeverStarted }, "never started", false},
	} {
		f := newFake(t)
		f.build = func(sandbox.Build) (sandbox.Built, error) {
			built := sandbox.Built{Stdout: []byte("of no interest"), Stderr: []byte("bad")}
			built.Stop = sandbox.OnItsOwn
			c.change(&built)
			return built, nil
		}
		b, err := bench(t, f, open(t, withChecker), 1)
		if b != nil || err == nil {
			t.Fatalf("%s: a bench was opened", c.name)
		}
		fails(t, nil, err, c.says)
		var fault *PackageFault
		if errors.As(err, &fault) != c.theirs {
			t.Errorf("%s: the package's fault: %t", c.name, !c.theirs)
		}
		if !strings.Contains(err.Error(), "checker/check.py") || strings.Contains(err.Error(), "of no interest") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestAnInteractorGetsNoInputAndAnEmptyDirectoryWhereThereAreNoTests(t *testing.T) {
	f := newFake(t)
	f.run = answers("OK\n")
	j := judged(t, f, open(t, withInteractor("tests: 2")), program)
	if statuses(j) != "1a OK, 1b OK" {
		t.Errorf("%s", statuses(j))
	}
	if r := f.runs[0]; r.Input != nil || r.Output != nil || r.Judge.Kind != sandbox.Interactor || filepath.Base(r.Judge.Tests) != "tests" {
		t.Errorf("run: %+v, judge %+v", r, r.Judge)
	}
}

func TestTheImagesThatJudgingNeedsAreNamedOnce(t *testing.T) {
	table := langimages.Default()
	c, _ := table.Resolve("c11-gcc")
	cpp, _ := table.Resolve("cpp")
	keys, err := Needs(open(t, withChecker), table, c, cpp)
	if err != nil || strings.Join(keys, " ") != "cpython gcc" {
		t.Errorf("Needs = %q, %v", keys, err)
	}
	_, err = Needs(open(t, withChecker, map[string]string{
		"config.yml": adder["config.yml"] + "checker: { source: checker/check.py, language: java }\n",
	}), table, c)
	fails(t, nil, err, `"java" is no language`)
}
