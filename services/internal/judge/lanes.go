package judge

import (
	"context"
	"errors"
	"sync"

	"github.com/evalhost/evalhost/services/internal/problem"
)

// tests judges every test, as many at once as there are lanes, and returns how each ended in the order of the census.
// Tests begin in that order too, the free lane with the lowest index first. No verdict ends the work early: only a test
// that could not be judged does. Then no further test begins, those in flight run to their end, and the first such error
// in the order of the census is returned.
func (b *Bench) tests(ctx context.Context, job Job, c candidate, progress Progress) ([]Tested, error) {
	census := b.problem.Tests
	tested, errs := make([]Tested, len(census)), make([]error, len(census))
	free := newLanes(b.Lanes)
	var running sync.WaitGroup
	for i, t := range census {
		lane, ok := free.take()
		if !ok {
			break
		}
		if err := context.Cause(ctx); err != nil {
			errs[i] = atTest(err, t)
			break
		}
		progress(Event{Stage: Testing, Test: t.Name, Number: i + 1, Of: len(census)})
		running.Go(func() {
			tested[i], errs[i] = b.judgeTest(ctx, job, c, t, lane)
			free.give(lane, errs[i] == nil)
		})
	}
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return tested, nil
}

// judgeTest names the test in the error of one that could not be judged.
func (b *Bench) judgeTest(ctx context.Context, job Job, c candidate, t problem.Test, lane int) (Tested, error) {
	tested, err := b.test(ctx, job, c, t, lane)
	if err != nil {
		return Tested{}, atTest(err, t)
	}
	return tested, nil
}

// atTest makes a *Failure of the error of a test.
func atTest(err error, t problem.Test) error {
	f := &Failure{Doing: "judging test " + t.Name, Test: t.Name, Err: err}
	var in inContainer
	if errors.As(err, &in) {
		f.Container = in.name
	}
	return f
}

// inContainer is the error of a run, and where it ran.
type inContainer struct {
	name string
	err  error
}

func (i inContainer) Error() string { return i.err.Error() }

// Unwrap returns what lies beneath.
func (i inContainer) Unwrap() error { return i.err }

// lanes hands out the free lane with the lowest index.
type lanes struct {
	mu      sync.Mutex
	changed *sync.Cond
	free    []bool
	closed  bool
}

func newLanes(n int) *lanes {
	l := &lanes{free: make([]bool, n)}
	for i := range l.free {
		l.free[i] = true
	}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// take waits for a lane; false once nothing may begin any more. A lane always comes free: every run has its deadlines.
func (l *lanes) take() (int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if l.closed {
			return 0, false
		}
		for i, free := range l.free {
			if free {
				l.free[i] = false
				return i, true
			}
		}
		l.changed.Wait()
	}
}

// give takes a lane back; unless goOn, no further lane is handed out.
func (l *lanes) give(lane int, goOn bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free[lane] = true
	l.closed = l.closed || !goOn
	l.changed.Broadcast()
}
