package judge

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/evalhost/evalhost/services/internal/compare"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// allocated is what something allocates in all, freed or not.
func allocated(something func()) verdict.Bytes {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	something()
	runtime.ReadMemStats(&after)
	return verdict.Bytes(after.TotalAlloc - before.TotalAlloc)
}

// widen makes a file of an unpacked package as long as a file of a package may be. It takes no room on the disk.
func widen(t *testing.T, p *problem.Problem, name string) {
	t.Helper()
	if err := os.Truncate(filepath.Join(p.Dir, name), int64(problem.PackageLimits.Entry)); err != nil {
		t.Fatal(err)
	}
}

// An expected output may have 256 MiB; it is read as far as the program's output goes, through a window.
func TestAnExpectedOutputOfAnyLengthIsNotReadIntoMemory(t *testing.T) {
	zeros := make([]byte, 64<<10)
	f := newFake(t)
	f.run = func(r sandbox.Run) (sandbox.RunOutcome, error) {
		o := adds(r, 0)
		for range 64 { // as the expected output goes on, and then no further
			if r.Test == "2a" && r.Output.Write(zeros) {
				t.Error("settled")
			}
		}
		return o, nil
	}
	p := open(t, map[string]string{"tests/2a.out": "3000000\n"})
	widen(t, p, "tests/2a.out")
	b, err := bench(t, f, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	var j *Judged
	if took := allocated(func() { j, err = b.Judge(t.Context(), program, nil) }); took > 8*verdict.MiB {
		t.Errorf("judging allocated %s", took)
	}
	if err != nil || statuses(j) != "0a OK, 1a OK, 2a wrongAnswer" || j.Tests[2].Note != `token 2 differs: got "`+strings.Repeat("\x00", 32)+`…"` {
		t.Errorf("%v, %+v", err, j)
	}
}

func TestAnExpectedAnswerOfAnyLengthIsNotReadIntoMemory(t *testing.T) {
	p := openAnswers(t, twoAnswers())
	widen(t, p, "tests/1a.out")
	answer := upload(t, "1a.out", "A\n")
	if err := os.Truncate(answer.Path, 4<<20); err != nil {
		t.Fatal(err)
	}
	var j *Judged
	if took := allocated(func() { j = marked(t, p, answer) }); took > 8*verdict.MiB {
		t.Errorf("marking allocated %s", took)
	}
	if got := j.Tests[0].Note; got != `token 2 differs: got "`+strings.Repeat("\x00", 32)+`…"` {
		t.Errorf("%q", got)
	}
}

// An expected output that breaks off where an output is right so far decides nothing: neither that all of it was there, nor that
// something is missing, nor that the program was too slow. (One that is wrong before that place is wrong.)
func TestAnExpectedOutputThatCannotBeReadIsAnInfrastructureFailure(t *testing.T) {
	disk := errors.New("the disk says no")
	for _, written := range []string{"30", "30\n", "30 1\n"} {
		for _, stop := range []sandbox.Stop{sandbox.OnItsOwn, sandbox.Decided, sandbox.TimeLimit} {
			f := newFake(t)
			f.run = func(r sandbox.Run) (sandbox.RunOutcome, error) {
				o := ends()
				o.Stop = stop
				r.Output.Write([]byte(written))
				return o, nil
			}
			b, err := bench(t, f, open(t), 1)
			if err != nil {
				t.Fatal(err)
			}
			broken := io.MultiReader(strings.NewReader("30"), iotest.ErrReader(disk))
			run := candidate{}.on(b.problem.Tests[1], tryoutLimits)
			d, _, err := b.decided(t.Context(), fakeJob{f}, run, &output{comparison: compare.New(broken)})
			if !errors.Is(err, disk) {
				t.Errorf("%q, %s: %+v, %v", written, stop, d, err)
			}
		}
		broken := io.MultiReader(strings.NewReader("30"), iotest.ErrReader(disk))
		if result, err := compared(broken, strings.NewReader(written)); !errors.Is(err, disk) || result.Equal {
			t.Errorf("an answer of %q: %+v, %v", written, result, err)
		}
	}
	if result, err := compared(strings.NewReader("30"), iotest.DataErrReader(io.MultiReader(bytes.NewReader([]byte("30")), iotest.ErrReader(disk)))); !errors.Is(err, disk) || result.Equal {
		t.Errorf("an answer that cannot be read: %+v, %v", result, err)
	}
}

// A judging program is shown the package's directory of tests, so it would take a file that was lost for a test without one,
// and say WRONG of a submission that is right.
func TestAFileOfATestThatVanishedIsNotLeftToTheJudgingProgram(t *testing.T) {
	for _, kind := range []string{"checker", "interactor"} {
		for _, lost := range []string{"tests/1a.in", "tests/1a.out"} {
			f := newFake(t)
			f.run = func(r sandbox.Run) (sandbox.RunOutcome, error) {
				o := ends()
				o.Judge = &sandbox.JudgeOutcome{Answer: []byte("WRONG\nI see no answer\n")}
				o.Judge.Stop = sandbox.OnItsOwn
				return o, nil
			}
			p := open(t, map[string]string{
				"config.yml": adder["config.yml"] + kind + ": { source: judge.c, language: c11-gcc }\n", "judge.c": "int main(void){}\n",
			})
			if err := os.Remove(filepath.Join(p.Dir, lost)); err != nil {
				t.Fatal(err)
			}
			b, err := bench(t, f, p, 1)
			if err != nil {
				t.Fatal(err)
			}
			j, err := b.Judge(t.Context(), program, nil)
			var f1 *Failure
			if j != nil || !errors.As(err, &f1) || !strings.Contains(err.Error(), "judging test 1a: "+lost) {
				t.Errorf("%s, without %s: judged %t, %v", kind, lost, j != nil, err)
			}
		}
	}
}

// Without a judging program nothing else would notice: an expected output read as an empty one accepts a program that prints nothing.
func TestAFileOfATestThatVanishedIsAnInfrastructureFailureWithTheBuiltInComparisonToo(t *testing.T) {
	for _, lost := range []string{"tests/1a.in", "tests/1a.out"} {
		f := newFake(t)
		f.run = func(sandbox.Run) (sandbox.RunOutcome, error) { return ends(), nil } // prints nothing
		p := open(t)
		if err := os.Remove(filepath.Join(p.Dir, lost)); err != nil {
			t.Fatal(err)
		}
		b, err := bench(t, f, p, 1)
		if err != nil {
			t.Fatal(err)
		}
		j, err := b.Judge(t.Context(), program, nil)
		var failed *Failure
		if j != nil || !errors.As(err, &failed) || !strings.Contains(err.Error(), "judging test 1a: "+lost) {
			t.Errorf("without %s: judged %t, %v", lost, j != nil, err)
		}
	}
}
