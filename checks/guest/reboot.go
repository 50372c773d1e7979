package guest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// goingDown bounds the way down of a guest that restarts: Docker and every other service are stopped.
const goingDown = 3 * time.Minute

// Reboot restarts the guest's system and waits until it is ready again. Its disk stays as it is.
func (g *Guest) Reboot(ctx context.Context) error {
	before := g.ready.Boot
	if before == "" {
		res, err := g.Exec(ctx, Cmd{Args: []string{"cat", "/proc/sys/kernel/random/boot_id"}})
		if err != nil {
			return err
		}
		before = strings.TrimSpace(res.Stdout)
	}
	// The machine itself says when the old system is gone. Asking that system until it does not answer any more would be waiting for
	// an answer that was lost with it.
	m, err := dialMonitor(ctx, g.dir)
	if err != nil {
		return fmt.Errorf("reboot the guest %s: %w", g.record.Name, err)
	}
	defer m.close()
	res, err := g.Exec(ctx, Cmd{Args: []string{"systemctl", "reboot", "--no-block"}})
	if err == nil && !res.OK() {
		return fmt.Errorf("reboot the guest %s: %s", g.record.Name, res)
	}
	down, cancel := context.WithTimeoutCause(ctx, goingDown, fmt.Errorf("it did not go down within %v", goingDown))
	defer cancel()
	if rerr := m.event(down, "RESET"); rerr != nil { // an answer that was lost in going down is no error
		return fmt.Errorf("reboot the guest %s: %w\nthe last lines of its console:\n%s", g.record.Name, errors.Join(err, rerr),
			tail(filepath.Join(g.dir, "console.log"), 25))
	}
	g.Close()
	if err := g.waitReady(ctx, DefaultBootTimeout); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("the guest %s did not come back within %v of a reboot: %w\nthe last lines of its console:\n%s",
			g.record.Name, DefaultBootTimeout, err, tail(filepath.Join(g.dir, "console.log"), 25))
	}
	if g.ready.Boot == before {
		return fmt.Errorf("the guest %s is still in the boot it was in", g.record.Name)
	}
	return g.setClock(ctx)
}
