package runner_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/refserver"
	"github.com/evalhost/evalhost/services/internal/runner"
)

// The tests in this file are SIGTERM at every stage of a job: no wait that does not hear it, nothing held
// that is not given back.

func TestScenario_a_stop_during_an_idle_hold(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.run(&evaluator{})
		time.Sleep(10 * time.Second)
		if took := p.stops(); took > 2*time.Second {
			t.Errorf("stopping took %v", took)
		}
	})
}

// The Server commits a claim before it answers. A job that was committed as the stop came is given back, and costs no
// delivery.
func TestScenario_a_stop_in_the_instant_of_a_handout(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		e := &evaluator{}
		p := r.run(e)
		time.Sleep(26 * time.Second) // until the hold began anew
		r.fault(refserver.Fault{Path: "/runner/jobs/claim", Kind: refserver.FaultDelay, Seconds: 1, Times: 1})
		time.Sleep(25 * time.Second) // the next claim is the delayed one
		j := r.submit()
		p.stops()
		got := r.job(j.ID)
		if got.State != refserver.Queued || got.Deliveries != 0 || got.Releases != 1 || e.times() != 0 || p.endings() != nil {
			t.Errorf("the job is %+v, judged %d times", got, e.times())
		}
	})
}

func TestScenario_a_stop_while_judging_gives_the_job_back_at_once(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.run(&evaluator{judge: takes(10 * time.Minute)})
		j := r.submit()
		time.Sleep(4 * time.Minute)
		if took := p.stops(); took > time.Second {
			t.Errorf("stopping took %v", took)
		}
		got := r.job(j.ID)
		// It was renewed once, so it counted; the release is what refunds it.
		if got.State != refserver.Queued || got.Deliveries != 0 || got.Releases != 1 || got.Result != nil {
			t.Errorf("the job is %+v", got)
		}
		if !slices.Equal(p.endings(), []runner.Ending{runner.Released}) {
			t.Errorf("ended as %v", p.endings())
		}
		again := r.run(&evaluator{}, func(o *runner.Options) { o.Key = p.key })
		r.accepted(j.ID, time.Minute)
		again.stops()
	})
}

// An evaluation that ends with an error because it was stopped is no infrastructure failure.
func TestAStopNeverReadsAsAnInfrastructureFailure(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.run(&evaluator{judge: func(ctx context.Context, _ protocol.Job, _ func(runner.Step)) (runner.Answer, error) {
			<-ctx.Done()
			return runner.Answer{}, &runner.Failure{Kind: runner.BadMachine, Err: errMachine} // what a killed container looks like
		}})
		j := r.submit()
		time.Sleep(time.Minute)
		p.stops()
		if got := r.job(j.ID); got.State != refserver.Queued || got.FailureReason != "" || len(r.calls("/report")) != 0 {
			t.Errorf("the job is %+v", got)
		}
	})
}

// If an answer and a stop are both there, the answer is taken first (4.3).
func TestAnAnswerThatIsThereIsDeliveredWhenTheStopComes(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.run(&evaluator{judge: func(ctx context.Context, _ protocol.Job, _ func(runner.Step)) (runner.Answer, error) {
			<-ctx.Done()
			return accepted(), nil
		}})
		j := r.submit()
		time.Sleep(time.Minute)
		p.stops()
		if got := r.job(j.ID); got.State != refserver.Completed || got.Result.Verdict != "Accepted" {
			t.Errorf("the job is %+v", got)
		}
	})
}

func TestScenario_a_stop_during_report_retry_gives_the_job_back(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.run(&evaluator{})
		r.fault(refserver.Fault{Path: "/runner/jobs/*/report", Kind: refserver.FaultStatus, Status: 503, RetryAfter: "300"})
		j := r.submit()
		time.Sleep(time.Minute)
		if s, _ := p.State(); s != runner.Reporting {
			t.Fatalf("the Runner is %v", s)
		}
		if took := p.stops(); took > time.Second {
			t.Errorf("stopping took %v", took)
		}
		if got := r.job(j.ID); got.State != refserver.Queued || got.Releases != 1 {
			t.Errorf("the job is %+v", got)
		}
		if !slices.Equal(p.endings(), []runner.Ending{runner.Released}) {
			t.Errorf("ended as %v", p.endings())
		}
	})
}

// A report under way when the stop comes may have been committed: it is given a moment, and then the job is given back,
// which does nothing to a job that is done.
func TestScenario_a_stop_while_a_report_is_on_its_way(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault refserver.Fault
		state refserver.WorkState
		end   runner.Ending
	}{
		{"it arrives", refserver.Fault{Kind: refserver.FaultDelay, Seconds: 4}, refserver.Completed, runner.Reported},
		{"it does not", refserver.Fault{Kind: refserver.FaultHold}, refserver.Queued, runner.Released},
		{"its answer is lost", refserver.Fault{Kind: refserver.FaultDropAfter}, refserver.Completed, runner.Released},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
				p := r.run(&evaluator{judge: takes(10 * time.Second)})
				f := c.fault
				f.Path = "/runner/jobs/*/report"
				r.fault(f)
				j := r.submit()
				time.Sleep(11 * time.Second)
				if took := p.stops(); took > 6*time.Second {
					t.Errorf("stopping took %v", took)
				}
				if got := r.job(j.ID); got.State != c.state || len(r.calls("/report")) != 1 {
					t.Errorf("the job is %+v", got)
				}
				if !slices.Equal(p.endings(), []runner.Ending{c.end}) {
					t.Errorf("ended as %v", p.endings())
				}
			})
		})
	}
}

func TestScenario_a_stop_while_a_file_is_attached(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.run(&evaluator{})
		r.fault(refserver.Fault{Method: "POST", Path: "/runner/files", Kind: refserver.FaultHold})
		j := r.submit()
		time.Sleep(20 * time.Second)
		if took := p.stops(); took > time.Second {
			t.Errorf("stopping took %v", took)
		}
		// The answer goes without the files rather than not at all, and that is said of each.
		if got := r.job(j.ID); got.State != refserver.Completed || len(got.Attachments) != 0 {
			t.Errorf("the job is %+v", got)
		}
		for _, role := range []string{"log", "details"} {
			if !p.said("level=WARN", "a file could not be attached; the answer is sent without it", "file="+role) {
				t.Errorf("it was not said that the answer went without its %s", role)
			}
		}
	})
}

func TestAStopWhileTheMachineIsUnfitIsHeard(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.run(&evaluator{
			ready: func() error { return errMachine },
			judge: func(context.Context, protocol.Job, func(runner.Step)) (runner.Answer, error) {
				return runner.Answer{}, errMachine
			},
		})
		r.submit()
		time.Sleep(10 * time.Minute)
		if took := p.stops(); took > time.Second {
			t.Errorf("stopping took %v", took)
		}
	})
}

// A release that the Server does not hear of costs nothing but the lease.
func TestAReleaseThatFailsIsLeftToTheLease(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.run(&evaluator{judge: takes(time.Hour)})
		r.fault(refserver.Fault{Path: "/runner/jobs/*/release", Kind: refserver.FaultHold})
		j := r.submit()
		time.Sleep(time.Minute)
		if took := p.stops(); took > 6*time.Second {
			t.Errorf("stopping took %v", took)
		}
		if !slices.Equal(p.endings(), []runner.Ending{runner.Abandoned}) {
			t.Errorf("ended as %v", p.endings())
		}
		again := r.run(&evaluator{}, func(o *runner.Options) { o.Key = p.key })
		r.accepted(j.ID, 11*time.Minute)
		again.stops()
	})
}
