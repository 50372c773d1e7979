package problem_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

func TestLabelledSolutionsAreListedByLabelAndThenByName(t *testing.T) {
	p, err := open(t, plain().with(
		"solutions/reference.c", "x", "solutions/README.md", "x", "solutions/.git/x", "x",
		"solutions/policy_violation/shell.py", "x", "solutions/wrong_answer/b.c", "x", "solutions/wrong_answer/a.c", "x",
		"solutions/wrong_answer/.keep", "x", "solutions/accepted/sum.c11-clang.c", "x", "solutions/accepted/sum.c", "x",
		"solutions/compile_error/noext", "x", "solutions/run_time_error/", "",
	), problem.Options{})
	must(t, err)
	got, err := p.LabelledSolutions()
	must(t, err)
	want := []problem.Labelled{
		{Path: "solutions/accepted/sum.c", Label: "accepted", Want: verdict.Accepted},
		{Path: "solutions/accepted/sum.c11-clang.c", Label: "accepted", Want: verdict.Accepted, Hint: "c11-clang"},
		{Path: "solutions/wrong_answer/a.c", Label: "wrong_answer", Want: verdict.AnswerWrong},
		{Path: "solutions/wrong_answer/b.c", Label: "wrong_answer", Want: verdict.AnswerWrong},
		{Path: "solutions/compile_error/noext", Label: "compile_error", Want: verdict.CompilationFailed},
		{Path: "solutions/policy_violation/shell.py", Label: "policy_violation", Want: verdict.PolicyViolated},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEveryVerdictHasALabel(t *testing.T) {
	all := plain()
	for _, label := range []string{
		"accepted", "partial", "wrong_answer", "time_limit_exceeded", "memory_limit_exceeded", "output_limit_exceeded",
		"run_time_error", "compile_error", "policy_violation",
	} {
		all = all.with("solutions/"+label+"/x.c", "x")
	}
	p, err := open(t, all, problem.Options{})
	must(t, err)
	list, err := p.LabelledSolutions()
	must(t, err)
	var got []verdict.Verdict
	for _, s := range list {
		got = append(got, s.Want)
	}
	want := []verdict.Verdict{
		verdict.Accepted, verdict.Partial, verdict.AnswerWrong, verdict.TimeLimitExceeded, verdict.MemoryLimitExceeded,
		verdict.OutputLimitExceeded, verdict.RunFailed, verdict.CompilationFailed, verdict.PolicyViolated,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestASolutionThatWouldBePassedOverInSilenceIsAnError(t *testing.T) {
	for name, path := range map[string]string{
		"solutions/acepted":        "solutions/acepted/x.c",
		"solutions/accepted/inner": "solutions/accepted/inner/x.c",
	} {
		p, err := open(t, plain().with(path, "x"), problem.Options{})
		must(t, err)
		_, err = p.LabelledSolutions()
		wantCode(t, err, problem.CodeSolutions, name)
	}
}

func TestAPackageWithoutSolutionsHasNone(t *testing.T) {
	p, err := open(t, plain(), problem.Options{})
	must(t, err)
	if list, err := p.LabelledSolutions(); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestAnswersThatAreAFolderAreOneSolutionAndHaveNoToolchain(t *testing.T) {
	p, err := open(t, files{}.with(
		"config.yml", "type: output-only@1\nlimits: { timeMs: 1, memoryBytes: 1 }\ngroups: [ { group: 1, points: 1 } ]\n",
		"tests/1a.in", "x", "tests/1a.out", "x", "solutions/accepted/all/1a.out", "x", "solutions/wrong_answer/my.best.zip", "x",
	), problem.Options{})
	must(t, err)
	got, err := p.LabelledSolutions()
	must(t, err)
	want := []problem.Labelled{
		{Path: "solutions/accepted/all", Label: "accepted", Want: verdict.Accepted},
		{Path: "solutions/wrong_answer/my.best.zip", Label: "wrong_answer", Want: verdict.AnswerWrong},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
