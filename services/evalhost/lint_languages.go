package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// lintLanguages finds names of languages that name nothing, and solutions that would be judged in another one than meant.
func lintLanguages(p *problem.Problem, table *langimages.Table) (found []problem.Finding) {
	add := func(severity problem.Severity, where, format string, arguments ...any) {
		found = append(found, problem.Finding{Severity: severity, Where: where, Msg: fmt.Sprintf(format, arguments...)})
	}
	known := func(name string) bool {
		return slices.ContainsFunc(table.Offered(), func(t langimages.Toolchain) bool { return t.ID == name || t.Family == name })
	}
	for _, key := range slices.Sorted(maps.Keys(p.OverrideLimits)) {
		if !known(key) {
			add(problem.Surprising, problem.ConfigName, "overrideLimits.%s is no family and no toolchain: it changes nothing", key)
		}
	}
	for _, name := range p.Languages {
		if !known(name) {
			add(problem.Surprising, problem.ConfigName, "languages: %q is no family and no toolchain: it allows nothing", name)
		}
	}
	if source := judgingProgram(p); source != nil {
		if _, ok := table.Resolve(source.Language); !ok {
			add(problem.Refused, source.Path, "%q is no toolchain", source.Language)
		}
	}
	for _, model := range p.ModelSolutions {
		switch toolchain, ok := table.Resolve(model.Language); {
		case !ok:
			add(problem.Surprising, model.Path, "%q is no toolchain: the model solution cannot be measured", model.Language)
		case !toolchain.AcceptsName(model.Path):
			add(problem.Surprising, model.Path, "is no file name for %s: the model solution cannot be measured", toolchain.Label)
		}
	}
	labelled, err := p.LabelledSolutions()
	if err != nil || p.Type == problem.OutputOnly {
		return found // the error is among the findings already
	}
	for _, l := range labelled {
		if _, err := labelledToolchain(table, l); err != nil {
			add(problem.Refused, l.Path, "%s", strings.TrimPrefix(err.Error(), l.Path+" "))
		}
	}
	return found
}

// floor is less than what a program that does nothing needs: below it, no program of the language passes.
type floor struct {
	time   time.Duration
	memory verdict.Bytes
}

// floors are by family. The memory is below the peaks that `evalhost verify examples/sum` shows in the guest (0.25 MiB in C and
// C++, 3.5 MiB in CPython; PyPy, which needs more, is held to the same); the time is below what starting a program costs on a
// machine that is not emulated.
var floors = map[string]floor{
	"c":      {2 * time.Millisecond, 128 * verdict.KiB},
	"cpp":    {2 * time.Millisecond, 128 * verdict.KiB},
	"python": {10 * time.Millisecond, 3 * verdict.MiB},
}

// lintFloors finds limits under which nothing can be accepted, for every language that the problem accepts.
func lintFloors(p *problem.Problem, table *langimages.Table) (found []problem.Finding) {
	if p.Type != problem.StandardIO {
		return nil
	}
	type fault struct{ setting, limit, floor string }
	var order []fault
	labels := map[fault][]string{}
	note := func(f fault, label string) {
		if labels[f] == nil {
			order = append(order, f)
		}
		if !slices.Contains(labels[f], label) {
			labels[f] = append(labels[f], label)
		}
	}
	for _, t := range table.Offered() {
		least := floors[t.Family]
		if !t.Allowed(p.Languages) {
			continue
		}
		for _, g := range p.Groups {
			limits := p.Limits(t.Family, t.ID, g.Number)
			time, memory := p.LimitSettings(t.Family, t.ID, g.Number)
			if limits.Time < least.time {
				note(fault{time, limits.Time.String(), least.time.String()}, t.Label)
			}
			if limits.Memory < least.memory {
				note(fault{memory, limits.Memory.String(), least.memory.String()}, t.Label)
			}
		}
	}
	for _, f := range order {
		found = append(found, problem.Finding{
			Severity: problem.Surprising, Where: problem.ConfigName,
			Msg: fmt.Sprintf("%s is %s, and a program that does nothing needs more than %s in %s", f.setting, f.limit, f.floor, strings.Join(labels[f], ", ")),
		})
	}
	return found
}
