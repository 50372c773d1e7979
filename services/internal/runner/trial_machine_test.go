package runner_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/refserver"
	"github.com/evalhost/evalhost/services/internal/runner"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Section 7, member by member: a row is the most that a test of the group took; a language is named only where the package
// declares more than one model; memory is absent where any test lacks it; one test runs at a time whatever the lanes.
func TestATrialTellsTheMostOfEachGroupMeasuredAlone(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		c := r.court(func(m *runner.MachineConfig, _ *runner.Options) { m.Lanes = 2 })
		c.box.figures = func(n int, o *sandbox.RunOutcome) {
			cpu, peak := time.Duration(1000*n+1)*time.Microsecond, verdict.Bytes(n)*verdict.MiB
			o.CPU, o.Peak = &cpu, &peak
			if n == 3 {
				o.Peak = nil
			}
		}
		// Run 1 is 1a, run 2 is 1b, run 3 is 2a, run 4 is 2b: the second group has a test without a measured peak.
		trial, err := r.AddTrial("standard-io@1", bytes.NewReader(zipped(t, adder, map[string]string{
			"config.yml": "type: standard-io@1\nlimits: { timeMs: 2000, memoryBytes: 67108864 }\n" +
				"groups: [ { group: 1, points: 40 }, { group: 2, points: 60 } ]\n" +
				"modelSolutions: [ { source: solutions/add.c, language: c11-gcc } ]\n",
			"tests/1b.in": "4 5\n", "tests/1b.out": "9\n", "tests/2b.in": "6 7\n", "tests/2b.out": "13\n",
		})))
		must(t, err)
		r.eventually("the trial is over", 5*time.Minute, func() bool {
			got, _ := r.Trial(trial.ID)
			return got.State.Final()
		})
		got, _ := r.Trial(trial.ID)
		want := `{"measured":[{"group":1,"timeMs":3,"memoryBytes":2097152},{"group":2,"timeMs":5}]}`
		if got.State != refserver.Completed || got.Measurement != want {
			t.Errorf("%s, %q: %s, want %s", got.State, got.FailureReason, got.Measurement, want)
		}
		if c.box.most != 1 || c.box.runs != 4 {
			t.Errorf("%d tests at once, %d runs", c.box.most, c.box.runs)
		}
		other, err := r.AddTrial("output-only@1", bytes.NewReader(zipped(t, adder)))
		must(t, err)
		r.eventually("a trial of another type has failed with a reason", 5*time.Minute, func() bool {
			got, _ := r.Trial(other.ID)
			return got.State == refserver.Failed && strings.Contains(got.FailureReason, "output-only@1")
		})
	})
}

func TestATrialIsMeasuredEndToEndAndThePackageDoesNotSurvive(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		r.court()
		trial, err := r.AddTrial("standard-io@1", bytes.NewReader(zipped(t, adder)))
		must(t, err)
		r.eventually("the trial is over", 5*time.Minute, func() bool {
			got, _ := r.Trial(trial.ID)
			return got.State.Final()
		})
		got, _ := r.Trial(trial.ID)
		want := `{"measured":[{"group":1,"language":"python3","timeMs":3,"memoryBytes":1048576},{"group":2,"language":"python3","timeMs":3,"memoryBytes":1048576},` +
			`{"group":1,"language":"c11-gcc","timeMs":3,"memoryBytes":1048576},{"group":2,"language":"c11-gcc","timeMs":3,"memoryBytes":1048576}]}`
		if got.State != refserver.Completed || got.Measurement != want || got.PackageID != "" {
			t.Errorf("%s, %q: %s", got.State, got.FailureReason, got.Measurement)
		}
		bad, err := r.AddTrial("standard-io@1", bytes.NewReader(zipped(t, adder, map[string]string{"solutions/add.c": "WRONG\n"})))
		must(t, err)
		r.eventually("the trial has failed", 5*time.Minute, func() bool {
			got, _ := r.Trial(bad.ID)
			return got.State == refserver.Failed && strings.Contains(got.FailureReason, "full marks") || strings.Contains(got.FailureReason, "points")
		})
	})
}
