package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/internal/config"
)

// judged makes the adder a problem with a judging program.
func judged(kind, words string) map[string]string {
	return map[string]string{
		"config.yml": adder["config.yml"] + kind + ": { source: judge.c, language: c11-gcc }\n", "judge.c": words,
	}
}

func TestLintHasNothingToSayAboutAGoodPackage(t *testing.T) {
	f := &fakeHost{t: t}
	for _, dir := range []string{tree(t, adder), tree(t, adder, judged("checker", "compares")), tree(t, adder, judged("interactor", "refuses all"))} {
		if r := f.command("lint", dir); r.status != 0 || r.out != "0 findings\n" || r.errout != "" {
			t.Errorf("status %d, %q, %s", r.status, r.errout, r.out)
		}
	}
	if f.runs != 4+2 {
		t.Errorf("%d runs, want two a test of the checker and one of the interactor", f.runs)
	}
	if r := f.command("lint", "--json", tree(t, adder)); r.status != 0 || !strings.Contains(r.out, `"clean": true`) || !strings.Contains(r.out, `"findings": []`) {
		t.Errorf("status %d, %s", r.status, r.out)
	}
}

func TestLintRunsTheJudgingProgram(t *testing.T) {
	for name, c := range map[string]struct {
		kind, words, says string
	}{
		"a checker that refuses the model answer": {"checker", "refuses all", "warning: judge.c: test 1a: the checker refuses the package's own expected output; it says \"no\""},
		"a checker that accepts everything":       {"checker", "accepts all", "warning: judge.c: test 2a: the checker accepts a program that writes nothing"},
		"a checker that crashes":                  {"checker", "crashes", "warning: judge.c: test 1a: on the package's own expected output the judging program broke its contract: it ended with exit code 139"},
		"an interactor that accepts silence":      {"interactor", "accepts all", "warning: judge.c: test 1a: the interactor accepts a program that writes nothing"},
		"one that does not build":                 {"checker", "build fails", "error: judge.c: it does not build: exit code 1: main.c:1: error: no"},
	} {
		f := &fakeHost{t: t}
		dir := tree(t, adder, judged(c.kind, c.words))
		if r := f.command("lint", dir); r.status != exitUnexpected || !strings.Contains(r.out, dir+": "+c.says) {
			t.Errorf("%s: status %d, %q\n%s", name, r.status, r.errout, r.out)
		}
		if r := f.command("lint", "--static", dir); r.status != 0 || !strings.Contains(r.out, "was not run: --static was given") {
			t.Errorf("%s, static: status %d\n%s", name, r.status, r.out)
		}
	}
}

// The machine has no part in it.
func TestAJudgingProgramThatIsNotThereIsOneFinding(t *testing.T) {
	f := &fakeHost{t: t}
	r := f.command("lint", tree(t, adder, judged("checker", "compares"), map[string]string{"judge.c": ""}))
	if r.status != exitUnexpected || !strings.Contains(r.out, ": error: judge.c: declared in config.yml and not in the package\n1 finding\n") || len(f.keys) > 0 {
		t.Errorf("status %d, images %q, %q\n%s", r.status, f.keys, r.errout, r.out)
	}
}

func TestLintSaysSoWhereTheMachineCannotJudge(t *testing.T) {
	dir := tree(t, adder, judged("checker", "refuses all"))
	lint := func(err error, args ...string) ended {
		var out, errout strings.Builder
		std := stdio{
			env: []string{"EVALHOST_SCRATCH=" + t.TempDir() + "/scratch"}, out: &out, err: &errout,
			host: func(context.Context, config.Settings, []string, io.Writer, io.Writer) (*host, error) { return nil, err },
		}
		status := runOn(t.Context(), append([]string{"lint"}, args...), std)
		return ended{status, out.String(), errout.String()}
	}
	r := lint(unfit(errors.New("no cgroups")), dir)
	if r.status != 0 || !strings.Contains(r.out, "the checker or interactor was not run: no cgroups; `evalhost check` says more\n0 findings\n") {
		t.Errorf("status %d, %q\n%s", r.status, r.errout, r.out)
	}
	r = lint(unfit(errors.New("no cgroups")), dir, "--json")
	var got struct {
		Clean    bool
		Packages []struct{ NotTried string }
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || !got.Clean || got.Packages[0].NotTried == "" {
		t.Errorf("%v\n%s", err, r.out)
	}
	// A machine that fails while it judges is an infrastructure failure and no finding.
	if r = lint(errors.New("no daemon"), dir); r.status != exitInfrastructure || r.out != "" {
		t.Errorf("status %d, %s", r.status, r.out)
	}
}

func TestLintFindsWhatIsRefusedAndWhatNamesNoLanguage(t *testing.T) {
	f := &fakeHost{t: t}
	r := f.command("lint", tree(t, adder, map[string]string{
		"config.yml": strings.Replace(adder["config.yml"], "python:", "pyhton:", 1) + "languages: [c, cpp17, python]\n" +
			"checker: { source: judge.c, language: java }\nmodelSolutions: [ { source: judge.c, language: python3 }, { source: judge.c, language: cobol } ]\n",
		"judge.c": "x",
	}))
	for _, want := range []string{
		"warning: config.yml: overrideLimits.pyhton is no family and no toolchain: it changes nothing",
		`warning: config.yml: languages: "cpp17" is no family and no toolchain: it allows nothing`,
		`error: judge.c: "java" is no toolchain`,
		"warning: judge.c: is no file name for Python 3 (CPython): the model solution cannot be measured",
		`warning: judge.c: "cobol" is no toolchain: the model solution cannot be measured`,
		"5 findings",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
	if r.status != exitUnexpected {
		t.Errorf("status %d", r.status)
	}
}

// tightLimitsPackage has limits that look too low: 2 ms are less than the 3 ms that a program takes on the fake host, 4 ms are not.
var tightLimitsPackage = map[string]string{
	"config.yml": `type: standard-io@1
limits: { timeMs: 2, memoryBytes: 67108864 }
overrideLimits: { python3: { timeMs: 4, memoryBytes: 1048576 } }
groups: [ { group: 1, points: 40 }, { group: 2, points: 60, limits: { memoryBytes: 65536 } } ]
languages: [c, python3]
`,
}

func TestLintTriesTheLimitsThatLookTooLow(t *testing.T) {
	f := &fakeHost{t: t}
	dir := tree(t, adder, tightLimitsPackage)
	r := f.command("lint", dir)
	for _, want := range []string{
		"config.yml: limits.timeMs is 2ms, and a program in C89 / ANSI C (GCC), C99 (GCC), C11 (GCC), C23 (GCC) that does nothing gets \"Time limit exceeded\" here: it took 3 ms and 2.00 MiB\n",
		"config.yml: limits.timeMs is 2ms, and a program in C89 / ANSI C (Clang), ",
		"config.yml: overrideLimits.python3.memoryBytes is 1 MiB, and a program in Python 3 (CPython) that does nothing gets \"Memory limit exceeded\" here: it took 3 ms and 2.00 MiB\n",
		"config.yml: group 2: limits.memoryBytes is 64 KiB, and a program in Python 3 (CPython) that does nothing gets \"Memory limit exceeded\" here",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
	if r.status != exitUnexpected || strings.Contains(r.out, "C++") || strings.Contains(r.out, "PyPy") || strings.Contains(r.out, "python3.timeMs") {
		t.Errorf("status %d; a language that is not accepted, or a limit that is enough:\n%s", r.status, r.out)
	}
	if want := []string{"gcc", "clang", "cpython"}; !slices.Equal(f.keys, want) || f.runs != 6 {
		t.Errorf("images %q and %d runs, want %q and one for each of two groups in each", f.keys, f.runs, want)
	}
	if r := f.command("lint", "--static", dir); r.status != 0 || r.out != dir+": limits that look too low were not tried: --static was given\n0 findings\n" {
		t.Errorf("status %d, %q\n%s", r.status, r.errout, r.out)
	}
}

func TestAMachineThatFailsWhileLimitsAreTriedIsNoFinding(t *testing.T) {
	f := &fakeHost{t: t, broken: true}
	if r := f.command("lint", tree(t, adder, tightLimitsPackage)); r.status != exitInfrastructure || r.out != "" {
		t.Errorf("status %d, %q\n%s", r.status, r.errout, r.out)
	}
}

func TestPointsAreThoseThatWereDeclared(t *testing.T) {
	f := &fakeHost{t: t}
	if r := f.command("lint", tree(t, adder), "--points", "60"); r.status != exitUnexpected ||
		!strings.Contains(r.out, "the groups are worth 100 points together, not 60\n1 finding\n") {
		t.Errorf("status %d, %s", r.status, r.out)
	}
}
