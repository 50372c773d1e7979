// Command evalhost judges programs on this machine, without any server: for a problem author who wants to know what a
// package makes of its solutions, and for an operator who wants to know whether the machine can judge.
//
// It must be run as root on a host that passes `evalhost check`. Nothing of it stays behind: containers, cgroups and
// scratch files are gone when it ends, however it ends; what a killed one left is swept by the next.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		received, _ := (<-signals).(syscall.Signal)
		// A second signal ends the process at once: whoever waits for a wedged clean-up can leave.
		signal.Stop(signals)
		cancel(interrupted{received})
	}()
	// Unheard, this signal would end the process at its first write to a reader that is gone, with containers and scratch left
	// behind. Heard, the write is an error like any other; see printed.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// interrupted is why the context of a command ended: somebody asked it to stop.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return "stopped by " + i.signal.String() }

// asInterrupted tells whether the work ended because somebody asked for it.
func asInterrupted(ctx context.Context) (interrupted, bool) {
	var i interrupted
	return i, errors.As(context.Cause(ctx), &i)
}
