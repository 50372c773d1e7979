package judge

import (
	"context"
	"errors"
	"fmt"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Judge judges one submission (spec/judging.md 4.1 steps 4 to 12). Whatever the submission did is a Judged; an error is a
// *Failure, and then there is nothing else. progress may be nil.
func (b *Bench) Judge(ctx context.Context, s Submission, progress Progress) (*Judged, error) {
	if progress == nil {
		progress = func(Event) {}
	}
	judged, err := b.judge(ctx, s, progress)
	if err != nil {
		return nil, failure(err, "judging the submission")
	}
	return judged, nil
}

func (b *Bench) judge(ctx context.Context, s Submission, progress Progress) (*Judged, error) {
	toolchain, ok := b.Table.Resolve(s.Toolchain)
	if !ok {
		return nil, fmt.Errorf("%q is no language that is offered here", s.Toolchain)
	}
	if r := b.screen(s, toolchain); r.refused() {
		return b.refuse(toolchain, r)
	}
	progress(Event{Stage: Compiling, Of: len(b.problem.Tests)})
	job, c, log, err := b.build(ctx, toolchain, s.Source, "the submission")
	if err != nil {
		return nil, err
	}
	defer b.closeJob(job)
	s.Keep.file(toolchain.Source, s.Source)
	s.Keep.file("log", []byte(log))
	if c.program == nil {
		return b.refuse(toolchain, refusal{reason: verdict.CompilationError, log: log, compiled: true})
	}
	s.Keep.program(c.program.Path())
	c.keep = s.Keep
	tested, err := b.tests(ctx, job, c, progress)
	if err != nil {
		return nil, err
	}
	return b.finish(toolchain, log, tested)
}

// build has a source built in a job of its own, which the caller closes. The candidate has no program after a compilation error;
// log is what the compiler said in either case. what is built is named in a failure.
func (b *Bench) build(ctx context.Context, toolchain langimages.Toolchain, source []byte, what string) (_ Job, c candidate, log string, err error) {
	image, err := b.image(toolchain)
	if err != nil {
		return nil, candidate{}, "", failure(err, "building %s", what)
	}
	job, err := b.Box.OpenJob(ctx)
	if err != nil {
		return nil, candidate{}, "", failure(err, "building %s", what)
	}
	built, err := compile(ctx, job, image, toolchain, source)
	if err != nil {
		b.closeJob(job)
		return nil, candidate{}, "", failure(err, "building %s", what)
	}
	return job, candidate{toolchain: toolchain, image: image, program: built.program}, built.log, nil
}

// buildOurs builds a program that stands in for a submission: ours, so a compilation error is the machinery's as well.
func (b *Bench) buildOurs(ctx context.Context, toolchain langimages.Toolchain, source, what string) (Job, candidate, error) {
	job, c, log, err := b.build(ctx, toolchain, []byte(source), what)
	if err == nil && c.program == nil {
		b.closeJob(job)
		err = failure(errors.New(log), "building %s", what)
	}
	if err != nil {
		return nil, candidate{}, err
	}
	return job, c, nil
}

// closeJob removes a job's scratch. What could not be removed is found by the next sweep.
func (b *Bench) closeJob(job Job) {
	if err := job.Close(); err != nil {
		b.Log.Error("something of a job could not be removed", "error", err)
	}
}
