package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/mutant"
	"github.com/evalhost/evalhost/services/internal/verdict"
	"github.com/evalhost/evalhost/shim/wire"
)

const (
	// endTimeout is how long the daemon may take to say that a container has ended after its last process has. It is not
	// the program's time: no deadline of the step runs meanwhile (C23).
	endTimeout = 60 * time.Second
	// killTimeout is how long a container is given to be gone after each of the two ways to kill it. It is as generous as
	// endTimeout: a fork bomb or a flood is just what makes the daemon late, and must not turn into a failed job.
	killTimeout = 60 * time.Second
	// spareLife is added to a step's own deadlines to bound the wait for its end, which normally ends long before.
	spareLife = time.Hour
)

// ending is what ended a step. The first word counts and is never lost, however early it is spoken: a choice made before
// anybody waits for it is found by whoever comes to wait (spec/sandbox.md 2).
type ending struct {
	mu   sync.Mutex
	stop Stop
	err  error
	at   time.Time
	done chan struct{}
}

func newEnding() *ending { return &ending{done: make(chan struct{})} }

// choose ends the step for this reason, unless it has ended already.
func (e *ending) choose(stop Stop) { e.settle(stop, nil) }

// fail ends the step as a failure of the machinery.
func (e *ending) fail(err error) { e.settle(0, err) }

func (e *ending) settle(stop Stop, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.done:
	default:
		e.stop, e.err, e.at = stop, err, time.Now()
		close(e.done)
	}
}

// result is what was chosen. Only after done is closed.
func (e *ending) result() (Stop, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stop, e.err
}

// contained is one container with its home, from creation to removal.
type contained struct {
	box    *Sandbox
	id     string
	name   string
	home   *cgroup.Home
	ending *ending

	started bool
	waiting context.CancelFunc
	exited  chan struct{} // closed when the wait is over
	code    int           // exit code of PID 1, after exited
	waitErr error         // why code is not known, after exited
	// These two are of the box, as it was before the container was killed.
	peak      *verdict.Bytes
	untouched bool
}

// contain makes a home and a container in it. make describes the container, given its step.
func (s *Sandbox) contain(ctx context.Context, image, cpuset string, describe func(step) engine.Spec) (*contained, error) {
	img, err := s.image(ctx, image)
	if err != nil {
		return nil, err
	}
	run := cgroup.NewName(s.cfg.Instance)
	home, err := s.driver.Open(ctx, run)
	if err != nil {
		return nil, err
	}
	c := &contained{
		box: s, name: containerName(run), home: home, ending: newEnding(), exited: make(chan struct{}),
	}
	if err := (Processors{Siblings: threadsOfCore}).checkHome(home.Processors(), cpuset, len(s.cfg.Lanes)); err != nil {
		return nil, errors.Join(err, home.Close(ctx))
	}
	began := time.Now()
	c.id, err = s.engine.Create(ctx, describe(step{
		run: run, instance: s.cfg.Instance, image: img, home: home, cpuset: cpuset,
	}))
	s.watch.PhaseTook(Create, time.Since(began))
	if err != nil {
		// The daemon may have made it all the same, if it answered too late. It is removed by name.
		return nil, errors.Join(err, s.engine.Remove(ctx, c.name), home.Close(ctx))
	}
	return c, nil
}

// start starts the container and begins to wait for its end, for at most life.
func (c *contained) start(ctx context.Context, life time.Duration) error {
	c.started = true
	began := time.Now()
	err := c.box.engine.Start(ctx, c.id)
	started := time.Now()
	c.box.watch.PhaseTook(Start, started.Sub(began))
	if err != nil {
		close(c.exited)
		return err
	}
	// The wait outlives the call that began it, and ends at the latest with remove.
	ctx, c.waiting = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(c.exited)
		c.code, c.waitErr = c.box.engine.Wait(ctx, c.id, plus(life, spareLife))
		c.box.watch.PhaseTook(Running, time.Since(started))
		if c.waitErr != nil && !mutant.Off(mutant.ExitCode) {
			c.ending.fail(c.waitErr)
			return
		}
		c.ending.choose(OnItsOwn)
	}()
	return nil
}

// supervise looks at a started container until it has ended, by itself or by being stopped, and is gone. since is when
// its deadlines began, zero the home's reading at that moment, moved the bytes that have crossed so far (spec/sandbox.md
// 2 and 5.2).
func (c *contained) supervise(ctx context.Context, w *watch, since time.Time, zero cgroup.Reading, moved func() verdict.Bytes) (Stop, error) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-c.ending.done:
			return c.finish(ctx)
		case <-ctx.Done():
			c.ending.fail(ctx.Err())
		case <-ticker.C:
			l, alive, err := c.look(zero)
			if err != nil {
				c.ending.fail(err)
				continue
			}
			if !alive {
				// The daemon has not said so yet, and the time it takes is not the program's.
				c.ending.choose(OnItsOwn)
				continue
			}
			l.elapsed, l.moved = time.Since(since), moved()
			if stop := w.see(l); stop != 0 {
				c.ending.choose(stop)
			}
		}
	}
}

// look reads the home, as differences from zero. alive is false once no process is left in it.
func (c *contained) look(zero cgroup.Reading) (l look, alive bool, err error) {
	now, err := c.home.Read()
	if err != nil {
		return look{}, false, err
	}
	l.pressure = now.Pressure
	l.cpu = readings{zero: zero, end: now}.cpu()
	return l, now.Populated == nil || *now.Populated, nil
}

// finish ends a container whose end was chosen. The choice comes first and the kill after it: a kill inside the choice
// would let the exit it causes be taken for the program's own. Its error says that the container may still be there, or
// that nobody knows how it ended: a program may have ended before the daemon lost track of it, and without its exit code
// there is no outcome.
func (c *contained) finish(ctx context.Context) (Stop, error) {
	stop, err := c.ending.result()
	if stop != OnItsOwn {
		err = errors.Join(err, c.kill(ctx))
	} else if !isClosedWithin(c.exited, endTimeout) {
		err = errors.Join(fmt.Errorf("sandbox: the program in the container %s has ended and the daemon does not say so within "+
			"%v; nothing is said about the submission; look at the daemon's journal", c.name, endTimeout), c.kill(ctx))
	}
	if err == nil && !mutant.Off(mutant.ExitCode) {
		err = c.waitErr
	}
	return stop, err
}

// wall is the time from a moment to the end that was chosen.
func (c *contained) wall(since time.Time) time.Duration {
	c.ending.mu.Lock()
	defer c.ending.mu.Unlock()
	return max(c.ending.at.Sub(since), 0)
}

// kill ends everything in the container and waits until it is gone.
func (c *contained) kill(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	// The box goes with the container.
	c.peak = c.home.BoxPeak(wire.BoxCgroup)
	// Of an image's own shim it is not known when it makes a box.
	c.untouched = c.box.cfg.Shim != "" && c.home.BoxUntouched(wire.BoxCgroup)
	err := c.home.Kill()
	if err == nil && isClosedWithin(c.exited, killTimeout) {
		return nil
	}
	if err := c.box.engine.Kill(ctx, c.id); err != nil {
		return err
	}
	if !isClosedWithin(c.exited, killTimeout) {
		return fmt.Errorf("sandbox: the container %s was killed and does not end within %v: a process in it may hang in the "+
			"kernel; look at this machine's kernel log", c.name, killTimeout)
	}
	return nil
}

// read takes the last readings of a container that has ended.
func (c *contained) read(ctx context.Context, zero cgroup.Reading) (readings, error) {
	end, err := c.measure()
	if err != nil {
		return readings{}, err
	}
	state, err := c.box.engine.Inspect(ctx, c.id)
	if err != nil {
		return readings{}, err
	}
	return readings{zero: zero, end: end, oomFlag: state.OOMKilled, box: c.peak, untouched: c.untouched}, nil
}

// remove removes the container and its home. What cannot be removed is swept later.
func (c *contained) remove(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	began := time.Now()
	err := c.box.engine.Remove(ctx, c.id)
	if c.waiting != nil {
		c.waiting()
		<-c.exited // the wait has ended with its context
	}
	err = errors.Join(err, c.home.Close(ctx))
	c.box.watch.PhaseTook(Remove, time.Since(began))
	if err != nil {
		c.box.watch.RemovalFailed()
	}
	return err
}

// isClosedWithin waits for a channel to be closed, for at most atMost.
func isClosedWithin(ch <-chan struct{}, atMost time.Duration) bool {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-ch:
		return true
	case <-timer.C:
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}
}
