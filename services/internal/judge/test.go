package judge

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/compare"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Tested is how one test ended.
type Tested struct {
	Name  string
	Group uint32
	// Status is OK or Error; Reason is set exactly when it is Error.
	Status     verdict.Status
	Reason     verdict.Reason
	Percentage int
	Note       string
	// Ran says that the program was run; otherwise it did not come so far.
	Ran bool
	// Time is the processor time charged; 0 when nothing ran.
	Time time.Duration
	// Memory is the peak; nil when it was not measured or nothing ran.
	Memory *verdict.Bytes
	// Wall is the time that passed while the program ran; 0 when nothing ran.
	Wall time.Duration
}

// candidate is a submission that was built.
type candidate struct {
	toolchain langimages.Toolchain
	image     string
	program   *sandbox.Program
	keep      *Keep
}

// test judges one test: it runs the program in a container of its own and decides. An error means that the test could not
// be judged.
func (b *Bench) test(ctx context.Context, job Job, c candidate, t problem.Test, lane int) (Tested, error) {
	limits := b.problem.Limits(c.toolchain.Family, c.toolchain.ID, t.Group)
	run := sandbox.Run{
		Image: c.image, Command: c.toolchain.Run, Program: c.program, Test: t.Name, Lane: lane,
		Limits: sandbox.Limits{Time: limits.Time, Memory: limits.Memory},
	}
	if b.judging == nil || b.judging.kind == sandbox.Checker {
		input, err := b.problem.TestInput(t)
		if err != nil {
			return Tested{}, err
		}
		defer input.Close()
		run.Input = input
	}
	var output *output
	if b.judging == nil {
		var err error
		if output, err = b.newOutput(t, c); err != nil {
			return Tested{}, err
		}
		defer output.close()
		run.Output = output
	} else {
		run.Judge = &sandbox.Judge{
			Kind: b.judging.kind, Image: b.judging.image, Command: b.judging.toolchain.Run, Program: b.judging.program,
			Tests: b.judging.tests, Group: t.Group,
		}
	}
	outcome, err := b.contained(ctx, job, run)
	if err != nil {
		return Tested{}, err
	}
	e := ending{run: outcome, limit: limits.Time, judged: b.judging != nil}
	if output != nil {
		result := output.comparison.Finish()
		e.compared = &result
	}
	decided, err := decide(e)
	if err != nil {
		return Tested{}, err
	}
	cpu, err := measured(outcome.CPU)
	if err != nil {
		return Tested{}, err
	}
	return Tested{
		Name: t.Name, Group: t.Group, Status: decided.status, Reason: decided.reason, Percentage: decided.percentage,
		Note: decided.note, Ran: true, Time: cpu, Memory: outcome.Peak, Wall: outcome.Wall,
	}, nil
}

// contained prepares a container, lets it go and removes it.
func (b *Bench) contained(ctx context.Context, job Job, run sandbox.Run) (sandbox.RunOutcome, error) {
	prepared, err := job.Prepare(ctx, run)
	if err != nil {
		return sandbox.RunOutcome{}, err
	}
	defer func() {
		// What could not be removed is found by the next sweep; the test was judged all the same.
		if err := prepared.Close(); err != nil {
			b.Log.Error("something of a run could not be removed", "test", run.Test, "error", err)
		}
	}()
	return prepared.Go(ctx)
}

// output compares what a program writes while it writes it, and keeps a copy where that is wanted.
type output struct {
	comparison *compare.Comparison
	copy       io.WriteCloser
}

// newOutput reads the expected output. One that is missing is an error and never an empty one.
func (b *Bench) newOutput(t problem.Test, c candidate) (*output, error) {
	file, err := b.problem.TestExpected(t)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	expected, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("reading the expected output: %w", err)
	}
	return &output{comparison: compare.New(expected), copy: c.keep.output(t.Name)}, nil
}

// Write takes the next part of the output; true once it is known to differ.
func (o *output) Write(p []byte) bool {
	if o.copy != nil {
		_, _ = o.copy.Write(p) // a copy that is not whole changes no verdict
	}
	return o.comparison.Write(p)
}

func (o *output) close() {
	if o.copy != nil {
		_ = o.copy.Close()
	}
}
