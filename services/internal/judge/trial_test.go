package judge

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// models is the adder with model solutions, and a second test in group 1. Groups are not in the order of their numbers.
func models(declared string) map[string]string {
	return map[string]string{
		"config.yml": "type: standard-io@1\nlimits: { timeMs: 2000, memoryBytes: 268435456 }\n" +
			"groups: [ { group: 2, points: 60 }, { group: 0, points: 0 }, { group: 1, points: 40 } ]\n" + declared,
		"tests/1b.in": "1 1\n", "tests/1b.out": "2\n",
		"solutions/add.c": "int main(void){return 0;}\n", "solutions/add.py": "print(1)\n", "solutions/shell.c": "#include <unistd.h>\n",
	}
}

const (
	oneModel  = "modelSolution: { source: solutions/add.c, language: c11-gcc }\n"
	twoModels = "modelSolutions: [ { source: solutions/add.py, language: python }, { source: ./solutions/add.c, language: c11-gcc } ]\n"
)

// costs is a correct program whose tests cost what the table says, in milliseconds and MiB; 0 MiB is not measured.
func costs(table map[string][2]int) func(sandbox.Run) (sandbox.RunOutcome, error) {
	return func(r sandbox.Run) (sandbox.RunOutcome, error) {
		time.Sleep(20 * time.Millisecond) // so that tests judged at once are seen to be
		o := adds(r, 0)
		cpu, peak := time.Duration(table[r.Test][0])*time.Millisecond, verdict.Bytes(table[r.Test][1])*verdict.MiB
		o.CPU, o.Peak = &cpu, &peak
		if peak == 0 {
			o.Peak = nil
		}
		return o, nil
	}
}

func TestATrialMeasuresEveryGroupOfEveryModel(t *testing.T) {
	f := newFake(t)
	f.run = costs(map[string][2]int{"0a": {1, 5}, "1a": {30, 7}, "1b": {20, 9}, "2a": {50, 0}})
	b, err := bench(t, f, open(t, models(twoModels)), 3)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	rows, err := b.Trial(t.Context(), func(model string, e Event) { told = append(told, fmt.Sprint(model, " ", e.Test)) })
	if err != nil {
		t.Fatal(err)
	}
	five, nine := 5*verdict.MiB, 9*verdict.MiB
	want := []Measured{
		{"solutions/add.py", 0, "python", time.Millisecond, &five},
		{"solutions/add.py", 1, "python", 30 * time.Millisecond, &nine},
		{"solutions/add.py", 2, "python", 50 * time.Millisecond, nil},
		{"solutions/add.c", 0, "c11-gcc", time.Millisecond, &five},
		{"solutions/add.c", 1, "c11-gcc", 30 * time.Millisecond, &nine},
		{"solutions/add.c", 2, "c11-gcc", 50 * time.Millisecond, nil},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Error(diff)
	}
	if f.most != 1 {
		t.Errorf("%d tests at once", f.most)
	}
	if len(told) != 10 || told[1] != "solutions/add.py 0a" {
		t.Errorf("told %q", told)
	}
}

func TestMemoryIsAbsentIfAnyTestOfTheGroupWasNotMeasured(t *testing.T) {
	for _, c := range []map[string][2]int{{"1a": {1, 0}, "1b": {1, 9}}, {"1a": {1, 9}, "1b": {1, 0}}} {
		c["0a"], c["2a"] = [2]int{1, 1}, [2]int{1, 1}
		f := newFake(t)
		f.run = costs(c)
		b, err := bench(t, f, open(t, models(oneModel)), 1)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := b.Trial(t.Context(), nil)
		if err != nil || len(rows) != 3 || rows[0].Memory == nil || rows[1].Memory != nil || rows[2].Memory == nil {
			t.Errorf("%+v, %v", rows, err)
		}
		for _, row := range rows {
			if row.Language != "" {
				t.Errorf("one model, and yet a row names %s", row.Language)
			}
		}
	}
}

func TestATrialFailsWithItsModels(t *testing.T) {
	slow := func(r sandbox.Run) (sandbox.RunOutcome, error) {
		o := adds(r, 0)
		if r.Test == "1b" {
			cpu := 3 * time.Second
			o.CPU = &cpu
		}
		return o, nil
	}
	for name, c := range map[string]struct {
		declared string
		run      func(sandbox.Run) (sandbox.RunOutcome, error)
		says     string
		theirs   bool
	}{
		"no model":                               {"", nil, "no model solution", true},
		"no such language":                       {"modelSolution: { source: solutions/add.c, language: cobol }\n", nil, `"cobol" is no language`, true},
		"no such file":                           {"modelSolution: { source: solutions/gone.c, language: c11-gcc }\n", nil, "solutions/gone.c: ", true},
		"another extension":                      {"modelSolution: { source: solutions/add.c, language: python }\n", nil, "Compilation error, 0 of 100", true},
		"a language the problem does not accept": {oneModel + "languages: [cpp]\n", nil, "PolicyViolation", true},
		"against the rules":                      {"modelSolution: { source: solutions/shell.c, language: c11-gcc }\n", nil, "PolicyViolation", true},
		"too slow":                               {oneModel, slow, "solutions/add.c: Time limit exceeded, 60 of 100 points; a model solution must get all of them; test 1b: Time limit exceeded", true},
		"wrong where no points are": {oneModel, func(r sandbox.Run) (sandbox.RunOutcome, error) {
			return adds(r, map[string]int{"0a": 1}[r.Test]), nil
		}, "Wrong answer, 100 of 100 points", true},
		"the machine fails": {oneModel, func(sandbox.Run) (sandbox.RunOutcome, error) { return sandbox.RunOutcome{}, errors.New("no daemon") }, "no daemon", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			if c.run != nil {
				f.run = c.run
			}
			b, err := bench(t, f, open(t, models(c.declared)), 1)
			if err != nil {
				t.Fatal(err)
			}
			rows, err := b.Trial(t.Context(), nil)
			var fault *PackageFault
			if rows != nil || err == nil || !strings.Contains(err.Error(), c.says) || errors.As(err, &fault) != c.theirs {
				t.Errorf("%v, %v", rows, err)
			}
		})
	}
}

func TestAModelThatIsPartlyAcceptedIsNoModel(t *testing.T) {
	f := newFake(t)
	f.run = answers("OK\nclose\n99\n")
	p := open(t, withChecker, map[string]string{"config.yml": withChecker["config.yml"] + oneModel, "solutions/add.c": "int main(void){return 0;}\n"})
	b, err := bench(t, f, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := b.Trial(t.Context(), nil); rows != nil || err == nil || !strings.Contains(err.Error(), "Partial, 99 of 100 points") {
		t.Errorf("%v, %v", rows, err)
	}
}
