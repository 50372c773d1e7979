package judge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Measured is one row of a trial: what one model solution needed on one group.
type Measured struct {
	// Model is the path of the model solution in the package.
	Model string
	Group uint32
	// Language is the model's, as it was declared; empty unless the package declares more than one model.
	Language string
	// Time is the most processor time a test of the group took.
	Time time.Duration
	// Memory is the highest peak; nil if any test of the group was not measured.
	Memory *verdict.Bytes
}

// Trial judges the package's own model solutions and measures them (spec/judging.md 2.6). Each is judged as a submission
// is, with the limits of today, one test at a time whatever the lanes. The rows are by model in the order of config.yml and
// then by group number. It gives no verdict and no score: a model that is not worth full marks is a *PackageFault, as is a
// package without one; every other error is the machinery's.
//
// The problem must have been loaded without an assignment's overlay: a trial has none.
func (b *Bench) Trial(ctx context.Context, progress func(model string, e Event)) ([]Measured, error) {
	if progress == nil {
		progress = func(string, Event) {}
	}
	models := b.problem.ModelSolutions
	if len(models) == 0 {
		return nil, &PackageFault{Why: "the package declares no model solution"}
	}
	// Two tests at once disturb each other's measurement, and a measurement is all this is for.
	alone := &Bench{Config: b.Config, problem: b.problem, judging: b.judging}
	alone.Lanes = 1
	var rows []Measured
	for _, model := range models {
		judged, err := alone.tryModel(ctx, model, progress)
		if err != nil {
			return nil, err
		}
		for _, row := range fold(judged.Tests) {
			row.Model = model.Path
			if len(models) > 1 {
				row.Language = model.Language
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// tryModel judges one model solution and wants full marks.
func (b *Bench) tryModel(ctx context.Context, model problem.Source, progress func(string, Event)) (*Judged, error) {
	if _, ok := b.Table.Resolve(model.Language); !ok {
		return nil, &PackageFault{Path: model.Path, Why: fmt.Sprintf("%s is no language that is offered here", shown(model.Language))}
	}
	source, err := b.problem.ReadSource(model.Path)
	var bad *problem.Error
	if errors.As(err, &bad) {
		return nil, &PackageFault{Path: model.Path, Why: bad.Reason(), Err: bad}
	}
	if err != nil {
		return nil, err
	}
	// The declared path is the name it is sent under.
	judged, err := b.Judge(ctx, Submission{FileName: model.Path, Source: source, Toolchain: model.Language},
		func(e Event) { progress(model.Path, e) })
	if err != nil {
		return nil, fmt.Errorf("the model solution %s: %w", model.Path, err)
	}
	if judged.Verdict != verdict.Accepted {
		return nil, &PackageFault{Path: model.Path, Why: notFull(judged)}
	}
	return judged, nil
}

// notFull says what a model solution that is not worth full marks got, and where.
func notFull(j *Judged) string {
	why := fmt.Sprintf("%s, %g of %g points; a model solution must get all of them", j.Verdict, j.Document.Score, j.Document.MaxScore)
	for _, t := range j.Document.Tests {
		if t.Status != verdict.OK {
			return why + fmt.Sprintf("; test %s: %s", t.Name, t.Note)
		}
	}
	return why
}

// fold makes the rows of one model, by group number.
func fold(tests []Tested) []Measured {
	var rows []Measured
	for _, t := range tests {
		at := slices.IndexFunc(rows, func(m Measured) bool { return m.Group == t.Group })
		if at < 0 {
			rows = append(rows, Measured{Group: t.Group, Time: t.Time, Memory: t.Memory})
			continue
		}
		row := &rows[at]
		row.Time = max(row.Time, t.Time)
		switch {
		case row.Memory == nil || t.Memory == nil:
			row.Memory = nil
		case *t.Memory > *row.Memory:
			row.Memory = t.Memory
		}
	}
	slices.SortFunc(rows, func(a, b Measured) int { return int(int64(a.Group) - int64(b.Group)) })
	return rows
}
