// Package judge is the pipeline of standard-io@1 (spec/judging.md section 4): one submission against one problem, from
// the list of languages to the details document.
//
// It has two outcomes that are never mixed. A Judged is a verdict with everything that goes with it: whatever the
// submission did. A *Failure is an error: the machinery, the host or the package did it, and there is no verdict and no
// score, not even an empty one.
//
//	bench, err := judge.Open(ctx, config, problem)   // builds the judging program, if there is one
//	judged, err := bench.Judge(ctx, submission, progress)
package judge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/policy"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/sandbox"
)

// Box is what runs contained steps: the sandbox, or a fake in tests.
type Box interface {
	OpenJob(ctx context.Context) (Job, error)
}

// Job is the scratch of one submission.
type Job interface {
	Build(ctx context.Context, build sandbox.Build) (sandbox.Built, error)
	Prepare(ctx context.Context, run sandbox.Run) (Run, error)
	Close() error
}

// Run is a container that waits to be let go.
type Run interface {
	Go(ctx context.Context) (sandbox.RunOutcome, error)
	// Container names it, for the log.
	Container() string
	Close() error
}

// Config is what the pipeline works with. All members but Log are required.
type Config struct {
	Box Box
	// Table is the languages that are offered.
	Table *langimages.Table
	// Rules are the source rules that submissions are held to.
	Rules *policy.Profile
	// Images holds the daemon's id of each image, by key: the ids that were proved to be of the expected images.
	Images map[string]string
	// Versions says which compiler or interpreter each toolchain is, as far as that was read; see ReadVersions. It is told
	// to people and decides nothing. Nil for not known.
	Versions Versions
	// Products is a directory that outlives the bench; a judging program that was built is put there, under a name of its
	// own. Not used for a problem without one, nor with Kept.
	Products string
	// Kept hands out the file of a judging program that an earlier bench had built, or has it built now: build puts exactly
	// one file into dir. The file outlives the bench. Nil: every bench builds its own.
	Kept func(ctx context.Context, p JudgingProgram, build func(ctx context.Context, dir string) error) (path string, err error)
	// Lanes is how many tests are judged at once, at least 1 and at most what the box has.
	Lanes int
	// Log gets what an operator should know and a participant need not. Nil for nothing.
	Log *slog.Logger
}

// JudgingProgram names what a judging program is built of; two that differ in anything are not the same program.
type JudgingProgram struct {
	// Source is its path in the package.
	Source    string
	Toolchain langimages.Toolchain
	// Image is the daemon's id of the image it is built in.
	Image string
}

// Failure is why nothing can be said about a submission.
type Failure struct {
	// Doing says which step failed, such as "judging test 2a".
	Doing string
	// Test is the test that could not be judged, Container where its run failed; empty where there was none.
	Test, Container string
	Err             error
}

func (f *Failure) Error() string { return f.Doing + ": " + f.Err.Error() }

// Unwrap returns what lies beneath.
func (f *Failure) Unwrap() error { return f.Err }

// PackageFault is why an author's tools came to nothing: the package did it and not the machine. To a submission it is an
// infrastructure failure like any other, and then it lies beneath a *Failure.
type PackageFault struct {
	// Path is the program of the package; empty if it is none in particular.
	Path string
	Why  string
	// Err is what lies beneath; nil if Why says it all.
	Err error
}

// Unwrap returns what lies beneath.
func (p *PackageFault) Unwrap() error { return p.Err }

func (p *PackageFault) Error() string {
	if p.Path == "" {
		return p.Why
	}
	return p.Path + ": " + p.Why
}

// failure makes a *Failure of an error, once.
func failure(err error, doing string, arguments ...any) error {
	var f *Failure
	if errors.As(err, &f) {
		return err
	}
	return &Failure{Doing: fmt.Sprintf(doing, arguments...), Err: err}
}

// Bench judges submissions to one problem. Its judging program was built once and serves all of them.
type Bench struct {
	Config
	problem *problem.Problem
	// judging is nil where the built-in comparison decides.
	judging *judging
}

// Open prepares a problem for judging. A broken judging program is a failure here, before any submission is looked at.
func Open(ctx context.Context, config Config, p *problem.Problem) (*Bench, error) {
	if p.Type != problem.StandardIO {
		return nil, failure(fmt.Errorf("problems of type %s are not judged", p.Type), "preparing the problem")
	}
	if config.Lanes < 1 {
		return nil, failure(fmt.Errorf("%d lanes", config.Lanes), "preparing the problem")
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	bench := &Bench{Config: config, problem: p}
	if kind, source := declared(p); source != nil {
		var err error
		if bench.judging, err = bench.buildJudging(ctx, kind, source); err != nil {
			return nil, failure(err, "building the judging program %s", source.Path)
		}
	}
	return bench, nil
}

// image returns the proved image of a toolchain.
func (b *Bench) image(t langimages.Toolchain) (string, error) {
	id := b.Images[t.Image]
	if id == "" {
		return "", fmt.Errorf("the image %s of %s was not proved to be the expected one", t.Image, t.Label)
	}
	return id, nil
}

// Submission is what a participant sent.
type Submission struct {
	// FileName is the name it was sent under; only its extension is looked at.
	FileName string
	Source   []byte
	// Toolchain is an id or an alias.
	Toolchain string
	// NoPolicy judges as if there were no source rules: for people trying things out, never for a contest.
	NoPolicy bool
	// Keep gets copies of what was made on the way; nil for none.
	Keep *Keep
}

// Stage is where judging is.
type Stage int

const (
	_ Stage = iota
	// Compiling: the submission is being built.
	Compiling
	// Testing: a test is being judged.
	Testing
)

// Event says what begins now.
type Event struct {
	Stage Stage
	// Test is the name of the test, Number its place in the census from 1, Of the number of tests.
	Test       string
	Number, Of int
}

// Progress is told what begins, one call at a time.
type Progress func(Event)
