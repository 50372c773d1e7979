package judge

import (
	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/score"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Judged is a submission that was judged, whatever the verdict.
type Judged struct {
	Verdict verdict.Verdict
	Sheet   score.Sheet
	// Log is what the compiler said, or which rules were broken; it may be blank.
	Log string
	// Tests is how each test ended, in the order of the census.
	Tests []Tested
}

// finish scores a submission that was run.
func (b *Bench) finish(toolchain langimages.Toolchain, log string, tested []Tested) (*Judged, error) {
	sheet, err := score.Compute(b.groups(), scored(tested))
	if err != nil {
		return nil, err
	}
	return &Judged{Verdict: sheet.Verdict, Sheet: sheet, Log: log, Tests: tested}, nil
}

// refuse makes the result of a submission that was not run: every test failed for the one reason (4.2).
func (b *Bench) refuse(toolchain langimages.Toolchain, r refusal) (*Judged, error) {
	note := notePolicyViolation
	if r.reason == verdict.CompilationError {
		note = noteCompilationError
	}
	tested := make([]Tested, len(b.problem.Tests))
	for i, t := range b.problem.Tests {
		tested[i] = Tested{Name: t.Name, Group: t.Group, Status: verdict.Error, Reason: r.reason, Note: note}
	}
	sheet, err := score.Refused(b.groups(), scored(tested), r.reason)
	if err != nil {
		return nil, err
	}
	return &Judged{Verdict: sheet.Verdict, Sheet: sheet, Log: r.log, Tests: tested}, nil
}

// groups are the package's groups as they are scored, in the author's order.
func (b *Bench) groups() []score.Group {
	groups := make([]score.Group, len(b.problem.Groups))
	for i, g := range b.problem.Groups {
		groups[i] = score.Group{Number: g.Number, Points: g.Points, Tests: b.problem.TestsIn(g.Number)}
	}
	return groups
}

// scored is what of the outcomes earns points.
func scored(tested []Tested) []score.Test {
	tests := make([]score.Test, len(tested))
	for i, t := range tested {
		tests[i] = score.Test{Name: t.Name, Group: t.Group, Status: t.Status, Reason: t.Reason, Percentage: t.Percentage}
	}
	return tests
}
