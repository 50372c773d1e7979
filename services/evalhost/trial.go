package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/report"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

var trialCommand = command{
	name: "trial", operands: "PACKAGE [--json]", summary: "measure the model solutions of a package",
	help: `Judges the model solutions that config.yml names, one test at a time, and prints for each and for each group the most
processor time and memory a test needed; then the limits that the package's calibration rule, or the default one (three
times the time, 16 MiB on top of the memory), makes of them.

  --json  print {"measured": [...]} instead: the text that a Server gets

Exits with 1 if a model solution is not Accepted; then nothing was measured.
`,
	run: trial,
}

func trial(ctx context.Context, args []string, std stdio) error {
	flags := flag.NewFlagSet("trial", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "")
	b, err := begin(flags, args, std, "one package", 1, 1)
	if err != nil {
		return err
	}
	defer b.work.close()
	p, err := b.work.open(ctx, b.operands[0])
	if err != nil {
		return err
	}
	toolchains, err := modelToolchains(p)
	if err != nil {
		return badUse("the package %s: %w", b.operands[0], err)
	}
	seat, err := newSeat(p, langimages.Default(), toolchains...)
	if err != nil {
		return err
	}
	host, err := std.host(ctx, b.settings, seat.keys, std.err, std.err)
	if err != nil {
		return err
	}
	defer host.close()
	shown := newProgress(std.err)
	defer shown.clear()
	bench, err := seat.open(ctx, host, b.work, shown)
	if err != nil {
		return err
	}
	rows, err := bench.Trial(ctx, func(model string, e judge.Event) { shown.of(model)(e) })
	shown.clear()
	var fault *judge.PackageFault
	switch {
	case errors.As(err, &fault):
		return statusError{exitUnexpected, fmt.Errorf("nothing was measured: the model solution %w", fault)}
	case err != nil:
		return err
	case *asJSON:
		text, err := protocol.Measurement(measurement(rows))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(std.out, text)
		return err
	}
	return writeTrial(std.out, p, rows)
}

// modelToolchains finds what is wrong with the model solutions before the machine is touched.
func modelToolchains(p *problem.Problem) ([]langimages.Toolchain, error) {
	if p.Type != problem.StandardIO {
		return nil, fmt.Errorf("it is of type %s, and there is nothing to measure", p.Type)
	}
	if len(p.ModelSolutions) == 0 {
		return nil, fmt.Errorf("%s declares no model solution: nothing could be measured", problem.ConfigName)
	}
	var toolchains []langimages.Toolchain
	for _, model := range p.ModelSolutions {
		toolchain, ok := langimages.Default().Resolve(model.Language)
		if !ok {
			return nil, fmt.Errorf("the model solution %s: %q is no toolchain; `evalhost toolchains` lists them", model.Path, model.Language)
		}
		if _, err := p.ReadSource(model.Path); err != nil {
			return nil, err
		}
		toolchains = append(toolchains, toolchain)
	}
	return toolchains, nil
}

// measurement is what of the rows a Server gets.
func measurement(rows []judge.Measured) []protocol.Measured {
	list := make([]protocol.Measured, len(rows))
	for i, row := range rows {
		list[i] = protocol.Measured{Group: int(row.Group), Language: row.Language, TimeMs: report.Millis(row.Time), MemoryBytes: row.Memory}
	}
	return list
}

// writeTrial prints the rows, and what the slowest and the largest of each group make for a limit.
func writeTrial(out io.Writer, p *problem.Problem, rows []judge.Measured) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "model solution\tgroup\tslowest\tlargest")
	for _, row := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d ms\t%s\n", row.Model, row.Group, report.Millis(row.Time), size(row.Memory))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "group\ttime now\tsuggested\tmemory now\tsuggested")
	for _, g := range p.Groups {
		var slowest int64
		var largest *verdict.Bytes
		measured := true
		for _, row := range slices.DeleteFunc(slices.Clone(rows), func(m judge.Measured) bool { return m.Group != g.Number }) {
			slowest = max(slowest, report.Millis(row.Time))
			measured = measured && row.Memory != nil
			if measured && (largest == nil || *row.Memory > *largest) {
				largest = row.Memory
			}
		}
		memory := "-"
		if measured && largest != nil {
			limit := verdict.Bytes(min(p.Calibration.Memory.Limit(uint64(*largest)), uint64(problem.MaxMemory)))
			memory = size(&limit)
		}
		now := p.Limits("", "", g.Number)
		fmt.Fprintf(w, "%d\t%d ms\t%d ms\t%s\t%s\n", g.Number, report.Millis(now.Time), p.Calibration.Time.Limit(uint64(slowest)), size(&now.Memory), memory)
	}
	return w.Flush()
}
