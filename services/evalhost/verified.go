package main

import (
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/report"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// verified is a package with its labelled solutions. The member names are the contract of --json.
type verified struct {
	Package   string     `json:"package"`
	Type      string     `json:"type"`
	Solutions []solution `json:"solutions"`
	// Limits is what the accepted solutions say about the limits; empty for output-only@1.
	Limits []suggestion `json:"limits"`

	problem *problem.Problem
	seat    *seat // nil for output-only@1
}

// solution is one labelled solution and, once it was judged, what came of it.
type solution struct {
	Path string `json:"path"`
	// Toolchain is empty for answers.
	Toolchain string `json:"toolchain,omitempty"`
	// Expected and Actual are verdicts.
	Expected   verdict.Verdict `json:"expected"`
	Actual     verdict.Verdict `json:"actual"`
	AsExpected bool            `json:"asExpected"`
	Score      float64         `json:"score"`
	MaxScore   float64         `json:"maxScore"`
	// Slowest is the test that came nearest to its time limit, Largest the one nearest to its memory limit; null where no test
	// was run or measured.
	Slowest *timed `json:"slowest"`
	Largest *sized `json:"largest"`
	// WallMs is the time that passed from the first look at the source to the verdict.
	WallMs int64 `json:"wallMs"`
	// Failed says which test failed first, and why; empty where all passed.
	Failed string `json:"failed,omitempty"`

	source    []byte
	toolchain langimages.Toolchain
	tests     []judge.Tested
}

// timed is the processor time of a test beside its limit.
type timed struct {
	Test    string `json:"test"`
	TimeMs  int64  `json:"timeMs"`
	LimitMs int64  `json:"limitMs"`
}

// sized is the peak of a test beside its limit.
type sized struct {
	Test        string        `json:"test"`
	MemoryBytes verdict.Bytes `json:"memoryBytes"`
	LimitBytes  verdict.Bytes `json:"limitBytes"`
}

// readVerified opens a package and finds its labelled solutions.
func readVerified(ctx context.Context, work *workdir, operand string) (*verified, error) {
	p, err := work.open(ctx, operand)
	if err != nil {
		return nil, err
	}
	labelled, err := p.LabelledSolutions()
	if err != nil {
		return nil, badUse("the package %s: %w", operand, err)
	}
	if len(labelled) == 0 {
		return nil, badUse("the package %s has no labelled solution: nothing could be verified", operand)
	}
	v := &verified{Package: operand, Type: string(p.Type), Limits: []suggestion{}, problem: p}
	table := langimages.Default()
	var toolchains []langimages.Toolchain
	for _, l := range labelled {
		s := solution{Path: l.Path, Expected: l.Want}
		if p.Type != problem.OutputOnly {
			if s.toolchain, err = labelledToolchain(table, l); err == nil {
				s.source, err = p.ReadSource(l.Path)
			}
			if err != nil {
				return nil, badUse("the package %s: %w", operand, err)
			}
			s.Toolchain = s.toolchain.ID
			toolchains = append(toolchains, s.toolchain)
		}
		v.Solutions = append(v.Solutions, s)
	}
	if p.Type != problem.OutputOnly {
		v.seat, err = newSeat(p, table, toolchains...)
	}
	return v, err
}

// labelledToolchain takes the toolchain in the file's name, else the one that its extension suggests. A word in the name that
// is no toolchain, or one that does not accept the name, is an error: the solution would be judged in another language than
// was meant, and under some labels that would look right.
func labelledToolchain(table *langimages.Table, l problem.Labelled) (langimages.Toolchain, error) {
	if l.Hint == "" {
		toolchain, ok := table.ByExtension(path.Base(l.Path))
		if !ok {
			return toolchain, fmt.Errorf("the extension of %s names no language", l.Path)
		}
		return toolchain, nil
	}
	toolchain, ok := table.Resolve(l.Hint)
	switch {
	case !ok:
		return toolchain, fmt.Errorf("%s asks for the toolchain %q, and there is none of that name; `evalhost toolchains` lists them, "+
			"and a name with nothing between two dots takes what its extension suggests", l.Path, l.Hint)
	case !toolchain.AcceptsName(l.Path):
		return toolchain, fmt.Errorf("%s asks for the toolchain %s, which takes %s", l.Path, toolchain.ID, strings.Join(toolchain.Extensions, ", "))
	}
	return toolchain, nil
}

// judge judges every solution, one after the other, prints a line for each, and what they say about the limits.
func (v *verified) judge(ctx context.Context, h *host, w *workdir, shown *progress, out io.Writer) error {
	width := len("solution")
	for _, s := range v.Solutions {
		width = max(width, len(s.name()))
	}
	if _, err := fmt.Fprintf(out, "%s\n  %-*s  %-21s  %-21s  %-24s  %-26s  %8s\n", report.Printable(v.Package), width, "solution", "expected",
		"actual", "slowest test", "largest test", "took"); err != nil {
		return err
	}
	for i := range v.Solutions {
		s := &v.Solutions[i]
		began := time.Now()
		judged, err := v.judgeOne(ctx, h, w, s, shown)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Path, err)
		}
		s.fill(v.problem, judged, time.Since(began))
		shown.clear()
		if _, err := fmt.Fprintf(out, "  %-*s  %s\n", width, s.name(), s.line()); err != nil {
			return err
		}
	}
	v.Limits = suggest(v.problem, v.Solutions)
	return writeSuggestions(out, v.Limits)
}

func (v *verified) judgeOne(ctx context.Context, h *host, w *workdir, s *solution, shown *progress) (*judge.Judged, error) {
	if v.seat == nil {
		return w.mark(ctx, v.problem, filepath.Join(v.problem.Dir, filepath.FromSlash(s.Path)))
	}
	return v.seat.judge(ctx, h, w, judge.Submission{FileName: path.Base(s.Path), Source: s.source, Toolchain: s.Toolchain}, shown)
}

// name is the path below solutions/.
func (s *solution) name() string { return strings.TrimPrefix(s.Path, "solutions/") }

// fill notes what came of a solution.
func (s *solution) fill(p *problem.Problem, j *judge.Judged, wall time.Duration) {
	s.Actual, s.AsExpected = j.Verdict, j.Verdict == s.Expected
	s.Score, s.MaxScore, s.WallMs = j.Document.Score, j.Document.MaxScore, wall.Milliseconds()
	s.tests = j.Tests
	for _, t := range j.Tests {
		if !t.Ran {
			continue
		}
		limits := p.Limits(s.toolchain.Family, s.toolchain.ID, t.Group)
		at := timed{t.Name, report.Millis(t.Time), report.Millis(limits.Time)}
		if s.Slowest == nil || nearer(at.TimeMs, at.LimitMs, s.Slowest.TimeMs, s.Slowest.LimitMs) {
			s.Slowest = &at
		}
		if t.Memory == nil {
			continue
		}
		of := sized{t.Name, *t.Memory, limits.Memory}
		if s.Largest == nil || nearer(of.MemoryBytes, of.LimitBytes, s.Largest.MemoryBytes, s.Largest.LimitBytes) {
			s.Largest = &of
		}
	}
	for _, t := range j.Document.Tests {
		if t.Status == verdict.Error {
			s.Failed = report.Clean(t.Name + ": " + t.Note)
			break
		}
	}
}

// nearer tells whether a is a larger part of its limit than b is of its own.
func nearer[T ~int64](a, limitA, b, limitB T) bool {
	return float64(a)/float64(limitA) > float64(b)/float64(limitB)
}

// slowest and peak are for people; a dash where nothing was measured.
func (s *solution) slowest() string {
	if s.Slowest == nil {
		return "-"
	}
	return fmt.Sprintf("%s: %d of %d ms", s.Slowest.Test, s.Slowest.TimeMs, s.Slowest.LimitMs)
}

func (s *solution) peak() string {
	if s.Largest == nil {
		return "-"
	}
	return fmt.Sprintf("%s: %.2f of %.0f MiB", s.Largest.Test, s.Largest.MemoryBytes.MiB(), s.Largest.LimitBytes.MiB())
}
