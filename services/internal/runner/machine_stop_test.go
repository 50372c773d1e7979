package runner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/refserver"
	"github.com/evalhost/evalhost/services/internal/runner"
)

// How a job on a real machine hears of a stop, and what of it is logged.

// A stop while a program runs ends it and gives the job back; the judge's own error is no infrastructure failure.
func TestAStopReachesTheRunUnderWay(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		c := r.court()
		j := r.hand("", zipped(t, adder), "main.c", "c11-gcc", "LASTS", "")
		time.Sleep(30 * time.Second)
		if took := c.stops(); took > time.Second {
			t.Errorf("stopping took %v", took)
		}
		if got := r.job(j.ID); got.State != refserver.Queued || got.Releases != 1 || got.FailureReason != "" {
			t.Errorf("the job is %+v", got)
		}
	})
}

// What the sandbox logs while a job is judged carries the job.
func TestWhatIsLoggedMeanwhileNamesTheJob(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		current := &runner.Current{}
		var say func()
		c := r.court(func(m *runner.MachineConfig, o *runner.Options) {
			m.Current = current
			log := current.Log(o.Log).With("container", "evalhost_1")
			say = func() { log.Warn("something odd") }
		})
		j := r.hand("", zipped(t, adder), "main.c", "c11-gcc", "LASTS", "")
		time.Sleep(30 * time.Second)
		say()
		r.accepted(j.ID, 5*time.Minute)
		time.Sleep(time.Second)
		if !c.said("something odd", "container=evalhost_1", "job="+j.ID, "attempt=1") {
			t.Error("the line does not name the job")
		}
		say()
		c.mu.Lock()
		lines := strings.Split(strings.TrimSpace(c.log.String()), "\n")
		c.mu.Unlock()
		if last := lines[len(lines)-1]; strings.Contains(last, "job=") || !strings.Contains(last, "something odd") {
			t.Error("a line after the job names it still")
		}
	})
}

// The line of a failure names the test and the container, so that the journal can be asked for what else it has of them; so does the
// line about a run that could not be removed.
func TestAFailureOfATestIsLoggedWithItsTestAndItsContainer(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		c := r.court(func(m *runner.MachineConfig, _ *runner.Options) {
			b := m.Box.(*box)
			b.breaks, b.sticks = errMachine, errMachine
		})
		r.hand("", zipped(t, adder), "main.c", "c11-gcc", "ADDS", "")
		time.Sleep(time.Second)
		for _, line := range []string{"infrastructure failure: there is no verdict", "something of a run could not be removed"} {
			if !c.said("level=ERROR", line, "test=1a", "container=evalhost_1a", errMachine.Error()) {
				t.Errorf("%q does not name both", line)
			}
		}
	})
}
