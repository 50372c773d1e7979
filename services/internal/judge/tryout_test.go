package judge

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/sandbox"
)

// says is a judging program that answers by what the submission wrote; "crash" is one that breaks its contract.
func says(answer func(test, output string) string) func(sandbox.Run) (sandbox.RunOutcome, error) {
	return func(r sandbox.Run) (sandbox.RunOutcome, error) {
		var output []byte
		if r.Input != nil {
			output, _ = io.ReadAll(r.Input)
		}
		o := ends()
		o.Judge = &sandbox.JudgeOutcome{Answer: []byte(answer(r.Test, string(output)))}
		o.Judge.Stop = sandbox.OnItsOwn
		if string(o.Judge.Answer) == "crash" {
			o.Judge.ExitCode = 139
		}
		return o, nil
	}
}

func faults(t *testing.T, f *fake, p *problem.Problem) []string {
	t.Helper()
	b, err := bench(t, f, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	found, err := b.TryJudging(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, fault := range found {
		all = append(all, fault.Test+": "+fault.Msg)
	}
	return all
}

// allAnswers gives every test of the checker's package an expected output.
var allAnswers = map[string]string{"tests/2a.out": adder["tests/2a.out"]}

func TestACheckerIsTriedOnThePackagesOwnAnswers(t *testing.T) {
	p := open(t, withChecker, allAnswers)
	expects := map[string]string{"0a": "3\n", "1a": "30\n", "2a": "3000000\n"}
	right := func(test, output string) string {
		if output == expects[test] {
			return "OK\n"
		}
		return "WRONG\n"
	}
	silence := "; a submission that does so would fail the machinery, not the test"
	broken := "the judging program broke its contract: it ended with exit code 139; a judging program always ends with 0"
	for name, c := range map[string]struct {
		answer func(test, output string) string
		want   []string
	}{
		"right": {right, nil},
		"it refuses the own answer": {func(test, output string) string {
			if test == "1a" {
				return "WRONG\nno\n"
			}
			return right(test, output)
		}, []string{`1a: the checker refuses the package's own expected output; it says "no"`}},
		"it gives the own answer a part": {func(test, output string) string {
			if test == "2a" && output != "" {
				return "OK\n\n99\n"
			}
			return right(test, output)
		}, []string{"2a: the checker gives the package's own expected output 99 %"}},
		"it crashes on the own answer": {func(test, output string) string {
			if test == "2a" && output != "" {
				return "crash"
			}
			return right(test, output)
		}, []string{"2a: on the package's own expected output " + broken}},
		"it accepts silence": {func(test, output string) string {
			if output == "" {
				return "OK\nfine\n"
			}
			return right(test, output)
		}, []string{
			`0a: the checker accepts a program that writes nothing; it says "fine"`,
			`1a: the checker accepts a program that writes nothing; it says "fine"`,
			`2a: the checker accepts a program that writes nothing; it says "fine"`,
		}},
		"it crashes on silence": {func(test, output string) string {
			if output == "" && test == "0a" {
				return "crash"
			}
			return right(test, output)
		}, []string{"0a: on a program that writes nothing " + broken + silence}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.run = says(c.answer)
			if got := faults(t, f, p); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			for _, r := range f.runs {
				if r.Image != "sha256:cpython" || r.Judge.Kind != sandbox.Checker || r.Output != nil {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

func TestSilenceIsRightWhereNoTokenIsExpectedAndUnknownWithoutAnExpectedOutput(t *testing.T) {
	f := newFake(t)
	f.run = says(func(string, string) string { return "OK\n" })
	p := open(t, withChecker, allAnswers, map[string]string{"tests/0a.out": " \n", "tests/1a.out": ""})
	want := []string{"1a: the checker accepts a program that writes nothing", "2a: the checker accepts a program that writes nothing"}
	if got := faults(t, f, p); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if len(f.runs) != 4 {
		t.Errorf("%d runs, want one of 0a, one of 1a and two of 2a", len(f.runs))
	}
}

func TestAnInteractorIsTriedOnSilence(t *testing.T) {
	p := open(t, withInteractor("tests: 2"))
	for answer, want := range map[string][]string{
		"WRONG\nno question\n": nil,
		"OK\nwell done\n": {
			`1a: the interactor accepts a program that writes nothing; it says "well done"`,
			`1b: the interactor accepts a program that writes nothing; it says "well done"`,
		},
	} {
		f := newFake(t)
		f.run = says(func(string, string) string { return answer })
		if got := faults(t, f, p); !slices.Equal(got, want) {
			t.Errorf("%q: %q", answer, got)
		}
		for _, r := range f.runs {
			if r.Input != nil || r.Judge.Kind != sandbox.Interactor {
				t.Errorf("%+v", r)
			}
		}
	}
	f := newFake(t)
	f.run = says(func(string, string) string { return "" })
	if got := faults(t, f, p); len(got) != 2 || !strings.Contains(got[0], "broke its contract") {
		t.Errorf("%q", got)
	}
}

func TestAnAnswerThatNoProgramMayWriteIsAFault(t *testing.T) {
	f := newFake(t)
	f.run = func(r sandbox.Run) (sandbox.RunOutcome, error) {
		content, _ := io.ReadAll(r.Input)
		o := ends()
		o.Judge = &sandbox.JudgeOutcome{Answer: []byte("WRONG\n")}
		o.Judge.Stop = sandbox.OnItsOwn
		if len(content) > 0 {
			o.Stop, o.Capped = sandbox.Output, true
		}
		return o, nil
	}
	if got := faults(t, f, open(t, withChecker, allAnswers)); len(got) != 3 || !strings.Contains(got[0], "longer than a program may write") {
		t.Errorf("%q", got)
	}
}

func TestTryingFailsWithTheMachineAndDoesNothingWithoutAJudgingProgram(t *testing.T) {
	f := newFake(t)
	if got := faults(t, f, open(t)); got != nil || len(f.runs)+len(f.builds) != 0 {
		t.Errorf("%q, %d runs", got, len(f.runs))
	}
	for name, run := range map[string]func(sandbox.Run) (sandbox.RunOutcome, error){
		"no daemon": func(sandbox.Run) (sandbox.RunOutcome, error) { return sandbox.RunOutcome{}, errors.New("no daemon") },
		"our own program is stopped": func(r sandbox.Run) (sandbox.RunOutcome, error) {
			o, err := says(func(string, string) string { return "OK\n" })(r)
			o.Stop = sandbox.WallClock
			return o, err
		},
	} {
		f := newFake(t)
		f.run = run
		b, err := bench(t, f, open(t, withChecker), 1)
		if err != nil {
			t.Fatal(err)
		}
		found, err := b.TryJudging(t.Context(), nil)
		var fault *PackageFault
		if found != nil || err == nil || errors.As(err, &fault) || !strings.Contains(err.Error(), "trying the judging program on test 0a") {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

func TestEveryLanguageHasProgramsToTryAJudgingProgramWith(t *testing.T) {
	for _, toolchain := range langimages.Default().Offered() {
		if repeaters[toolchain.Family] == "" || silents[toolchain.Family] == "" {
			t.Errorf("none for %s", toolchain.ID)
		}
	}
	if fmt.Sprint(len(repeaters), len(silents)) != "3 3" {
		t.Error("a program for no language")
	}
}
