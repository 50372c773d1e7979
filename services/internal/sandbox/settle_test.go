//go:build !guest

package sandbox

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/verdict"
	"github.com/evalhost/evalhost/shim/wire"
)

func TestWhatAJudgedRunIsChargedFollowsTheGapRule(t *testing.T) {
	none := time.Duration(-1)
	at := func(d time.Duration) *time.Duration {
		if d == none {
			return nil
		}
		return &d
	}
	for name, test := range map[string]struct{ report, home, want time.Duration }{
		"a gap within the tolerance believes the report":        {221 * ms, 271 * ms, 221 * ms},
		"exactly one second still does":                         {200 * ms, 1200 * ms, 200 * ms},
		"past it the home minus one second is charged":          {200 * ms, 1201 * ms, 201 * ms},
		"a forged report of nothing is charged what was burnt":  {0, 5 * time.Second, 4 * time.Second},
		"a report above the home is believed":                   {300 * ms, 200 * ms, 300 * ms},
		"equal readings":                                        {300 * ms, 300 * ms, 300 * ms},
		"a home below one second never makes a negative charge": {0, 500 * ms, 0},
		"without a home the report stands alone":                {200 * ms, none, 200 * ms},
		"without a report the home does, and nothing is taken":  {none, 3 * time.Second, 3 * time.Second},
		"without both nothing was measured":                     {none, none, none},
	} {
		t.Run(name, func(t *testing.T) {
			got := charge(at(test.report), at(test.home))
			if (got == nil) != (test.want == none) || got != nil && *got != test.want {
				t.Errorf("charge = %v, want %v", got, test.want)
			}
		})
	}
}

func TestAMemoryKillNeedsTheLimitToHaveBeenReached(t *testing.T) {
	events := func(oom, kill uint64) *cgroup.MemoryEvents { return &cgroup.MemoryEvents{OOM: oom, OOMKill: kill} }
	for name, test := range map[string]struct {
		events *cgroup.MemoryEvents
		flag   bool
		want   bool
		host   bool
	}{
		"nothing happened":                            {events(0, 0), false, false, false},
		"the kernel says so":                          {events(1, 2), false, true, false},
		"both say so":                                 {events(1, 1), true, true, false},
		"only the runtime says so":                    {events(0, 0), true, true, false},
		"the runtime says so and nothing can be read": {nil, true, true, false},
		"nothing can be read":                         {nil, false, false, false},
		"the limit was reached and nobody was killed": {events(845, 0), false, false, false},
		"C05 the host's own killer is no verdict":     {events(0, 1), false, false, true},
		"C05 and the runtime's flag does not make it": {events(0, 1), true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := killedForMemory(test.events, test.flag)
			if got != test.want || errors.Is(err, errHostMemory) != test.host || (err != nil) != test.host {
				t.Errorf("killedForMemory = %v, %v; want %v, the host's fault %v", got, err, test.want, test.host)
			}
		})
	}
}

// reading makes a home's reading.
func reading(cpu time.Duration, oom, kill uint64) cgroup.Reading {
	return cgroup.Reading{
		CPU:    &cgroup.CPUStat{Usage: cpu},
		Memory: &cgroup.MemoryEvents{OOM: oom, OOMKill: kill},
		Peak:   ptr(90 * verdict.MiB),
	}
}

func TestEverythingIsCountedFromGo(t *testing.T) {
	r := readings{
		zero: reading(700*ms, 3, 3), end: reading(900*ms, 3, 3),
		report: &wire.Report{ExitCode: 7, CPU: 150 * ms, Peak: 4096},
	}
	o, err := settle(OnItsOwn, 7, r)
	if err != nil {
		t.Fatal(err)
	}
	if o.Stop != OnItsOwn || o.ExitCode != 7 || *o.Home != 200*ms || *o.Report != 150*ms || *o.CPU != 150*ms || *o.Peak != 4096 {
		t.Errorf("outcome %+v, home %v, report %v, charged %v, peak %v", o, *o.Home, *o.Report, *o.CPU, *o.Peak)
	}
}

func TestMemoryOutranksEveryOtherStop(t *testing.T) {
	for stop := OnItsOwn; stop <= Decided; stop++ {
		o, err := settle(stop, 137, readings{zero: reading(0, 0, 0), end: reading(ms, 1, 2)})
		if err != nil || o.Stop != Memory {
			t.Errorf("%v: outcome %v, %v; want memory", stop, o.Stop, err)
		}
		if o, err := settleUnjudged(stop, 137, readings{zero: reading(0, 0, 0), end: reading(ms, 1, 1)}); err != nil || o.Stop != Memory {
			t.Errorf("%v of a build: outcome %v, %v; want memory", stop, o.Stop, err)
		}
	}
}

func TestC04AMemoryKillNeedsNoReport(t *testing.T) {
	o, err := settle(OnItsOwn, 137, readings{zero: reading(0, 0, 0), end: reading(50*ms, 1, 1)})
	if err != nil || o.Stop != Memory || *o.CPU != 50*ms || o.Peak != nil {
		t.Errorf("outcome %+v, %v", o, err)
	}
}

func TestARunThatEndedByItselfOwesAReport(t *testing.T) {
	_, err := settle(OnItsOwn, 125, readings{zero: reading(0, 0, 0), end: reading(ms, 0, 0), failure: "open /in/1a.in: no such file"})
	if err == nil || !strings.Contains(err.Error(), "open /in/1a.in") || !strings.Contains(err.Error(), "125") {
		t.Errorf("error %v, want the shim's words and the exit code", err)
	}
	for stop := TimeLimit; stop <= Decided; stop++ {
		if stop == NeverStarted || stop == Memory {
			continue
		}
		if o, err := settle(stop, 137, readings{zero: reading(0, 0, 0), end: reading(3*time.Second, 0, 0)}); err != nil || *o.CPU != 3*time.Second {
			t.Errorf("%v owes no report and is charged the home: %+v, %v", stop, o, err)
		}
	}
}

// Between the report and the end of the shim the container may still be killed from outside.
func TestAnExitCodeThatIsNotTheReportedOneIsNoOutcome(t *testing.T) {
	plain := func(report wire.Report) readings {
		return readings{zero: reading(0, 0, 0), end: reading(ms, 0, 0), report: &report}
	}
	for name, test := range map[string]struct {
		report wire.Report
		exit   int
		ok     bool
	}{
		"both say that it ended well":                     {wire.Report{}, 0, true},
		"both say that it failed":                         {wire.Report{ExitCode: 7}, 7, true},
		"both say by which signal":                        {wire.Report{Signal: 11}, 139, true},
		"the largest code there is":                       {wire.Report{ExitCode: 255}, 255, true},
		"it could not be executed":                        {wire.Report{ExitCode: 127}, 127, true},
		"its own code 137 is as good as any":              {wire.Report{ExitCode: 137}, 137, true},
		"it ended well and its container was killed":      {wire.Report{}, 137, false},
		"it failed and its container was killed":          {wire.Report{ExitCode: 7}, 137, false},
		"it crashed and the daemon tells of no error":     {wire.Report{Signal: 11}, 0, false},
		"it failed and the daemon tells of no error":      {wire.Report{ExitCode: 1}, 0, false},
		"it ended well and the daemon lost its exit code": {wire.Report{}, 255, false},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := settle(OnItsOwn, test.exit, plain(test.report))
			if (err == nil) != test.ok || err == nil && o.ExitCode != test.exit {
				t.Errorf("outcome %v with %d, %v; want one: %v", o.Stop, o.ExitCode, err, test.ok)
			}
			if err != nil && (!strings.Contains(err.Error(), fmt.Sprint(test.exit)) || !strings.Contains(err.Error(), fmt.Sprint(test.report.ExitStatus()))) {
				t.Errorf("%v does not name both numbers", err)
			}
			// Of any other stop the exit code is our own kill's, and of a memory kill the kernel's.
			if o, err := settle(TimeLimit, 137, plain(test.report)); err != nil || o.Stop != TimeLimit {
				t.Errorf("stopped at the ceiling: %v, %v", o.Stop, err)
			}
			killed := plain(test.report)
			killed.end = reading(ms, 1, 1)
			if o, err := settle(OnItsOwn, test.exit, killed); err != nil || o.Stop != Memory {
				t.Errorf("killed for memory: %v, %v", o.Stop, err)
			}
		})
	}
}

func TestADeadlineSaysNothingOfAProgramThatWasNeverLetGo(t *testing.T) {
	for stop := OnItsOwn; stop <= Decided; stop++ {
		r := readings{zero: reading(0, 0, 0), end: reading(ms, 0, 0), untouched: true}
		want := stop
		if stop == TimeLimit || stop == WallClock || stop == Overall {
			want = NeverStarted
		}
		if o, err := settle(stop, 137, r); stop != OnItsOwn && (err != nil || o.Stop != want) {
			t.Errorf("%v before the program: %v, %v; want %v", stop, o.Stop, err, want)
		}
		r.untouched = false
		if o, err := settle(stop, 137, r); stop != OnItsOwn && (err != nil || o.Stop != stop) {
			t.Errorf("%v of a program: %v, %v", stop, o.Stop, err)
		}
		// A report is written after the program; and the kernel's word on memory stands.
		r.untouched, r.report = true, &wire.Report{ExitCode: 137, CPU: ms}
		if o, err := settle(stop, 137, r); err != nil || o.Stop != stop {
			t.Errorf("%v with a report: %v, %v", stop, o.Stop, err)
		}
		r.report, r.end = nil, reading(ms, 1, 1)
		if o, err := settle(stop, 137, r); err != nil || o.Stop != Memory {
			t.Errorf("%v and a memory kill: %v, %v", stop, o.Stop, err)
		}
	}
}

func TestThePeakOfAStoppedRunIsTheBoxesBeforeTheKill(t *testing.T) {
	o, err := settle(TimeLimit, 137, readings{zero: reading(0, 0, 0), end: reading(ms, 0, 0), box: ptr(5 * verdict.MiB)})
	if err != nil || *o.Peak != 5*verdict.MiB {
		t.Errorf("peak %v, %v", o.Peak, err)
	}
}

func TestAPeakOfZeroMeansThatItCouldNotBeRead(t *testing.T) {
	o, err := settle(OnItsOwn, 0, readings{zero: reading(0, 0, 0), end: reading(ms, 0, 0), report: &wire.Report{CPU: ms}})
	if err != nil || o.Peak != nil {
		t.Errorf("peak %v, %v; want absent", o.Peak, err)
	}
}

func TestAHostThatRunsOutOfMemoryIsNoVerdict(t *testing.T) {
	r := readings{zero: reading(0, 0, 0), end: reading(ms, 0, 1), oomFlag: true}
	if _, err := settle(OnItsOwn, 137, r); !errors.Is(err, errHostMemory) {
		t.Errorf("judged: %v", err)
	}
	if _, err := settleUnjudged(OnItsOwn, 137, r); !errors.Is(err, errHostMemory) {
		t.Errorf("built: %v", err)
	}
}
