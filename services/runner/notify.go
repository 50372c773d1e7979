package main

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/evalhost/evalhost/services/internal/report"
)

// leastWatchdog is the shortest watchdog that this daemon keeps: it feeds it every ten seconds while it waits.
const leastWatchdog = 30 * time.Second

// maxStatus bounds the Status line, in bytes. systemd drops a message of more than 4,096 as a whole (NOTIFY_BUFFER_MAX).
const maxStatus = 1000

// manager is the service manager, as far as there is one: without NOTIFY_SOCKET nothing is sent.
type manager struct{ log *slog.Logger }

func (m manager) send(lines ...string) {
	if _, err := daemon.SdNotify(false, strings.Join(lines, "\n")); err != nil {
		m.log.Warn("the service manager could not be told something", "error", err)
	}
}

// Status is the line that systemctl status shows, on somebody's terminal: what a Server, a package or Docker wrote into it
// does not act there.
func (m manager) Status(text string) {
	text = report.Printable(strings.Join(strings.Fields(text), " "))
	if len(text) > maxStatus {
		text = strings.ToValidUTF8(text[:maxStatus], "") + "…"
	}
	m.send("STATUS=" + text)
}

// Alive feeds the watchdog.
func (m manager) Alive() { m.send(daemon.SdNotifyWatchdog) }

// needs asks for more time to start in.
func (m manager) needs(d time.Duration) {
	m.send(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()))
}

// ready says that this machine can judge (decisions 22): from now on the watchdog counts.
func (m manager) ready() { m.send(daemon.SdNotifyReady) }

// stopping says that a stop was heard.
func (m manager) stopping() { m.send(daemon.SdNotifyStopping, "STATUS=stopping") }

// checkWatchdog refuses a watchdog that would bite a daemon that waits by its rules.
func checkWatchdog() error {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return fmt.Errorf("the service manager's watchdog cannot be read: %w", err)
	}
	if every > 0 && every < leastWatchdog {
		return fmt.Errorf("the service manager's watchdog is %s; expected at least %s in the unit (WatchdogSec), because this "+
			"daemon feeds it every 10 s while it waits", every, leastWatchdog)
	}
	return nil
}
