//go:build !guest

package sandbox

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/evalhost/evalhost/shim/wire"
)

// spoiled judges a run whose scratch is changed between its preparation and its go.
func (l *lab) spoiled(r Run, spoil func(p *Prepared) error) (RunOutcome, error) {
	l.t.Helper()
	p, err := l.job.Prepare(l.t.Context(), r)
	if err != nil {
		l.t.Fatal(err)
	}
	if err := spoil(p); err != nil {
		l.t.Error(err)
	}
	o, err := p.Go(l.t.Context())
	if err := p.Close(); err != nil {
		l.t.Error(err)
	}
	return o, err
}

// The shim opens the input before the submission runs. Its own milliseconds after go are not the submission's, and the deadline that
// ends its waiting is no time limit.
func TestAnInputThatNobodyOpensIsNoOutcome(t *testing.T) {
	atItsInput := func(ctx context.Context, c *box) int {
		out, _ := os.OpenFile(c.host(wire.StdoutPath), os.O_WRONLY, 0)
		defer out.Close()
		report, _ := os.OpenFile(c.host(wire.ReportPath), os.O_WRONLY, 0)
		defer report.Close()
		c.burn(60 * ms)
		<-ctx.Done()
		return 0
	}
	for name, spoil := range map[string]func(*Prepared) error{
		"the shim never gets there": func(*Prepared) error { return nil },
		"the Runner cannot": func(p *Prepared) error {
			return os.Remove(filepath.Join(p.dir, "run", filepath.Base(wire.StdinPath)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, &fakeDaemon{judged: atItsInput, other: interactor(func(_ context.Context, _ *box, in *bufio.Reader, _ *os.File) (string, int) {
				io.Copy(io.Discard, in)
				return "WRONG\nnothing was said\n", 0
			})})
			r := l.judgedBy(Interactor)
			r.Limits.Time = ms
			if o, err := l.spoiled(r, spoil); err == nil {
				t.Errorf("ended as %v with %d after %v", o.Stop, o.ExitCode, o.Wall)
			}
		})
	}
}

// Each side would take the end of its channel for the end of what the other said.
func TestAChannelThatBreaksBetweenTheTwoIsNoOutcome(t *testing.T) {
	for name, test := range map[string]struct {
		kind    JudgeKind
		channel string
	}{
		"from the interactor": {Interactor, fromJudge},
		"to the interactor":   {Interactor, toJudge},
		"to the checker":      {Checker, "1a.out"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, &fakeDaemon{
				judged: underShim(func(_ context.Context, _ *box, in, _ *os.File) int {
					io.Copy(io.Discard, in)
					return 5
				}),
				other: func(_ context.Context, c *box) int {
					time.Sleep(50 * ms)
					return 0
				},
			})
			// A directory cannot be read from or written to, whoever opens it.
			if o, err := l.spoiled(l.judgedBy(test.kind), func(p *Prepared) error {
				path := filepath.Join(p.peer.dir, test.channel)
				return errors.Join(os.Remove(path), os.Mkdir(path, 0o755))
			}); err == nil {
				t.Errorf("ended as %v with %d; the judge %v with %d", o.Stop, o.ExitCode, o.Judge.Stop, o.Judge.ExitCode)
			}
		})
	}
}

// A judge that outlives its killing is waited for only as long as a kill is.
func TestAnAnswerIsWaitedForOnlyAsLongAsItIsAskedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), verdictOf)
	if err := makeFIFO(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	answer, err := readAnswer(ctx, path, &contained{ending: newEnding(), exited: make(chan struct{})})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if !isClosedWithin(answer.done, time.Minute) {
		t.Error("the answer of a container that lives on is still waited for")
	}
}

// An interactor that outlives its killing keeps its channels open. Who carries its words waits for it no longer than the kill does.
func TestAnInteractorThatOutlivesItsKillHoldsNoRun(t *testing.T) {
	l := newLab(t, &fakeDaemon{
		undying: true,
		judged:  underShim(says("42\n")),
		other: interactor(func(ctx context.Context, _ *box, _ *bufio.Reader, _ *os.File) (string, int) {
			<-ctx.Done()
			return "", 1
		}),
	})
	l.box.clock = 100 * ms
	p, err := l.job.Prepare(t.Context(), l.judgedBy(Interactor))
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		if o, err := p.Go(t.Context()); err == nil {
			t.Errorf("ended as %v, the judge %+v", o.Stop, o.Judge)
		}
	}()
	if !isClosedWithin(over, 20*time.Second) {
		t.Error("the run is still waited for")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	<-over
}
