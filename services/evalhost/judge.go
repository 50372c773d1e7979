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
	name: "judge", operands: "PACKAGE SOURCE [flags]", summary: "judge one submission against a problem package",
	help: `PACKAGE is a directory or a zip with config.yml and tests/. SOURCE is a source file; for a problem of output-only@1 it
is a zip or a directory of answers, or a single answer, and nothing of it is run: such a problem is judged on any machine
and by any user. Flags may stand anywhere.

  --toolchain ID  the language and compiler, see evalhost toolchains; default: what the file's extension suggests
  --no-policy     do not apply the source rules; never so in a contest
  --json          print the details document, and nothing else, on standard output
  --keep          keep the source, the program and its outputs, and say where

The exit status does not depend on the verdict: 0 says that there is one.
`,
	run: judgeOne,
}

// judgeFlags are the flags of judge.
type judgeFlags struct {
	toolchain              string
	noPolicy, asJSON, keep bool
}

func judgeOne(ctx context.Context, args []string, std stdio) error {
	var f judgeFlags
	flags := flag.NewFlagSet("judge", flag.ContinueOnError)
	flags.StringVar(&f.toolchain, "toolchain", "", "")
	flags.BoolVar(&f.noPolicy, "no-policy", false, "")
	flags.BoolVar(&f.asJSON, "json", false, "")
	flags.BoolVar(&f.keep, "keep", false, "")
	b, err := begin(flags, args, std, "a package and a source", 2, 2)
	if err != nil {
		return err
	}
	defer b.work.close()
	if f.toolchain == "" && given(flags, "toolchain") {
		// As an unset variable makes it: what was meant is not what the extension suggests.
		return badUse("--toolchain is empty; `evalhost toolchains` lists what there is")
	}
	p, err := b.work.open(ctx, b.operands[0])
	if err != nil {
		return err
	}
	if p.Type == problem.OutputOnly {
		return judgeAnswers(ctx, f, b.operands[1], p, b.work, std)
	}
	return judgeSource(ctx, f, b.operands[1], p, b.work, b.settings, std)
}

// judgeAnswers marks answers. It needs nothing of the machine.
func judgeAnswers(ctx context.Context, f judgeFlags, path string, p *problem.Problem, work *workdir, std stdio) error {
	if f.toolchain != "" || f.noPolicy || f.keep {
		return badUse("this is a problem of %s: nothing is compiled or run, so --toolchain, --no-policy and --keep mean nothing", p.Type)
	}
	if err := checkAnswers(path); err != nil {
		return err
	}
	judged, err := work.mark(ctx, p, path)
	if err != nil {
		return err
	}
	if f.asJSON {
		return writeDocument(std.out, judged)
	}
	return writeMarked(std.out, judged)
}

// checkAnswers makes sure that what is wrong with the answers' place is told as bad input.
func checkAnswers(path string) error {
	switch info, err := os.Stat(path); {
	case err != nil:
		return badUse("the answers cannot be read: %w", err)
	case !info.IsDir() && !info.Mode().IsRegular():
		return badUse("the answers %s are neither a file nor a directory", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return badUse("the answers cannot be read: %w", err)
	}
	return file.Close()
}

// mark marks answers, a zip, a directory or a single file.
func (w *workdir) mark(ctx context.Context, p *problem.Problem, path string) (*judge.Judged, error) {
	return judge.Marker{Scratch: w.dir}.Mark(ctx, p, judge.Answers{FileName: filepath.Base(path), Path: path})
}

func judgeSource(ctx context.Context, f judgeFlags, path string, p *problem.Problem, work *workdir, s config.Settings, std stdio) error {
	// Everything that can be wrong with the input is found before the machine is touched.
	table := langimages.Default()
	toolchain, err := chooseToolchain(table, f.toolchain, path)
	if err != nil {
		return err
	}
	source, err := readSource(path)
	if err != nil {
		return err
	}
	seat, err := newSeat(p, table, toolchain)
	if err != nil {
		return err
	}
	host, err := std.host(ctx, s, seat.keys, std.err, std.err)
	if err != nil {
		return err
	}
	defer host.close()
	submission := judge.Submission{
		FileName: filepath.Base(path), Source: source, Toolchain: toolchain.ID, NoPolicy: f.noPolicy,
	}
	if f.keep {
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
	if f.noPolicy {
		fmt.Fprintln(std.err, "evalhost: the source rules were not applied (--no-policy)")
	}
	if f.asJSON {
		return writeDocument(std.out, judged)
	}
	return writeJudged(std.out, judged, toolchain, f.noPolicy)
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

// open builds the judging program, the first time.
func (s *seat) open(ctx context.Context, h *host, w *workdir, shown *progress) (*judge.Bench, error) {
	if s.bench != nil {
		return s.bench, nil
	}
	shown.say("preparing the problem")
	bench, err := judge.Open(ctx, judge.Config{
		Box: h.judges, Table: s.table, Rules: s.rules, Images: h.images, Versions: h.versions,
		Products: w.dir, Lanes: h.lanes, Log: h.log,
	}, s.problem)
	if err != nil {
		return nil, err
	}
	s.bench = bench
	return bench, nil
}

// judge judges one submission.
func (s *seat) judge(ctx context.Context, h *host, w *workdir, submission judge.Submission, shown *progress) (*judge.Judged, error) {
	bench, err := s.open(ctx, h, w, shown)
	if err != nil {
		return nil, err
	}
	return bench.Judge(ctx, submission, shown.of(submission.FileName))
}
