package judge

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/evalhost/evalhost/services/internal/compare"
	"github.com/evalhost/evalhost/services/internal/report"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// ending is everything the decision about one test is taken from.
type ending struct {
	run sandbox.RunOutcome
	// limit is the effective time limit of the test.
	limit time.Duration
	// judged says that the package has a judging program; then run.Judge must be there and compared is not looked at.
	judged bool
	// talks says that the judging program is an interactor.
	talks bool
	// compared is what the built-in comparison came to; nil when it did not come to an end.
	compared *compare.Result
}

// decision is the word on one test.
type decision struct {
	status     verdict.Status
	reason     verdict.Reason
	percentage int
	note       string
}

func failed(reason verdict.Reason, note string) decision {
	return decision{status: verdict.Error, reason: reason, note: note}
}

// decide says how a test ended: the table of spec/judging.md 4.8, first match wins. The error means that nothing can
// be said about the submission: an infrastructure failure.
//
// There are two ways to an OK: a judging program accepted, or the comparison found the outputs equal; and for both the
// program must have ended by itself with exit code 0, within its time, without crossing a limit.
func decide(e ending) (decision, error) {
	run := e.run
	switch run.Stop {
	case sandbox.OnItsOwn, sandbox.TimeLimit, sandbox.WallClock, sandbox.Memory, sandbox.Output, sandbox.Overall,
		sandbox.Decided:
	case sandbox.NeverStarted:
		return decision{}, errors.New("the program never started to run")
	default:
		return decision{}, fmt.Errorf("the sandbox gave no word on how the run ended (%d)", run.Stop)
	}
	cpu, err := measured(run.CPU)
	if err != nil {
		return decision{}, err
	}
	drowned := e.drowned(cpu)
	var said answer
	if e.judged && !drowned {
		if said, err = judgeSaid(run.Judge); err != nil {
			return decision{}, err
		}
	}
	// A refusal outranks the stop, except where the kernel knows a cause of which the judge saw only the shadow.
	refused := e.judged && !drowned && !said.accepted && run.Stop != sandbox.WallClock && run.Stop != sandbox.Memory

	switch {
	case run.Stop == sandbox.TimeLimit && !refused:
		return failed(verdict.TimeLimit, noteTimeLimit), nil
	case run.Stop == sandbox.WallClock:
		return failed(verdict.TimeLimit, noteNoProgress(run.Deadlines.Window)), nil
	case run.Stop == sandbox.Overall && !refused:
		return failed(verdict.TimeLimit, noteOverall), nil
	case run.Stop == sandbox.Memory:
		return failed(verdict.MemoryLimit, noteMemoryLimit), nil
	case run.Stop == sandbox.Output && !refused:
		return failed(verdict.OutputLimit, noteOutputLimit), nil
	case run.Stop == sandbox.OnItsOwn && report.Millis(cpu) > e.limit.Milliseconds() && !refused:
		return failed(verdict.TimeLimit, noteTimeLimit), nil
	// A run that was stopped because the comparison had decided may cross the cap before the kill arrives: whether it
	// does is chance, and the decision stands.
	case run.Capped && run.Stop != sandbox.Decided && !refused:
		return failed(verdict.OutputLimit, noteOutputLimit), nil
	case drowned: // it is over a limit, so one of the rows above has decided
		return decision{}, errors.New("the judging program was stopped, and no limit of the submission's was crossed")
	case run.Stop == sandbox.OnItsOwn && run.ExitCode != 0:
		return failed(verdict.RuntimeError, noteRuntimeError(run.ExitCode)), nil
	case refused:
		return failed(verdict.WrongAnswer, said.comment), nil
	case e.judged && run.Stop == sandbox.OnItsOwn:
		return decision{status: verdict.OK, percentage: said.percentage, note: said.comment}, nil
	case e.judged:
		return decision{}, fmt.Errorf("a run with a judging program was stopped with the word %q", run.Stop)
	case e.compared == nil:
		return decision{}, errors.New("the output was not compared to its end")
	case !e.compared.Equal && (run.Stop == sandbox.OnItsOwn || run.Stop == sandbox.Decided):
		return failed(verdict.WrongAnswer, e.compared.Note), nil
	case e.compared.Equal && run.Stop == sandbox.OnItsOwn:
		return decision{status: verdict.OK, percentage: 100}, nil
	}
	return decision{}, fmt.Errorf("no row of the table fits a run stopped with the word %q, equal output %t",
		run.Stop, e.compared.Equal)
}

// drowned says that an interactor was stopped by its clock or for its memory while it was behind a submission that is over a
// limit of its own: processor time, memory, or the output cap, none of which a slow interactor can drive it over. It is over that limit
// whatever the interactor would have said; were this the package's doing, everybody who floods could bring it about (C31;
// decisions 16). An interactor that had read what there was has itself to blame, and so has one that ended in any other way.
func (e ending) drowned(cpu time.Duration) bool {
	run, judge := e.run, e.run.Judge
	if !e.judged || !e.talks || judge == nil || !judge.Behind || judge.Stop != sandbox.WallClock && judge.Stop != sandbox.Memory {
		return false
	}
	switch run.Stop {
	case sandbox.TimeLimit, sandbox.Memory:
		return true
	case sandbox.OnItsOwn:
		return run.Capped || report.Millis(cpu) > e.limit.Milliseconds()
	case sandbox.Decided:
		return false
	}
	return run.Capped
}

// judgeSaid reads the judging program's answer. Everything but a well-formed answer of a program that ended by itself
// is a broken package, and outranks whatever stopped the submission.
func judgeSaid(judge *sandbox.JudgeOutcome) (answer, error) {
	if judge == nil {
		return answer{}, errors.New("the judging program was not run")
	}
	if judge.Stop != sandbox.OnItsOwn {
		why := judge.Stop.String()
		if judge.Stop == sandbox.WallClock {
			// An untimed step's clock looks at nothing but itself: it may have spun as well as slept.
			why = "it did not end within its clock"
		}
		return answer{}, fmt.Errorf("the judging program was stopped (%s) after %.1f s%s", why,
			judge.Wall.Seconds(), itSaid(judge.Stderr))
	}
	said, err := readAnswer(judge.ExitCode, judge.Answer)
	if err != nil {
		return answer{}, fmt.Errorf("the judging program broke its contract: %w%s", err, itSaid(judge.Stderr))
	}
	return said, nil
}

// itSaid appends the end of a program's standard error to the words of a failure, where most programs say what went wrong:
// a traceback begins with words that are always the same. Nothing when it said nothing.
func itSaid(stderr []byte) string {
	said := strings.TrimSpace(strings.ToValidUTF8(string(stderr), "\ufffd"))
	if said == "" {
		return ""
	}
	const most = 200
	if runes := []rune(said); len(runes) > most {
		return "; the end of its standard error: …" + strconv.Quote(string(runes[len(runes)-most:]))
	}
	return "; on its standard error: " + strconv.Quote(said)
}

// measured returns the processor time of a run. A run without a reading, or with one that cannot be, was not measured: an
// error, because a time limit could not be told.
func measured(cpu *time.Duration) (time.Duration, error) {
	if cpu == nil {
		return 0, errors.New("the processor time of the run was not measured")
	}
	if *cpu < 0 {
		return 0, fmt.Errorf("the processor time of the run was measured as %s", *cpu)
	}
	return *cpu, nil
}
