package runner_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/refserver"
	"github.com/evalhost/evalhost/services/internal/runner"
)

// measurer times nothing, in so much time.
type measurer struct {
	takes time.Duration
	err   error
}

func (m measurer) Measure(ctx context.Context, _ protocol.Trial, step func(runner.Step)) ([]protocol.Measured, error) {
	step(runner.Step{Doing: "measuring", AtMost: time.Hour})
	select {
	case <-time.After(m.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if m.err != nil {
		return nil, m.err
	}
	return []protocol.Measured{{Group: 1, TimeMs: 240}}, nil
}

func (r *rig) trial() refserver.Trial {
	r.t.Helper()
	trial, err := r.AddTrial("standard-io@1", strings.NewReader("a package"))
	must(r.t, err)
	return trial
}

func TestATrialIsMeasuredWhenThereIsNoJob(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		trial, j := r.trial(), r.submit()
		r.run(&evaluator{judge: takes(time.Minute)}, func(o *runner.Options) { o.Measurer = measurer{takes: 20 * time.Minute} })
		r.accepted(j.ID, 3*time.Minute)
		if got, _ := r.Trial(trial.ID); got.State == refserver.Completed {
			t.Error("a trial was measured before the job")
		}
		r.eventually("the trial is measured", 30*time.Minute, func() bool {
			got, _ := r.Trial(trial.ID)
			return got.State == refserver.Completed
		})
		got, _ := r.Trial(trial.ID)
		if got.Measurement != `{"measured":[{"group":1,"timeMs":240}]}` || got.Deliveries != 1 {
			t.Errorf("%+v", got)
		}
	})
}

func TestATrialThatCannotBeMeasuredSaysWhy(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		trial := r.trial()
		r.run(&evaluator{}, func(o *runner.Options) {
			o.Measurer = measurer{err: &runner.Failure{Kind: runner.BadPackage, Err: errors.New("the model solution scores 70 of 100")}}
		})
		r.eventually("the trial has failed", time.Minute, func() bool {
			got, _ := r.Trial(trial.ID)
			return got.State == refserver.Failed && got.FailureReason == "the model solution scores 70 of 100"
		})
	})
}

// A trial cannot be given back: a stop leaves it to its lease, and reports nothing.
func TestAStopLeavesATrialToItsLease(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		trial := r.trial()
		p := r.run(&evaluator{}, func(o *runner.Options) { o.Measurer = measurer{takes: time.Hour} })
		time.Sleep(time.Minute)
		if took := p.stops(); took > time.Second {
			t.Errorf("stopping took %v", took)
		}
		got, _ := r.Trial(trial.ID)
		if got.State != refserver.Running || len(r.calls("/report")) != 0 || !slices.Equal(p.endings(), []runner.Ending{runner.Abandoned}) {
			t.Errorf("%+v, ended as %v", got, p.endings())
		}
	})
}

func TestARunnerWithoutAMeasurerClaimsNoTrial(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		r.trial()
		r.run(&evaluator{})
		time.Sleep(10 * time.Minute)
		if n := len(r.calls("trials")); n != 0 {
			t.Errorf("%d calls about trials", n)
		}
	})
}
