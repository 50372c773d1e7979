package hostcheck

import "slices"

// Standing is what a Runner may do on a machine.
type Standing int

const (
	// The zero Standing is no answer.
	_ Standing = iota
	// Refused: it must not start.
	Refused
	// Unmeasured: it may start because the operator said so, must say at ERROR what is missing, and must fail every job as an
	// infrastructure failure before any container of untrusted code is made.
	Unmeasured
	// Ready: it may judge.
	Ready
)

// String names the standing for logs.
func (s Standing) String() string {
	switch s {
	case Refused:
		return "refused"
	case Unmeasured:
		return "unmeasured"
	case Ready:
		return "ready"
	}
	return "no standing"
}

// measuring names the requirements that only the measuring of runs needs. What is missing of them can hurt nobody as long as
// nothing is run; everything else stays a reason to refuse: seccomp, swap, a writable root, a daemon that does not answer
// (decisions 18; spec/sandbox.md 7.2).
var measuring = []string{"kernel", "cgroup.unified", "cgroup.controllers", "cgroup.driver", "cgroup.bus", "cgroup.probe"}

// Standing says what a Runner may do on the machine of this report. allowUnmeasured is the operator's AJ_Sandbox__AllowUnmeasured.
// causes are the failures that decide it, without those that merely follow from them; empty when the machine is fit.
//
// A report that was cut short is never ready: whoever gave up asking must look at the context first.
func (r Report) Standing(allowUnmeasured bool) (standing Standing, causes []Result) {
	overridable := true
	for _, result := range r.Failed() {
		if result.Because != "" {
			continue
		}
		causes = append(causes, result)
		overridable = overridable && slices.Contains(measuring, result.ID)
	}
	switch {
	case r.Fit && len(causes) == 0 && len(r.Requirements) > 0:
		return Ready, nil
	case allowUnmeasured && overridable && len(causes) > 0:
		return Unmeasured, causes
	}
	return Refused, causes
}
