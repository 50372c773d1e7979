package refserver

import (
	"sync"
	"time"
)

// Clock is the Server's time: leases, nonces, tokens and held claims go by it. It can be moved, so that an hour need not
// be waited for. It is safe for use by many goroutines.
type Clock struct {
	mu      sync.Mutex
	frozen  bool
	at      time.Time     // of a frozen clock
	offset  time.Duration // of a running one
	waiting map[*alarm]struct{}
}

type alarm struct {
	at    time.Time
	ring  chan struct{}
	timer *time.Timer // nil on a frozen clock
}

// NewClock is the machine's clock, which Advance can move further.
func NewClock() *Clock { return &Clock{waiting: map[*alarm]struct{}{}} }

// NewFrozenClock stands at an instant and moves by Advance alone.
func NewFrozenClock(at time.Time) *Clock {
	return &Clock{frozen: true, at: at.UTC(), waiting: map[*alarm]struct{}{}}
}

// Now is the Server's time, in UTC.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *Clock) now() time.Time {
	if c.frozen {
		return c.at
	}
	return time.Now().Add(c.offset).UTC()
}

// Advance moves the clock, back too, and rings the alarms that are due.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.offset = c.at.Add(d), c.offset+d
	for a := range c.waiting {
		if a.timer != nil {
			a.timer.Reset(max(0, a.at.Sub(c.now())))
		}
		c.ringIfDue(a)
	}
}

// Alarm is a channel that is closed once the clock has reached an instant. Stop it when it is no longer wanted.
func (c *Clock) Alarm(at time.Time) (ring <-chan struct{}, stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &alarm{at: at, ring: make(chan struct{})}
	c.waiting[a] = struct{}{}
	if !c.frozen {
		a.timer = time.AfterFunc(max(0, at.Sub(c.now())), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.ringIfDue(a)
		})
	}
	c.ringIfDue(a)
	return a.ring, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.forget(a)
	}
}

func (c *Clock) ringIfDue(a *alarm) {
	if _, waits := c.waiting[a]; waits && !c.now().Before(a.at) {
		close(a.ring)
		c.forget(a)
	}
}

func (c *Clock) forget(a *alarm) {
	delete(c.waiting, a)
	if a.timer != nil {
		a.timer.Stop()
	}
}
