package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/problem"
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
