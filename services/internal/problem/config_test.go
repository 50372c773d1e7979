package problem_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

const fullConfig = `# every member there is
type: "standard-io@1"
format: ignored
version: 7
limits: { timeMs: 800, memoryBytes: 134217728 }
overrideLimits:
  python: { timeMs: 2400 }
  pypy3:  { timeMs: 1600, memoryBytes: 402653184 }
  java:   { timeMs: null }
languages: [cpp, python3, "pypy3"]
groups:
  - { group: 0, points: 0, examples: true }
  - { group: 1, points: 35 }
  - group: 2
    points: 45
    limits: { timeMs: 2000 }
  - { group: 3, points: 20, limits: null, tests: null }
checker: { source: ./checker//check.cpp, language: cpp }
interactor: null
modelSolution: { source: solutions/ref.cpp, language: cpp20-gcc }
modelSolutions:
- source: solutions/ref.py
  language: python
calibration:
  time: { factor: 2.5, roundTo: 50 }
  measured:
    - { group: 1, language: cpp, timeMs: 3, memoryBytes: 1835008 }
    - { group: 2, timeMs: 9 }
  at: "2026-01-02"
  runner: null
extraCompilationFiles: [checker/lib.h]
`

func TestTheFullExampleReads(t *testing.T) {
	got, err := problem.ParseConfig([]byte(fullConfig), problem.StandardIO)
	must(t, err)
	want := &problem.Config{
		Type: problem.StandardIO,
		Base: problem.Limits{Time: 800 * time.Millisecond, Memory: 128 * verdict.MiB},
		OverrideLimits: map[string]problem.PartialLimits{
			"python": {Time: 2400 * time.Millisecond},
			"pypy3":  {Time: 1600 * time.Millisecond, Memory: 384 * verdict.MiB},
			"java":   {},
		},
		Languages: []string{"cpp", "python3", "pypy3"},
		Groups: []problem.Group{
			{Number: 0, Points: 0, Examples: true},
			{Number: 1, Points: 35},
			{Number: 2, Points: 45, Limits: problem.PartialLimits{Time: 2 * time.Second}},
			{Number: 3, Points: 20},
		},
		Checker: &problem.Source{Path: "checker/check.cpp", Language: "cpp"},
		ModelSolutions: []problem.Source{
			{Path: "solutions/ref.cpp", Language: "cpp20-gcc"}, {Path: "solutions/ref.py", Language: "python"},
		},
		Calibration: problem.Calibration{
			Time: problem.Rule{Factor: 2.5, RoundTo: 50}, Memory: problem.DefaultMemoryRule, At: "2026-01-02",
			Measured: []problem.Measured{
				{Group: 1, Language: "cpp", Time: 3 * time.Millisecond, Memory: 1835008},
				{Group: 2, Time: 9 * time.Millisecond},
			},
		},
		ExtraCompilationFiles: []string{"checker/lib.h"},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(problem.Config{})); diff != "" {
		t.Error(diff)
	}
	if got.MaxScore() != 100 {
		t.Errorf("worth %d", got.MaxScore())
	}
}

func TestAConfigurationWithCRLFAndAByteOrderMarkReadsTheSame(t *testing.T) {
	want, err := problem.ParseConfig([]byte(fullConfig), "")
	must(t, err)
	got, err := problem.ParseConfig([]byte("\ufeff---\n"+strings.ReplaceAll(fullConfig, "\n", "\r\n")+"...\r\n"), "")
	must(t, err)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(problem.Config{})); diff != "" {
		t.Error(diff)
	}
}

func TestTheLegacyPairIsJoinedAndReadsAsAType(t *testing.T) {
	legacy := strings.Replace(plainConfig, `type: "standard-io@1"`, "format: standard-io\nversion: 1", 1)
	config, err := problem.ParseConfig([]byte(legacy), problem.StandardIO)
	must(t, err)
	if config.Type != problem.StandardIO {
		t.Errorf("got %q", config.Type)
	}
}

// replaced returns the plain configuration with one text exchanged for another.
func replaced(t *testing.T, old, by string) string {
	t.Helper()
	if !strings.Contains(plainConfig, old) {
		t.Fatalf("the plain configuration has no %q", old)
	}
	return strings.Replace(plainConfig, old, by, 1)
}

func TestEveryTrapOfTheNotationIsRefusedAtItsPlace(t *testing.T) {
	const groups = "groups:\n  - { group: 0, points: 0, examples: true }\n  - { group: 1, points: 100 }\n"
	for _, test := range []struct{ name, old, by, where, key string }{
		{"a missing limit", "timeMs: 1000, ", "", "2:9", "limits.timeMs: missing"},
		{"null for a limit", "timeMs: 1000", "timeMs: null", "2:19", "limits.timeMs: expected a whole number, found null"},
		{"nothing for a limit", "timeMs: 1000", "timeMs: ", "2:", "limits.timeMs"},
		{"a tilde for a limit", "timeMs: 1000", "timeMs: ~", "2:19", "limits.timeMs"},
		{"a fraction", "timeMs: 1000", "timeMs: 1000.5", "2:19", "limits.timeMs"},
		{"a whole fraction", "timeMs: 1000", "timeMs: 1000.0", "2:19", "limits.timeMs"},
		{"an exponent", "timeMs: 1000", "timeMs: 1e3", "2:19", "limits.timeMs: expected a whole number from 0 to 18446744073709551615, found 1e3"},
		{"a leading zero", "timeMs: 1000", "timeMs: 01750", "2:19", "limits.timeMs"},
		{"octal", "timeMs: 1000", "timeMs: 0o17", "2:19", "limits.timeMs"},
		{"hexadecimal", "timeMs: 1000", "timeMs: 0x10", "2:19", "limits.timeMs"},
		{"binary", "timeMs: 1000", "timeMs: 0b10", "2:19", "limits.timeMs"},
		{"an underscore", "timeMs: 1000", "timeMs: 1_000", "2:19", "limits.timeMs"},
		{"a plus", "timeMs: 1000", "timeMs: +1000", "2:19", "limits.timeMs"},
		{"negative", "timeMs: 1000", "timeMs: -1", "2:19", "limits.timeMs"},
		{"negative zero", "timeMs: 1000", "timeMs: -0", "2:19", "limits.timeMs"},
		{"beyond 64 bits", "timeMs: 1000", "timeMs: 18446744073709551616", "2:19", "limits.timeMs"},
		{"beyond 32 bits", "points: 100", "points: 4294967296", "5:25", "groups[1].points"},
		{"half a point", "points: 100", "points: 1.5", "5:25", "groups[1].points"},
		{"a quoted number", "timeMs: 1000", `timeMs: "1000"`, "2:19", `limits.timeMs: expected a whole number from 0 to 18446744073709551615, found the text "1000"`},
		{"a unit", "memoryBytes: 67108864", "memoryBytes: 64MiB", "2:38", "limits.memoryBytes"},
		{"not a number", "timeMs: 1000", "timeMs: .nan", "2:19", "limits.timeMs"},
		{"infinity", "timeMs: 1000", "timeMs: .inf", "2:19", "limits.timeMs"},
		{"a list for a number", "timeMs: 1000", "timeMs: [1]", "2:19", "limits.timeMs"},
		{"yes", "examples: true", "examples: yes", "4:38", "groups[0].examples: expected true or false"},
		{"on", "examples: true", "examples: on", "4:38", "groups[0].examples"},
		{"null for a switch", "examples: true", "examples: null", "4:38", "groups[0].examples"},
		{"1 for a switch", "examples: true", "examples: 1", "4:38", "groups[0].examples"},
		{"a number among texts", groups, "languages: [17]\n" + groups, "3:13", "languages[0]: expected text, found 17"},
		{"null for a list", groups, "languages: null\n" + groups, "3:12", "languages"},
		{"null for overrides", groups, "overrideLimits: null\n" + groups, "3:17", "overrideLimits"},
		{"null for one override", groups, "overrideLimits: { python: null }\n" + groups, "3:27", "overrideLimits.python"},
		{"a number as key", groups, "overrideLimits: { 17: {} }\n" + groups, "3:19", "overrideLimits"},
		{"null as key", groups, "overrideLimits: { ~: {} }\n" + groups, "3:19", "overrideLimits"},
		{"a repeated key", "timeMs: 1000", "timeMs: 1000, timeMs: 1000", "2:25", "limits.timeMs: the key occurs twice"},
		{"a repeated key at the root", groups, groups + "limits: {}\n", "6:1", "limits: the key occurs twice"},
		{"a misspelled member", "timeMs: 1000", "timeMs: 1000, timeMS: 1", "2:25", "limits.timeMS: unknown member"},
		{"an old spelling", "memoryBytes: 67108864", "memoryKib: 65536", "2:25", "limits.memoryKib: unknown member"},
		{"an unknown member at the root", groups, groups + "title: Sum\n", "6:1", "title: unknown member"},
		{"an unknown member of a group", "points: 100", "points: 100, weight: 1", "5:30", "groups[1].weight: unknown member"},
		{"no groups member", groups, "", "1:1", "groups: missing"},
		{"null for the groups", groups, "groups:\n", "3:", "groups"},
		{"a group without points", ", points: 100", "", "5:5", "groups[1].points: missing"},
		{"a group without a number", "group: 1, ", "", "5:5", "groups[1].group: missing"},
		{"a text for a group", "{ group: 1, points: 100 }", "one", "5:5", "groups[1]: expected an object"},
		{"a checker without language", groups, "checker: { source: c.cpp }\n" + groups, "3:10", "checker.language: missing"},
		{"a checker that is a text", groups, "checker: c.cpp\n" + groups, "3:10", "checker"},
		{"a number as language", groups, "checker: { source: c.cpp, language: 3.14 }\n" + groups, "3:37", "checker.language"},
		{"a second document", groups, groups + "---\ntype: x\n", "6:1", "a second document"},
		{"an empty second document", groups, groups + "---\n", "6:1", "a second document"},
		{"something after the end", groups, groups + "...\nx: 1\n", "7:1", "after the end"},
		{"an anchor", "timeMs: 1000", "timeMs: &a 1000", "2:19", "anchors"},
		{"an alias", groups, "checker: *a\n" + groups, "3:10", "aliases"},
		{"a merge key", "timeMs: 1000", "timeMs: 1000, <<: {}", "2:25", "merge keys"},
		{"a tag", "timeMs: 1000", "timeMs: !!int 1000", "2:19", "tags"},
		{"an explicit key", groups, groups + "? x\n: 1\n", "6:1", "explicit keys"},
		{"a directive", `type: "standard-io@1"`, "%YAML 1.2\n---\n" + `type: "standard-io@1"`, "1:1", "directives"},
		{"an unclosed brace", "67108864 }", "67108864", "3:1", "not YAML"},
		{"bad indentation", "limits:", " limits:", "2:", ""},
		{"a tab", "limits:", "\tlimits:", "2:", ""},
		{"calibration with infinity", groups, "calibration: { time: { factor: .inf } }\n" + groups, "3:32", "calibration.time.factor"},
		{"calibration beyond a double", groups, "calibration: { time: { factor: 1e999 } }\n" + groups, "3:32", "calibration.time.factor"},
		{"null in a rule", groups, "calibration: { time: { factor: null } }\n" + groups, "3:32", "calibration.time.factor"},
		{"an unknown member of a rule", groups, "calibration: { time: { fact: 1 } }\n" + groups, "3:24", "calibration.time.fact"},
		{"a measurement without time", groups, "calibration: { measured: [ { group: 1 } ] }\n" + groups, "3:28", "calibration.measured[0].timeMs"},
		{"a null type", `type: "standard-io@1"`, "type: null", "1:7", "type"},
		{"a mistyped version beside a type", groups, "version: one\n" + groups, "3:10", "version"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := problem.ParseConfig([]byte(replaced(t, test.old, test.by)), problem.StandardIO)
			wantCode(t, err, problem.CodeConfigMalformed, "config.yml:"+test.where, test.key)
		})
	}
}

func TestTheFirstByteThatIsNoTextIsNamedWithItsPlace(t *testing.T) {
	for text, where := range map[string]string{
		plainConfig + "# é caf\xe9\n":  "config.yml:6:8: not UTF-8 text: the byte 0xe9",
		"\ufeffa: b\rc\r\nd\xab":       "config.yml:3:2: not UTF-8 text: the byte 0xab",
		"\xff\xfet\x00":                "config.yml:1:1: not UTF-8 text: the byte 0xff",
		plainConfig + "# \xed\xa0\x80": "config.yml:6:3",
	} {
		_, err := problem.ParseConfig([]byte(text), "")
		wantCode(t, err, problem.CodeConfigMissing, where)
	}
}

func TestWhatIsNoObjectAtTheRootIsRefused(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "---\n...\n", "null", "text", "- 1\n", "[]", "17"} {
		_, err := problem.ParseConfig([]byte(text), "")
		wantCode(t, err, problem.CodeConfigMalformed, "config.yml:1:")
	}
}

// C79: a limit is a positive whole number, wherever it stands. An absurd one is kept within what can be counted.
func TestC79NoLimitIsEverZeroNegativeNoNumberOrTooLargeToCountWith(t *testing.T) {
	for _, place := range []struct{ name, before, after string }{
		{"package time", "limits: { memoryBytes: 1, timeMs: ", " }"},
		{"package memory", "limits: { timeMs: 1, memoryBytes: ", " }"},
		{"override time", "limits: { timeMs: 1, memoryBytes: 1 }\noverrideLimits: { c: { timeMs: ", " } }"},
		{"override memory", "limits: { timeMs: 1, memoryBytes: 1 }\noverrideLimits: { c: { memoryBytes: ", " } }"},
		{"group time", "limits: { timeMs: 1, memoryBytes: 1 }\ngroups: [ { group: 1, points: 1, limits: { timeMs: ", " } } ]"},
		{"group memory", "limits: { timeMs: 1, memoryBytes: 1 }\ngroups: [ { group: 1, points: 1, limits: { memoryBytes: ", " } } ]"},
	} {
		read := func(value string) (problem.Limits, error) {
			text := "type: standard-io@1\n" + place.before + value + place.after + "\n"
			if !strings.Contains(text, "groups:") {
				text += "groups: [ { group: 1, points: 1 } ]\n"
			}
			config, err := problem.ParseConfig([]byte(text), "")
			if err != nil {
				return problem.Limits{}, err
			}
			return config.Limits("c", "c11-gcc", 1), nil
		}
		t.Run(place.name, func(t *testing.T) {
			_, err := read("0")
			wantCode(t, err, problem.CodeLimitZero, "config.yml:", "expected a limit of at least 1")
			for _, value := range []string{"-1", "-9223372036854775808", ".nan", "NaN", ".inf", "1e18", "1.0e+18", "0.0", "1e-9", "99999999999999999999"} {
				_, err := read(value)
				wantCode(t, err, problem.CodeConfigMalformed, "config.yml:")
			}
			for _, value := range []string{"1", "1000000000000000000", "9223372036854775807", "9223372036854775808", "18446744073709551615"} {
				limits, err := read(value)
				must(t, err)
				switch {
				case limits.Time <= 0, limits.Memory <= 0:
					t.Errorf("%s is read as %v", value, limits)
				case 5*(limits.Time+2*time.Second)+30*time.Second <= limits.Time:
					t.Errorf("%s: the absolute cap overflows from %v", value, limits.Time)
				case limits.Memory+64*verdict.MiB <= limits.Memory:
					t.Errorf("%s: the container's memory overflows from %v", value, limits.Memory)
				}
			}
		})
	}
}

// A package may hold a config.yml of 256 MiB. It is refused for its length after that much of it, not after all of it.
func TestAConfigurationOfAnyLengthIsNotReadIntoMemory(t *testing.T) {
	dir := plain().dir(t)
	must(t, os.Truncate(filepath.Join(dir, "config.yml"), 256<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := problem.Load(dir, problem.Options{})
	runtime.ReadMemStats(&after)
	wantCode(t, err, problem.CodeConfigMalformed, "longer than 512 KiB")
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("%d bytes were allocated", took)
	}
}

func TestASmallMemoryLimitIsLegal(t *testing.T) {
	config, err := problem.ParseConfig([]byte(replaced(t, "67108864", "4194304")), "")
	must(t, err)
	if config.Base.Memory != 4*verdict.MiB {
		t.Errorf("got %v", config.Base.Memory)
	}
}

func TestLimitsResolveFieldByFieldAndTheGroupHasTheLastWord(t *testing.T) {
	config, err := problem.ParseConfig([]byte(fullConfig), "")
	must(t, err)
	for _, test := range []struct {
		family, id            string
		shown, group1, group2 int
		memory                verdict.Bytes
	}{
		{"cpp", "cpp17-gcc", 800, 800, 2000, 134217728},
		{"python", "python3", 2400, 2400, 2000, 134217728},
		{"python", "pypy3", 1600, 1600, 2000, 402653184},
		{"java", "java21", 800, 800, 2000, 134217728},
	} {
		for what, pair := range map[string]struct {
			got  problem.Limits
			want int
		}{
			"shown":   {config.ShownLimits(test.family, test.id), test.shown},
			"group 1": {config.Limits(test.family, test.id, 1), test.group1},
			"group 2": {config.Limits(test.family, test.id, 2), test.group2},
		} {
			want := problem.Limits{Time: time.Duration(pair.want) * time.Millisecond, Memory: test.memory}
			if pair.got != want {
				t.Errorf("%s, %s: got %v, want %v", test.id, what, pair.got, want)
			}
		}
	}
}

func TestCalibrationRulesRoundUp(t *testing.T) {
	for _, test := range []struct {
		rule     problem.Rule
		measured uint64
		want     uint64
	}{
		{problem.DefaultTimeRule, 240, 800},
		{problem.DefaultTimeRule, 1, 100},
		{problem.DefaultMemoryRule, 31_744_000, 49_283_072},
		{problem.DefaultMemoryRule, 12_582_912, 29_360_128},
		{problem.Rule{Factor: 1, RoundTo: 100}, 201, 300},
		{problem.Rule{Factor: 1, RoundTo: 100}, 200, 200},
		{problem.Rule{Factor: 1.5}, 7, 11},
		{problem.Rule{Factor: -1}, 7, 0},
		{problem.Rule{Factor: 1e300}, 1 << 60, 1<<64 - 1},
	} {
		if got := test.rule.Limit(test.measured); got != test.want {
			t.Errorf("%+v of %d gives %d, want %d", test.rule, test.measured, got, test.want)
		}
	}
}

func TestARuleThatIsPresentHasNeutralDefaults(t *testing.T) {
	config, err := problem.ParseConfig([]byte(plainConfig+"calibration: { time: {}, memory: null }\n"), "")
	must(t, err)
	if c := config.Calibration; c.Time != (problem.Rule{Factor: 1}) || c.Memory != problem.DefaultMemoryRule {
		t.Errorf("got %+v", c)
	}
}
