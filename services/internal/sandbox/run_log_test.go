//go:build !guest

package sandbox

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/shim/wire"
)

// Whoever reads of a suspicion in the journal can ask it for the test and the container.
func TestWhatIsLoggedOfARunNamesItsTestAndItsContainer(t *testing.T) {
	var said bytes.Buffer // written by the test's own goroutine: Prepare, and Go when all of the run has ended
	l := newLab(t, &fakeDaemon{judged: underShim(func(_ context.Context, c *box, in, out *os.File) int {
		if forged, err := os.OpenFile(c.host(c.env(wire.EnvReport)), os.O_WRONLY, 0); err == nil {
			_, _ = forged.WriteString("a report of my own\n")
			_ = forged.Close()
		}
		c.burn(3 * time.Second)
		return 0
	})}, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	r := l.plain(&sink{})
	r.Limits.Time = 10 * time.Second
	p, err := l.job.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Go(t.Context()); err != nil {
		t.Error(err)
	}
	name := p.Container()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	for _, line := range []string{"a container waits for its run", "bytes that are no report", "far above the shim's report"} {
		found := false
		for logged := range strings.Lines(said.String()) {
			found = found || strings.Contains(logged, line) && strings.Contains(logged, "test=1a") && strings.Contains(logged, "container="+name)
		}
		if !found {
			t.Errorf("%q was not said of 1a and %s: %s", line, name, said.String())
		}
	}
}
