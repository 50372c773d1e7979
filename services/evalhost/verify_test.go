package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// adder has labelled solutions that the fake host runs, in languages whose limits come from three places.
var adder = map[string]string{
	"config.yml": `type: standard-io@1
limits: { timeMs: 1000, memoryBytes: 67108864 }
overrideLimits: { python: { timeMs: 5000 } }
groups: [ { group: 1, points: 40 }, { group: 2, points: 60, limits: { timeMs: 2000 } } ]
`,
	"tests/1a.in": "1 2\n", "tests/1a.out": "3\n", "tests/2a.in": "5 6\n", "tests/2a.out": "11\n",
	"solutions/accepted/sum.c":                   "adds, runs 240 ms",
	"solutions/accepted/sum.python3.py":          "adds, runs 1201 ms",
	"solutions/wrong_answer/three.c":             "answers 3",
	"solutions/time_limit_exceeded/slow.cpp":     "adds, runs 2001 ms",
	"solutions/compile_error/broken.c":           "build fails",
	"solutions/policy_violation/sum.c":           "#include <unistd.h>\nadds",
	"solutions/README.md":                        "x",
	"solutions/wrong_answer/seven.c11-clang.c":   "answers 7",
	"solutions/time_limit_exceeded/.editor-swap": "x",
}

// golden compares with a file of testdata; EVALHOST_UPDATE_GOLDEN=1 writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if os.Getenv("EVALHOST_UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

var wall = regexp.MustCompile(`("wallMs": )\d+|\d+\.\d s`)

// steady takes out of an output what differs from run to run.
func steady(output, dir string) string {
	output = strings.ReplaceAll(output, dir, "PACKAGE")
	return wall.ReplaceAllStringFunc(output, func(s string) string {
		if strings.HasPrefix(s, `"`) {
			return `"wallMs": 0`
		}
		return "0.0 s"
	})
}

func TestVerifyJudgesEveryLabelledSolutionAndSuggestsLimits(t *testing.T) {
	f := &fakeHost{t: t}
	dir := tree(t, adder)
	r := f.command("verify", dir)
	if r.status != 0 || r.errout != "" {
		t.Errorf("status %d, %q", r.status, r.errout)
	}
	golden(t, "verify.txt", steady(r.out, dir))
	for _, key := range []string{"gcc", "clang", "cpython"} {
		if !slices.Contains(f.keys, key) {
			t.Errorf("the image %s was not asked for: %q", key, f.keys)
		}
	}
	r = f.command("verify", "--json", dir)
	if r.status != 0 || r.errout != "" {
		t.Errorf("status %d, %q", r.status, r.errout)
	}
	golden(t, "verify.json", steady(r.out, dir))
}

// On a copy with one label changed, verify exits with 1 and names it.
func TestVerifyNamesTheSolutionWhoseLabelIsWrong(t *testing.T) {
	for _, label := range []string{"wrong_answer", "partial", "time_limit_exceeded", "compile_error", "policy_violation"} {
		changed := tree(t, adder, map[string]string{"solutions/accepted/sum.c": "", "solutions/" + label + "/moved.c": adder["solutions/accepted/sum.c"]})
		f := &fakeHost{t: t}
		for _, args := range [][]string{{"verify", changed}, {"verify", changed, "--json"}, {"verify", tree(t, adder), changed}} {
			r := f.command(args...)
			if r.status != exitUnexpected || strings.Count(r.errout, "\n") != 1 ||
				!strings.Contains(r.errout, changed+"/solutions/"+label+`/moved.c got "Accepted", its label says `) {
				t.Errorf("%q: status %d, %q", args, r.status, r.errout)
			}
			if strings.Count(r.errout, " got ") != 1 {
				t.Errorf("%q names others: %s", args, r.errout)
			}
		}
	}
}

func TestASolutionThatIsMeantToFailAndDoesNotIsNamedWithWhatFailed(t *testing.T) {
	f := &fakeHost{t: t}
	r := f.command("verify", tree(t, adder, map[string]string{"solutions/accepted/sum.c": "answers \x1b[2J"}))
	if r.status != exitUnexpected || !strings.Contains(r.out, `UNEXPECTED: 1a: token 1 differs: got "\x1b[2J"`) {
		t.Errorf("status %d\n%s", r.status, r.out)
	}
}

func TestAnInfrastructureFailureEndsVerifyWithoutASummary(t *testing.T) {
	f := &fakeHost{t: t}
	for _, args := range [][]string{{}, {"--json"}} {
		r := f.command(append([]string{"verify", tree(t, adder, map[string]string{"solutions/partial/x.c": "machine fails"})}, args...)...)
		if r.status != exitInfrastructure || !strings.Contains(r.errout, "solutions/partial/x.c") || strings.Contains(r.out, "verdict of their label") ||
			strings.Contains(r.out, "asExpected") {
			t.Errorf("status %d, %q\n%s", r.status, r.errout, r.out)
		}
	}
}

func TestOnlyAcceptedSolutionsThatWereAcceptedSuggestALimit(t *testing.T) {
	f := &fakeHost{t: t}
	r := f.command("verify", tree(t, adder, map[string]string{
		"solutions/accepted/sum.c": "answers 0, runs 900 ms", "solutions/accepted/sum.python3.py": "",
		"solutions/wrong_answer/sum.c": "adds, runs 900 ms",
	}))
	if r.status != exitUnexpected || strings.Contains(r.out, "suggested") {
		t.Errorf("status %d\n%s", r.status, r.out)
	}
}

func TestThePackagesOwnCalibrationRuleMakesTheSuggestion(t *testing.T) {
	f := &fakeHost{t: t}
	r := f.command("verify", tree(t, adder, map[string]string{
		"config.yml": adder["config.yml"] + "calibration: { time: { factor: 2, add: 1, roundTo: 7 }, memory: { factor: 2 } }\n",
	}))
	for _, want := range []string{"limits.timeMs +1000 ms +240 ms +483 ms", "group 2: limits.timeMs +2000 ms +1201 ms +2408 ms", "limits.memoryBytes +64.00 MiB +2.00 MiB +4.00 MiB"} {
		if !regexp.MustCompile(want).MatchString(r.out) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
}

// What would be judged in another language than was meant is bad input, found before anything is judged.
func TestASolutionNamedAfterNoToolchainIsBadInput(t *testing.T) {
	for name, says := range map[string]string{
		"accepted/sum.v2.c":           `asks for the toolchain "v2", and there is none of that name`,
		"accepted/sum.c12-gcc.c":      `"c12-gcc"`,
		"compile_error/sum.C11-GCC.c": `"C11-GCC"`,
		"compile_error/sum.python3.c": "asks for the toolchain python3, which takes .py",
		"accepted/sum.txt":            "names no language",
		"acepted/sum.c":               "not a label",
	} {
		f := &fakeHost{t: t}
		r := f.command("verify", tree(t, adder, map[string]string{"solutions/" + name: "adds"}))
		if r.status != exitUsage || !strings.Contains(r.errout, says) || f.runs > 0 || r.out != "" {
			t.Errorf("%s: status %d, %d runs, %q", name, r.status, f.runs, r.errout)
		}
		if l := f.command("lint", "--static", tree(t, adder, map[string]string{"solutions/" + name: "adds"})); l.status != exitUnexpected ||
			!strings.Contains(l.out, "error: solutions/"+strings.Split(name, "/")[0]) {
			t.Errorf("lint of %s: status %d\n%s", name, l.status, l.out)
		}
	}
}
