package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// task is a job or a trial under way.
type task struct {
	kind  Kind
	lease protocol.Lease
	log   *slog.Logger
	renew renewal
	// evaluate finds the answer out.
	evaluate func(ctx context.Context, step func(Step)) (delivery, error)
	// failed is the answer when there is none.
	failed func(reason error) delivery
	// ended is told the ending, once everything about the task is done.
	ended func(Ending)
}

// delivery is an answer that is ready to be sent.
type delivery struct {
	// send sends it once; sending it again is safe.
	send        func(ctx context.Context) (protocol.Reported, error)
	attachments []attachment
	verdict     verdict.Verdict
}

// maxShown bounds, in bytes, what the Server calls something where it is shown. Ids of jobs and files are bounded when they
// arrive, because they become part of a path; a submission's and a problem's type are whatever the Server says, up to the size
// of an answer.
const maxShown = 128

// shown is a name from the Server, cut to what a line of the log or of the Status is for.
func shown(name string) string {
	if len(name) <= maxShown {
		return name
	}
	return strings.ToValidUTF8(name[:maxShown], "") + "…"
}

// judge works on a job (4.4). It returns an error only when the Server does not want this Runner any more.
func (r *Runner) judge(ctx context.Context, job protocol.Job) error {
	log := r.log.With("job", job.Lease.ID, "attempt", job.Attempt)
	log.InfoContext(ctx, "a job was handed out", "submission", shown(job.SubmissionID), "problemType", shown(job.ProblemType),
		"leaseExpires", job.LeaseExpires.String())
	answer := func(report protocol.Report, attachments ...attachment) delivery {
		return delivery{attachments: attachments, send: func(ctx context.Context) (protocol.Reported, error) {
			return r.client.Report(ctx, job.Lease, report)
		}}
	}
	begun := false
	return r.run(ctx, task{
		kind: Job, lease: job.Lease, log: log, renew: r.client.Renew,
		evaluate: func(ctx context.Context, step func(Step)) (delivery, error) {
			if err := job.Check(); err != nil {
				return delivery{}, &Failure{BadJob, err}
			}
			// On the disk before anything that could take this host down.
			var unended int
			if unended, begun = r.o.Ledger.Begin(job.Lease.ID); !begun {
				log.WarnContext(ctx, "a job that keeps ending this Runner or its host is not begun here again", "unended", unended)
				return delivery{}, &Failure{BadJob, fmt.Errorf("not begun: this job was begun %d times on this host, and each time the Runner or the "+
					"host ended before the job did (a crash, a kill, no power); another host may try it", unended)}
			}
			got, err := r.o.Evaluator.Judge(ctx, job, step)
			if err != nil {
				return delivery{}, err
			}
			report, err := protocol.Judged{
				Score: got.Score, MaxScore: got.Max, Verdict: got.Verdict, Version: r.o.Registration.Version,
			}.Report()
			if err != nil {
				return delivery{}, err
			}
			d := answer(report, logAttachment(got.Log), detailsAttachment(got.Details))
			d.verdict = got.Verdict
			return d, nil
		},
		failed: func(reason error) delivery {
			report := protocol.Failed{Reason: reason.Error(), Version: r.o.Registration.Version}.Report()
			return answer(report, logAttachment(reason.Error()+"\n"))
		},
		ended: func(e Ending) {
			if begun {
				r.o.Ledger.End(job.Lease.ID, e == Reported)
			}
		},
	})
}

// measure works on a trial (section 7).
func (r *Runner) measure(ctx context.Context, trial protocol.Trial) error {
	log := r.log.With("trial", trial.Lease.ID)
	log.InfoContext(ctx, "a trial was handed out", "problemType", shown(trial.ProblemType), "leaseExpires", trial.LeaseExpires.String())
	answer := func(report protocol.TrialReport) delivery {
		return delivery{send: func(ctx context.Context) (protocol.Reported, error) {
			return r.client.ReportTrial(ctx, trial.Lease, report)
		}}
	}
	return r.run(ctx, task{
		kind: Trial, lease: trial.Lease, log: log, renew: r.client.RenewTrial,
		evaluate: func(ctx context.Context, step func(Step)) (delivery, error) {
			if err := trial.Check(); err != nil {
				return delivery{}, &Failure{BadJob, err}
			}
			rows, err := r.o.Measurer.Measure(ctx, trial, step)
			if err == nil && len(rows) == 0 {
				err = errors.New("nothing was measured")
			}
			return answer(protocol.TrialReport{Rows: rows}), err
		},
		failed: func(reason error) delivery { return answer(protocol.TrialReport{Failure: reason.Error()}) },
		ended:  func(Ending) {},
	})
}

// run works on a task from its lease to its ending.
func (r *Runner) run(ctx context.Context, t task) error {
	began, failures := time.Now(), r.failures
	k := r.keep(ctx, t.log, t.lease, t.renew)
	defer k.stop()
	d, err := r.evaluate(k.ctx, t)
	w := Work{Kind: t.kind}
	w.Ending, err = r.conclude(ctx, k, t, d, err, &w)
	w.Took = time.Since(began)
	t.ended(w.Ending)
	r.o.Observe.Ended(w)
	t.log.InfoContext(ctx, "the work has ended", "ending", w.Ending.String(), "verdict", string(w.Verdict), "took", w.Took)
	if r.failures == failures { // whatever became of the answer that says a failure
		r.goingWell()
	}
	return err
}

// evaluate has the task evaluated, with the watchdog fed as long as its steps are within their time.
func (r *Runner) evaluate(ctx context.Context, t task) (d delivery, err error) {
	prefix := fmt.Sprintf("judging %s %s", t.kind, t.lease.ID)
	r.become(Judging, prefix)
	r.attend(ctx, prefix, stepAtMost, func(step func(Step)) {
		// The evaluation says how it goes by its steps; its waits and calls must not feed the watchdog beside that.
		d, err = t.evaluate(protocol.WithAlive(ctx, nil), func(s Step) {
			step(s)
			text := prefix + ": " + s.Doing
			if s.Of > 0 && s.Number > 0 {
				text = fmt.Sprintf("%s: test %s, %d of %d", prefix, s.Test, s.Number, s.Of)
				t.log.DebugContext(ctx, "a test begins", "test", s.Test)
			}
			r.become(Judging, text)
		})
	})
	return d, err
}

// stepAtMost is how long an evaluation may take before it says its first step.
const stepAtMost = time.Minute

// conclude decides what becomes of a task once its evaluation has ended. The error is for the caller of run.
func (r *Runner) conclude(ctx context.Context, k *keeper, t task, d delivery, err error, w *Work) (Ending, error) {
	var away *Away
	switch lost := k.lost(); {
	case lost != nil:
		return Lost, wanted(lost)
	case err == nil:
		// An answer that is there is taken, even when a stop came at the same moment.
		w.Verdict = d.verdict
		ending, err := r.deliver(ctx, k, t, d)
		if ending != Reported {
			w.Verdict = ""
		}
		return ending, err
	case ctx.Err() != nil:
		k.stop() // before the release, so that no renewal lands after it
		return r.giveBack(ctx, t), nil
	case unwanted(err):
		t.log.WarnContext(ctx, "the Server stopped knowing this Runner while it worked; the work is dropped", "error", err)
		return Lost, err
	case errors.As(err, &away):
		t.log.WarnContext(ctx, "the Server is away; nothing is said about the work, and its lease gives it back", "error", err)
		return Abandoned, nil
	}
	w.Failure = kindOf(err)
	r.doubt = r.doubt || w.Failure == BadMachine || w.Failure == BadPackage
	r.failures++
	t.log.ErrorContext(ctx, "infrastructure failure: there is no verdict", append(where(err), "kind", w.Failure.String(), "error", err)...)
	ending, err := r.deliver(ctx, k, t, t.failed(err))
	if ending == Reported {
		return Failed, err
	}
	w.Failure = 0
	return ending, err
}

// where is the test and the container of a failure, as attributes, where there are such.
func where(err error) (attrs []any) {
	var at *judge.Failure
	if !errors.As(err, &at) {
		return nil
	}
	if at.Test != "" {
		attrs = append(attrs, "test", at.Test)
	}
	if at.Container != "" {
		attrs = append(attrs, "container", at.Container)
	}
	return attrs
}

// kindOf is the kind of an infrastructure failure. What nobody classified is the machine's.
func kindOf(err error) FailureKind {
	var f *Failure
	if errors.As(err, &f) && f.Kind != 0 {
		return f.Kind
	}
	return BadMachine
}

// wanted keeps an error only if it says that the Server does not want this Runner any more.
func wanted(err error) error {
	if unwanted(err) {
		return err
	}
	return nil
}

// giveBack gives a task back because of a stop. Trials cannot be given back: their lease does that (4.6).
func (r *Runner) giveBack(ctx context.Context, t task) Ending {
	if t.kind != Job {
		return Abandoned
	}
	r.become(Stopping, "giving job "+string(t.lease.ID)+" back")
	if !r.release(ctx, t.log, t.lease) {
		return Abandoned
	}
	return Released
}

// release gives a job back within its grace, and says whether the Server took it.
func (r *Runner) release(ctx context.Context, log *slog.Logger, lease protocol.Lease) bool {
	graced, done := protocol.WithGrace(ctx, releaseGrace)
	defer done()
	if err := r.client.Release(graced, lease); err != nil {
		log.WarnContext(ctx, "a job could not be given back; its lease does that", "error", err)
		return false
	}
	log.InfoContext(ctx, "a job was given back")
	return true
}
