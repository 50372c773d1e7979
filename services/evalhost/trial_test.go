package main

import (
	"strings"
	"testing"
)

var models = map[string]string{
	"config.yml": adder["config.yml"] + "modelSolutions: [ { source: solutions/accepted/sum.c, language: c11-gcc }, { source: solutions/accepted/sum.python3.py, language: python } ]\n",
}

func TestATrialPrintsWhatTheModelsNeededAndWhatAServerGets(t *testing.T) {
	f := &fakeHost{t: t}
	dir := tree(t, adder, models)
	r := f.command("trial", dir)
	want := `model solution                    group  slowest  largest
solutions/accepted/sum.c          1      240 ms   2.00 MiB
solutions/accepted/sum.c          2      240 ms   2.00 MiB
solutions/accepted/sum.python3.py 1      1201 ms  2.00 MiB
solutions/accepted/sum.python3.py 2      1201 ms  2.00 MiB
group  time now  suggested  memory now  suggested
1      1000 ms   3700 ms    64.00 MiB   18.00 MiB
2      2000 ms   3700 ms    64.00 MiB   18.00 MiB
`
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if r.status != 0 || squeeze(r.out) != squeeze(want) || r.errout != "" {
		t.Errorf("status %d, %q\n%s", r.status, r.errout, r.out)
	}
	r = f.command("trial", "--json", dir)
	if want := `{"measured":[{"group":1,"language":"c11-gcc","timeMs":240,"memoryBytes":2097152},{"group":2,"language":"c11-gcc","timeMs":240,"memoryBytes":2097152},` +
		`{"group":1,"language":"python","timeMs":1201,"memoryBytes":2097152},{"group":2,"language":"python","timeMs":1201,"memoryBytes":2097152}]}` + "\n"; r.status != 0 || r.out != want {
		t.Errorf("status %d, %q\n got %s\nwant %s", r.status, r.errout, r.out, want)
	}
}

func TestATrialOfOneModelNamesNoLanguage(t *testing.T) {
	f := &fakeHost{t: t}
	r := f.command("trial", "--json", tree(t, adder, map[string]string{
		"config.yml": adder["config.yml"] + "modelSolution: { source: solutions/accepted/sum.c, language: c11-gcc }\n",
	}))
	if r.status != 0 || strings.Contains(r.out, "language") || !strings.Contains(r.out, `{"group":1,"timeMs":240,"memoryBytes":2097152}`) {
		t.Errorf("status %d, %s", r.status, r.out)
	}
}

func TestATrialThatFailsMeasuresNothing(t *testing.T) {
	model := func(path, language string) map[string]string {
		return map[string]string{"config.yml": adder["config.yml"] + "modelSolution: { source: " + path + ", language: " + language + " }\n"}
	}
	for name, c := range map[string]struct {
		files  map[string]string
		status int
		says   string
	}{
		"no model":                  {nil, exitUsage, "declares no model solution"},
		"no such toolchain":         {model("solutions/accepted/sum.c", "c12"), exitUsage, `"c12" is no toolchain`},
		"no such file":              {model("solutions/gone.c", "c11-gcc"), exitUsage, "solutions/gone.c"},
		"a wrong model":             {model("solutions/wrong_answer/three.c", "c11-gcc"), exitUnexpected, "nothing was measured: the model solution solutions/wrong_answer/three.c: Wrong answer, 40 of 100 points"},
		"a model against the rules": {model("solutions/policy_violation/sum.c", "c11-gcc"), exitUnexpected, "PolicyViolation"},
		"the machine":               {map[string]string{"config.yml": models["config.yml"], "solutions/accepted/sum.c": "machine fails"}, exitInfrastructure, "solutions/accepted/sum.c"},
		"nothing to measure": {map[string]string{
			"config.yml": "type: output-only@1\nlimits: { timeMs: 1, memoryBytes: 1 }\ngroups: [ { group: 1, points: 1 }, { group: 2, points: 1 } ]\n",
		}, exitUsage, "output-only@1"},
	} {
		f := &fakeHost{t: t}
		r := f.command("trial", tree(t, adder, c.files))
		if r.status != c.status || !strings.Contains(r.errout, c.says) || r.out != "" {
			t.Errorf("%s: status %d, %q, %s", name, r.status, r.errout, r.out)
		}
	}
}
