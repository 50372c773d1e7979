package runner

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
)

// keeper renews a lease on a timer for as long as the work and its delivery last (4.5).
type keeper struct {
	// ctx is the work's: it ends with the stop, and when the lease is lost.
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// lostError is the cause of a work's context that ended because the lease was lost.
type lostError struct{ err error }

func (l lostError) Error() string { return l.err.Error() }
func (l lostError) Unwrap() error { return l.err }

// errSlowRenewal ends a renewal that hangs.
var errSlowRenewal = errors.New("it was not answered before the next one was due")

// renewal is the call that prolongs a lease: a job's or a trial's.
type renewal func(ctx context.Context, lease protocol.Lease, d time.Duration) (protocol.Instant, error)

// keep starts renewing. Stop it.
func (r *Runner) keep(ctx context.Context, log *slog.Logger, lease protocol.Lease, renew renewal) *keeper {
	k := &keeper{done: make(chan struct{})}
	k.ctx, k.cancel = context.WithCancelCause(ctx)
	quiet := protocol.WithAlive(k.ctx, nil) // a renewal is no work that goes on
	every := protocol.RenewEvery(r.granted)
	go func() {
		defer close(k.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-quiet.Done():
				return
			case <-tick.C:
			}
			// One that hangs must be over when the next one is due: otherwise a single one costs the lease, not three in a row.
			bounded, cancel := context.WithTimeoutCause(quiet, every, errSlowRenewal)
			until, err := renew(bounded, lease, r.o.Lease)
			cancel()
			switch {
			case err == nil:
				r.o.Observe.RenewalEnded(Renewed)
				log.DebugContext(quiet, "the lease was renewed", "until", until.String())
			case quiet.Err() != nil:
				return
			case protocol.WorkLost(err):
				r.o.Observe.RenewalEnded(RenewalRefused)
				log.WarnContext(quiet, "the work is no longer this Runner's; it is dropped", "error", err)
				k.cancel(lostError{err})
				return
			default:
				// The next one comes after the usual interval: three fit into a lease.
				r.o.Observe.RenewalEnded(RenewalMissed)
				log.WarnContext(quiet, "the lease could not be renewed; it is tried again after the usual interval", "error", err)
			}
		}
	}()
	return k
}

// stop ends the renewals and waits until none is under way: what follows, a release, must not be overtaken.
func (k *keeper) stop() {
	k.cancel(context.Canceled)
	<-k.done
}

// lost is why the work is no longer this Runner's; nil while it is.
func (k *keeper) lost() error {
	if l, ok := context.Cause(k.ctx).(lostError); ok {
		return l.err
	}
	return nil
}

// isLost says whether a work's context ended because its lease was lost.
func isLost(ctx context.Context) bool {
	_, lost := context.Cause(ctx).(lostError)
	return lost
}
