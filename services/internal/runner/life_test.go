package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/refserver"
	"github.com/evalhost/evalhost/services/internal/runner"
)

func TestARunnerJoinsAServerAndAnswersAJob(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		e := &evaluator{}
		p := r.run(e)
		j := r.accepted(r.submit().ID, time.Minute)
		if got := string(r.Attachment(j.ID, "log")); got != "a warning\n" {
			t.Errorf("the log is %q", got)
		}
		if got := string(r.Attachment(j.ID, "details")); got != `{"type":"standard-io@1"}` {
			t.Errorf("the details are %q", got)
		}
		if j.Deliveries != 1 || j.Result.Version != "0.1.0" || e.times() != 1 {
			t.Errorf("%+v, judged %d times", j, e.times())
		}
		if took := p.stops(); took > 2*time.Second {
			t.Errorf("stopping took %v", took)
		}
		if got := p.endings(); len(got) != 1 || got[0] != runner.Reported || p.ended[0].Verdict != "Accepted" {
			t.Errorf("ended as %+v", p.ended)
		}
		if !p.said("the work has ended", "job="+j.ID, "attempt=1") {
			t.Error("the log does not name job and attempt")
		}
	})
}

// Approval takes as long as it takes: no exit, and the calls are backed off.
func TestScenario_approval_after_many_refusals(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.newPlay(&evaluator{}).start()
		began := time.Now()
		time.Sleep(time.Hour)
		if s, text := p.State(); s != runner.WaitingForApproval || !strings.Contains(text, string(p.key.Fingerprint())) {
			t.Errorf("after an hour: %v, %q", s, text)
		}
		if n := len(r.calls("auth/token")); n < 90 || n > 160 {
			t.Errorf("%d calls in an hour", n)
		}
		if silent := p.silences(began, 11*time.Second); silent != nil {
			t.Errorf("the watchdog was not fed: %v", silent)
		}
		r.approve(p)
		r.accepted(r.submit().ID, time.Minute)
	})
}

// A refusal to admit sounds the same whether nobody has decided yet or somebody has decided against it (2.4): the Runner registers again
// now and then, and ends once it was revoked. That makes no call more often.
func TestScenario_revoked_while_waiting_for_approval(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.newPlay(&evaluator{}).start()
		time.Sleep(time.Hour)
		if n := len(r.calls("runner/register")); n < 8 || n > 20 {
			t.Errorf("registered %d times in an hour of waiting", n)
		}
		must(t, r.Revoke(string(p.key.Fingerprint())))
		if err := p.ends(10 * time.Minute); !errors.Is(err, runner.ErrRevoked) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestScenario_a_stop_while_waiting_for_approval(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.newPlay(&evaluator{}).start()
		time.Sleep(5 * time.Minute)
		if took := p.stops(); took > time.Second {
			t.Errorf("stopping took %v", took)
		}
	})
}

func TestScenario_a_stop_while_the_server_is_away(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		r.fault(refserver.Fault{Path: "/runner/register", Kind: refserver.FaultStatus, Status: 503, RetryAfter: "600"})
		p := r.newPlay(&evaluator{}).start()
		time.Sleep(time.Minute)
		if took := p.stops(); took > time.Second {
			t.Errorf("stopping took %v", took)
		}
	})
}

func TestScenario_revoked_at_start(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.run(&evaluator{})
		p.stops()
		must(t, r.Revoke(string(p.key.Fingerprint())))
		again := r.newPlay(&evaluator{}, func(o *runner.Options) { o.Key = p.key }).start()
		if err := again.ends(time.Minute); !errors.Is(err, runner.ErrRevoked) {
			t.Errorf("ended with %v", err)
		}
	})
}

// A revocation is met within the next call, whatever the Runner is doing, and nothing is reported after it (10.7).
func TestScenario_revoked_while_idle_and_while_judging(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.run(&evaluator{})
		time.Sleep(10 * time.Second)
		must(t, r.Revoke(string(p.key.Fingerprint())))
		if err := p.ends(time.Minute); !errors.Is(err, runner.ErrRevoked) {
			t.Errorf("idle: ended with %v", err)
		}
	})
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.run(&evaluator{judge: takes(time.Hour)})
		j := r.submit()
		time.Sleep(10 * time.Second)
		must(t, r.Revoke(string(p.key.Fingerprint())))
		if err := p.ends(160 * time.Second); !errors.Is(err, runner.ErrRevoked) {
			t.Errorf("judging: ended with %v", err)
		}
		if got := p.endings(); len(got) != 1 || got[0] != runner.Lost {
			t.Errorf("ended as %v", got)
		}
		if j := r.job(j.ID); j.State != refserver.Queued || j.Result != nil || len(r.calls("/report")) != 0 {
			t.Errorf("the job is %+v", j)
		}
	})
}

// Without a hold, or with a Server that does not know it, an empty answer is followed by a wait that grows; a held one is
// followed by the next claim at once.
func TestAClaimThatWasNotHeldIsFollowedByAWait(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(*runner.Options)
		fault    *refserver.Fault
		min, max int // calls in an hour
	}{
		{"held", nil, nil, 143, 145},
		{"not asked to be held", func(o *runner.Options) { o.Wait = 0 }, nil, 100, 150},
		{"an older Server", nil, &refserver.Fault{Path: "/runner/jobs/claim", Kind: refserver.FaultIgnoreWait}, 100, 150},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
				if c.fault != nil {
					r.fault(*c.fault)
				}
				change := c.change
				if change == nil {
					change = func(*runner.Options) {}
				}
				p := r.run(&evaluator{}, change)
				began, before := time.Now(), len(r.calls("jobs/claim"))
				time.Sleep(time.Hour)
				if n := len(r.calls("jobs/claim")) - before; n < c.min || n > c.max {
					t.Errorf("%d claims in an hour, want %d to %d", n, c.min, c.max)
				}
				if silent := p.silences(began, 11*time.Second); silent != nil {
					t.Errorf("the watchdog was not fed: %v", silent)
				}
				if took := p.stops(); took > 2*time.Second {
					t.Errorf("stopping took %v", took)
				}
			})
		})
	}
}

func TestAHeartBeatsWhileJudgingToo(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		r.run(&evaluator{judge: takes(10 * time.Minute)})
		j := r.submit()
		time.Sleep(9 * time.Minute)
		if n := len(r.calls("heartbeat")); n < 8 || n > 9 {
			t.Errorf("%d heartbeats in nine minutes of judging", n)
		}
		r.accepted(j.ID, 5*time.Minute)
	})
}

// A heartbeat that maintenance refuses is expected; any other that fails is worth a warning, and none is repeated (4.7, 4.8).
func TestAHeartbeatThatIsRefusedIsAWarningUnlessTheServerIsAway(t *testing.T) {
	for status, level := range map[int]string{503: "level=DEBUG", 502: "level=DEBUG", 500: "level=WARN", 403: "level=WARN", 429: "level=WARN"} {
		inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
			p := r.run(&evaluator{})
			r.fault(refserver.Fault{Path: "/runner/heartbeat", Kind: refserver.FaultStatus, Status: status})
			before := len(r.calls("heartbeat"))
			time.Sleep(10 * time.Minute)
			if n := len(r.calls("heartbeat")) - before; n < 9 || n > 10 {
				t.Errorf("%d: %d heartbeats in ten minutes", status, n)
			}
			if !p.said(level, "heartbeat", "error=") {
				t.Errorf("%d: not said at %s", status, level)
			}
			r.accepted(r.submit().ID, time.Minute)
		})
	}
}

// The heart feeds no watchdog: a step that hangs must be noticed although heartbeats and renewals go on.
func TestAStepThatHangsIsNotFed(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.run(&evaluator{judge: func(ctx context.Context, _ protocol.Job, step func(runner.Step)) (runner.Answer, error) {
			step(runner.Step{Doing: "hanging", AtMost: 2 * time.Minute})
			<-ctx.Done()
			return runner.Answer{}, ctx.Err()
		}})
		r.submit()
		time.Sleep(time.Minute)
		began := time.Now()
		time.Sleep(20 * time.Minute)
		p.mu.Lock()
		last := p.alive[len(p.alive)-1]
		p.mu.Unlock()
		if fed := last.Sub(began); fed > 2*time.Minute {
			t.Errorf("a step of two minutes was fed for %v", fed)
		}
		if len(r.calls("heartbeat")) < 20 || len(r.calls("/lease")) < 7 {
			t.Error("heartbeats or renewals stopped, so this shows nothing")
		}
		if !p.said("level=ERROR", "a step takes longer than it can", "hanging") {
			t.Error("it was not said")
		}
	})
}

// What a person sees in systemctl status.
func TestTheStatusLineSaysWhatIsDone(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.newPlay(&evaluator{judge: takes(time.Minute)}).start()
		time.Sleep(time.Second)
		r.approve(p)
		j := r.accepted(r.submit().ID, 5*time.Minute)
		p.stops()
		for _, want := range []string{
			"registering with the Server", "waiting for approval of " + string(p.key.Fingerprint()), "idle",
			"judging job " + j.ID + ": compiling", "judging job " + j.ID + ": test 1a, 1 of 2", "reporting job " + j.ID, "stopped",
		} {
			if !slices.Contains(p.statuses, want) {
				t.Errorf("never said %q; said %q", want, p.statuses)
			}
		}
	})
}

// A machine that cannot judge must not use up the deliveries of one job after another.
func TestAMachineThatCannotJudgeClaimsNothing(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		var broken atomic.Bool // set here, read by the Runner
		broken.Store(true)
		e := &evaluator{}
		e.judge = func(context.Context, protocol.Job, func(runner.Step)) (runner.Answer, error) {
			if broken.Load() {
				return runner.Answer{}, &runner.Failure{Kind: runner.BadMachine, Err: errMachine}
			}
			return accepted(), nil
		}
		e.ready = func() error {
			if broken.Load() {
				return errMachine
			}
			return nil
		}
		p := r.run(e)
		j := r.submit()
		time.Sleep(time.Hour)
		if got := r.job(j.ID); got.Deliveries != 1 || got.State != refserver.Queued || got.FailureReason != errMachine.Error() {
			t.Errorf("after an hour: %+v", got)
		}
		if s, text := p.State(); s != runner.Unfit || !strings.Contains(text, errMachine.Error()) {
			t.Errorf("after an hour: %v, %q", s, text)
		}
		broken.Store(false)
		r.accepted(j.ID, 2*time.Minute)
		p.stops()
		if got := p.endings(); !slices.Equal(got, []runner.Ending{runner.Failed, runner.Reported}) {
			t.Errorf("ended as %v", got)
		}
	})
}

// What was found out at the start and does not hold any more is found out again by a new start, not by asking for ever.
func TestAMachineThatChangedUnderTheRunnerEndsIt(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		e := &evaluator{ready: func() error { return fmt.Errorf("%w: other processors", runner.ErrStale) }}
		e.judge = func(context.Context, protocol.Job, func(runner.Step)) (runner.Answer, error) {
			return runner.Answer{}, &runner.Failure{Kind: runner.BadMachine, Err: errMachine}
		}
		p := r.run(e)
		j := r.submit()
		if err := p.ends(time.Minute); !errors.Is(err, runner.ErrStale) {
			t.Errorf("ended with %v", err)
		}
		if got := r.job(j.ID); got.Deliveries != 1 || got.State != refserver.Queued {
			t.Errorf("%+v", got)
		}
	})
}

// Five infrastructure failures end a job as failed, with the reason and without a score (4.5, 9.4); failures in a row slow
// the Runner down.
func TestScenario_an_infrastructure_failure_five_times(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		e := &evaluator{judge: func(context.Context, protocol.Job, func(runner.Step)) (runner.Answer, error) {
			return accepted(), &runner.Failure{Kind: runner.BadPackage, Err: errors.New("the checker did not build")}
		}}
		p := r.run(e)
		began := time.Now()
		j := r.final(r.submit().ID, 5*time.Minute)
		if j.State != refserver.Failed || j.Result == nil || j.Result.Score != nil || j.Result.MaxScore != nil || j.Result.Verdict != "" ||
			j.FailureReason != "the checker did not build" || e.times() != 5 {
			t.Errorf("ended as %+v with %+v after %d evaluations", j, j.Result, e.times())
		}
		if got := string(r.Attachment(j.ID, "log")); got != "the checker did not build\n" {
			t.Errorf("the log is %q", got)
		}
		if r.Attachment(j.ID, "details") != nil {
			t.Error("a failure has details")
		}
		if took := time.Since(began); took < 2*time.Second {
			t.Errorf("five failures in a row took %v", took)
		}
		p.stops()
		for _, w := range p.ended {
			if w.Ending != runner.Failed || w.Failure != runner.BadPackage || w.Verdict != "" {
				t.Errorf("%+v", w)
			}
		}
	})
}

// A host that fails at everything slows down, whether or not the Server takes what it says of it; otherwise a Server that refuses
// failures hands one job after another to it.
func TestFailuresThatNobodyTakesSlowTheRunnerDownToo(t *testing.T) {
	for name, c := range map[string]struct {
		fault  refserver.Fault
		ending runner.Ending
	}{
		"refused":           {refserver.Fault{Kind: refserver.FaultStatus, Status: 422, Code: "validation"}, runner.Undelivered},
		"no longer its own": {refserver.Fault{Kind: refserver.FaultStatus, Status: 403, Code: string(protocol.CodeLeaseStale)}, runner.Lost},
	} {
		inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
			c.fault.Path = "/runner/jobs/*/report"
			r.fault(c.fault)
			e := &evaluator{judge: func(context.Context, protocol.Job, func(runner.Step)) (runner.Answer, error) {
				return runner.Answer{}, &runner.Failure{Kind: runner.BadDownload, Err: errMachine} // no question to the machine
			}}
			p := r.run(e)
			for range 40 {
				r.submit()
			}
			time.Sleep(20 * time.Second)
			if n := e.times(); n < 4 || n > 12 {
				t.Errorf("%s: %d jobs failed within 20 s", name, n)
			}
			p.stops()
			for _, ended := range p.endings() {
				if ended != c.ending {
					t.Errorf("%s: ended as %v", name, ended)
				}
			}
		})
	}
}

// Whatever comes with an error is no answer, and an answer that cannot be a result is no result.
func TestNothingDoubtfulIsReportedAsAResult(t *testing.T) {
	for name, answer := range map[string]runner.Answer{
		"no verdict": {Score: 100, Max: 100},
		"no number":  {Score: nan(), Max: 100, Verdict: "Accepted"},
	} {
		inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
			r.run(&evaluator{judge: func(context.Context, protocol.Job, func(runner.Step)) (runner.Answer, error) { return answer, nil }})
			j := r.final(r.submit().ID, 10*time.Minute)
			if j.State != refserver.Failed || j.Result.Verdict != "" {
				t.Errorf("%s: ended as %s with %+v", name, j.State, j.Result)
			}
		})
	}
}

// A job that cannot be judged is answered with the reason and never offered to the judge.
func TestAJobThatCannotBeJudgedIsAnInfrastructureFailure(t *testing.T) {
	for kind, says := range map[refserver.FaultKind]string{
		refserver.FaultNoPackage: "no package", refserver.FaultNoFiles: "no file",
	} {
		inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
			r.fault(refserver.Fault{Path: "/runner/jobs/claim", Kind: kind})
			e := &evaluator{}
			r.run(e)
			j := r.final(r.submit().ID, 10*time.Minute)
			if j.State != refserver.Failed || !strings.Contains(j.FailureReason, says) || e.times() != 0 {
				t.Errorf("%s: ended as %s, %q, judged %d times", kind, j.State, j.FailureReason, e.times())
			}
		})
	}
}

func nan() float64 {
	zero := 0.0
	return zero / zero
}

// A Server that admits and then refuses the token it gave is asked no faster for it.
func TestAnAdmissionThatDoesNotHelpIsNotRepeatedAtTheNetworksSpeed(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		r.run(&evaluator{})
		r.fault(refserver.Fault{Path: "/runner/jobs/claim", Kind: refserver.FaultStatus, Status: 401})
		time.Sleep(10 * time.Minute)
		if n := len(r.calls("jobs/claim")); n > 80 {
			t.Errorf("%d claims in ten minutes", n)
		}
	})
}
