//go:build !guest

package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// judgedBy makes a run's output go to a judge.
func (l *lab) judgedBy(kind JudgeKind) Run {
	r := l.plain(nil)
	r.Output = nil
	r.Judge = &Judge{Kind: kind, Image: "judge", Command: []string{"/program/program"}, Program: r.Program, Tests: l.dir, Group: 7}
	if kind == Interactor {
		r.Input = nil
	}
	return r
}

// checker is a judge that gets its input channel's host path.
func checker(do func(ctx context.Context, c *box, path string) int) program {
	return func(ctx context.Context, c *box) int { return do(ctx, c, c.host("/answers/1a.out")) }
}

// reading reads a channel to its end, and is freed by a kill.
func readingAll(ctx context.Context, path string) []byte {
	f, err := opening(ctx, path, os.O_RDONLY)
	if err != nil {
		return nil
	}
	defer f.Close()
	defer context.AfterFunc(ctx, func() { f.Close() })()
	got, _ := io.ReadAll(f)
	return got
}

func says(text string) submission {
	return func(_ context.Context, _ *box, _, out *os.File) int {
		out.WriteString(text)
		return 0
	}
}

func TestACheckerReadsTheWholeOutputAndAnswers(t *testing.T) {
	l := newLab(t, &fakeDaemon{
		judged: underShim(says("42\n")),
		other: checker(func(ctx context.Context, c *box, path string) int {
			c.say(false, fmt.Sprintf("OK\n%s %s %q\n", c.env("AJ_TEST"), c.env("AJ_GROUP"), readingAll(ctx, path)))
			c.say(true, "a remark")
			c.burn(80 * ms)
			return 0
		}),
	})
	o, err := l.judge(l.judgedBy(Checker))
	if err != nil || o.Stop != OnItsOwn || o.OutputBytes != 3 || o.Judge == nil {
		t.Fatalf("outcome %+v, %v", o, err)
	}
	if string(o.Judge.Answer) != "OK\n1a 7 \"42\\n\"\n" || string(o.Judge.Stderr) != "a remark" || o.Judge.Stop != OnItsOwn {
		t.Errorf("the checker %v said %q and %q", o.Judge.Stop, o.Judge.Answer, o.Judge.Stderr)
	}
	if *o.Judge.CPU != 30*ms {
		t.Errorf("the checker was measured at %v", *o.Judge.CPU)
	}
}

func TestASlowCheckerDoesNotHoldTheSubmissionUp(t *testing.T) {
	const size = 1 << 20 // more than two channels hold
	ended := make(chan struct{})
	l := newLab(t, &fakeDaemon{
		judged: underShim(func(_ context.Context, _ *box, _, out *os.File) int {
			out.WriteString(strings.Repeat("x", size))
			close(ended)
			return 0
		}),
		other: checker(func(ctx context.Context, c *box, path string) int {
			select {
			case <-ended: // it begins to read when the submission has written everything
			case <-ctx.Done():
			}
			c.say(false, fmt.Sprint(len(readingAll(ctx, path))))
			return 0
		}),
	})
	o, err := l.judge(l.judgedBy(Checker))
	if err != nil || o.Stop != OnItsOwn || string(o.Judge.Answer) != fmt.Sprint(size) {
		t.Fatalf("outcome %v, %v", o.Stop, err)
	}
}

// A stop cuts off what is still to be delivered, and a quick judge may see that as the end of the output.
func TestAJudgeThatEndsWhileItIsGivenUpHasSaidNothing(t *testing.T) {
	for range 20 { // whichever of the two is seen first
		ctx, cancel := context.WithCancel(t.Context())
		c := &contained{ending: newEnding(), exited: make(chan struct{})}
		b := &beside{c: c, bound: time.Minute}
		cancel()
		c.ending.choose(OnItsOwn)
		close(c.exited)
		if stop, err := b.wait(ctx, make(chan struct{})); !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, %v", stop, err)
		}
	}
}

func TestC7ACheckersExitNeverStopsTheSubmission(t *testing.T) {
	for name, do := range map[string]func(context.Context, *box, string) int{
		"without opening its channel": func(context.Context, *box, string) int { return 0 },
		"after reading a little": func(_ context.Context, _ *box, path string) int {
			f, _ := os.Open(path)
			defer f.Close()
			f.Read(make([]byte, 1))
			return 0
		},
		"with a crash": func(context.Context, *box, string) int { return 139 },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, &fakeDaemon{
				judged: underShim(func(_ context.Context, _ *box, _, out *os.File) int {
					for range 30 {
						out.Write(make([]byte, 10_000))
						time.Sleep(3 * ms)
					}
					return 4
				}),
				other: checker(do),
			})
			o, err := l.judge(l.judgedBy(Checker))
			if err != nil || o.Stop != OnItsOwn || o.ExitCode != 4 || o.OutputBytes != 300_000 {
				t.Errorf("outcome %v, code %d, %d bytes, %v", o.Stop, o.ExitCode, o.OutputBytes, err)
			}
		})
	}
}

func TestACheckerThatFloodsIsStoppedAndTheSubmissionIsNot(t *testing.T) {
	l := newLab(t, &fakeDaemon{
		judged: underShim(says("x")),
		other: checker(func(ctx context.Context, c *box, _ string) int {
			for ctx.Err() == nil {
				c.say(false, strings.Repeat("y", 1000))
				time.Sleep(ms / 4)
			}
			return 0
		}),
	})
	o, err := l.judge(l.judgedBy(Checker))
	if err != nil || o.Stop != OnItsOwn || o.Judge.Stop != Output || !o.Judge.Capped || verdict.Bytes(len(o.Judge.Answer)) != judgeOutput {
		t.Errorf("submission %v, judge %+v, %v", o.Stop, o.Judge, err)
	}
}

func TestACheckersMachineryFailingFailsTheRun(t *testing.T) {
	l := newLab(t, &fakeDaemon{
		judged: underShim(func(ctx context.Context, _ *box, _, _ *os.File) int {
			<-ctx.Done()
			return 0
		}),
		other: checker(func(_ context.Context, c *box, _ string) int {
			c.set("memory.events", "oom 0\noom_kill 1\n")
			return 137
		}),
	})
	if o, err := l.judge(l.judgedBy(Checker)); err == nil {
		t.Errorf("outcome %v", o.Stop)
	}
}

func TestTheOutputCapHoldsWithACheckerToo(t *testing.T) {
	l := newLab(t, &fakeDaemon{
		judged: underShim(func(ctx context.Context, _ *box, _, out *os.File) int {
			for ctx.Err() == nil {
				out.Write(make([]byte, 1<<18))
			}
			return 0
		}),
		other: checker(func(ctx context.Context, c *box, path string) int {
			c.say(false, fmt.Sprintf("%v", verdict.Bytes(len(readingAll(ctx, path))) <= labCap))
			return 0
		}),
	})
	o, err := l.judge(l.judgedBy(Checker))
	if err != nil || o.Stop != Output || !o.Capped || string(o.Judge.Answer) != "true" {
		t.Errorf("outcome %v, capped %v, the checker got no more than the cap: %s, %v", o.Stop, o.Capped, o.Judge.Answer, err)
	}
}

// interactor opens its channels in the order its shell does, and its verdict channel at the end.
func interactor(do func(ctx context.Context, c *box, in *bufio.Reader, out *os.File) (said string, exit int)) program {
	return func(ctx context.Context, c *box) int {
		in, err := opening(ctx, c.host("/answers/to-the-judge"), os.O_RDONLY)
		if err != nil {
			return 98
		}
		defer in.Close()
		out, err := opening(ctx, c.host("/answers/from-the-judge"), os.O_WRONLY)
		if err != nil {
			return 99
		}
		defer out.Close()
		defer context.AfterFunc(ctx, func() { in.Close(); out.Close() })()
		said, exit := do(ctx, c, bufio.NewReader(in), out)
		if said != "" {
			verdict, err := opening(ctx, c.host("/answers/verdict"), os.O_WRONLY)
			if err != nil {
				return 97
			}
			verdict.WriteString(said)
			verdict.Close()
		}
		return exit
	}
}

func TestAnInteractorAndASubmissionTalk(t *testing.T) {
	l := newLab(t, &fakeDaemon{
		judged: underShim(func(_ context.Context, _ *box, in, out *os.File) int {
			from := bufio.NewReader(in)
			for range 3 {
				line, err := from.ReadString('\n')
				if err != nil {
					return 1
				}
				fmt.Fprintf(out, "you said %s", line)
			}
			return 0
		}),
		other: interactor(func(_ context.Context, _ *box, in *bufio.Reader, out *os.File) (string, int) {
			var heard []string
			for i := range 3 {
				fmt.Fprintf(out, "%d\n", i)
				line, _ := in.ReadString('\n')
				heard = append(heard, strings.TrimSpace(line))
			}
			return "OK\n" + strings.Join(heard, ",") + "\n", 0
		}),
	})
	o, err := l.judge(l.judgedBy(Interactor))
	if err != nil || o.Stop != OnItsOwn || o.ExitCode != 0 {
		t.Fatalf("outcome %v, code %d, %v", o.Stop, o.ExitCode, err)
	}
	if string(o.Judge.Answer) != "OK\nyou said 0,you said 1,you said 2\n" {
		t.Errorf("the interactor said %q", o.Judge.Answer)
	}
}

func TestC34AnEarlyExitDoesNotBreakTheInteractor(t *testing.T) {
	l := newLab(t, &fakeDaemon{
		judged: underShim(func(context.Context, *box, *os.File, *os.File) int { return 0 }),
		other: interactor(func(_ context.Context, _ *box, in *bufio.Reader, out *os.File) (string, int) {
			io.Copy(io.Discard, in) // the submission has left
			for range 100 {
				if _, err := out.Write(make([]byte, 10_000)); err != nil {
					return "", 141
				}
			}
			return "WRONG\nyou left\n", 0
		}),
	})
	o, err := l.judge(l.judgedBy(Interactor))
	if err != nil || o.Stop != OnItsOwn || o.Judge.ExitCode != 0 || string(o.Judge.Answer) != "WRONG\nyou left\n" {
		t.Errorf("submission %v, judge %+v, %v", o.Stop, o.Judge, err)
	}
}

func TestAnInteractorThatLeavesEndsTheSubmissionsInput(t *testing.T) {
	l := newLab(t, &fakeDaemon{
		judged: underShim(func(_ context.Context, _ *box, in, _ *os.File) int {
			io.Copy(io.Discard, in)
			return 5
		}),
		other: interactor(func(context.Context, *box, *bufio.Reader, *os.File) (string, int) { return "OK\n", 0 }),
	})
	o, err := l.judge(l.judgedBy(Interactor))
	if err != nil || o.ExitCode != 5 || string(o.Judge.Answer) != "OK\n" {
		t.Errorf("outcome %+v, %v", o, err)
	}
}

func TestAnInteractorThatNeverComesEndsTheSubmissionsInput(t *testing.T) {
	l := newLab(t, &fakeDaemon{
		judged: underShim(func(_ context.Context, _ *box, in, _ *os.File) int {
			io.Copy(io.Discard, in)
			return 5
		}),
		other: func(context.Context, *box) int { return 1 },
	})
	o, err := l.judge(l.judgedBy(Interactor))
	if err != nil || o.ExitCode != 5 || o.Judge.ExitCode != 1 || len(o.Judge.Answer) != 0 {
		t.Errorf("outcome %+v, judge %+v, %v", o, o.Judge, err)
	}
}

func TestC32QueriesWithoutReadingAreNotADeadlock(t *testing.T) {
	const queries = 20_000
	l := newLab(t, &fakeDaemon{
		judged: underShim(func(_ context.Context, _ *box, in, out *os.File) int {
			for range queries {
				out.WriteString("READ 0\n")
			}
			out.Close()
			answers := 0
			for lines := bufio.NewScanner(in); lines.Scan(); answers++ {
			}
			return answers / queries
		}),
		other: interactor(func(_ context.Context, _ *box, in *bufio.Reader, out *os.File) (string, int) {
			for {
				if _, err := in.ReadString('\n'); err != nil {
					return "OK\n", 0
				}
				out.WriteString("the first line of an answer\nthe second\n")
			}
		}),
	})
	o, err := l.judge(l.judgedBy(Interactor))
	if err != nil || o.Stop != OnItsOwn || o.ExitCode != 2 || string(o.Judge.Answer) != "OK\n" {
		t.Errorf("outcome %v, code %d, %v", o.Stop, o.ExitCode, err)
	}
}

func TestAnInteractorsAnswerIsBounded(t *testing.T) {
	l := newLab(t, &fakeDaemon{
		judged: underShim(says("")),
		other: interactor(func(context.Context, *box, *bufio.Reader, *os.File) (string, int) {
			return strings.Repeat("OK\n", 50_000), 0
		}),
	})
	o, err := l.judge(l.judgedBy(Interactor))
	if err != nil || o.Judge.Stop != Output || !o.Judge.Capped || verdict.Bytes(len(o.Judge.Answer)) != judgeOutput {
		t.Errorf("judge %v, capped %v, %d bytes, %v", o.Judge.Stop, o.Judge.Capped, len(o.Judge.Answer), err)
	}
}

func TestTheJudgesClockBeginsAtTheSubmissionsEnd(t *testing.T) {
	l := newLab(t, &fakeDaemon{
		judged: underShim(func(_ context.Context, _ *box, _, out *os.File) int {
			time.Sleep(3 * time.Second) // longer than the judge's whole clock
			out.WriteString("late")
			return 0
		}),
		other: checker(func(ctx context.Context, c *box, path string) int {
			c.say(false, "OK\n"+string(readingAll(ctx, path)))
			return 0
		}),
	})
	l.box.clock = 2 * time.Second
	o, err := l.judge(l.judgedBy(Checker))
	if err != nil || o.Judge.Stop != OnItsOwn || string(o.Judge.Answer) != "OK\nlate" {
		t.Errorf("judge %v said %q, %v", o.Judge.Stop, o.Judge.Answer, err)
	}
}

func TestAJudgeThatDoesNotEndIsStoppedByItsClock(t *testing.T) {
	for _, kind := range []JudgeKind{Checker, Interactor} {
		l := newLab(t, &fakeDaemon{
			judged: underShim(func(_ context.Context, _ *box, _, out *os.File) int {
				// The end of the output is the submission's end for its judge, whatever the program does then.
				out.Close()
				time.Sleep(2 * time.Second)
				return 0
			}),
			other: func(ctx context.Context, _ *box) int {
				<-ctx.Done()
				return 0
			},
		})
		l.box.clock = 100 * ms
		r := l.judgedBy(kind)
		if kind == Interactor { // its program never opens its channels, and the submission waits for its input
			r.Limits.Time = ms
		}
		o, err := l.judge(r)
		if err != nil || o.Judge.Stop != WallClock {
			t.Errorf("%v: judge %+v, %v", kind, o.Judge, err)
		}
		if kind == Checker && (o.Stop != OnItsOwn || o.Judge.Wall > o.Wall) {
			t.Errorf("the submission %v after %v, its judge after %v", o.Stop, o.Wall, o.Judge.Wall)
		}
	}
}

func TestAGivenUpRunLeavesNoJudgeBehind(t *testing.T) {
	for _, kind := range []JudgeKind{Checker, Interactor} {
		hang := func(ctx context.Context, _ *box) int {
			<-ctx.Done()
			return 0
		}
		l := newLab(t, &fakeDaemon{
			judged: underShim(func(ctx context.Context, _ *box, _, _ *os.File) int { return hang(ctx, nil) }),
			other:  hang,
		})
		p, err := l.job.Prepare(t.Context(), l.judgedBy(kind))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		if _, err := p.Go(ctx); err == nil {
			t.Error("a run that hangs had an outcome")
		}
		cancel()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAJudgeThatIsDescribedWronglyIsRefused(t *testing.T) {
	l := newLab(t, &fakeDaemon{})
	for name, spoil := range map[string]func(*Run){
		"no kind":                      func(r *Run) { r.Judge.Kind = 0 },
		"no program":                   func(r *Run) { r.Judge.Program = nil },
		"a checker without tests":      func(r *Run) { r.Judge.Tests = "" },
		"tests at a relative path":     func(r *Run) { r.Judge.Tests = "tests" },
		"an interactor with an input":  func(r *Run) { r.Judge.Kind = Interactor },
		"a checker without an input":   func(r *Run) { r.Input = nil },
		"a judge without a command":    func(r *Run) { r.Judge.Command = nil },
		"a judge without an image":     func(r *Run) { r.Judge.Image = "" },
		"a judge and a sink at a time": func(r *Run) { r.Output = &sink{} },
	} {
		r := l.judgedBy(Checker)
		spoil(&r)
		if p, err := l.job.Prepare(t.Context(), r); err == nil {
			p.Close()
			t.Errorf("%s: prepared", name)
		}
	}
}
