package judge

import (
	"context"
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

// candidate is a program that was built: a submission, or one of ours in its place.
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
	run := c.on(t, sandbox.Limits{Time: limits.Time, Memory: limits.Memory})
	run.Lane = lane
	if b.judging == nil || b.judging.kind == sandbox.Checker {
		input, err := b.problem.TestInput(t)
		if err != nil {
			return Tested{}, err
		}
		defer input.Close()
		run.Input = input
	}
	var out *output
	if b.judging == nil {
		expected, err := b.problem.TestExpected(t)
		if err != nil {
			return Tested{}, err
		}
		defer expected.Close()
		out = &output{comparison: compare.New(expected), copy: c.keep.output(t.Name)}
		defer out.close()
	} else {
		if err := b.stillThere(t); err != nil {
			return Tested{}, err
		}
		run.Judge = b.judging.on(t)
	}
	d, outcome, err := b.decided(ctx, job, run, out)
	if err != nil {
		return Tested{}, err
	}
	return Tested{
		Name: t.Name, Group: t.Group, Status: d.status, Reason: d.reason, Percentage: d.percentage,
		Note: d.note, Ran: true, Time: *outcome.CPU, Memory: outcome.Peak, Wall: outcome.Wall,
	}, nil
}

// stillThere makes sure that a judging program finds the files of a test that the census has found. One that is gone was lost by
// the machine or the cache; the judging program would take it for a test without it, and say something about the submission.
func (b *Bench) stillThere(t problem.Test) error {
	for _, of := range []struct {
		has  bool
		path string
	}{{t.HasIn, t.InPath}, {t.HasOut, t.OutPath}} {
		if !of.has {
			continue
		}
		file, err := b.problem.OpenFile(of.path)
		if err != nil {
			return err
		}
		_ = file.Close()
	}
	return nil
}

// on is a run of the program on a test, with neither its input nor anything that looks at its output yet.
func (c candidate) on(t problem.Test, limits sandbox.Limits) sandbox.Run {
	return sandbox.Run{Image: c.image, Command: c.toolchain.Run, Program: c.program, Test: t.Name, Limits: limits}
}

// decided lets a run go, which has either a judging program or this output, and decides. The outcome has a processor time. An
// error means that nothing can be said about the program.
func (b *Bench) decided(ctx context.Context, job Job, run sandbox.Run, out *output) (decision, sandbox.RunOutcome, error) {
	e := ending{limit: run.Limits.Time, judged: run.Judge != nil}
	e.talks = e.judged && run.Judge.Kind == sandbox.Interactor
	if out != nil {
		run.Output = out
	}
	var err error
	if e.run, err = b.contained(ctx, job, run); err != nil {
		return decision{}, e.run, err
	}
	if out != nil {
		result, err := out.comparison.Finish()
		if err != nil {
			return decision{}, e.run, err
		}
		e.compared = &result
	}
	d, err := decide(e)
	return d, e.run, err
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
			b.Log.Error("something of a run could not be removed", "test", run.Test, "container", prepared.Container(), "error", err)
		}
	}()
	outcome, err := prepared.Go(ctx)
	if err != nil {
		err = inContainer{prepared.Container(), err}
	}
	return outcome, err
}

// output compares what a program writes while it writes it, and keeps a copy where that is wanted.
type output struct {
	comparison *compare.Comparison
	copy       io.WriteCloser
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
