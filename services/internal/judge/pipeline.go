package judge

import (
	"context"
	"fmt"

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
	image, err := b.image(toolchain)
	if err != nil {
		return nil, err
	}
	job, err := b.Box.OpenJob(ctx)
	if err != nil {
		return nil, err
	}
	defer b.closeJob(job)
	progress(Event{Stage: Compiling, Of: len(b.problem.Tests)})
	built, err := compile(ctx, job, image, toolchain, s.Source)
	if err != nil {
		return nil, failure(err, "building the submission")
	}
	s.Keep.file(toolchain.Source, s.Source)
	s.Keep.file("log", []byte(built.log))
	if built.program == nil {
		return b.refuse(toolchain, refusal{reason: verdict.CompilationError, log: built.log, compiled: true})
	}
	s.Keep.program(built.program.Path())
	c := candidate{toolchain: toolchain, image: image, program: built.program, keep: s.Keep}
	tested, err := b.tests(ctx, job, c, progress)
	if err != nil {
		return nil, err
	}
	return b.finish(toolchain, built.log, tested)
}

// closeJob removes a job's scratch. What could not be removed is found by the next sweep.
func (b *Bench) closeJob(job Job) {
	if err := job.Close(); err != nil {
		b.Log.Error("something of a job could not be removed", "error", err)
	}
}
