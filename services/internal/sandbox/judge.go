package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/mutant"
	"github.com/evalhost/evalhost/shim/wire"
)

// beside is the judge of a run: its container, and what goes to and comes from it. The two containers are joined by
// nothing but the Runner's copying.
//
// Its clock is 30 s from the submission's end, with an outer bound of the submission's absolute cap and 30 s from go: a
// judge waits for a slow but legal submission, and must not be charged for that (decisions 9). The submission's end is for a
// checker the end of its output or its stop; for an interactor, which waits for it in both directions, the end of its container
// or its stop. Its own end never ends the submission: a verdict that depended on which of the two came first would depend on
// scheduling (C7).
type beside struct {
	judge Judge
	c     *contained
	dir   string // its channels
	bound time.Duration
	queue *queue     // what the submission wrote and the judge has not read
	said  *collector // of a checker
	began time.Time
	zero  cgroup.Reading
}

// start starts the judge; its home is read just before, so that all of its container's time is its own.
func (b *beside) start(ctx context.Context) (err error) {
	if b.zero, err = b.c.measure(); err != nil {
		return err
	}
	b.began = time.Now()
	return b.c.start(ctx, b.bound)
}

// prepareJudge makes the judge's channels and container, and does not start it.
func (p *Prepared) prepareJudge(ctx context.Context, cpuset string) (*beside, error) {
	judge := *p.run.Judge
	b := &beside{judge: judge, queue: newQueue(), bound: plus(DeadlinesFor(p.run.Limits.Time).Cap, p.job.box.clock)}
	var err error
	if b.dir, err = p.job.mkdir(filepath.Base(p.dir), "beside"); err != nil {
		return nil, err
	}
	channels := []string{p.run.Test + ".out"}
	if judge.Kind == Interactor {
		channels = []string{toJudge, fromJudge, verdictOf}
	}
	for _, name := range channels {
		// The judge is nobody and opens them by name.
		if err := makeFIFO(filepath.Join(b.dir, name), 0o666); err != nil {
			return nil, err
		}
	}
	program, err := p.job.place(judge.Program, -1)
	if err != nil {
		return nil, err
	}
	tests := judge.Tests
	if tests == "" { // an interactive package may have no test files at all
		if tests, err = p.job.mkdir(filepath.Base(p.dir), "no-tests"); err != nil {
			return nil, err
		}
	}
	if mutant.Off(mutant.JudgeLane) {
		cpuset = ""
	}
	profile, said := checkerProfile, ""
	if judge.Kind == Interactor {
		profile = interactorProfile
	} else {
		if said, err = p.job.mkdir(filepath.Base(p.dir), "said"); err != nil {
			return nil, err
		}
		if b.said, err = newCollector(said, judgeOutput); err != nil {
			return nil, err
		}
	}
	b.c, err = p.job.box.contain(ctx, judge.Image, cpuset, func(s step) engine.Spec {
		return profile(s, judging{
			command: judge.Command, program: program, tests: tests, channels: b.dir, said: said, test: p.run.Test, group: judge.Group,
		})
	})
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// close gives up what the Runner holds of the judge's channels.
func (b *beside) close() {
	if b.said != nil {
		b.said.close()
	}
}

// run sees a started judge to its end. Whatever it starts has ended when it returns.
func (b *beside) run(outer context.Context, g *going) (JudgeOutcome, error) {
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	input := g.Prepared.run.Test + ".out"
	var answer *answerReader
	if b.judge.Kind == Checker {
		b.said.follow(ctx, b.c, b.bound)
	} else {
		input = toJudge
		var err error
		if answer, err = readAnswer(ctx, filepath.Join(b.dir, verdictOf), b.c); err != nil {
			return JudgeOutcome{}, errors.Join(err, b.c.kill(ctx))
		}
	}
	var undelivered error // after tasks
	tasks.Go(func() {
		err := deliver(ctx, b.queue, filepath.Join(b.dir, input), b.c.exited, b.bound)
		switch {
		case err == nil, errors.Is(err, unix.EPIPE), wasGivenUp(err), mutant.Off(mutant.CutShort): // it left, or the run is over
		case errors.Is(err, errNobody):
			g.log.Warn("a judging program never opened its channel", "judge", b.c.name, "channel", input)
		default:
			// What it got is the beginning of the output at best, and its word on that would be a word on the submission.
			undelivered = fmt.Errorf("sandbox: carrying the submission's output to its judge: %w", err)
			b.c.ending.fail(undelivered)
		}
	})

	stop, err := b.wait(ctx, g.ended)
	if err != nil {
		cancel() // it may live on, and nobody asks for its word any more
	}
	o := JudgeOutcome{}
	flooded := false
	if b.said != nil {
		var joinErr error
		flooded, joinErr = b.said.join()
		err = errors.Join(err, joinErr)
		o.Answer, o.Stderr = b.said.stdout, b.said.stderr
	} else {
		o.Answer, flooded = answer.join()
	}
	cancel()
	tasks.Wait()
	if err == nil {
		err = undelivered
	}
	if err != nil {
		return JudgeOutcome{}, err
	}
	r, err := b.c.read(outer, b.zero)
	if err != nil {
		return JudgeOutcome{}, err
	}
	if flooded {
		stop = Output
	}
	if o.Outcome, err = settleUnjudged(stop, b.c.code, r); err != nil {
		return JudgeOutcome{}, err
	}
	o.Wall, o.Capped, o.Deadlines = b.c.wall(b.began), flooded, untimed(b.bound)
	return o, nil
}

// wait lets the judge end by itself until its clock has run out. A judge whose context is over has no word on the submission:
// the delivery ended with the context, and what it read may be the beginning of the output only.
func (b *beside) wait(ctx context.Context, ended <-chan struct{}) (Stop, error) {
	outer := time.NewTimer(b.bound)
	defer outer.Stop()
	var clock <-chan time.Time
	for {
		select {
		case <-b.c.ending.done:
			stop, err := b.c.finish(ctx)
			if err == nil {
				err = ctx.Err()
			}
			return stop, err
		case <-ended:
			timer := time.NewTimer(b.c.box.clock)
			defer timer.Stop()
			clock, ended = timer.C, nil
		case <-clock:
			if !mutant.Off(mutant.JudgeClock) {
				b.c.ending.choose(WallClock)
			}
		case <-outer.C:
			if !mutant.Off(mutant.JudgeClock) {
				b.c.ending.choose(WallClock)
			}
		case <-ctx.Done():
			b.c.ending.fail(ctx.Err())
		}
	}
}

// feed carries what an interactor says to the submission's standard input (spec/sandbox.md 6.3). When the submission is
// gone it goes on reading: an interactor must not die of a broken pipe because a participant's program left early (C34).
// When the interactor is gone, or never came, it ends the submission's input; so it lives as long as the longer of both.
func (b *beside) feed(ctx context.Context, g *going) {
	in, err := openInlet(filepath.Join(b.dir, fromJudge))
	if err != nil {
		g.sub.ending.fail(err)
		return
	}
	defer in.Close()
	release := in.stopOn(ctx)
	defer release()
	// The shim waits in its own open for this one; it must not wait for the interactor's first word.
	out, err := openOutlet(ctx, filepath.Join(g.dir, "run", filepath.Base(wire.StdinPath)), g.sub.exited, openDeadline)
	if err != nil {
		// A submission without an input has done nothing wrong: its shim would wait in its open, and be stopped for that
		// (spec/sandbox.md 5.5 #1). Where the container is gone, its end was chosen before that could be seen, and stands.
		if !mutant.Off(mutant.InputOwed) {
			g.sub.ending.fail(err)
		}
	} else {
		g.fed.Store(true)
		// Parked in a write to a submission that does not read; its end breaks the pipe.
		defer writeUntil(ctx, out)()
	}
	closeOut := func() {
		if out != nil {
			_ = out.Close()
			out = nil
		}
	}
	defer closeOut()
	if err := in.await(ctx, b.c.exited, b.bound); err != nil {
		if !errors.Is(err, errNobody) { // an interactor that never came ends the input, and its own end is judged
			g.cutShort(err)
		}
		return
	}
	buf := make([]byte, relayBuffer)
	for {
		n, err := in.Read(buf)
		if n > 0 && out != nil {
			written, werr := out.Write(buf[:n])
			g.moved.Add(int64(written))
			if werr != nil {
				if !errors.Is(werr, unix.EPIPE) {
					g.cutShort(werr)
				}
				closeOut()
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				g.cutShort(err)
			}
			return
		}
	}
}

// cutShort fails a run whose input could not be carried to its end, unless the carrying was ended by its context. It comes
// before the input is closed: the submission must not be judged on what it makes of a part of it.
func (g *going) cutShort(err error) {
	if !wasGivenUp(err) && !mutant.Off(mutant.CutShort) {
		g.sub.ending.fail(fmt.Errorf("sandbox: carrying the interactor's words to the submission: %w", err))
	}
}

// wasGivenUp says whether an error is the end of a context, seen directly or through the deadline that it sets on a channel.
func wasGivenUp(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// answerReader reads what an interactor writes into its verdict channel, for as long as its container lives and its context does: it
// may open the channel late, and more than once.
type answerReader struct {
	done    chan struct{}
	bytes   []byte // these two after done
	flooded bool
}

func readAnswer(ctx context.Context, path string, c *contained) (*answerReader, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("sandbox: opening the channel %s for reading: %w", path, err)
	}
	a := &answerReader{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		defer unix.Close(fd)
		pause := time.NewTicker(pollEvery)
		defer pause.Stop()
		for gone := false; ; {
			a.drain(fd, c)
			if gone {
				return
			}
			select {
			case <-pause.C:
			case <-c.exited:
				gone = true
			case <-ctx.Done():
				gone = true
			}
		}
	}()
	return a, nil
}

// drain reads what is there now.
func (a *answerReader) drain(fd int, c *contained) {
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		room := max(int(judgeOutput)-len(a.bytes), 0)
		a.bytes = append(a.bytes, buf[:min(n, room)]...)
		if n > room && !a.flooded {
			a.flooded = true
			c.ending.choose(Output)
		}
	}
}

// join waits for the end of the reading; the container must have ended.
func (a *answerReader) join() (answer []byte, flooded bool) {
	<-a.done // ends with the container, and reads without waiting
	return a.bytes, a.flooded
}

// check refuses a Judge that cannot be run.
func (j Judge) check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if j.Kind != Checker && j.Kind != Interactor {
		wrong("the judge's kind is %d", j.Kind)
	}
	if j.Image == "" || len(j.Command) == 0 || j.Program == nil {
		wrong("the judge has no image, no command or no program")
	}
	if j.Tests == "" && j.Kind == Checker {
		wrong("a checker needs the directory of the tests")
	}
	if j.Tests != "" && !filepath.IsAbs(j.Tests) {
		wrong("the judge's tests are at %q, expected an absolute path", j.Tests)
	}
	return errors.Join(errs...)
}
