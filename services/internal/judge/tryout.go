package judge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Fault is something wrong with a judging program that an author would otherwise learn from a participant.
type Fault struct {
	// Test is the name of the test it was seen on.
	Test string
	Msg  string
}

// The programs that judging programs are tried on, one for each family of languages, so that they are built in the judging
// program's own image and no other is needed. A repeater writes what it reads; a silent program ends at once.
var (
	repeaters = map[string]string{
		"c":      "#include <stdio.h>\nint main(void) { int c; while ((c = getchar()) != EOF) putchar(c); return 0; }\n",
		"cpp":    "#include <cstdio>\nint main() { int c; while ((c = std::getchar()) != EOF) std::putchar(c); return 0; }\n",
		"python": "import sys\nfor block in iter(lambda: sys.stdin.buffer.read(65536), b''):\n    sys.stdout.buffer.write(block)\n",
	}
	silents = map[string]string{
		"c": "int main(void) { return 0; }\n", "cpp": "int main() { return 0; }\n", "python": "pass\n",
	}
)

// tryoutLimits are for the programs above: what they need in any language and for any amount of output, not what the
// problem gives a submission.
var tryoutLimits = sandbox.Limits{Time: 30 * time.Second, Memory: 256 * verdict.MiB}

// TryJudging runs the package's judging program where nobody looks before a contest: a checker on the package's own expected
// output, which it must accept in full, and on no output; an interactor on a program that ends at once and says nothing.
// Neither may be accepted, nor may it break the judging program's contract, which would be an infrastructure failure for
// every submission that does the same. Silence is no fault where a test expects no token.
//
// It returns nothing for a package without a judging program. An error is the machinery's.
func (b *Bench) TryJudging(ctx context.Context, progress Progress) ([]Fault, error) {
	if b.judging == nil {
		return nil, nil
	}
	if progress == nil {
		progress = func(Event) {}
	}
	sources := silents
	if b.judging.kind == sandbox.Checker {
		sources = repeaters
	}
	source, ok := sources[b.judging.toolchain.Family]
	if !ok {
		return nil, fmt.Errorf("there is no program to try a judging program in %s with", b.judging.toolchain.Label)
	}
	progress(Event{Stage: Compiling, Of: len(b.problem.Tests)})
	job, c, err := b.buildOurs(ctx, b.judging.toolchain, source, "a program to try the judging program with")
	if err != nil {
		return nil, err
	}
	defer b.closeJob(job)
	var faults []Fault
	for i, t := range b.problem.Tests {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		progress(Event{Stage: Testing, Test: t.Name, Number: i + 1, Of: len(b.problem.Tests)})
		found, err := b.tryTest(ctx, job, c, t)
		if err != nil {
			return nil, failure(err, "trying the judging program on test %s", t.Name)
		}
		for _, msg := range found {
			faults = append(faults, Fault{Test: t.Name, Msg: msg})
		}
	}
	return faults, nil
}

// tryTest tries the judging program on one test.
func (b *Bench) tryTest(ctx context.Context, job Job, c candidate, t problem.Test) (faults []string, err error) {
	if b.judging.kind == sandbox.Interactor {
		fault, err := b.trySilence(ctx, job, c, t, "the interactor", nil)
		return collect(nil, fault), err
	}
	if t.HasOut {
		expected, err := b.problem.TestExpected(t)
		if err != nil {
			return nil, err
		}
		defer expected.Close()
		seen := &tokens{}
		fault, err := b.tryAnswer(ctx, job, c, t, io.TeeReader(expected, seen))
		if err != nil {
			return nil, err
		}
		faults = collect(faults, fault)
		if !seen.any {
			return faults, nil
		}
	}
	fault, err := b.trySilence(ctx, job, c, t, "the checker", strings.NewReader(""))
	return collect(faults, fault), err
}

func collect(faults []string, fault string) []string {
	if fault == "" {
		return faults
	}
	return append(faults, fault)
}

// tryAnswer shows the checker the package's own expected output.
func (b *Bench) tryAnswer(ctx context.Context, job Job, c candidate, t problem.Test, expected io.Reader) (fault string, err error) {
	outcome, err := b.tryRun(ctx, job, c, t, expected)
	switch {
	case err != nil:
		return "", err
	case outcome.Capped:
		return "the expected output is longer than a program may write, so no program can be accepted", nil
	}
	said, err := judgeSaid(outcome.Judge)
	switch {
	case err != nil:
		return "on the package's own expected output " + err.Error(), nil
	case !said.accepted:
		return "the checker refuses the package's own expected output" + andSays(said.comment), nil
	case said.percentage != 100:
		return fmt.Sprintf("the checker gives the package's own expected output %d %%%s", said.percentage, andSays(said.comment)), nil
	}
	return "", nil
}

// trySilence shows the judging program a run that wrote nothing.
func (b *Bench) trySilence(ctx context.Context, job Job, c candidate, t problem.Test, who string, input io.Reader) (fault string, err error) {
	outcome, err := b.tryRun(ctx, job, c, t, input)
	if err != nil {
		return "", err
	}
	said, err := judgeSaid(outcome.Judge)
	switch {
	case err != nil:
		return "on a program that writes nothing " + err.Error() + "; a submission that does so would fail the machinery, not the test", nil
	case said.accepted:
		return who + " accepts a program that writes nothing" + andSays(said.comment), nil
	}
	return "", nil
}

// tryRun runs one of our own programs beside the judging program. What it does is known: a run that ends otherwise than by
// itself says nothing about the judging program.
func (b *Bench) tryRun(ctx context.Context, job Job, c candidate, t problem.Test, input io.Reader) (sandbox.RunOutcome, error) {
	run := c.on(t, tryoutLimits)
	run.Input, run.Judge = input, b.judging.on(t)
	outcome, err := b.contained(ctx, job, run)
	if err != nil {
		return sandbox.RunOutcome{}, err
	}
	if outcome.Stop != sandbox.OnItsOwn && !outcome.Capped {
		return sandbox.RunOutcome{}, fmt.Errorf("the program that the judging program is tried with was stopped (%s)", outcome.Stop)
	}
	return outcome, nil
}

// andSays appends a judging program's comment.
func andSays(comment string) string {
	if comment == "" {
		return ""
	}
	return "; it says " + shown(comment)
}

// tokens notices whether anything but white space was written.
type tokens struct{ any bool }

func (t *tokens) Write(p []byte) (int, error) {
	t.any = t.any || len(bytes.TrimSpace(p)) > 0
	return len(p), nil
}
