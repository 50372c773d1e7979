//go:build !guest

package sandbox

import (
	"bufio"
	"context"
	"io"
	"os"
	"testing"
	"time"
)

// C32: the interactor stands in a write for as long as the submission lives and does not read, however early its output ended.
func TestAnInteractorsClockBeginsWhenTheSubmissionIsGone(t *testing.T) {
	l := newLab(t, &fakeDaemon{
		judged: underShim(func(ctx context.Context, _ *box, _, out *os.File) int {
			out.Close()
			<-ctx.Done()
			return 0
		}),
		other: interactor(func(_ context.Context, _ *box, _ *bufio.Reader, out *os.File) (string, int) {
			for range 100 { // far more than the channels hold
				if _, err := out.Write(make([]byte, 10_000)); err != nil {
					return "", 141
				}
			}
			return "WRONG\nnobody read\n", 0
		}),
	})
	l.box.clock = 2 * time.Second
	r := l.judgedBy(Interactor)
	r.Limits.Time = ms // a window of 4 s
	o, err := l.judge(r)
	if err != nil || o.Stop != WallClock || o.Judge.Stop != OnItsOwn || string(o.Judge.Answer) != "WRONG\nnobody read\n" {
		t.Errorf("submission %v, judge %+v, %v", o.Stop, o.Judge, err)
	}
}

// C31: what an interactor had not read when it was stopped tells a flood from an interactor that would never have ended.
func TestAnInteractorThatIsStoppedBeforeItHasReadEverythingWasBehind(t *testing.T) {
	flood := underShim(func(ctx context.Context, _ *box, _, out *os.File) int {
		for ctx.Err() == nil {
			out.Write(make([]byte, 1<<18))
		}
		return 0
	})
	for name, test := range map[string]struct {
		judged program
		reads  func(ctx context.Context, in io.Reader)
		stop   Stop
		behind bool
	}{
		"a flood on one that reads slowly": {flood, func(ctx context.Context, in io.Reader) {
			for ctx.Err() == nil {
				in.Read(make([]byte, 10))
				time.Sleep(ms)
			}
		}, Output, true},
		"a flood on one that does not read": {flood, func(ctx context.Context, _ io.Reader) { <-ctx.Done() }, Output, true},
		"a flood on one that reads it all and goes on": {flood, func(ctx context.Context, in io.Reader) {
			io.Copy(io.Discard, in)
			<-ctx.Done()
		}, Output, false},
		"a word to one that does not read": {underShim(says("hello\n")), func(ctx context.Context, _ io.Reader) { <-ctx.Done() }, OnItsOwn, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, &fakeDaemon{judged: test.judged, other: interactor(func(ctx context.Context, _ *box, in *bufio.Reader, _ *os.File) (string, int) {
				test.reads(ctx, in)
				return "", 1
			})})
			l.box.clock = time.Second
			o, err := l.judge(l.judgedBy(Interactor))
			if err != nil || o.Stop != test.stop || o.Judge.Stop != WallClock || o.Judge.Behind != test.behind {
				t.Errorf("submission %v, judge %v, behind %v, %v; want %v, %v", o.Stop, o.Judge.Stop, o.Judge.Behind, err, test.stop, test.behind)
			}
		})
	}
}
