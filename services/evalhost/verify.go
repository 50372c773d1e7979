package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/evalhost/evalhost/services/internal/report"
)

var verifyCommand = command{
	name: "verify", operands: "PACKAGE... [--json]", summary: "judge every labelled solution of packages",
	help: `The directory that a solution lies in says which verdict it must get: solutions/accepted/, solutions/wrong_answer/
and so on. Its toolchain is what stands between the last two dots of its name (sum.c11-clang.c), else what the extension
suggests. In a problem of output-only@1 a solution is a file, a zip or a directory of answers.

For each solution: the test that came nearest to its time limit, and the one that came nearest to its memory limit. For each
setting of config.yml that decided a limit: what the accepted solutions needed at most, and the limit that the package's
calibration rule, or the default one, makes of it. Measured on a busy or slow machine it is too high.

  --json  print {"asExpected": ..., "packages": [...]} instead

Exits with 1 if a solution got another verdict than its label says, and names each on standard error.
`,
	run: verify,
}

func verify(ctx context.Context, args []string, std stdio) error {
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "")
	b, err := begin(flags, args, std, "at least one package", 1, atLeast)
	if err != nil {
		return err
	}
	defer b.work.close()
	// Everything that can be wrong with any package is found before the first solution is judged.
	var packages []*verified
	var keys []string
	containers := false
	for _, operand := range b.operands {
		v, err := readVerified(ctx, b.work, operand)
		if err != nil {
			return err
		}
		packages = append(packages, v)
		if v.seat != nil {
			keys, containers = append(keys, v.seat.keys...), true
		}
	}
	var h *host
	if containers {
		if h, err = std.host(ctx, b.settings, keys, std.err, std.err); err != nil {
			return err
		}
		defer h.close()
	}
	out := std.out
	if *asJSON {
		out = io.Discard
	}
	shown := newProgress(std.err)
	defer shown.clear()
	for _, v := range packages {
		if err := v.judge(ctx, h, b.work, shown, out); err != nil {
			return err
		}
	}
	unexpected := unexpected(packages)
	if *asJSON {
		err = writeJSON(std.out, struct {
			AsExpected bool        `json:"asExpected"`
			Packages   []*verified `json:"packages"`
		}{len(unexpected) == 0, packages})
	} else {
		err = summary(out, packages)
	}
	if err == nil && len(unexpected) > 0 {
		return statusError{exitUnexpected, fmt.Errorf("%s", strings.Join(unexpected, "; "))}
	}
	return err
}

// unexpected names the solutions that got another verdict than their label says.
func unexpected(packages []*verified) (named []string) {
	for _, v := range packages {
		for _, s := range v.Solutions {
			if !s.AsExpected {
				named = append(named, fmt.Sprintf("%s/%s got %q, its label says %q", strings.TrimSuffix(v.Package, "/"), s.Path, s.Actual, s.Expected))
			}
		}
	}
	return named
}

// summary counts.
func summary(w io.Writer, packages []*verified) error {
	total := 0
	for _, v := range packages {
		total += len(v.Solutions)
	}
	_, err := fmt.Fprintf(w, "%d of %d solutions got the verdict of their label\n", total-len(unexpected(packages)), total)
	return err
}

// line is the solution's row behind its name.
func (s *solution) line() string {
	row := fmt.Sprintf("%-21s  %-21s  %-24s  %-26s  %6.1f s", s.Expected, s.Actual, s.slowest(), s.peak(), float64(s.WallMs)/1000)
	if !s.AsExpected {
		row += "  UNEXPECTED"
		if s.Failed != "" {
			row += ": " + report.Printable(s.Failed)
		}
	}
	return row
}
