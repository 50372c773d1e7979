package protocol

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"
)

// The two back-offs of the contract (4.2, 6.6): polling and everything like it, and resending an answer.
const (
	PollMin   = 1 * time.Second
	PollMax   = 30 * time.Second
	ReportMin = 5 * time.Second
	ReportMax = 30 * time.Second
)

// MaxRetryAfter bounds what a Retry-After may ask for. A Server under maintenance asks for 30 s; a broken proxy that asks
// for a year must not switch a Runner off.
const MaxRetryAfter = 15 * time.Minute

// backoffFloor is the least a back-off waits, so that a setting of 0 does not spin (4.2).
const backoffFloor = 100 * time.Millisecond

// Backoff doubles from a floor to a ceiling and spreads each wait by a fifth either way (4.2). It belongs to one
// goroutine.
type Backoff struct {
	min, max, cur time.Duration
	draw          func(n int64) int64
}

// NewBackoff makes a back-off. A floor under 100 ms is raised to it, a ceiling under the floor to the floor.
func NewBackoff(floor, ceiling time.Duration) *Backoff {
	floor = max(floor, backoffFloor)
	return &Backoff{min: floor, max: max(ceiling, floor), cur: floor, draw: rand.Int64N}
}

// Next is the wait to take now, already spread; the one after it is twice as long, up to the ceiling.
func (b *Backoff) Next() time.Duration {
	base := b.cur.Milliseconds()
	b.cur = min(2*b.cur, b.max)
	spread := base / 5
	if base < 5 {
		return time.Duration(base) * time.Millisecond
	}
	return time.Duration(base-spread+b.draw(2*spread+1)) * time.Millisecond
}

// Reset returns to the floor.
func (b *Backoff) Reset() { b.cur = b.min }

// HowLong is the wait after a failure: the next step, or what the Server asked for if that is longer. Retry-After
// lengthens a wait and never shortens it (4.2).
func (b *Backoff) HowLong(err error) time.Duration { return max(b.Next(), RetryAfterOf(err)) }

// parseRetryAfter reads the header as the contract does (1.4): an unsigned whole number of seconds, after trimming. A
// date, rubbish and nothing at all are "not given". The result is at most MaxRetryAfter.
func parseRetryAfter(header string) *time.Duration {
	header = strings.TrimSpace(header)
	if header == "" {
		return nil
	}
	var seconds int64
	for _, r := range header {
		if r < '0' || r > '9' {
			return nil
		}
		seconds = min(10*seconds+int64(r-'0'), int64(MaxRetryAfter/time.Second))
	}
	d := time.Duration(seconds) * time.Second
	return &d
}

// aliveEvery is how often a wait says that it is alive.
const aliveEvery = 10 * time.Second

type aliveKey struct{}

// WithAlive makes every wait of this package under the context say that it is alive when it begins and every ten seconds:
// every Sleep, and every call for as long as the Server takes over it, a held claim's 315 s included. A watchdog that the
// work loop feeds is then fed while the loop waits by its rules, and by nothing else: a wait ends by itself, a call by its
// silence or its hold. alive runs on the waiting goroutine, never on one of its own.
func WithAlive(ctx context.Context, alive func()) context.Context {
	return context.WithValue(ctx, aliveKey{}, alive)
}

// Sleep waits for d or until the context ends, and then says so with its error. Every wait of a Runner hears a stop
// this way (4.6).
func Sleep(ctx context.Context, d time.Duration) error {
	alive, _ := ctx.Value(aliveKey{}).(func())
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		step := d
		if alive != nil {
			alive()
			step = min(d, aliveEvery)
		}
		if err := sleepOnce(ctx, step); err != nil || step >= d {
			return err
		}
		d -= step
	}
}

// attend runs a call that ends by itself and says meanwhile that the caller waits for it. The call gets a goroutine of its
// own, so that the word comes from the goroutine that waits.
func attend(ctx context.Context, f func(context.Context)) {
	alive, _ := ctx.Value(aliveKey{}).(func())
	if alive == nil {
		f(ctx)
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(WithAlive(ctx, nil))
	}()
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for {
		alive()
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

func sleepOnce(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// WithGrace is a context that outlives its parent by grace: for a claim in flight, which may already have been committed
// on the Server when the stop arrives, and for giving back what is held (4.6). Cancel it when the call has ended.
func WithGrace(parent context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		_ = sleepOnce(ctx, grace) // ends early when the call has ended
		cancel()
	})
	return ctx, func() {
		stop()
		cancel()
	}
}

// Resend carries one answer to the Server (6.6): send is called until it succeeds, fails for good, or the next attempt
// would lie bound or more after the start. It returns send's last error then, and an error of class Stopped when the
// context ended. The back-off is that of reports; a Retry-After lengthens it.
func Resend(ctx context.Context, bound time.Duration, send func(context.Context) error) error {
	start, backoff := time.Now(), NewBackoff(ReportMin, ReportMax)
	for {
		err := send(ctx)
		if err == nil || !Retryable(err) {
			return err
		}
		wait := backoff.HowLong(err)
		if time.Since(start)+wait >= bound {
			return err
		}
		if stopped := Sleep(ctx, wait); stopped != nil {
			return &Error{Op: "send an answer again", Class: Stopped, Cause: stopped, Detail: "after: " + err.Error()}
		}
	}
}
