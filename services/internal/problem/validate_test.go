package problem_test

import (
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/internal/problem"
)

const (
	checkerLine    = "checker: { source: checker/check.c, language: c11-gcc }\n"
	interactorLine = "interactor: { source: interactor/talk.c, language: c11-gcc }\n"
)

// The rows of spec/judging.md 1.6, each alone and then in pairs, where the earlier row must win.
func TestEveryRowOfTheValidationRefusesWithItsCodeAndInItsOrder(t *testing.T) {
	const groups = "groups:\n  - { group: 0, points: 0, examples: true }\n  - { group: 1, points: 100 }\n"
	config := func(pairs ...string) files {
		text := plainConfig
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(text, pairs[i]) {
				t.Fatalf("nothing to replace: %q", pairs[i])
			}
			text = strings.Replace(text, pairs[i], pairs[i+1], 1)
		}
		return plain().with("config.yml", text)
	}
	const standard = `type: "standard-io@1"`
	for _, test := range []struct {
		name    string
		files   files
		typ     problem.Type
		code    problem.Code
		mention string
	}{
		{"1 a name that climbs", plain().with("a b", "x"), "", problem.CodeRefused, "a b"},
		{"2 no config.yml", plain().with("config.yml", ""), "", problem.CodeConfigMissing, "config.yml"},
		{"2 config.yml in a folder", files{"p/config.yml": plainConfig, "p/tests/1a.in": "x"}, "", problem.CodeConfigMissing, "root of the package"},
		{"2 config.yml is a folder", plain().with("config.yml", "").with("config.yml/x", "x"), "", problem.CodeConfigMissing, "config.yml"},
		{"2 config.yml is not UTF-8", plain().with("config.yml", plainConfig+"# \xff\n"), "", problem.CodeConfigMissing, "UTF-8"},
		{"2 config.yml is UTF-16", plain().with("config.yml", "\xff\xfet\x00y\x00"), "", problem.CodeConfigMissing, "UTF-8"},
		{"3 an unknown member", config(groups, groups+"title: x\n"), "", problem.CodeConfigMalformed, "config.yml:6:1: title"},
		{"3 too long", plain().with("config.yml", plainConfig+strings.Repeat("#\n", 1<<18)), "", problem.CodeConfigMalformed, "longer than 512 KiB"},
		{"4 no type", config(standard, ""), "", problem.CodeTypeAbsent, "config.yml:2:1: type"},
		{"4 half a legacy pair", config(standard, "format: standard-io"), "", problem.CodeTypeAbsent, "type"},
		{"5 a checker in answers only", config(standard, "type: output-only@1\n"+strings.TrimSpace(checkerLine)), problem.OutputOnly, problem.CodeJudgeNotAllowed, "config.yml:2:"},
		{"5 an interactor, by the declared type", config(standard, "type: output-only@1\n"+strings.TrimSpace(interactorLine)), "", problem.CodeJudgeNotAllowed, "interactor"},
		{"5 before 6", config(groups, groups+checkerLine), problem.OutputOnly, problem.CodeJudgeNotAllowed, "checker"},
		{"6 another version", config(standard, "type: standard-io@2"), problem.StandardIO, problem.CodeTypeUnknown, "standard-io@2"},
		{"6 another version by the legacy pair", config(standard, "format: standard-io\nversion: 2"), problem.StandardIO, problem.CodeTypeUnknown, "standard-io@2"},
		{"6 another type", config(standard, "type: interactive@1"), "", problem.CodeTypeUnknown, "interactive@1"},
		{"6 the other type", plain(), problem.OutputOnly, problem.CodeTypeUnknown, "output-only@1"},
		{"6 a job of an unknown type", plain(), "interactive@1", problem.CodeTypeUnknown, "interactive@1"},
		{"6 before 7", config(standard, "type: x@1", "timeMs: 1000", "timeMs: 0"), "", problem.CodeTypeUnknown, ""},
		{"7 no time", config("timeMs: 1000", "timeMs: 0"), "", problem.CodeLimitZero, "config.yml:2:19: limits.timeMs"},
		{"7 no memory", config("67108864", "0"), "", problem.CodeLimitZero, "limits.memoryBytes"},
		{"7 time before memory", config("timeMs: 1000", "timeMs: 0", "67108864", "0"), "", problem.CodeLimitZero, "limits.timeMs"},
		{"7 before 8", config("67108864", "0", groups, "groups: []\n"), "", problem.CodeLimitZero, ""},
		{"8 no groups", config(groups, "groups: []\n"), "", problem.CodeGroupsEmpty, "config.yml:3:9: groups"},
		{"9 a group twice", config("group: 1", "group: 0"), "", problem.CodeGroupDuplicate, "group 0 occurs twice"},
		{"9 zero in a group", config("points: 100", "points: 100, limits: { timeMs: 0 }"), "", problem.CodeLimitZero, "groups[1].limits.timeMs"},
		{"9 before 10", config("group: 1", "group: 0", groups[:8], "overrideLimits: { c: { timeMs: 0 } }\ngroups:\n"), "", problem.CodeGroupDuplicate, ""},
		{"10 zero in an override", config(groups, "overrideLimits: { nothing: { memoryBytes: 0 } }\n"+groups), "", problem.CodeLimitZero, "overrideLimits.nothing.memoryBytes"},
		{"11 an absolute checker", config(groups, groups+"checker: { source: /etc/x, language: cpp }\n"), "", problem.CodePath, "checker.source"},
		{"11 a climbing checker", config(groups, groups+"checker: { source: checker/../x, language: cpp }\n"), "", problem.CodePath, "checker.source"},
		{"11 an absolute interactor", config(groups, groups+"interactor: { source: /x, language: cpp }\n"), "", problem.CodePath, "interactor.source"},
		{"11 a climbing model", config(groups, groups+"modelSolution: { source: ../x, language: cpp }\n"), "", problem.CodePath, "modelSolution.source"},
		{"11 an absolute model", config(groups, groups+"modelSolutions: [ { source: a, language: c }, { source: /x, language: c } ]\n"), "", problem.CodePath, "modelSolutions[1].source"},
		{"11 an empty path", config(groups, groups+"checker: { source: '', language: cpp }\n"), "", problem.CodePath, "empty"},
		{"11 before 12", config("points: 100", "points: 100, tests: 1", groups[:8], "modelSolution: { source: /x, language: cpp }\ngroups:\n"), "", problem.CodePath, ""},
		{"12 tests without a judge", config("points: 100", "points: 100, tests: 1"), "", problem.CodeTestsCount, "groups[1].tests"},
		{"12 tests with a checker", config("points: 100 }\n", "points: 100, tests: 1 }\n"+checkerLine), "", problem.CodeTestsCount, "interactor"},
		{"12 no tests", config("points: 100 }\n", "points: 100, tests: 0 }\n"+interactorLine), "", problem.CodeTestsCount, "is 0"},
		{"12 27 tests", config("points: 100 }\n", "points: 100, tests: 27 }\n"+interactorLine), "", problem.CodeTestsCount, "is 27"},
		{"12 tests in answers only", config("standard-io", "output-only", "points: 100", "points: 100, tests: 1"), "", problem.CodeTestsCount, ""},
		{"12 before 13", config("points: 100 }\n", "points: 100, tests: 0 }\n"+interactorLine+checkerLine), "", problem.CodeTestsCount, ""},
		{"13 both judges", config(groups, groups+checkerLine+interactorLine), "", problem.CodeJudgeBoth, "interactor"},
		{"15 no tests at all", files{"config.yml": plainConfig}, "", problem.CodeTests, "tests"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := open(t, test.files, problem.Options{Type: test.typ})
			wantCode(t, err, test.code, test.mention)
		})
	}
}

func TestTestsThatAreCountedOrFiledAreFineWithAnInteractor(t *testing.T) {
	text := strings.Replace(plainConfig, "points: 100 }\n", "points: 100, tests: 26 }\n"+interactorLine, 1)
	p, err := open(t, files{"config.yml": text, "tests/0a.in": "x", "tests/1z.out": "x"}, problem.Options{})
	must(t, err)
	if p.TestsIn(0) != 1 || p.TestsIn(1) != 26 || p.Interactor == nil || p.Checker != nil {
		t.Errorf("%d and %d tests, %v", p.TestsIn(0), p.TestsIn(1), p.Interactor)
	}
}

func TestAnswersOnlyNeedNoProgramAndEveryFile(t *testing.T) {
	text := strings.Replace(plainConfig, "standard-io", "output-only", 1)
	p, err := open(t, plain().with("config.yml", text), problem.Options{Type: problem.OutputOnly})
	must(t, err)
	if p.Type != problem.OutputOnly || len(p.Tests) != 3 {
		t.Errorf("%s with %d tests", p.Type, len(p.Tests))
	}
	_, err = open(t, plain().with("config.yml", text, "tests/1b.out", ""), problem.Options{})
	wantCode(t, err, problem.CodeTests, "tests/1b.out")
}

func TestAPackageThatIsRefusedLeavesNothingUnpacked(t *testing.T) {
	to := target(t)
	_, err := problem.Open(t.Context(), plain().with("tests/2a.in", "x").zip(t), to, problem.Options{})
	wantCode(t, err, problem.CodeTests)
	wantGone(t, to)
}

func TestAnErrorNamesItsPlaceAndCarriesNothingATerminalWouldActOn(t *testing.T) {
	_, err := problem.ParseConfig([]byte(plainConfig+"\"\\e[2J\u202e\": 1\n"), "")
	wantCode(t, err, problem.CodeConfigMalformed, "config.yml:6:1:")
	if strings.ContainsAny(err.Error(), "\x1b\u202e\n") {
		t.Errorf("%q", err)
	}
}
