package judge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/sandbox"
)

// judging is a judging program, built.
type judging struct {
	kind      sandbox.JudgeKind
	toolchain langimages.Toolchain
	image     string
	program   *sandbox.Program
	// tests is what it sees at /in.
	tests string
}

// on is the judging program beside a run on a test.
func (j *judging) on(t problem.Test) *sandbox.Judge {
	return &sandbox.Judge{
		Kind: j.kind, Image: j.image, Command: j.toolchain.Run, Program: j.program, Tests: j.tests, Group: t.Group,
	}
}

// declared returns the judging program a package declares; the kind is 0 when it declares none.
func declared(p *problem.Problem) (sandbox.JudgeKind, *problem.Source) {
	switch {
	case p.Checker != nil:
		return sandbox.Checker, p.Checker
	case p.Interactor != nil:
		return sandbox.Interactor, p.Interactor
	}
	return 0, nil
}

// Needs returns the keys of the images that judging a problem in these toolchains needs.
func Needs(p *problem.Problem, table *langimages.Table, toolchains ...langimages.Toolchain) ([]string, error) {
	keys := map[string]bool{}
	var ordered []string
	add := func(key string) {
		if !keys[key] {
			keys[key] = true
			ordered = append(ordered, key)
		}
	}
	if _, source := declared(p); source != nil {
		toolchain, ok := table.Resolve(source.Language)
		if !ok {
			return nil, failure(fmt.Errorf("%q is no language", source.Language), "looking at the judging program %s", source.Path)
		}
		add(toolchain.Image)
	}
	for _, toolchain := range toolchains {
		add(toolchain.Image)
	}
	return ordered, nil
}

// buildJudging has the judging program built, unless an earlier bench has kept it.
func (b *Bench) buildJudging(ctx context.Context, kind sandbox.JudgeKind, source *problem.Source) (*judging, error) {
	toolchain, ok := b.Table.Resolve(source.Language)
	if !ok {
		return nil, fmt.Errorf("%q is no language", source.Language)
	}
	image, err := b.image(toolchain)
	if err != nil {
		return nil, err
	}
	kept := b.Kept
	if kept == nil {
		kept = b.anew
	}
	path, err := kept(ctx, JudgingProgram{Source: source.Path, Toolchain: toolchain, Image: image}, func(ctx context.Context, dir string) error {
		return b.buildInto(ctx, dir, source, toolchain, image)
	})
	if err != nil {
		return nil, err
	}
	program, err := sandbox.ProgramAt(path)
	if err != nil {
		return nil, err
	}
	return &judging{
		kind: kind, toolchain: toolchain, image: image, program: program,
		// An unpacked package has the directory even where no test needs files.
		tests: filepath.Join(b.problem.Dir, "tests"),
	}, nil
}

// anew builds a judging program that nobody keeps.
func (b *Bench) anew(ctx context.Context, p JudgingProgram, build func(ctx context.Context, dir string) error) (string, error) {
	dir, err := os.MkdirTemp(b.Products, "judging-")
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, p.Toolchain.Artifact), build(ctx, dir)
}

// buildInto builds the judging program in a job of its own and puts a copy of the program into dir.
func (b *Bench) buildInto(ctx context.Context, dir string, source *problem.Source, toolchain langimages.Toolchain, image string) error {
	code, err := b.problem.ReadSource(source.Path)
	var bad *problem.Error
	if errors.As(err, &bad) {
		return &PackageFault{Why: bad.Reason(), Err: bad}
	}
	if err != nil {
		return err
	}
	job, err := b.Box.OpenJob(ctx)
	if err != nil {
		return err
	}
	defer b.closeJob(job)
	built, err := job.Build(ctx, sandbox.Build{
		Kind: sandbox.JudgeBuild, Image: image, Command: toolchain.Build,
		SourceName: toolchain.Source, Source: code, Artifact: toolchain.Artifact,
	})
	if err != nil {
		return err
	}
	if built.Stop != sandbox.OnItsOwn || built.ExitCode != 0 || built.Program == nil {
		return judgeBuildFault(built)
	}
	content, err := os.ReadFile(built.Program.Path())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, toolchain.Artifact), content, 0o555)
}

// judgeBuildFault tells a judging program that does not build from a machine that does not build.
func judgeBuildFault(built sandbox.Built) error {
	why := "it does not build: " + judgeBuildFailure(built)
	switch built.Stop {
	case sandbox.WallClock, sandbox.Overall, sandbox.TimeLimit, sandbox.Memory, sandbox.Output:
		return &PackageFault{Why: why}
	case sandbox.OnItsOwn:
		if built.TooLarge || built.ExitCode != 0 && saysSomething(built.ExitCode) {
			return &PackageFault{Why: why}
		}
	}
	return errors.New(why)
}

// judgeBuildFailure says why a judging program has no program: its compiler's standard error and nothing else.
func judgeBuildFailure(built sandbox.Built) string {
	var parts []string
	switch {
	case built.Odd != "":
		parts = append(parts, "it left "+built.Odd+" in the place of a program")
	case built.TooLarge:
		parts = append(parts, "what was built is too large")
	case built.Stop != sandbox.OnItsOwn:
		parts = append(parts, stoppedLine(built.Outcome))
	default:
		parts = append(parts, fmt.Sprintf("exit code %d", built.ExitCode))
	}
	if len(built.Stderr) > 0 {
		parts = append(parts, string(built.Stderr))
	}
	return strings.Join(parts, ": ")
}
