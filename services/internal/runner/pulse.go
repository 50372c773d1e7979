package runner

import (
	"context"
	"sync"
	"time"
)

// aliveEvery is how often the watchdog is fed at most; see protocol.WithAlive.
const aliveEvery = 10 * time.Second

// readyAtMost bounds a question to the machine for the watchdog: about thirty requirements of 20 s each at the very most.
const readyAtMost = 15 * time.Minute

// allowance is what the watchdog is told by: the step under way and until when it may take.
type allowance struct {
	mu    sync.Mutex
	doing string
	until time.Time
}

func (a *allowance) begin(doing string, atMost time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.doing, a.until = doing, time.Now().Add(atMost)
}

func (a *allowance) get() (string, time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.doing, a.until
}

// attend runs f on a goroutine of its own and waits for it on this one, which feeds the watchdog as long as the step that
// f said last is within its time. A step that overruns is said once and not fed: the service manager then ends the process
// with a dump of all goroutines, and the lease returns the work.
func (r *Runner) attend(ctx context.Context, doing string, atMost time.Duration, f func(step func(Step))) {
	var a allowance
	a.begin(doing, atMost)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(func(s Step) { a.begin(s.Doing, s.AtMost) })
	}()
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for told := false; ; {
		if doing, until := a.get(); time.Now().Before(until) {
			r.o.Notify.Alive()
			told = false
		} else if !told {
			told = true
			r.log.ErrorContext(ctx, "a step takes longer than it can; the watchdog is not fed any more", "step", doing)
		}
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}
