package problem_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalhost/evalhost/services/internal/problem"
)

// lint unpacks a package and returns its findings, one a line.
func lint(t *testing.T, f files) (*problem.Problem, []string) {
	t.Helper()
	dir := target(t)
	_, err := problem.UnpackPackage(t.Context(), f.dir(t), dir)
	must(t, err)
	p, found, err := problem.Lint(dir, 100)
	must(t, err)
	var lines []string
	for _, finding := range found {
		lines = append(lines, string(finding.Severity)+" "+finding.Where+": "+finding.Msg)
	}
	return p, lines
}

func TestAPackageWithoutSurprisesHasNoFinding(t *testing.T) {
	if p, found := lint(t, plain().with("tests/.keep", "x", "notes.txt", "x\r\n")); p == nil || found != nil {
		t.Errorf("%v, %q", p, found)
	}
}

// C43, C44, C46 and what else is legal and hardly ever meant.
func TestWhatIsLegalAndHardlyEverMeantIsFound(t *testing.T) {
	p, found := lint(t, plain().with(
		"config.yml", strings.Replace(plainConfig, "points: 100", "points: 90", 1)+
			"extraCompilationFiles: [a.h]\nmodelSolution: { source: solutions/gone.c, language: c11-gcc }\n",
		"tests/0a.in", "\ufeff1 2\n", "tests/0a.out", "3", "tests/1a.in", "1\n\x00\n\x00\n", "tests/1a.out", "7\r\n",
		"tests/1b.in", "ok\nca\xff\xfe\n", "tests/1b.out", " \n",
		"tests/readme", "x", "tests/1c.IN", "x", "tests/more/1d.in", "x",
	))
	if p == nil {
		t.Error("the package can be judged")
	}
	want := []string{
		"warning config.yml: extraCompilationFiles is read and used for nothing: a judging program is one file",
		"warning config.yml: the groups are worth 90 points together, not 100",
		"warning solutions/gone.c: declared in config.yml and not in the package",
		"warning tests/0a.in: begins with a byte order mark, which is a part of the first token",
		"warning tests/0a.out: does not end with a newline; programs that read line by line may lose the last one",
		"warning tests/1a.in: has a NUL byte in line 2",
		"warning tests/1a.out: has CRLF line ends",
		"warning tests/1b.in: is not UTF-8 text in line 2",
		"warning tests/1b.out: is empty: only a program that prints nothing passes this test",
		"warning tests/1c.IN: belongs to no test: those end in .in and .out, in small letters",
		"warning tests/more: a folder: nothing in it is a test",
		"warning tests/readme: belongs to no test: those end in .in and .out, in small letters",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
}

func TestPointsForNothingAreFoundOnce(t *testing.T) {
	_, found := lint(t, plain().with("config.yml", strings.Replace(plainConfig, "points: 100", "points: 0", 1)))
	if len(found) != 1 || found[0] != "warning config.yml: the groups are worth nothing: every score is 0 of 0" {
		t.Errorf("%q", found)
	}
}

func TestEverythingThatIsWrongWithTheTestsIsFoundAtOnceAndTheirContentToo(t *testing.T) {
	p, found := lint(t, plain().with(
		"config.yml", plainConfig+"  - { group: 3, points: 0 }\n",
		"tests/0a.out", "", "tests/1a.in", "1\r\n", "tests/2a.in", "x\n", "tests/2a.out", "x\n", "tests/a1.in", "x\n",
	))
	if p != nil {
		t.Error("a package that is refused is no problem that can be judged")
	}
	want := []string{
		"error tests/2a.in: group 2 is not declared in config.yml",
		"error tests/2a.out: group 2 is not declared in config.yml",
		`error tests/a1.in: "a1" is no name of a test; expected digits and then small letters, such as 1a`,
		"error tests/0a.out: missing; test 0a has no expected output and the package no checker",
		"error tests: group 3 has no tests",
		"warning tests/1a.in: has CRLF line ends",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
}

func TestWhatJudgingOrVerifyingRefusesIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		files files
		want  string
		opens bool
	}{
		"a setting":        {plain().with("config.yml", plainConfig+"limts: 3\n"), "error config.yml:6:1: limts: ", false},
		"no configuration": {plain().with("config.yml", ""), "error config.yml: missing", false},
		"no tests":         {files{"config.yml": plainConfig}, "error tests: no tests", false},
		"tests is a file":  {files{"config.yml": plainConfig, "tests": "x"}, "error tests: ", false},
		"no checker":       {plain().with("config.yml", plainConfig+checkerLine), "error checker/check.c: declared in config.yml and not in the package", true},
		"a label":          {plain().with("solutions/acepted/x.c", "x"), "error solutions/acepted: not a label", true},
	} {
		p, found := lint(t, c.files)
		if len(found) == 0 || !strings.HasPrefix(found[0], c.want) || (p != nil) != c.opens {
			t.Errorf("%s: %q, opens %t", name, found, p != nil)
		}
	}
}

func TestOnlyWhatIsComparedMustHaveATokenAndFitIntoAnOutput(t *testing.T) {
	long := func(f files) []string {
		dir := target(t)
		_, err := problem.UnpackPackage(t.Context(), f.dir(t), dir)
		must(t, err)
		must(t, os.Truncate(filepath.Join(dir, "tests/1b.out"), 64<<20+1))
		_, found, err := problem.Lint(dir, 100)
		must(t, err)
		var lines []string
		for _, finding := range found {
			if strings.Contains(finding.Msg, "a program may write") || strings.Contains(finding.Msg, "is empty") {
				lines = append(lines, finding.Where+": "+finding.Msg)
			}
		}
		return lines
	}
	if got := long(plain()); len(got) != 1 || got[0] != "tests/1b.out: has 67108865 bytes; a program may write 64 MiB, so none passes this test" {
		t.Errorf("%q", got)
	}
	checked := plain().with("config.yml", plainConfig+checkerLine, "checker/check.c", "x", "tests/1a.out", "\n")
	if got := long(checked); got != nil {
		t.Errorf("with a checker: %q", got)
	}
	answers := plain().with("config.yml", strings.Replace(plainConfig, "standard-io", "output-only", 1))
	if got := long(answers); got != nil {
		t.Errorf("answers that are uploaded: %q", got)
	}
}

func TestTheSettingThatDecidesALimitIsNamed(t *testing.T) {
	config, err := problem.ParseConfig([]byte(`type: standard-io@1
limits: { timeMs: 1, memoryBytes: 1 }
overrideLimits: { python: { timeMs: 2 }, pypy3: { memoryBytes: 3 } }
groups: [ { group: 1, points: 1 }, { group: 2, points: 1, limits: { timeMs: 4 } } ]
`), problem.StandardIO)
	must(t, err)
	for _, c := range []struct {
		family, toolchain string
		group             uint32
		time, memory      string
	}{
		{"c", "c11-gcc", 1, "limits.timeMs", "limits.memoryBytes"},
		{"c", "c11-gcc", 2, "group 2: limits.timeMs", "limits.memoryBytes"},
		{"python", "python3", 1, "overrideLimits.python.timeMs", "limits.memoryBytes"},
		{"python", "pypy3", 1, "overrideLimits.python.timeMs", "overrideLimits.pypy3.memoryBytes"},
		{"python", "pypy3", 2, "group 2: limits.timeMs", "overrideLimits.pypy3.memoryBytes"},
	} {
		if time, memory := config.LimitSettings(c.family, c.toolchain, c.group); time != c.time || memory != c.memory {
			t.Errorf("%s, group %d: %s and %s", c.toolchain, c.group, time, memory)
		}
	}
}
