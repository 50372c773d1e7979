package sandbox

import (
	"math"
	"time"

	"github.com/evalhost/evalhost/services/internal/mutant"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// lookEvery is how often a running step is looked at.
const lookEvery = 250 * time.Millisecond

// Deadlines bound a run that would otherwise not end (spec/sandbox.md 5.1). None of them is the time limit: the verdict
// is settled on the measurement afterwards.
type Deadlines struct {
	// Window is how long a timed step may go without progress, and the whole wall clock of an untimed one.
	Window time.Duration
	// Ceiling is the processor time no timed step passes; zero for an untimed step.
	Ceiling time.Duration
	// Cap is the elapsed time no step passes, whatever its progress.
	Cap time.Duration
}

// DeadlinesFor gives the deadlines of a judged run under a time limit: window 4L + 4 s, ceiling L + 2 s, cap five times
// the ceiling. Nothing bounds the limit of a package above, so every sum and product stops at the largest Duration.
func DeadlinesFor(limit time.Duration) Deadlines {
	ceiling := plus(limit, 2*time.Second)
	return Deadlines{
		Window:  plus(times(limit, 4), 4*time.Second),
		Ceiling: ceiling,
		Cap:     times(ceiling, 5),
	}
}

// untimed gives the deadlines of a step that has a wall clock and nothing else.
func untimed(wall time.Duration) Deadlines { return Deadlines{Window: wall, Cap: wall} }

// plus and times are saturating, for arguments that are not negative.
func plus(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times(a time.Duration, n int64) time.Duration {
	if a > math.MaxInt64/time.Duration(n) {
		return math.MaxInt64
	}
	return a * time.Duration(n)
}

// look is what one look at a running step shows. Everything is counted from go.
type look struct {
	elapsed time.Duration
	// cpu is the processor time of the home, pressure the time in which something in it waited for a processor. Both are
	// read in the same look; nil when absent.
	cpu, pressure *time.Duration
	// moved counts the bytes that crossed between the two sides.
	moved verdict.Bytes
}

// watch decides after each look whether a step has to be stopped (spec/sandbox.md 5.2). It is a pure state machine: it
// has no clock, and its zero value with the deadlines filled in is at go.
type watch struct {
	Deadlines

	best     time.Duration  // the most processor time seen
	idle     time.Duration  // consecutive time without progress
	last     time.Duration  // elapsed at the previous look
	pressure *time.Duration // at the previous look
	moved    verdict.Bytes  // at the previous look
}

// see takes one look. The zero Stop means that the step goes on.
func (w *watch) see(l look) Stop {
	if w.Ceiling == 0 {
		// An untimed step is a plain wall clock. Its processor time must not count as progress: an endless loop in a
		// build would run for ever.
		if l.elapsed >= w.Window && !mutant.Off(mutant.WallClock) {
			return WallClock
		}
		return 0
	}

	// Measured time and not the nominal tick: a Runner that was held up must not stretch the window.
	since := max(l.elapsed-w.last, 0)
	w.last = max(l.elapsed, w.last)
	waiting := l.pressure != nil && w.pressure != nil && *l.pressure > *w.pressure && !mutant.Off(mutant.Brake)
	if l.pressure != nil {
		w.pressure = l.pressure
	}
	talked := l.moved > w.moved && !mutant.Off(mutant.Talking)
	w.moved = max(l.moved, w.moved)

	switch {
	case l.cpu != nil && *l.cpu > w.Ceiling && !mutant.Off(mutant.Ceiling):
		return TimeLimit
	case l.cpu != nil && *l.cpu > w.best:
		w.best, w.idle = *l.cpu, 0
	case talked:
		w.idle = 0
	case l.cpu != nil && waiting:
		// Runnable and without a processor: the machine's doing, so the window stands still. The cap goes on.
	default:
		w.idle += since
	}

	if (w.idle < w.Window || mutant.Off(mutant.Window)) && (l.elapsed < w.Cap || mutant.Off(mutant.AbsoluteCap)) {
		return 0
	}
	switch {
	case w.best == 0 && w.moved == 0 && !mutant.Off(mutant.NeverStarted):
		return NeverStarted
	case w.idle >= w.Window:
		return WallClock
	}
	return Overall
}
