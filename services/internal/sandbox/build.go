package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/mutant"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Build compiles one source file in a container and collects what it left. Whatever the source does to the compiler is in
// Built; an error means that the build could not be run, or that it succeeded and left nothing.
func (j *Job) Build(ctx context.Context, b Build) (_ Built, err error) {
	if err := b.check(); err != nil {
		return Built{}, err
	}
	if err := j.box.hasRoom(spaceBefore, "the build was not begun"); err != nil {
		return Built{}, err
	}
	id := "build-" + shortID()
	source, err := j.mkdir(id, "src")
	if err != nil {
		return Built{}, err
	}
	if err := writeFile(filepath.Join(source, b.SourceName), bytes.NewReader(b.Source), 0o444); err != nil {
		return Built{}, err
	}
	channels, err := j.mkdir(id, "said")
	if err != nil {
		return Built{}, err
	}
	said, err := newCollector(channels, buildOutput)
	if err != nil {
		return Built{}, err
	}
	defer said.close()
	c, err := j.box.contain(ctx, b.Image, j.box.buildCpuset(), func(s step) engine.Spec {
		return buildProfile(s, b.Command, source, channels)
	})
	if err != nil {
		return Built{}, err
	}
	defer func() {
		if e := c.remove(ctx); e != nil {
			j.box.log.Warn("a build could not be cleaned up", "container", c.name, "error", e)
		}
	}()

	wall := j.box.stretched(buildWall)
	built, err := c.runBuild(ctx, said, wall)
	if err != nil {
		return Built{}, err
	}
	if built.Stop == OnItsOwn && built.ExitCode != 0 {
		// Before anything of the failure is believed. What was full a moment ago may have room again, so this finds the disk
		// that stays full and not every short shortage; what the build itself may fill is limited elsewhere.
		if err := j.box.hasRoom(spaceAfter, fmt.Sprintf("the build ended with exit code %d, which says nothing about its source", built.ExitCode)); err != nil {
			return Built{}, err
		}
	}
	if built.Stop != OnItsOwn || built.ExitCode != 0 {
		return built, nil
	}
	out, err := j.mkdir(id, "out")
	if err != nil {
		return Built{}, err
	}
	dir, err := os.OpenRoot(out)
	if err != nil {
		return Built{}, fmt.Errorf("sandbox: %w", err)
	}
	defer dir.Close()
	var odd *oddArtefact
	switch err := c.fetchArtefact(ctx, b.Artifact, buildFileSize+artefactSpare, dir); {
	case errors.Is(err, errTooLarge):
		built.TooLarge = true
	case errors.As(err, &odd):
		built.Odd = odd.what
	case errors.Is(err, errNothing):
		return Built{}, fmt.Errorf("%w although it ended with success: the toolchain's build line or its image is wrong", err)
	case err != nil:
		return Built{}, err
	default:
		built.Program = &Program{filepath.Join(out, b.Artifact)}
	}
	return built, nil
}

// runBuild runs a created build to its end.
func (c *contained) runBuild(ctx context.Context, said *collector, wall time.Duration) (Built, error) {
	zero, err := c.measure()
	if err != nil {
		return Built{}, err
	}
	began := time.Now()
	if err := c.start(ctx, wall); err != nil {
		return Built{}, err
	}
	said.follow(ctx, c, wall)
	deadlines := untimed(wall)
	stop, err := c.supervise(ctx, &watch{Deadlines: deadlines}, began, zero, func() verdict.Bytes { return 0 })
	flooded, joinErr := said.join()
	if err := errors.Join(err, joinErr); err != nil {
		return Built{}, err
	}
	r, err := c.read(ctx, zero)
	if err != nil {
		return Built{}, err
	}
	if flooded {
		stop = Output
	}
	o, err := settleUnjudged(stop, c.code, r)
	if err != nil {
		return Built{}, err
	}
	o.Wall, o.Capped, o.Deadlines = c.wall(began), flooded, deadlines
	return Built{Outcome: o, Stdout: said.stdout, Stderr: said.stderr}, nil
}

// measure reads the home, at go and after the end. Without both readings nothing could be measured, and an absent count must
// not read as none: a home that was taken away in the middle would otherwise turn a memory kill into the program's own crash.
func (c *contained) measure() (cgroup.Reading, error) {
	r, err := c.home.Read()
	if err == nil && (r.CPU == nil || r.Memory == nil) && !mutant.Off(mutant.HomeOwed) {
		err = fmt.Errorf("sandbox: the cgroup %s has no cpu.stat or no memory.events, so the step cannot be measured: it was removed "+
			"by somebody else, or the controllers cpu and memory are not enabled down to it", c.home.Dir)
	}
	return r, err
}

// check refuses a Build that names what it may not.
func (b Build) check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if b.Kind != SubmissionBuild && b.Kind != JudgeBuild {
		wrong("its kind is %d", b.Kind)
	}
	if b.Image == "" || len(b.Command) == 0 {
		wrong("it names no image or no command")
	}
	if !isComponent(b.SourceName) {
		wrong("its source is called %q, expected a plain file name", b.SourceName)
	}
	if !isComponent(b.Artifact) {
		wrong("its artefact is called %q, expected a plain file name", b.Artifact)
	}
	if len(errs) > 0 {
		return fmt.Errorf("sandbox: a build cannot be run: %w", errors.Join(errs...))
	}
	return nil
}
