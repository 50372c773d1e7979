package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/report"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// generous are limits that no host needs more than for starting a program. Only what is below is tried: they decide what is
// worth a container, and nothing that is told.
var generous = map[string]problem.Limits{
	"c":      {Time: 100 * time.Millisecond, Memory: verdict.MiB},
	"cpp":    {Time: 100 * time.Millisecond, Memory: verdict.MiB},
	"python": {Time: time.Second, Memory: 32 * verdict.MiB},
}

// tight are limits so low that a program which does nothing is run under them. Toolchains of one family in one image start
// programs in the same way: the first stands for all of them.
type tight struct {
	toolchain langimages.Toolchain
	limits    problem.Limits
	// labels are of the toolchains, times and memories the settings that come to these limits.
	labels, times, memories []string
}

// tightLimits finds them, for every language that the problem accepts, in the order of toolchains and groups.
func tightLimits(p *problem.Problem, table *langimages.Table) (all []*tight) {
	if p.Type != problem.StandardIO {
		return nil
	}
	add := func(to *[]string, word string) {
		if !slices.Contains(*to, word) {
			*to = append(*to, word)
		}
	}
	for _, t := range table.Offered() {
		if !t.Allowed(p.Languages) {
			continue
		}
		for _, g := range p.Groups {
			limits := p.Limits(t.Family, t.ID, g.Number)
			if enough := generous[t.Family]; limits.Time >= enough.Time && limits.Memory >= enough.Memory {
				continue
			}
			at := slices.IndexFunc(all, func(known *tight) bool {
				return known.toolchain.Family == t.Family && known.toolchain.Image == t.Image && known.limits == limits
			})
			if at < 0 {
				at = len(all)
				all = append(all, &tight{toolchain: t, limits: limits})
			}
			time, memory := p.LimitSettings(t.Family, t.ID, g.Number)
			add(&all[at].labels, t.Label)
			add(&all[at].times, time)
			add(&all[at].memories, memory)
		}
	}
	return all
}

// tightToolchains are those that must be there for trying them.
func tightToolchains(all []*tight) (toolchains []langimages.Toolchain) {
	for _, t := range all {
		toolchains = append(toolchains, t.toolchain)
	}
	return toolchains
}

// tryTight runs a program that does nothing under each of the limits, and tells what it does not pass.
func tryTight(ctx context.Context, bench *judge.Bench, all []*tight, shown *progress) (found []problem.Finding, err error) {
	for len(all) > 0 {
		// All limits of one toolchain with one build.
		toolchain := all[0].toolchain
		var now, later []*tight
		var limits []sandbox.Limits
		for _, t := range all {
			if t.toolchain.ID != toolchain.ID {
				later = append(later, t)
				continue
			}
			now, limits = append(now, t), append(limits, sandbox.Limits{Time: t.limits.Time, Memory: t.limits.Memory})
		}
		shown.say("trying limits in %s", toolchain.Label)
		tried, err := bench.TryIdle(ctx, toolchain, limits)
		if err != nil {
			return nil, err
		}
		for i, idle := range tried {
			if idle.Reason != verdict.NoReason {
				found = append(found, now[i].finding(idle))
			}
		}
		all = later
	}
	return found, nil
}

// finding says which settings let nothing pass.
func (t *tight) finding(idle judge.Idle) problem.Finding {
	settings, limit := t.memories, t.limits.Memory.String()
	if idle.Reason == verdict.TimeLimit {
		settings, limit = t.times, t.limits.Time.String()
	}
	is := "is"
	if len(settings) > 1 {
		is = "are"
	}
	needed := ""
	if idle.Memory != nil {
		needed = " and " + size(idle.Memory)
	}
	return problem.Finding{
		Severity: problem.Surprising, Where: problem.ConfigName,
		Msg: report.Printable(fmt.Sprintf("%s %s %s, and a program in %s that does nothing gets %q here: it took %d ms%s", strings.Join(settings, " and "), is,
			limit, strings.Join(t.labels, ", "), idle.Note, report.Millis(idle.Time), needed)),
	}
}
