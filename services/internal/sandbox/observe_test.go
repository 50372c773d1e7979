//go:build !guest

package sandbox

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/engine"
)

// told is an Observer that writes down what it is told.
type told struct {
	mu     sync.Mutex
	events []string
}

func (o *told) add(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, fmt.Sprintf(format, args...))
}
func (o *told) PhaseTook(p Phase, took time.Duration) { o.add("%v %v", p, took >= 0) }
func (o *told) LanesBusy(n int)                       { o.add("busy %d", n) }
func (o *told) RemovalFailed()                        { o.add("removal failed") }
func (o *told) Leaked(n int)                          { o.add("leaked %d", n) }

func (o *told) count(event string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.events {
		if e == event {
			n++
		}
	}
	return n
}

func TestAnObserverIsToldEveryPhaseOfAContainerAndWhatIsLeftBehind(t *testing.T) {
	o := &told{}
	daemon := &fakeDaemon{
		judged:     underShim(func(_ context.Context, c *box, in, out *os.File) int { io.Copy(out, in); return 0 }),
		containers: map[string]*box{"old": {}},
		foreign:    []engine.Found{{ID: "old", Name: "old"}},
	}
	l := newLab(t, daemon, func(c *Config) { c.Observe = o })
	if o.count("leaked 1") != 1 {
		t.Errorf("a container that was left behind: told %q", o.events)
	}
	daemon.mu.Lock()
	daemon.foreign = nil
	daemon.mu.Unlock()
	if _, err := l.judge(l.plain(&sink{})); err != nil {
		t.Fatal(err)
	}
	for _, event := range []string{"create true", "start true", "run true", "remove true", "busy 1", "busy 0"} {
		if o.count(event) != 1 {
			t.Errorf("told %q %d times: %q", event, o.count(event), o.events)
		}
	}
	if slices.Index(o.events, "busy 1") > slices.Index(o.events, "busy 0") || o.count("removal failed") != 0 {
		t.Errorf("told %q", o.events)
	}
	daemon.failOn = "remove"
	p, err := l.job.Prepare(t.Context(), l.plain(&sink{}))
	if err != nil {
		t.Fatal(err)
	}
	if p.Close() == nil || o.count("removal failed") != 1 {
		t.Errorf("a removal that fails: told %q", o.events)
	}
	daemon.failOn = ""
}
