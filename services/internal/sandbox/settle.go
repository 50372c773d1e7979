package sandbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/mutant"
	"github.com/evalhost/evalhost/services/internal/verdict"
	"github.com/evalhost/evalhost/shim/wire"
)

// reportGap is how far the cgroup's reading may be above the shim's report before the report is not believed any more.
// The measured cost of everything that is in the one and not in the other is at most 0.62 s (spec/sandbox.md 4.1).
const reportGap = time.Second

// readings is everything known about a step that has ended.
type readings struct {
	// zero is the home at go, end the home after the last process was gone.
	zero, end cgroup.Reading
	// report of the shim, nil without one; failure is what it said instead.
	report  *wire.Report
	failure string
	// box is the box's memory.peak, read before the container was killed; nil when it was not.
	box *verdict.Bytes
	// untouched says that no program had been let go in the box when the container was killed (cgroup.Home.BoxUntouched).
	untouched bool
	// oomFlag is the runtime's word.
	oomFlag bool
}

// cpu is the processor time the home was charged since go; nil when one of the readings is missing.
func (r readings) cpu() *time.Duration {
	if r.zero.CPU == nil || r.end.CPU == nil {
		return nil
	}
	if mutant.Off(mutant.ZeroAtGo) {
		return ptr(r.end.CPU.Usage)
	}
	return ptr(max(r.end.CPU.Usage-r.zero.CPU.Usage, 0))
}

// events are what happened for lack of memory since go; nil when one of the readings is missing.
func (r readings) events() *cgroup.MemoryEvents {
	zero, end := r.zero.Memory, r.end.Memory
	if zero == nil || end == nil {
		return nil
	}
	grown := func(from, to uint64) uint64 { return max(to, from) - from }
	return &cgroup.MemoryEvents{OOM: grown(zero.OOM, end.OOM), OOMKill: grown(zero.OOMKill, end.OOMKill)}
}

// charge is the processor time a judged run is charged: max(report, home - 1 s), the report alone without a home, and the
// home's reading when the shim was killed and reported nothing (spec/sandbox.md 4.1). nil when nothing was measured.
func charge(report, home *time.Duration) *time.Duration {
	switch {
	case report == nil:
		return home
	case home == nil || mutant.Off(mutant.Floor):
		return report
	}
	return ptr(max(*report, *home-reportGap))
}

// errHostMemory is the infrastructure error of a kill that no limit of ours caused.
var errHostMemory = errors.New("a process of the run was killed for memory and no limit of the run was reached: the host " +
	"itself ran out of memory, or a limit above the runs' cgroups is too small; free memory, or run fewer lanes")

// killedForMemory says whether a step was killed because it reached its memory limit (spec/sandbox.md 4.6). The kernel's
// counts and the runtime's flag are two sources, and either is enough; the flag is racy. A kill without a limit reached
// is the host's doing and never a verdict (C05).
func killedForMemory(events *cgroup.MemoryEvents, flag bool) (bool, error) {
	if events != nil && events.OOMKill > 0 && !mutant.Off(mutant.MemoryEvents) {
		if events.OOM == 0 && !mutant.Off(mutant.HostMemory) {
			return false, errHostMemory
		}
		return true, nil
	}
	return flag && !mutant.Off(mutant.MemoryFlag), nil
}

// settle makes the outcome of a judged run out of what was read. stop is what ended it, exit the code of its PID 1.
func settle(stop Stop, exit int, r readings) (Outcome, error) {
	memory, err := killedForMemory(r.events(), r.oomFlag)
	if err != nil {
		return Outcome{}, fmt.Errorf("sandbox: %w", err)
	}
	if memory && (stop == OnItsOwn || !mutant.Off(mutant.MemoryFirst)) {
		stop = Memory
	}
	// The processor time that the deadlines go by is the home's, and what the shim needs before it lets the program go is in it.
	// A shim that hangs there has used some; whatever a deadline then says, it does not say it of the program.
	deadline := stop == TimeLimit || stop == WallClock || stop == Overall
	if deadline && r.untouched && r.report == nil && !mutant.Off(mutant.NeverStarted) {
		stop = NeverStarted
	}
	if stop == OnItsOwn && r.report == nil && !mutant.Off(mutant.ReportOwed) {
		why := "its shim reported nothing"
		if r.failure != "" {
			why = "its shim said: " + r.failure
		}
		return Outcome{}, fmt.Errorf("sandbox: the run ended by itself with exit code %d and %s; nothing is known about the "+
			"submission, so the test has to be run again; if Docker was stopped or restarted: systemctl status docker", exit, why)
	}
	// The shim ends with the status it reported, always (spec/sandbox.md 3.8). Where the daemon tells another, somebody else
	// ended the container after the report, or the daemon lost track: neither number may be judged.
	if stop == OnItsOwn && r.report != nil && exit != r.report.ExitStatus() && !mutant.Off(mutant.ExitAgrees) {
		return Outcome{}, fmt.Errorf("sandbox: the shim reported the exit status %d and the daemon says that the container ended "+
			"with %d: something outside of the run ended it, as the end of containerd-shim or a restart of the daemon does; nothing "+
			"is said about the submission, so the test has to be run again; look at the daemon's journal", r.report.ExitStatus(), exit)
	}
	o := Outcome{Stop: stop, ExitCode: exit, Home: r.cpu(), Peak: r.box, Failure: r.failure}
	if r.report != nil {
		o.Report = ptr(r.report.CPU)
		if r.report.Peak > 0 {
			o.Peak = ptr(verdict.Bytes(r.report.Peak))
		}
	}
	o.CPU = charge(o.Report, o.Home)
	return o, nil
}

// settleUnjudged makes the outcome of a build or a judge: the home's own numbers.
func settleUnjudged(stop Stop, exit int, r readings) (Outcome, error) {
	memory, err := killedForMemory(r.events(), r.oomFlag)
	if err != nil {
		return Outcome{}, fmt.Errorf("sandbox: %w", err)
	}
	if memory {
		stop = Memory
	}
	cpu := r.cpu()
	return Outcome{Stop: stop, ExitCode: exit, CPU: cpu, Home: cpu, Peak: r.end.Peak}, nil
}
