package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
)

// patientFailures is how many infrastructure failures may follow each other before claims are slowed down: a broken
// package among good ones must not hold a host up, and a host that fails at everything must not run through the queue.
const patientFailures = 3

// trialsAgain is how long a Server that does not know trials is not asked for one. A page of somebody between says the same words
// as a Server of an earlier generation, and must not end trials for as long as this process lives.
const trialsAgain = time.Hour

// work is the claim loop (4.3). It returns an error only when this Runner must not or cannot go on.
func (r *Runner) work(ctx context.Context) error {
	rejected := false // whether the last claim said that this Runner is not known
	for ctx.Err() == nil {
		if err := r.settleDoubt(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		r.become(Idle, "idle")
		began := time.Now()
		job, got, err := r.claim(ctx)
		switch {
		case err == nil && got:
			r.backoff.Reset()
			err = r.judge(ctx, job)
		case err == nil:
			err = r.idle(ctx, time.Since(began))
		default:
			err = r.claimFailed(ctx, err)
		}
		if !unwanted(err) {
			if err != nil {
				return err
			}
			rejected = false
			continue
		}
		// An admission that works and claims that do not must not chase each other at the network's speed.
		if rejected {
			if stopped := protocol.Sleep(ctx, r.backoff.HowLong(err)); stopped != nil {
				return nil
			}
		}
		rejected = true
		if err := r.readmit(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// claim asks for a job. A claim in flight when the stop comes may have been committed: it gets a moment to settle, and a
// job that comes of it is given back (4.6).
func (r *Runner) claim(ctx context.Context) (protocol.Job, bool, error) {
	graced, done := protocol.WithGrace(ctx, claimGrace)
	defer done()
	job, got, err := r.client.Claim(graced, protocol.ClaimRequest{Lease: r.o.Lease, Wait: r.o.Wait})
	if got && ctx.Err() != nil {
		r.log.InfoContext(ctx, "a job was handed out while stopping", "job", job.Lease.ID)
		r.release(ctx, r.log.With("job", job.Lease.ID), job.Lease)
		return protocol.Job{}, false, nil
	}
	return job, got, err
}

// idle is what follows a claim that brought nothing: a trial, if there is one, and else a wait, unless the held claim was
// the wait. Half is enough to tell: a Server shortens a hold by a sixteenth at most (4.3).
func (r *Runner) idle(ctx context.Context, waited time.Duration) error {
	r.goingWell()
	if ctx.Err() != nil {
		return nil
	}
	if r.o.Measurer != nil && !time.Now().Before(r.noTrials) {
		trial, got, err := r.client.ClaimTrial(ctx, r.o.Lease)
		switch class := protocol.ClassOf(err); {
		case err == nil && got:
			r.backoff.Reset()
			return r.measure(ctx, trial)
		case err == nil:
		case class == protocol.NotFound:
			r.noTrials = time.Now().Add(trialsAgain)
			r.log.InfoContext(ctx, "this Server has no trials", "error", err, "askedAgainIn", trialsAgain)
		case class == protocol.Stopped:
			return nil
		default:
			r.log.WarnContext(ctx, "a trial could not be claimed", "error", err)
		}
	}
	if r.o.Wait > 0 && waited >= r.o.Wait/2 {
		return nil
	}
	_ = protocol.Sleep(ctx, r.backoff.Next()) // the loop sees a stop
	return nil
}

// claimFailed is what follows a claim that failed (4.3). An error that it returns ends the loop, or leads to an admission.
func (r *Runner) claimFailed(ctx context.Context, err error) error {
	switch class := protocol.ClassOf(err); {
	case class == protocol.Stopped:
		return nil
	case unwanted(err):
		return err
	case class == protocol.Unavailable:
		r.become(WaitingForServer, "waiting for the Server: "+err.Error())
		_ = r.client.WaitOut(ctx, err, protocol.AdmitOptions{Backoff: r.backoff})
		return nil
	case protocol.Retryable(err):
		r.become(WaitingForServer, "waiting for the Server: "+err.Error())
		wait := r.backoff.HowLong(err)
		r.log.WarnContext(ctx, "claiming a job failed; it is tried again", "error", err, "wait", wait)
		_ = protocol.Sleep(ctx, wait)
		return nil
	case class == protocol.Unreadable:
		// A proxy's page, most likely. A job that came with it returns by its lease.
		r.become(WaitingForServer, "waiting for the Server: "+err.Error())
		wait := r.backoff.HowLong(err)
		r.log.ErrorContext(ctx, "the answer to a claim makes no sense; it is tried again", "error", err, "wait", wait)
		_ = protocol.Sleep(ctx, wait)
		return nil
	}
	return fmt.Errorf("runner: claiming was refused: %w", err)
}

// unwanted says that the Server does not know this Runner, its token or its approval any more: only an admission can tell
// what that means (4.3, 10.7).
func unwanted(err error) bool {
	switch protocol.ClassOf(err) {
	case protocol.NeedsHandshake, protocol.NotApproved, protocol.Revoked:
		return true
	}
	return false
}

// settleDoubt asks, after an infrastructure failure, whether this machine can judge, and waits until it can: each job that
// is claimed in vain uses up one of its five deliveries. It returns when it can, or when the context has ended; the error is
// one that this process cannot outlive.
func (r *Runner) settleDoubt(ctx context.Context) error {
	if r.failures >= patientFailures {
		if protocol.Sleep(ctx, r.slow.Next()) != nil {
			return nil
		}
	}
	if !r.doubt {
		return nil
	}
	wait := protocol.NewBackoff(r.o.PollMin, r.o.PollMax)
	for ctx.Err() == nil {
		var err error
		r.attend(ctx, "asking whether this machine can judge", readyAtMost, func(func(Step)) { err = r.o.Evaluator.Ready(ctx) })
		if err == nil {
			r.doubt = false
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, ErrStale) {
			return err
		}
		r.become(Unfit, "not claiming: "+err.Error())
		d := wait.Next()
		r.log.ErrorContext(ctx, "this machine cannot judge at the moment, so nothing is claimed", "error", err, "wait", d)
		_ = protocol.Sleep(ctx, d)
	}
	return nil
}

// goingWell ends the slowness that infrastructure failures have caused.
func (r *Runner) goingWell() {
	r.failures = 0
	r.slow.Reset()
}
