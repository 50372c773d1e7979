package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/report"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

var verifyCommand = command{
	name: "verify", operands: "PACKAGE... [--json]", summary: "judge every labelled solution of packages",
	help: `The directory that a solution lies in says which verdict it must get: solutions/accepted/, solutions/wrong_answer/
and so on. Its toolchain is what stands between the last two dots of its name (sum.c11-clang.c), else what the extension
suggests. Exits with 1 if a solution got another verdict than its label says.

  --json  print {"asExpected": ..., "packages": [...]} instead
`,
	run: verify,
}

// verified is a package with its labelled solutions. The member names are the contract of --json.
type verified struct {
	Package   string     `json:"package"`
	Solutions []solution `json:"solutions"`

	seat *seat
}

// solution is one labelled solution and, once it was judged, what came of it.
type solution struct {
	Path      string `json:"path"`
	Toolchain string `json:"toolchain"`
	// Expected and Actual are verdicts.
	Expected   verdict.Verdict `json:"expected"`
	Actual     verdict.Verdict `json:"actual"`
	AsExpected bool            `json:"asExpected"`
	Score      float64         `json:"score"`
	MaxScore   float64         `json:"maxScore"`
	// SlowestMs is the most processor time of a test, PeakBytes the most memory; null where no test was run or measured.
	SlowestMs *int64         `json:"slowestMs"`
	PeakBytes *verdict.Bytes `json:"peakBytes"`
	// WallMs is the time that passed from the first look at the source to the verdict.
	WallMs int64 `json:"wallMs"`
	// Failed says which test failed first, and why; empty where all passed.
	Failed string `json:"failed,omitempty"`

	source []byte
}

func verify(ctx context.Context, args []string, std stdio) error {
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "")
	operands, err := arguments(flags, args)
	if err != nil {
		return err
	}
	if len(operands) == 0 {
		return badUse("verify takes at least one package")
	}
	s, err := hereSettings(std)
	if err != nil {
		return err
	}
	work, err := newWorkdir(ctx, s)
	if err != nil {
		return err
	}
	defer work.close()
	// Everything that can be wrong with any package is found before the first solution is judged.
	var packages []*verified
	var keys []string
	for _, operand := range operands {
		v, err := readVerified(ctx, work, operand)
		if err != nil {
			return err
		}
		packages = append(packages, v)
		keys = append(keys, v.seat.keys...)
	}
	host, err := openHost(ctx, s, keys, std.err)
	if err != nil {
		return err
	}
	defer host.close()
	out := std.out
	if *asJSON {
		out = io.Discard
	}
	shown := newProgress(std.err)
	defer shown.clear()
	asExpected := true
	for _, v := range packages {
		good, err := v.judge(ctx, host, work, shown, out)
		if err != nil {
			return err
		}
		asExpected = asExpected && good
	}
	if *asJSON {
		err = writeJSON(std.out, struct {
			AsExpected bool        `json:"asExpected"`
			Packages   []*verified `json:"packages"`
		}{asExpected, packages})
	} else {
		err = summary(out, packages)
	}
	if err == nil && !asExpected {
		return statusError{status: exitUnexpected}
	}
	return err
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
	v := &verified{Package: operand}
	table := langimages.Default()
	var toolchains []langimages.Toolchain
	for _, l := range labelled {
		toolchain, err := labelledToolchain(table, l)
		if err != nil {
			return nil, badUse("the package %s: %w", operand, err)
		}
		source, err := p.ReadSource(l.Path)
		if err != nil {
			return nil, badUse("the package %s: %w", operand, err)
		}
		toolchains = append(toolchains, toolchain)
		v.Solutions = append(v.Solutions, solution{Path: l.Path, Toolchain: toolchain.ID, Expected: l.Want, source: source})
	}
	v.seat, err = newSeat(p, table, toolchains...)
	return v, err
}

// labelledToolchain takes the toolchain in the file's name, else the one that its extension suggests.
func labelledToolchain(table *langimages.Table, l problem.Labelled) (langimages.Toolchain, error) {
	if toolchain, ok := table.Resolve(l.Hint); ok {
		return toolchain, nil
	}
	toolchain, ok := table.ByExtension(path.Base(l.Path))
	if !ok {
		return toolchain, fmt.Errorf("the extension of %s names no language", l.Path)
	}
	return toolchain, nil
}

// judge judges every solution, one after the other, and prints a line for each. It returns whether all were as expected.
func (v *verified) judge(ctx context.Context, h *host, w *workdir, shown *progress, out io.Writer) (bool, error) {
	width := len("solution")
	for _, s := range v.Solutions {
		width = max(width, len(s.name()))
	}
	fmt.Fprintf(out, "%s\n  %-*s  %-21s  %-21s  %9s  %10s  %8s\n", v.Package, width, "solution", "expected", "actual", "slowest",
		"peak", "took")
	good := true
	for i := range v.Solutions {
		s := &v.Solutions[i]
		began := time.Now()
		judged, err := v.seat.judge(ctx, h, w, judge.Submission{
			FileName: path.Base(s.Path), Source: s.source, Toolchain: s.Toolchain,
		}, shown)
		if err != nil {
			return false, fmt.Errorf("%s: %w", s.Path, err)
		}
		s.fill(judged, time.Since(began))
		good = good && s.AsExpected
		shown.clear()
		fmt.Fprintf(out, "  %-*s  %s\n", width, s.name(), s.line())
	}
	return good, nil
}

// name is the path below solutions/.
func (s *solution) name() string { return strings.TrimPrefix(s.Path, "solutions/") }

// fill notes what came of a solution.
func (s *solution) fill(j *judge.Judged, wall time.Duration) {
	s.Actual, s.AsExpected = j.Verdict, j.Verdict == s.Expected
	s.Score, s.MaxScore, s.WallMs = j.Document.Score, j.Document.MaxScore, wall.Milliseconds()
	for _, t := range j.Tests {
		if t.Ran {
			ms := report.Millis(t.Time)
			s.SlowestMs = larger(s.SlowestMs, &ms)
		}
		s.PeakBytes = larger(s.PeakBytes, t.Memory)
	}
	for _, t := range j.Document.Tests {
		if t.Status == verdict.Error {
			s.Failed = report.Clean(t.Name + ": " + t.Note)
			break
		}
	}
}

// larger returns the larger of two measurements, either of which may be missing.
func larger[T cmp.Ordered](a, b *T) *T {
	switch {
	case a == nil:
		return b
	case b == nil || *a >= *b:
		return a
	}
	return b
}

// line is the solution's row behind its name.
func (s *solution) line() string {
	slowest := "-"
	if s.SlowestMs != nil {
		slowest = fmt.Sprintf("%d ms", *s.SlowestMs)
	}
	row := fmt.Sprintf("%-21s  %-21s  %9s  %10s  %6.1f s", s.Expected, s.Actual, slowest, size(s.PeakBytes), float64(s.WallMs)/1000)
	if !s.AsExpected {
		row += "  UNEXPECTED"
		if s.Failed != "" {
			row += ": " + report.Printable(s.Failed)
		}
	}
	return row
}

// summary counts.
func summary(w io.Writer, packages []*verified) error {
	total, good := 0, 0
	for _, v := range packages {
		for _, s := range v.Solutions {
			total++
			if s.AsExpected {
				good++
			}
		}
	}
	_, err := fmt.Fprintf(w, "%d of %d solutions got the verdict of their label\n", good, total)
	return err
}
