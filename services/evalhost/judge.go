package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/config"
	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/policy"
	"github.com/evalhost/evalhost/services/internal/problem"
)

var judgeCommand = command{
	name: "judge", operands: "PACKAGE SOURCE [flags]", summary: "judge one source file against a problem package",
	help: `PACKAGE is a directory or a zip with config.yml and tests/. Flags may stand anywhere.

  --toolchain ID  the language and compiler, see evalhost toolchains; default: what the file's extension suggests
  --no-policy     do not apply the source rules; never so in a contest
  --json          print the details document, and nothing else, on standard output
  --keep          keep the source, the program and its outputs, and say where

The exit status does not depend on the verdict: 0 says that there is one.
`,
	run: judgeOne,
}

func judgeOne(ctx context.Context, args []string, std stdio) error {
	flags := flag.NewFlagSet("judge", flag.ContinueOnError)
	toolchainID := flags.String("toolchain", "", "")
	noPolicy := flags.Bool("no-policy", false, "")
	asJSON := flags.Bool("json", false, "")
	keep := flags.Bool("keep", false, "")
	operands, err := arguments(flags, args)
	if err != nil {
		return err
	}
	if len(operands) != 2 {
		return badUse("judge takes a package and a source, not %d operands", len(operands))
	}
	s, err := hereSettings(std)
	if err != nil {
		return err
	}
	// Everything that can be wrong with the input is found before the machine is touched.
	table := langimages.Default()
	toolchain, err := chooseToolchain(table, *toolchainID, operands[1])
	if err != nil {
		return err
	}
	source, err := readSource(operands[1])
	if err != nil {
		return err
	}
	work, err := newWorkdir(ctx, s)
	if err != nil {
		return err
	}
	defer work.close()
	p, err := work.open(ctx, operands[0])
	if err != nil {
		return err
	}
	seat, err := newSeat(p, table, toolchain)
	if err != nil {
		return err
	}

	host, err := openHost(ctx, s, seat.keys, std.err)
	if err != nil {
		return err
	}
	defer host.close()
	submission := judge.Submission{
		FileName: filepath.Base(operands[1]), Source: source, Toolchain: toolchain.ID, NoPolicy: *noPolicy,
	}
	if *keep {
		if submission.Keep, err = newKeep(s); err != nil {
			return err
		}
	}
	shown := newProgress(std.err)
	defer shown.clear()
	judged, err := seat.judge(ctx, host, work, submission, shown)
	shown.clear()
	if submission.Keep != nil {
		fmt.Fprintf(std.err, "evalhost: kept %s\n", submission.Keep.Dir)
		if err := submission.Keep.Err(); err != nil {
			fmt.Fprintf(std.err, "evalhost: not everything could be kept: %s\n", oneLine(err))
		}
	}
	if err != nil {
		return err
	}
	if *noPolicy {
		fmt.Fprintln(std.err, "evalhost: the source rules were not applied (--no-policy)")
	}
	if *asJSON {
		return writeDocument(std.out, judged)
	}
	return writeJudged(std.out, judged, toolchain, *noPolicy)
}

// chooseToolchain takes the one that was asked for, or the one that the extension suggests.
func chooseToolchain(table *langimages.Table, id, source string) (langimages.Toolchain, error) {
	if id != "" {
		toolchain, ok := table.Resolve(id)
		if !ok {
			return toolchain, badUse("there is no toolchain %q; `evalhost toolchains` lists them", id)
		}
		return toolchain, nil
	}
	toolchain, ok := table.ByExtension(filepath.Base(source))
	if !ok {
		return toolchain, badUse("the extension of %s names no language; choose one with --toolchain", source)
	}
	return toolchain, nil
}

// newKeep makes the directory that --keep asks for. It lies beside the directories of runs, under a name that no sweep
// looks at.
func newKeep(s config.Settings) (*judge.Keep, error) {
	dir, err := os.MkdirTemp(s.Scratch, "kept-"+time.Now().UTC().Format("20060102-150405")+"-")
	if err != nil {
		return nil, unfit(err)
	}
	return &judge.Keep{Dir: dir}, nil
}

// seat is a problem with everything that judging it needs but the machine.
type seat struct {
	problem *problem.Problem
	table   *langimages.Table
	rules   *policy.Profile
	keys    []string // of the images needed
	bench   *judge.Bench
}

// newSeat finds out what judging a problem in these toolchains needs. A judging program in a language that does not exist
// is the package's fault.
func newSeat(p *problem.Problem, table *langimages.Table, toolchains ...langimages.Toolchain) (*seat, error) {
	keys, err := judge.Needs(p, table, toolchains...)
	if err != nil {
		return nil, badUse("the package: %w", err)
	}
	rules, err := policy.Default()
	if err != nil {
		return nil, err
	}
	return &seat{problem: p, table: table, rules: rules, keys: keys}, nil
}

// judge judges one submission; the judging program is built the first time.
func (s *seat) judge(ctx context.Context, h *host, w *workdir, submission judge.Submission, shown *progress) (*judge.Judged, error) {
	if s.bench == nil {
		shown.say("preparing the problem")
		var err error
		s.bench, err = judge.Open(ctx, judge.Config{
			Box: judge.InSandbox(h.box), Table: s.table, Rules: s.rules, Images: h.images, Versions: h.versions,
			Products: w.dir,
			Lanes:    h.box.Lanes(), Log: h.log,
		}, s.problem)
		if err != nil {
			return nil, err
		}
	}
	return s.bench.Judge(ctx, submission, func(e judge.Event) {
		switch e.Stage {
		case judge.Compiling:
			shown.say("%s: compiling", submission.FileName)
		case judge.Testing:
			shown.say("%s: test %s, %d of %d", submission.FileName, e.Test, e.Number, e.Of)
		}
	})
}
