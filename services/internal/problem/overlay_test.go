package problem_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// overlaid is the package that the table of spec/judging.md 1.7 is laid over.
const overlaid = `type: "standard-io@1"
limits: { timeMs: 1000, memoryBytes: 67108864 }
overrideLimits: { python: { timeMs: 5000 } }
languages: [cpp]
groups:
  - { group: 0, points: 0, examples: true }
  - { group: 1, points: 40, limits: { memoryBytes: 1048576 } }
  - { group: 2, points: 60 }
modelSolutions: [ { source: solutions/a.c, language: c11-gcc } ]
`

func parse(t *testing.T, text string) *problem.Config {
	t.Helper()
	config, err := problem.ParseConfig([]byte(text), problem.StandardIO)
	must(t, err)
	return config
}

func TestAnOverlayChangesWhatItNamesAndNothingElse(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, test := range []struct {
		name, overlay string
		change        func(c *problem.Config)
	}{
		{"absent", "", nil},
		{"blank", " \n", nil},
		{"null", "null", nil},
		{"a list", `[{"group":1}]`, nil},
		{"a text", `"limits"`, nil},
		{"empty", "{}", nil},
		{"type, format and version", `{"type":"output-only@1","format":17,"version":null}`, nil},
		{"one limit", `{"limits":{"timeMs":500}}`, func(c *problem.Config) { c.Base.Time = ms(500) }},
		{"a limit raised", `{"limits":{"memoryBytes":134217728}}`, func(c *problem.Config) { c.Base.Memory = 128 * verdict.MiB }},
		{"one group's limit", `{"groups":[{"group":1,"limits":{"timeMs":250}}]}`, func(c *problem.Config) { c.Groups[1].Limits.Time = ms(250) }},
		{"one group's points", `{"groups":[{"group":2,"points":5}]}`, func(c *problem.Config) { c.Groups[2].Points = 5 }},
		{"no groups", `{"groups":[]}`, nil},
		{"a new group", `{"groups":[{"group":9,"points":5}]}`, func(c *problem.Config) {
			c.Groups = append(c.Groups, problem.Group{Number: 9, Points: 5})
		}},
		{"other languages", `{"languages":["python3"]}`, func(c *problem.Config) { c.Languages = []string{"python3"} }},
		{"every language", `{"languages":[]}`, func(c *problem.Config) { c.Languages = nil }},
		{"no models", `{"modelSolutions":[]}`, func(c *problem.Config) { c.ModelSolutions = nil }},
		{"another override", `{"overrideLimits":{"pypy3":{"timeMs":7}}}`, func(c *problem.Config) {
			c.OverrideLimits["pypy3"] = problem.PartialLimits{Time: ms(7)}
		}},
		{"one field of an override", `{"overrideLimits":{"python":{"memoryBytes":7}}}`, func(c *problem.Config) {
			c.OverrideLimits["python"] = problem.PartialLimits{Time: ms(5000), Memory: 7}
		}},
		{"a checker", `{"checker":{"source":"c/x.c","language":"c11-gcc"}}`, func(c *problem.Config) {
			c.Checker = &problem.Source{Path: "c/x.c", Language: "c11-gcc"}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			base := parse(t, overlaid)
			got, err := problem.ApplyOverlay(base, []byte(test.overlay))
			must(t, err)
			want := parse(t, overlaid)
			if diff := cmp.Diff(want, base, cmpopts.IgnoreUnexported(problem.Config{})); diff != "" {
				t.Errorf("the package's own configuration changed:\n%s", diff)
			}
			if test.change != nil {
				test.change(want)
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(problem.Config{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnOverlayThatDoesNotFitIsRefusedWithTheRuleItBreaks(t *testing.T) {
	withChecker, withInteractor := overlaid+checkerLine, overlaid+interactorLine
	for _, test := range []struct {
		name, base, overlay string
		code                problem.Code
		mention             string
	}{
		{"not JSON", overlaid, `{"limits":`, problem.CodeConfigMalformed, "not JSON"},
		{"a repeated member", overlaid, `{"limits":{},"limits":{}}`, problem.CodeConfigMalformed, "limits"},
		{"too deep", overlaid, strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40), problem.CodeConfigMalformed, "deeper"},
		{"too long", overlaid, `{"limits":{"timeMs":500}` + strings.Repeat(" ", 512<<10) + `}`, problem.CodeConfigMalformed, "longer than 512 KiB"},
		{"a misspelled member", overlaid, `{"limits":{"timeMS":1}}`, problem.CodeConfigMalformed, "assignment: limits.timeMS"},
		{"a float", overlaid, `{"limits":{"timeMs":500.0}}`, problem.CodeConfigMalformed, "limits.timeMs"},
		{"an exponent", overlaid, `{"limits":{"timeMs":5e2}}`, problem.CodeConfigMalformed, "limits.timeMs"},
		{"a negative", overlaid, `{"limits":{"timeMs":-5}}`, problem.CodeConfigMalformed, "limits.timeMs"},
		{"a quoted number", overlaid, `{"limits":{"timeMs":"5"}}`, problem.CodeConfigMalformed, "limits.timeMs"},
		{"zero", overlaid, `{"limits":{"timeMs":0}}`, problem.CodeLimitZero, "limits.timeMs"},
		{"zero in a group", overlaid, `{"groups":[{"group":1,"limits":{"timeMs":0}}]}`, problem.CodeLimitZero, "groups[1].limits.timeMs"},
		{"a new group without points", overlaid, `{"groups":[{"group":9}]}`, problem.CodeConfigMalformed, "points"},
		{"repeated groups replace the list", overlaid, `{"groups":[{"group":1,"points":1},{"group":1,"points":2}]}`, problem.CodeGroupDuplicate, ""},
		{"a list that is none of groups replaces", overlaid, `{"groups":[1]}`, problem.CodeConfigMalformed, "groups[0]"},
		{"half a checker on a package without", overlaid, `{"checker":{"source":"/etc/x"}}`, problem.CodeConfigMalformed, "checker.language"},
		{"a checker elsewhere", withChecker, `{"checker":{"source":"/etc/x"}}`, problem.CodePath, "checker.source"},
		{"a climbing checker", withChecker, `{"checker":{"source":"../x"}}`, problem.CodePath, "checker.source"},
		{"both judges", withChecker, `{"interactor":{"source":"i.c","language":"c11-gcc"}}`, problem.CodeJudgeBoth, ""},
		{"tests without an interactor", overlaid, `{"groups":[{"group":1,"tests":2}]}`, problem.CodeTestsCount, ""},
		{"27 tests", withInteractor, `{"groups":[{"group":1,"tests":27}]}`, problem.CodeTestsCount, ""},
		{"no checker", withChecker, `{"checker":null}`, problem.CodeConfigMalformed, "checker: null would remove"},
		{"null deep inside", overlaid, `{"groups":[{"group":1,"limits":null}]}`, problem.CodeConfigMalformed, "groups[0].limits"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := problem.ApplyOverlay(parse(t, test.base), []byte(test.overlay))
			wantCode(t, err, problem.CodeOverlay, test.mention)
			if inner := problem.CodeOf(errors.Unwrap(err)); inner != test.code {
				t.Errorf("beneath it is %s, want %s", inner, test.code)
			}
		})
	}
}

func TestAGroupThatAnOverlayAppendsNeedsTests(t *testing.T) {
	overlay := []byte(`{"groups":[{"group":9,"points":5}]}`)
	_, err := open(t, plain(), problem.Options{Overlay: overlay})
	wantCode(t, err, problem.CodeTests, "group 9")
	p, err := open(t, plain().with("tests/9x.in", "1", "tests/9x.out", "1"), problem.Options{Overlay: overlay})
	must(t, err)
	if p.MaxScore() != 105 || p.TestsIn(9) != 1 {
		t.Errorf("%d points, %d tests", p.MaxScore(), p.TestsIn(9))
	}
}
