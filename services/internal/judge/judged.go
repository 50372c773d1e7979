package judge

import (
	"strings"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/report"
	"github.com/evalhost/evalhost/services/internal/score"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Judged is a submission that was judged, whatever the verdict.
type Judged struct {
	Verdict verdict.Verdict
	// Toolchain is the one that was asked for, an alias resolved; Version is what its compiler or interpreter calls itself,
	// empty when that was not read.
	Toolchain langimages.Toolchain
	Version   string
	// Document is the details document; its tests are in the order of the table.
	Document report.Document
	// Log is the text of the log attachment: what the compiler said, and which compiler that was, or why nothing was compiled.
	// It is empty when there was nothing to say.
	Log string
	// Tests is how each test ended, in the order of the census.
	Tests []Tested
}

// finish makes the result of a submission that was run.
func (b *Bench) finish(toolchain langimages.Toolchain, log string, tested []Tested) (*Judged, error) {
	sheet, err := score.Compute(b.groups(), scored(tested))
	if err != nil {
		return nil, err
	}
	// What the compiler said of a program that was built is for the log alone.
	return b.judged(toolchain, report.Compilation{Status: verdict.OK}, b.signed(toolchain, log), sheet, tested)
}

// refuse makes the result of a submission that was not run: every test failed for the one reason (4.2).
func (b *Bench) refuse(toolchain langimages.Toolchain, r refusal) (*Judged, error) {
	compilation, note := report.Compilation{Status: verdict.Warning, Log: r.log}, notePolicyViolation
	if r.reason == verdict.CompilationError {
		compilation.Status, note = verdict.Error, noteCompilationError
	}
	tested := make([]Tested, len(b.problem.Tests))
	for i, t := range b.problem.Tests {
		tested[i] = Tested{Name: t.Name, Group: t.Group, Status: verdict.Error, Reason: r.reason, Note: note}
	}
	sheet, err := score.Refused(b.groups(), scored(tested), r.reason)
	if err != nil {
		return nil, err
	}
	log := r.log
	if r.compiled {
		log = b.signed(toolchain, log)
	}
	return b.judged(toolchain, compilation, log, sheet, tested)
}

// signed appends to a compiler's words which compiler they are of. A compiler without a word is not named either: then there
// is no log.
func (b *Bench) signed(toolchain langimages.Toolchain, log string) string {
	version := b.Versions[toolchain.ID]
	if version == "" || strings.TrimSpace(log) == "" {
		return log
	}
	return withLine(log, toolchain.Label+": "+version)
}

// judged makes the result of a submission in a toolchain.
func (b *Bench) judged(toolchain langimages.Toolchain, compilation report.Compilation, log string, sheet score.Sheet, tested []Tested) (*Judged, error) {
	j, err := assemble(b.problem, b.problem.ShownLimits(toolchain.Family, toolchain.ID), compilation, log, sheet, tested)
	if err != nil {
		return nil, err
	}
	j.Toolchain, j.Version = toolchain, b.Versions[toolchain.ID]
	return j, nil
}

// assemble puts the document of any problem type together and makes sure that it can be written.
func assemble(p *problem.Problem, limits problem.Limits, compilation report.Compilation, log string, sheet score.Sheet,
	tested []Tested,
) (*Judged, error) {
	j := &Judged{
		Verdict: sheet.Verdict,
		Document: report.Document{
			Type: string(p.Type), Limits: report.Limits{Time: limits.Time, Memory: limits.Memory},
			Score: sheet.Score, MaxScore: sheet.Max, Compilation: compilation,
		},
		Log:   report.Log(log),
		Tests: tested,
	}
	for _, g := range sheet.Groups {
		j.Document.Groups = append(j.Document.Groups, report.Group{Number: g.Number, Points: g.Points, MaxPoints: g.Max, Status: g.Status})
	}
	for _, row := range sheet.Tests {
		t := tested[row.Index]
		shown := report.Test{
			Name: t.Name, Group: t.Group, Status: t.Status, Reason: t.Reason, Time: t.Time, Note: t.Note,
			Score: row.Score, MaxScore: row.Max,
		}
		if t.Memory != nil {
			shown.Memory = *t.Memory
		}
		j.Document.Tests = append(j.Document.Tests, shown)
	}
	if err := j.Document.Validate(); err != nil {
		return nil, err
	}
	return j, nil
}

// groups are the package's groups as they are scored, in the author's order.
func (b *Bench) groups() []score.Group { return groupsOf(b.problem) }

func groupsOf(p *problem.Problem) []score.Group {
	groups := make([]score.Group, len(p.Groups))
	for i, g := range p.Groups {
		groups[i] = score.Group{Number: g.Number, Points: g.Points, Tests: p.TestsIn(g.Number)}
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
