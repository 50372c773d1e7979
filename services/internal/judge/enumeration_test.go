package judge

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// The two directions that are never mixed (spec/judging.md 0.3 #1): whatever is wrong with a package yields no verdict, and
// whatever a submission does yields one.

// wrongPackages are packages with one fault each, by the code they are refused with.
var wrongPackages = map[problem.Code]struct {
	change  map[string]string
	overlay string
	typ     problem.Type // what the job expects; empty for standard-io@1
	// src replaces the package altogether; target makes the place it is unpacked into.
	src    func(t *testing.T) string
	target func(t *testing.T) string
}{
	problem.CodeArchive: {src: func(t *testing.T) string {
		path := filepath.Join(t.TempDir(), "package.zip")
		if err := os.WriteFile(path, []byte("PK\x03\x04 and no more"), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}},
	problem.CodeRefused:         {change: map[string]string{"tests/a name.txt": "x"}},
	problem.CodeConfigMissing:   {change: map[string]string{"config.yml": ""}},
	problem.CodeConfigMalformed: {change: map[string]string{"config.yml": adder["config.yml"] + "limit: 1\n"}},
	problem.CodeTypeAbsent:      {change: map[string]string{"config.yml": "limits: { timeMs: 1, memoryBytes: 1 }\ngroups: [ { group: 0, points: 1 } ]\n"}},
	problem.CodeJudgeNotAllowed: {change: map[string]string{
		"config.yml": "type: output-only@1\nlimits: { timeMs: 1, memoryBytes: 1 }\ngroups: [ { group: 0, points: 1 } ]\nchecker: { source: c.c, language: c11-gcc }\n",
	}, typ: problem.OutputOnly},
	problem.CodeTypeUnknown: {change: map[string]string{"config.yml": "type: standard-io@2\nlimits: { timeMs: 1, memoryBytes: 1 }\ngroups: [ { group: 0, points: 1 } ]\n"}},
	problem.CodeLimitZero:   {change: map[string]string{"config.yml": "type: standard-io@1\nlimits: { timeMs: 0, memoryBytes: 1 }\ngroups: [ { group: 0, points: 1 } ]\n"}},
	problem.CodeGroupsEmpty: {change: map[string]string{"config.yml": "type: standard-io@1\nlimits: { timeMs: 1, memoryBytes: 1 }\ngroups: []\n"}},
	problem.CodeGroupDuplicate: {change: map[string]string{
		"config.yml": "type: standard-io@1\nlimits: { timeMs: 1, memoryBytes: 1 }\ngroups: [ { group: 0, points: 1 }, { group: 0, points: 2 } ]\n",
	}},
	problem.CodePath:       {change: map[string]string{"config.yml": adder["config.yml"] + "checker: { source: ../check.c, language: c11-gcc }\n"}},
	problem.CodeTestsCount: {change: map[string]string{"config.yml": "type: standard-io@1\nlimits: { timeMs: 1, memoryBytes: 1 }\ngroups: [ { group: 0, points: 1, tests: 1 } ]\n"}},
	problem.CodeJudgeBoth: {change: map[string]string{
		"config.yml": adder["config.yml"] + "checker: { source: a.c, language: c11-gcc }\ninteractor: { source: b.c, language: c11-gcc }\n",
	}},
	problem.CodeOverlay: {overlay: `{"limits":{"timeMS":1}}`},
	problem.CodeTests:   {change: map[string]string{"tests/1a.out": ""}},
	// Found when the file is wanted: the package declares a checker that is not in it.
	problem.CodeFile: {change: map[string]string{"config.yml": adder["config.yml"] + "checker: { source: absent.c, language: c11-gcc }\n"}},
	problem.CodeTarget: {target: func(t *testing.T) string {
		return t.TempDir() // is there already
	}},
}

func TestNoWrongPackageYieldsAVerdict(t *testing.T) {
	for name, value := range codes(t) {
		t.Run(name, func(t *testing.T) {
			if problem.Code(value) == problem.CodeSolutions {
				t.Log("labelled solutions play no part in judging: evalhost verify refuses them")
				return
			}
			wrong, ok := wrongPackages[problem.Code(value)]
			if !ok {
				t.Fatalf("no package here is refused as %s: add one", value)
			}
			src := write(t, wrong.change)
			if wrong.src != nil {
				src = wrong.src(t)
			}
			target := filepath.Join(t.TempDir(), "tree")
			if wrong.target != nil {
				target = wrong.target(t)
			}
			if wrong.typ == "" {
				wrong.typ = problem.StandardIO
			}
			p, err := problem.Open(t.Context(), src, target, problem.Options{Type: wrong.typ, Overlay: json.RawMessage(wrong.overlay)})
			var j *Judged
			if err == nil {
				var b *Bench
				if b, err = bench(t, newFake(t), p, 1); err == nil {
					j, err = b.Judge(t.Context(), program, nil)
				}
			}
			var refused *problem.Error
			if j != nil || !errors.As(err, &refused) || refused.Code != problem.Code(value) {
				t.Errorf("judged %+v, error %v; want a refusal as %s and no verdict", j, err, value)
			}
		})
	}
}

// codes reads every code a package can be refused with out of the source that declares them.
func codes(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../problem/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Code" && len(spec.Values) == 1 {
			if value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value); err == nil {
				found[spec.Names[0].Name] = value
			}
		}
		return true
	})
	if len(found) < 18 {
		t.Fatalf("only %d codes were found: %v", len(found), found)
	}
	return found
}

// Every way in which a judging program can end, other than by keeping its contract, with every way in which a submission can.
func TestNoBrokenJudgingProgramYieldsAVerdict(t *testing.T) {
	broken := map[string]*sandbox.JudgeOutcome{"was not run": nil}
	add := func(name string, stop sandbox.Stop, code int, answer string) {
		o := &sandbox.JudgeOutcome{Answer: []byte(answer)}
		o.Stop, o.ExitCode = stop, code
		broken[name] = o
	}
	for stop := sandbox.Stop(-1); stop <= sandbox.Decided+1; stop++ {
		if stop != sandbox.OnItsOwn {
			add(fmt.Sprintf("was stopped: %v (%d)", stop, stop), stop, 0, "OK\n")
		}
	}
	for code := 1; code < 256; code++ {
		add(fmt.Sprintf("exit code %d", code), sandbox.OnItsOwn, code, "OK\n")
	}
	for _, answer := range []string{"", "\n", "ok\n", "Ok\n", "OK!\n", "ACCEPTED\n", "\nOK\n", "\ufeffOK\n", "OK\n\n101\n", "OK\n\n-1\n", "OK\n\nhalf\n", "OK\n\n50.5\n", "WRONG\n\n101\n", "\x00", "O\x00K\n"} {
		add(fmt.Sprintf("answer %q", answer), sandbox.OnItsOwn, 0, answer)
	}
	for name, judge := range broken {
		for _, e := range submissionEndings(0, 1, 127, 139) {
			e.judged, e.compared, e.run.Judge = true, nil, judge
			if d, err := decide(e); err == nil {
				t.Errorf("a judging program that %s, beside a run that ended as %v with %d: %+v", name, e.run.Stop, e.run.ExitCode, d)
			}
		}
	}
}

// submissionEndings are all the ways in which a submission can make its run end: every stop that its own doing brings about,
// every exit code, within its time and over it, within its output and over it, executed or not.
// Without exit codes, all of them.
func submissionEndings(codes ...int) []ending {
	for code := 0; len(codes) == code && code < 256; code++ {
		codes = append(codes, code)
	}
	var all []ending
	for _, stop := range []sandbox.Stop{
		sandbox.OnItsOwn, sandbox.TimeLimit, sandbox.WallClock, sandbox.Memory, sandbox.Output, sandbox.Overall, sandbox.Decided,
	} {
		for _, code := range codes {
			for _, cpu := range []time.Duration{0, testLimit, testLimit + time.Millisecond, 1000 * time.Hour} {
				for _, capped := range []bool{false, true} {
					all = append(all, end(stop, exit(code), spent(cpu), func(e *ending) {
						e.run.Capped = capped
						if code == 126 || code == 127 {
							e.run.Failure = "exec /program/program: exec format error"
						}
					}))
				}
			}
		}
	}
	return all
}

func TestNothingASubmissionDoesIsAnInfrastructureFailure(t *testing.T) {
	tried := 0
	for _, e := range submissionEndings() {
		for side, mod := range map[string]func(*ending){"equal": equal, "unequal": unequal, "accepts": accepts, "refuses": refuses} {
			// Only the built-in comparison stops a run as decided, and only when it has found a difference.
			if e.run.Stop == sandbox.Decided && side != "unequal" {
				continue
			}
			tried++
			mod(&e)
			e.judged = side == "accepts" || side == "refuses"
			d, err := decide(e)
			if err != nil {
				t.Errorf("%v, exit %d, capped %t, %s: %v", e.run.Stop, e.run.ExitCode, e.run.Capped, side, err)
				continue
			}
			if (d.status == verdict.OK) == (d.reason != verdict.NoReason) {
				t.Errorf("%v, exit %d, %s: %+v", e.run.Stop, e.run.ExitCode, side, d)
			}
		}
	}
	if want := (6*4 + 1) * 256 * 4 * 2; tried != want {
		t.Errorf("%d combinations, want %d", tried, want)
	}
}

// The same for a build: whatever a source makes of its compiler is a compilation error. The four codes are those that no
// source brings about, see saysSomething.
func TestNothingASourceDoesToItsCompilerIsAnInfrastructureFailure(t *testing.T) {
	try := func(name string, built sandbox.Built) {
		got, err := readBuilt(built)
		if err != nil || got.program != nil || got.log == "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, said := range []string{"", "\xff\xfe", "error\n"} {
		for _, stop := range []sandbox.Stop{sandbox.WallClock, sandbox.Memory, sandbox.Output, sandbox.Overall} {
			var b sandbox.Built
			b.Stop, b.ExitCode, b.Stderr = stop, 137, []byte(said)
			try(stop.String(), b)
		}
		for code := 1; code < 256; code++ {
			if code == 126 || code == 127 || code == 137 || code == 143 {
				continue
			}
			b := ended(code)
			b.Stderr = []byte(said)
			try(fmt.Sprint("exit code ", code), b)
		}
		for _, odd := range []string{"a symbolic link", "a directory", "a device", "a named pipe", "a hard link"} {
			b := ended(0)
			b.Odd, b.Stderr = odd, []byte(said)
			try(odd, b)
		}
		b := ended(0)
		b.TooLarge, b.Stderr = true, []byte(said)
		try("too large", b)
	}
}
