package runner_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/refserver"
	"github.com/evalhost/evalhost/services/internal/runner"
)

// A lease that is lost ends the judging at the next renewal: the machine is free for work that somebody wants, and what comes
// of the judging is not even sent.
func TestALostLeaseStopsTheJudging(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		ended := make(chan time.Time, 1)
		p := r.run(&evaluator{judge: func(ctx context.Context, _ protocol.Job, step func(runner.Step)) (runner.Answer, error) {
			step(runner.Step{Doing: "judging", AtMost: 2 * time.Hour})
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
			}
			ended <- time.Now()
			return accepted(), nil
		}})
		j := r.submit()
		time.Sleep(10 * time.Second)
		began := time.Now()
		must(t, r.Cancel(j.ID))
		if took := (<-ended).Sub(began); took > 151*time.Second {
			t.Errorf("judging went on for %v after the lease was lost", took)
		}
		time.Sleep(time.Minute)
		if n := len(r.calls("/report")); n != 0 || !slices.Equal(p.endings(), []runner.Ending{runner.Lost}) {
			t.Errorf("%d reports, ended as %v", n, p.endings())
		}
		if s, _ := p.State(); s != runner.Idle {
			t.Errorf("the Runner is %v", s)
		}
	})
}

// Attachments that hang leave the answer the time to be sent more than once: it is the answer that counts.
func TestAttachmentsThatHangLeaveTheAnswerItsTime(t *testing.T) {
	for name, hang := range map[string]refserver.Fault{
		"silence":              {Kind: refserver.FaultHold},
		"an answer that drips": {Kind: refserver.FaultTrickle, Seconds: 50},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
				hang.Method, hang.Path = "POST", "/runner/files"
				r.fault(hang)
				r.fault(refserver.Fault{Path: "/runner/jobs/*/report", Kind: refserver.FaultStatus, Status: 503, Times: 2})
				p := r.run(&evaluator{}, func(o *runner.Options) { o.Lease = time.Minute })
				j := r.accepted(r.submit().ID, time.Minute)
				if j.Deliveries != 1 || len(r.calls("/report")) != 3 || !p.said("could not be attached", "file=log") || !p.said("could not be attached", "file=details") {
					t.Errorf("%+v after %d reports", j, len(r.calls("/report")))
				}
				p.stops()
				if !slices.Equal(p.endings(), []runner.Ending{runner.Reported}) {
					t.Errorf("ended as %v", p.endings())
				}
			})
		})
	}
}

// What hangs costs its own attachment: the next one has a time of its own.
func TestAnAttachmentThatHangsCostsNoOther(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		r.fault(refserver.Fault{Method: "POST", Path: "/runner/files", Kind: refserver.FaultHold, Times: 1})
		p := r.run(&evaluator{}, func(o *runner.Options) { o.Lease = time.Minute })
		j := r.accepted(r.submit().ID, time.Minute)
		if len(j.Attachments) != 1 || j.Attachments[0].Name != "details" || !p.said("could not be attached", "file=log") {
			t.Errorf("%+v", j.Attachments)
		}
	})
}

// vanishing packages have to be fetched again while their judging program is prepared, and then the Server says something.
type vanishing struct {
	runner.Packages
	says error // once
}

func (v *vanishing) Hold(ctx context.Context, ref protocol.PackageRef, from runner.Source, waits func(bool)) (runner.Package, error) {
	p, err := v.Packages.Hold(ctx, ref, from, waits)
	return vanished{p, v}, err
}

type vanished struct {
	runner.Package
	v *vanishing
}

func (p vanished) Program(ctx context.Context, program judge.JudgingProgram, build func(context.Context, string) error) (string, error) {
	if err := p.v.says; err != nil {
		p.v.says = nil
		return "", fmt.Errorf("fetching the package again: %w", err)
	}
	return p.Package.Program(ctx, program, build)
}

// A Server that is away while a judging program is prepared is as away as before: nothing is reported, and the machine is not
// doubted. What it refuses is no fault of the machine's either.
func TestAPackageThatVanishesWhileTheServerIsAwayIsNotReported(t *testing.T) {
	for _, c := range []struct {
		class  protocol.Class
		ending runner.Ending
		kind   runner.FailureKind
	}{
		{protocol.Unreachable, runner.Abandoned, 0},
		{protocol.Unavailable, runner.Abandoned, 0},
		{protocol.NotApproved, runner.Lost, 0},
		{protocol.NotFound, runner.Failed, runner.BadDownload},
		{protocol.Local, runner.Failed, runner.BadMachine},
	} {
		t.Run(c.class.String(), func(t *testing.T) {
			inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
				court := r.court(func(m *runner.MachineConfig, _ *runner.Options) {
					m.Packages = &vanishing{m.Packages, &protocol.Error{Op: "download the package", Class: c.class}}
				})
				archive := zipped(t, adder, map[string]string{
					"config.yml": "type: standard-io@1\nlimits: { timeMs: 2000, memoryBytes: 67108864 }\ngroups: [ { group: 1, points: 40 }, { group: 2, points: 60 } ]\n" +
						"checker: { source: check.c, language: c11-gcc }\n", "check.c": "CHECKS\n",
				})
				j := r.final(r.hand("", archive, "main.c", "c11-gcc", "ADDS", "").ID, 15*time.Minute)
				court.stops()
				if j.State != refserver.Completed || j.Result.Verdict != "Partial" {
					t.Errorf("ended as %s with %+v, reason %q", j.State, j.Result, j.FailureReason)
				}
				if w := court.ended[0]; w.Ending != c.ending || w.Failure != c.kind {
					t.Errorf("the first delivery ended as %v, %v", w.Ending, w.Failure)
				}
			})
		})
	}
}
