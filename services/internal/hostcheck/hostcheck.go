// Package hostcheck asks a machine whether it can judge (spec/sandbox.md 7.3).
//
// One requirement is one file and one value of the type requirement. All of them are always asked, in the order of the
// table below, and each gives one Result: what was asked, what was found, why it matters for judging, and the cure.
//
// How severe a finding is follows one rule. Failed: a limit would not be enforced, a measurement could not be trusted,
// or the isolation would be weaker than promised. Warning: measurements get noisier and nothing else. Not applicable:
// the machine has no such control. What could not be found out is failed: a requirement is never met by silence.
package hostcheck

import (
	"context"
	"slices"
	"time"

	"github.com/evalhost/evalhost/services/internal/sandbox"
)

// Status is how a requirement was met.
type Status string

const (
	// OK: met.
	OK Status = "ok"
	// Failed: not met, or it could not be found out; the machine must not judge.
	Failed Status = "failed"
	// Warning: met in part; figures will be noisier, verdicts hold.
	Warning Status = "warning"
	// NotApplicable: the machine has no such control.
	NotApplicable Status = "not applicable"
)

// Result is the answer to one requirement. The member names are the contract of `evalhost check --json`.
type Result struct {
	// ID names the requirement; it never changes.
	ID     string `json:"id"`
	Status Status `json:"status"`
	// Asked says what the requirement is, Found what the machine has, Why what it means for judging.
	Asked string `json:"asked"`
	Found string `json:"found"`
	Why   string `json:"why"`
	// Cure says what to do; empty when there is nothing to do.
	Cure string `json:"cure,omitempty"`
	// Because names the requirement whose failure left this one unanswered; such a result is Failed and has no cure of
	// its own.
	Because string `json:"because,omitempty"`
}

// Report is everything that was asked, in the fixed order.
type Report struct {
	// Fit says that nothing failed.
	Fit          bool     `json:"fit"`
	Requirements []Result `json:"requirements"`
	// Images holds, by key, the daemon's ids of the images that were found to be the expected ones.
	Images map[string]string `json:"-"`
	// Processors are what lanes are made of, with those that a run's cgroup may use.
	Processors sandbox.Processors `json:"-"`
}

// Failed returns the results that stand between the machine and judging.
func (r Report) Failed() []Result {
	var failed []Result
	for _, result := range r.Requirements {
		if result.Status == Failed {
			failed = append(failed, result)
		}
	}
	return failed
}

// perRequirement bounds the time one requirement may take, so that a wedged daemon cannot hold the check for ever.
const perRequirement = 20 * time.Second

// finding is what a requirement's look brings back.
type finding struct {
	status      Status
	found, cure string
}

func met(found string) finding           { return finding{OK, found, ""} }
func failed(found, cure string) finding  { return finding{Failed, found, cure} }
func warning(found, cure string) finding { return finding{Warning, found, cure} }
func absent(found string) finding        { return finding{NotApplicable, found, ""} }

// requirement is the one contract: what is asked, why, and how to look.
type requirement struct {
	id, asked, why string
	// needs names earlier requirements: without one of them this one cannot be answered, or its answer would be a symptom with a
	// cure that mends nothing.
	needs []string
	// within is how long the look may take; perRequirement where it is zero.
	within time.Duration
	look   func(context.Context, *Machine) finding
}

// requirements is the fixed order. A cause stands before what follows from it.
var requirements = []requirement{
	root,
	platform,
	kernel,
	cgroupUnified,
	cgroupControllers,
	dockerReachable,
	dockerVersion,
	dockerPlatform,
	dockerIdentity,
	dockerSeccomp,
	dockerDisk,
	cgroupDriver,
	cgroupBus,
	cgroupProbe,
	swap,
	ptrace,
	corePattern,
	shim,
	scratch,
	disk,
	clock,
	pressure,
	hugePages,
	governor,
	boost,
	smt,
	lanes,
	manifest,
}

// insideRequirements are asked last: they need an image that was found to be the expected one.
var insideRequirements = []requirement{
	containerProbe,
	containerIdentity,
	containerCapabilities,
	containerPrivileges,
	containerSeccomp,
	containerNetwork,
	containerRoot,
	containerLimits,
	containerAppArmor,
}

// Run asks everything of the machine: the requirements above, then one for each of the machine's images, then those that
// are asked inside a container of the first image that was found to be the expected one.
func Run(ctx context.Context, m *Machine) Report {
	report := Report{Fit: true, Images: map[string]string{}}
	unmet := map[string]string{}
	m.proved = ""
	all := slices.Concat(requirements, imageRequirements(m, report.Images), insideRequirements)
	for _, req := range all {
		result := ask(ctx, m, req, unmet)
		if result.Status == Failed {
			unmet[req.id] = req.id
			if result.Because != "" {
				unmet[req.id] = result.Because
			}
			report.Fit = false
		}
		report.Requirements = append(report.Requirements, result)
	}
	report.Processors = m.Processors
	return report
}

// ask answers one requirement within its time. The values of unmet name the first cause of what is not met.
func ask(ctx context.Context, m *Machine, req requirement, unmet map[string]string) Result {
	result := Result{ID: req.id, Asked: req.asked, Why: req.why}
	for _, need := range req.needs {
		if cause := unmet[need]; cause != "" {
			result.Status, result.Because = Failed, cause
			result.Found = "not asked, because " + cause + " is not met"
			return result
		}
	}
	within := perRequirement
	if req.within > 0 {
		within = req.within
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	f := req.look(ctx, m)
	result.Status, result.Found, result.Cure = f.status, f.found, f.cure
	return result
}
