package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/config"
	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/report"
)

var lintCommand = command{
	name: "lint", operands: "PACKAGE... [flags]", summary: "say what in packages will surprise",
	help: `Reads everything in a package and says what would be refused (error) and what is legal and hardly ever meant (warning):
in config.yml, in every file below tests/, in the names of labelled solutions. Then a checker is run on the package's own
expected outputs, which it must accept in full, and on no output at all; an interactor on a program that ends at once and
says nothing; and where limits look too low, a program that does nothing is run under them. That needs a machine that can
judge; where it cannot, lint says so and the rest counts.

  --points N  what the groups should be worth together; default 100
  --static    run nothing
  --json      print {"clean": ..., "packages": [...]} instead

Exits with 1 if anything was found.
`,
	run: lint,
}

// linted is a package and what was found in it. The member names are the contract of --json.
type linted struct {
	Package  string            `json:"package"`
	Findings []problem.Finding `json:"findings"`
	// NotTried says what was not run and why: the checker or interactor, or limits that look too low. Empty if everything was
	// run, or if there was nothing to run.
	NotTried string `json:"notTried,omitempty"`

	seat  *seat // nil if there is nothing to run
	tight []*tight
}

// notTried notes why nothing of the package is run.
func (l *linted) notTried(why string) {
	var what []string
	if judgingProgram(l.seat.problem) != nil {
		what = append(what, "the checker or interactor was not run")
	}
	if len(l.tight) > 0 {
		what = append(what, "limits that look too low were not tried")
	}
	l.seat, l.NotTried = nil, strings.Join(what, ", and ")+": "+why
}

func lint(ctx context.Context, args []string, std stdio) error {
	flags := flag.NewFlagSet("lint", flag.ContinueOnError)
	points := flags.Uint64("points", 100, "")
	static := flags.Bool("static", false, "")
	asJSON := flags.Bool("json", false, "")
	b, err := begin(flags, args, std, "at least one package", 1, atLeast)
	if err != nil {
		return err
	}
	defer b.work.close()
	var packages []*linted
	for _, operand := range b.operands {
		l, err := lintStatic(ctx, b.work, operand, *points)
		if err != nil {
			return err
		}
		if l.seat != nil && *static {
			l.notTried("--static was given")
		}
		packages = append(packages, l)
	}
	if err := tryAll(ctx, packages, b.work, b.settings, std); err != nil {
		return err
	}
	return writeLinted(std.out, packages, *asJSON)
}

// lintStatic finds what can be found without running anything.
func lintStatic(ctx context.Context, work *workdir, operand string, points uint64) (*linted, error) {
	l := &linted{Package: operand, Findings: []problem.Finding{}}
	if _, err := os.Stat(operand); err != nil {
		return nil, badUse("the package cannot be read: %w", err)
	}
	tree, err := work.unpack(ctx, operand)
	if finding, ok := problem.FindingOf(err); ok && ctx.Err() == nil {
		// What is wrong with the archive as such is found at its own place.
		if finding.Where == operand {
			finding.Where = "."
		}
		l.Findings = append(l.Findings, finding)
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	p, found, err := problem.Lint(tree, points)
	if err != nil {
		return nil, err
	}
	l.Findings = append(l.Findings, found...)
	if p == nil {
		return l, nil
	}
	table := langimages.Default()
	l.Findings = append(l.Findings, lintLanguages(p, table)...)
	l.tight = tightLimits(p, table)
	source := judgingProgram(p)
	if source != nil {
		refused := func(f problem.Finding) bool { return f.Where == source.Path && f.Severity == problem.Refused }
		if slices.ContainsFunc(l.Findings, refused) {
			return l, nil // it is not there, or in no language: nothing of the package can be judged
		}
	}
	if p.Type == problem.StandardIO && (source != nil || len(l.tight) > 0) {
		l.seat, err = newSeat(p, table, tightToolchains(l.tight)...)
	}
	return l, err
}

func judgingProgram(p *problem.Problem) *problem.Source {
	if p.Checker != nil {
		return p.Checker
	}
	return p.Interactor
}

// tryAll runs the judging programs, on one host for all of them.
func tryAll(ctx context.Context, packages []*linted, work *workdir, s config.Settings, std stdio) error {
	var keys []string
	for _, l := range packages {
		if l.seat != nil {
			keys = append(keys, l.seat.keys...)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	host, err := std.host(ctx, s, keys, std.err, io.Discard)
	var status statusError
	if errors.As(err, &status) && status.status == exitUnfit {
		for _, l := range packages {
			if l.seat != nil {
				l.notTried(oneLine(err) + "; `evalhost check` says more")
			}
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer host.close()
	shown := newProgress(std.err)
	defer shown.clear()
	for _, l := range packages {
		if l.seat == nil {
			continue
		}
		if err := l.try(ctx, host, work, shown); err != nil {
			return fmt.Errorf("%s: %w", l.Package, err)
		}
	}
	return nil
}

// try runs one package's judging program, and what its tight limits are tried with. What the package does wrong is a finding; an
// error is the machine's.
func (l *linted) try(ctx context.Context, h *host, w *workdir, shown *progress) error {
	path := ""
	if source := judgingProgram(l.seat.problem); source != nil {
		path = source.Path
	}
	bench, err := l.seat.open(ctx, h, w, shown)
	var fault *judge.PackageFault
	if errors.As(err, &fault) {
		l.Findings = append(l.Findings, problem.Finding{Severity: problem.Refused, Where: path, Msg: report.Printable(fault.Why)})
		return nil
	}
	if err != nil {
		return err
	}
	found, err := tryTight(ctx, bench, l.tight, shown)
	if err != nil {
		return err
	}
	l.Findings = append(l.Findings, found...)
	faults, err := bench.TryJudging(ctx, shown.of(path))
	if err != nil {
		return err
	}
	for _, f := range faults {
		l.Findings = append(l.Findings, problem.Finding{
			Severity: problem.Surprising, Where: path, Msg: report.Printable("test " + f.Test + ": " + f.Msg),
		})
	}
	return nil
}

func writeLinted(out io.Writer, packages []*linted, asJSON bool) error {
	count := 0
	for _, l := range packages {
		count += len(l.Findings)
	}
	var err error
	if asJSON {
		err = writeJSON(out, struct {
			Clean    bool      `json:"clean"`
			Packages []*linted `json:"packages"`
		}{count == 0, packages})
	} else {
		err = writeFindings(out, packages, count)
	}
	if err == nil && count > 0 {
		return statusError{status: exitUnexpected}
	}
	return err
}

func writeFindings(out io.Writer, packages []*linted, count int) error {
	for _, l := range packages {
		for _, f := range l.Findings {
			fmt.Fprintf(out, "%s: %s: %s: %s\n", report.Printable(l.Package), f.Severity, f.Where, f.Msg)
		}
		if l.NotTried != "" {
			fmt.Fprintf(out, "%s: %s\n", report.Printable(l.Package), l.NotTried)
		}
	}
	plural := "s"
	if count == 1 {
		plural = ""
	}
	_, err := fmt.Fprintf(out, "%d finding%s\n", count, plural)
	return err
}
