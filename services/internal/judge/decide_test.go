package judge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/compare"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

const testLimit = 2 * time.Second

// end describes an ending in few words; the time is 5 ms unless a mod says otherwise.
func end(stop sandbox.Stop, mods ...func(*ending)) ending {
	cpu := 5 * time.Millisecond
	e := ending{limit: testLimit}
	e.run.Stop, e.run.CPU = stop, &cpu
	e.run.Deadlines.Window = 12 * time.Second
	for _, mod := range mods {
		mod(&e)
	}
	return e
}

func exit(code int) func(*ending) { return func(e *ending) { e.run.ExitCode = code } }
func capped(e *ending)            { e.run.Capped = true }
func unmeasured(e *ending)        { e.run.CPU = nil }
func equal(e *ending)             { e.compared = &compare.Result{Equal: true} }
func unequal(e *ending)           { e.compared = &compare.Result{Token: 1, Note: `token 1 differs: got "7"`} }

func spent(cpu time.Duration) func(*ending) {
	return func(e *ending) { e.run.CPU = &cpu }
}

func judgeWrites(document string) func(*ending) {
	return func(e *ending) {
		e.judged = true
		e.run.Judge = &sandbox.JudgeOutcome{Answer: []byte(document)}
		e.run.Judge.Stop = sandbox.OnItsOwn
	}
}

func judgeStops(stop sandbox.Stop) func(*ending) {
	return func(e *ending) {
		judgeWrites("OK\n")(e)
		e.run.Judge.Stop = stop
	}
}

func judgeExits(code int) func(*ending) {
	return func(e *ending) {
		judgeWrites("OK\n")(e)
		e.run.Judge.ExitCode = code
	}
}

var (
	accepts = judgeWrites("OK\nwell done\n60\n")
	refuses = judgeWrites("WRONG\nnot a tree\n")
)

func TestC80ATestIsDecidedByTheFirstRowThatFits(t *testing.T) {
	const over = testLimit + time.Millisecond
	infra := decision{}
	limit := func(reason verdict.Reason, note string) decision {
		return decision{status: verdict.Error, reason: reason, note: note}
	}
	wrong := limit(verdict.WrongAnswer, "not a tree")
	noProgress := limit(verdict.TimeLimit, "Time limit exceeded: no processor time for 12.0 s")
	memory := limit(verdict.MemoryLimit, "Memory limit exceeded")
	passed := decision{status: verdict.OK, percentage: 100}
	partly := decision{status: verdict.OK, percentage: 60, note: "well done"}
	for _, c := range []struct {
		name string
		end  ending
		want decision
	}{
		{"row 1: a run that never started is no verdict", end(sandbox.NeverStarted, equal), infra},
		{"row 1: a run without processor time is no verdict", end(sandbox.OnItsOwn, equal, unmeasured), infra},
		{"row 1: a run without processor time is no verdict, even when memory stopped it", end(sandbox.Memory, equal, unmeasured), infra},
		{"row 1: a negative time is no measurement", end(sandbox.OnItsOwn, equal, spent(-1)), infra},
		{"row 1: a stop without a word is no verdict", end(0, equal), infra},
		{"row 1: an unknown stop is no verdict, even when refused", end(99, refuses), infra},
		{"row 1: a judging program that was not run is no verdict", end(sandbox.OnItsOwn, func(e *ending) { e.judged = true }), infra},
		{"row 1: a judging program stopped by its clock is no verdict", end(sandbox.OnItsOwn, judgeStops(sandbox.WallClock)), infra},
		{"row 1: a judging program stopped for memory is no verdict", end(sandbox.OnItsOwn, judgeStops(sandbox.Memory)), infra},
		{"row 1: a judging program stopped for output is no verdict", end(sandbox.OnItsOwn, judgeStops(sandbox.Output)), infra},
		{"row 1: a judging program that never started is no verdict", end(sandbox.OnItsOwn, judgeStops(sandbox.NeverStarted)), infra},
		{"row 2: a broken answer is no verdict", end(sandbox.OnItsOwn, judgeWrites("MAYBE\n")), infra},
		{"row 2: an empty answer is no verdict", end(sandbox.OnItsOwn, judgeWrites("")), infra},
		{"row 2: a judging program that crashed is no verdict", end(sandbox.OnItsOwn, judgeExits(139)), infra},
		{"row 2: a broken judging program outranks the stop of the submission", end(sandbox.TimeLimit, judgeExits(1)), infra},
		{"row 2: a broken judging program outranks memory", end(sandbox.Memory, judgeExits(1)), infra},

		{"row 3: the processor ceiling", end(sandbox.TimeLimit, unequal), limit(verdict.TimeLimit, "Time limit exceeded")},
		{"row 3: the processor ceiling outranks an equal output", end(sandbox.TimeLimit, equal), limit(verdict.TimeLimit, "Time limit exceeded")},
		{"row 3: the processor ceiling outranks an acceptance", end(sandbox.TimeLimit, accepts), limit(verdict.TimeLimit, "Time limit exceeded")},
		{"row 3: a refusal outranks the processor ceiling", end(sandbox.TimeLimit, refuses), wrong},

		{"row 4: no progress", end(sandbox.WallClock, equal), noProgress},
		{"row 4: no progress outranks an acceptance", end(sandbox.WallClock, accepts), noProgress},
		{"row 4: first exception: a refusal does not outrank no progress", end(sandbox.WallClock, refuses), noProgress},

		{
			"row 5: the absolute cap", end(sandbox.Overall, equal),
			limit(verdict.TimeLimit, "Time limit exceeded: the program kept running without finishing"),
		},
		{"row 5: a refusal outranks the absolute cap", end(sandbox.Overall, refuses), wrong},

		{"row 6: memory", end(sandbox.Memory, equal), memory},
		{"row 6: memory outranks the exit code of the kill", end(sandbox.Memory, equal, exit(137)), memory},
		{"row 6: memory outranks time", end(sandbox.Memory, equal, spent(over)), memory},
		{"row 6: second exception: a refusal does not outrank memory", end(sandbox.Memory, refuses), memory},

		{"row 7: output", end(sandbox.Output, unequal, capped), limit(verdict.OutputLimit, "Output limit exceeded")},
		{"row 7: output outranks an acceptance", end(sandbox.Output, accepts, capped), limit(verdict.OutputLimit, "Output limit exceeded")},
		{"row 7: a refusal outranks output", end(sandbox.Output, refuses, capped), wrong},

		{"row 8: too slow", end(sandbox.OnItsOwn, equal, spent(over)), limit(verdict.TimeLimit, "Time limit exceeded")},
		{"row 8: the time is rounded up before it is compared", end(sandbox.OnItsOwn, equal, spent(testLimit+time.Microsecond)), limit(verdict.TimeLimit, "Time limit exceeded")},
		{"row 8: equal to the limit passes", end(sandbox.OnItsOwn, equal, spent(testLimit)), passed},
		{"row 8: too slow outranks a crash", end(sandbox.OnItsOwn, equal, spent(over), exit(139)), limit(verdict.TimeLimit, "Time limit exceeded")},
		{"row 8: too slow outranks the cap", end(sandbox.OnItsOwn, unequal, capped, spent(over)), limit(verdict.TimeLimit, "Time limit exceeded")},
		{"row 8: too slow outranks an acceptance", end(sandbox.OnItsOwn, accepts, spent(over)), limit(verdict.TimeLimit, "Time limit exceeded")},
		{"row 8: a refusal outranks too slow", end(sandbox.OnItsOwn, refuses, spent(over)), wrong},

		{"row 9: capped, noticed after the end", end(sandbox.OnItsOwn, equal, capped), limit(verdict.OutputLimit, "Output limit exceeded")},
		{"row 9: capped outranks a crash", end(sandbox.OnItsOwn, equal, capped, exit(139)), limit(verdict.OutputLimit, "Output limit exceeded")},
		{"row 9: a refusal outranks the cap", end(sandbox.OnItsOwn, refuses, capped), wrong},
		{"row 9: a decision stands, whatever came before the kill", end(sandbox.Decided, unequal, capped), limit(verdict.WrongAnswer, `token 1 differs: got "7"`)},

		{"row 10: a crash", end(sandbox.OnItsOwn, equal, exit(139)), limit(verdict.RuntimeError, "Runtime error: segmentation fault (exit code 139)")},
		{"row 10: wrong output, then a crash", end(sandbox.OnItsOwn, unequal, exit(3)), limit(verdict.RuntimeError, "Runtime error, exit code 3")},
		{"row 10: a crash outranks an acceptance", end(sandbox.OnItsOwn, accepts, exit(1)), limit(verdict.RuntimeError, "Runtime error, exit code 1")},
		{"row 10: a crash outranks a refusal", end(sandbox.OnItsOwn, refuses, exit(1)), limit(verdict.RuntimeError, "Runtime error, exit code 1")},
		{"row 10: an exit code after our own kill is not read", end(sandbox.Decided, unequal, exit(137)), limit(verdict.WrongAnswer, `token 1 differs: got "7"`)},

		{"row 11: accepted in part", end(sandbox.OnItsOwn, accepts), partly},
		{"row 11: accepted for nothing is a pass", end(sandbox.OnItsOwn, judgeWrites("OK\n\n0\n")), decision{status: verdict.OK}},
		{"row 11: refused", end(sandbox.OnItsOwn, refuses), wrong},
		{"row 11: accepted, but the run was stopped as decided: no verdict", end(sandbox.Decided, accepts), infra},

		{"row 12: equal", end(sandbox.OnItsOwn, equal), passed},
		{"row 12: different", end(sandbox.OnItsOwn, unequal), limit(verdict.WrongAnswer, `token 1 differs: got "7"`)},
		{"row 12: different, found early, whatever it cost", end(sandbox.Decided, unequal, spent(over)), limit(verdict.WrongAnswer, `token 1 differs: got "7"`)},
		{"row 12: an output that was not compared is no verdict", end(sandbox.OnItsOwn), infra},
		{"row 12: decided but equal is no verdict", end(sandbox.Decided, equal), infra},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := decide(c.end)
			if (err != nil) != (c.want == infra) {
				t.Fatalf("decide: error %v, want an infrastructure failure: %t", err, c.want == infra)
			}
			if got != c.want {
				t.Errorf("decide = %+v, want %+v", got, c.want)
			}
		})
	}
}

// Every combination of everything decide looks at: whatever the table says, a pass needs all of its conditions.
func TestNothingButACleanEndPasses(t *testing.T) {
	sides := map[string]func(*ending){
		"equal": equal, "unequal": unequal, "not compared": func(*ending) {},
		"accepts": accepts, "refuses": refuses, "breaks": judgeWrites("ok\n"), "crashes": judgeExits(139),
		"is stopped": judgeStops(sandbox.WallClock), "is missing": func(e *ending) { e.judged = true },
		"is missing, equal": func(e *ending) { equal(e); e.judged = true },
	}
	passes := 0
	for stop := sandbox.Stop(-1); stop <= sandbox.Decided+1; stop++ {
		for _, code := range []int{0, 1, 137, 139} {
			for _, cpu := range []time.Duration{-1, 0, testLimit, testLimit + 1000, 1 << 62} {
				for _, over := range []bool{false, true} {
					for side, mod := range sides {
						e := end(stop, exit(code), spent(cpu), mod)
						e.run.Capped = over
						name := fmt.Sprintf("%s, exit %d, %s, capped %t, %s", stop, code, cpu, over, side)
						got, err := decide(e)
						switch {
						case err != nil:
							if got != (decision{}) {
								t.Errorf("%s: a decision beside an error: %+v", name, got)
							}
						case got.status == verdict.OK:
							passes++
							clean := stop == sandbox.OnItsOwn && code == 0 && cpu >= 0 && cpu <= testLimit && !over
							if !clean || side != "equal" && side != "accepts" {
								t.Errorf("%s: passed", name)
							}
						case got.status != verdict.Error || got.reason == verdict.NoReason || got.percentage != 0:
							t.Errorf("%s: neither passed nor failed: %+v", name, got)
						}
					}
				}
			}
		}
	}
	if passes != 4 {
		t.Errorf("%d combinations passed, want 4: two sides, two times", passes)
	}
}

// behind makes the judging program an interactor that was stopped with output of the submission still before it.
func behind(stop sandbox.Stop) func(*ending) {
	return func(e *ending) {
		judgeStops(stop)(e)
		e.talks, e.run.Judge.Behind = true, true
	}
}

// C31: who floods an interactor until its clock or its memory is at an end, and is over a limit that no interactor drives it over, has
// crossed that limit. Anything less is the interactor's doing.
func TestAnInteractorThatWasFloodedIsNotBroken(t *testing.T) {
	limit := failed(verdict.OutputLimit, noteOutputLimit)
	for name, c := range map[string]struct {
		end  ending
		want decision // the zero decision for none
	}{
		"stopped for its output":                        {end(sandbox.Output, capped, behind(sandbox.WallClock)), limit},
		"and the interactor was out of memory":          {end(sandbox.Output, capped, behind(sandbox.Memory)), limit},
		"ended by itself before anybody noticed":        {end(sandbox.OnItsOwn, capped, behind(sandbox.WallClock)), limit},
		"crashed after it":                              {end(sandbox.OnItsOwn, exit(139), capped, behind(sandbox.WallClock)), limit},
		"and was over its time":                         {end(sandbox.TimeLimit, capped, behind(sandbox.WallClock)), failed(verdict.TimeLimit, noteTimeLimit)},
		"and was killed for its memory":                 {end(sandbox.Memory, capped, behind(sandbox.WallClock)), failed(verdict.MemoryLimit, noteMemoryLimit)},
		"and ran out of its absolute cap":               {end(sandbox.Overall, capped, behind(sandbox.WallClock)), failed(verdict.TimeLimit, noteOverall)},
		"an output within the cap":                      {end: end(sandbox.OnItsOwn, behind(sandbox.WallClock))},
		"over its time, within the cap":                 {end(sandbox.TimeLimit, behind(sandbox.WallClock)), failed(verdict.TimeLimit, noteTimeLimit)},
		"over its time by the measurement":              {end(sandbox.OnItsOwn, spent(testLimit+time.Millisecond), behind(sandbox.WallClock)), failed(verdict.TimeLimit, noteTimeLimit)},
		"over its memory, within the cap":               {end(sandbox.Memory, behind(sandbox.Memory)), failed(verdict.MemoryLimit, noteMemoryLimit)},
		"waiting for its interactor":                    {end: end(sandbox.WallClock, behind(sandbox.WallClock))},
		"waiting for it with breaks":                    {end: end(sandbox.Overall, behind(sandbox.WallClock))},
		"exactly its time":                              {end: end(sandbox.OnItsOwn, spent(testLimit), behind(sandbox.WallClock))},
		"a crash within its limits":                     {end: end(sandbox.OnItsOwn, exit(139), behind(sandbox.WallClock))},
		"an interactor that had read everything":        {end: end(sandbox.Output, capped, behind(sandbox.WallClock), func(e *ending) { e.run.Judge.Behind = false })},
		"an interactor that wrote too long an answer":   {end: end(sandbox.Output, capped, behind(sandbox.Output))},
		"an interactor that never started":              {end: end(sandbox.Output, capped, behind(sandbox.NeverStarted))},
		"an interactor that crashed":                    {end: end(sandbox.Output, capped, behind(sandbox.OnItsOwn), func(e *ending) { e.run.Judge.ExitCode = 1 })},
		"an interactor that was not run":                {end: end(sandbox.Output, capped, behind(sandbox.WallClock), func(e *ending) { e.run.Judge = nil })},
		"a checker":                                     {end: end(sandbox.Output, capped, behind(sandbox.WallClock), func(e *ending) { e.talks = false })},
		"a run that was not measured":                   {end: end(sandbox.Output, capped, behind(sandbox.WallClock), unmeasured)},
		"a run that never started":                      {end: end(sandbox.NeverStarted, capped, behind(sandbox.WallClock))},
		"a run that a comparison stopped, which is not": {end: end(sandbox.Decided, capped, behind(sandbox.WallClock))},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decide(c.end)
			if got != c.want || (err == nil) == (c.want == decision{}) {
				t.Errorf("decided as %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
	// Whatever else comes with it, nothing of this passes.
	for stop := sandbox.Stop(-1); stop <= sandbox.Decided+1; stop++ {
		for _, judge := range []sandbox.Stop{sandbox.WallClock, sandbox.Memory} {
			for _, code := range []int{0, 1, 139} {
				for _, over := range []bool{false, true} {
					e := end(stop, exit(code), behind(judge))
					e.run.Capped = over
					if got, err := decide(e); err == nil && (got.status != verdict.Error || got.reason == verdict.NoReason || got.reason == verdict.WrongAnswer) {
						t.Errorf("%v with %d, capped %t, an interactor that was stopped (%v): %+v", stop, code, over, judge, got)
					}
				}
			}
		}
	}
}

func TestWhatFailedInAJudgingProgramIsSaidAsItWas(t *testing.T) {
	traceback := "Traceback (most recent call last):\n" + strings.Repeat("  File \"/program/program.py\", line 1, in <module>\n", 20) + "ValueError: no number: 'x'\n"
	for name, c := range map[string]struct {
		end         ending
		says, never string
	}{
		"a clock is no lack of progress": {end(sandbox.OnItsOwn, judgeStops(sandbox.WallClock)), "did not end within its clock", "progress"},
		"memory":                         {end(sandbox.OnItsOwn, judgeStops(sandbox.Memory)), "stopped (memory)", "clock"},
		"the end of a traceback": {
			end(sandbox.OnItsOwn, judgeExits(1), func(e *ending) { e.run.Judge.Stderr = []byte(traceback) }), `…"`, "Traceback",
		},
		"and its last line": {
			end(sandbox.OnItsOwn, judgeStops(sandbox.Memory), func(e *ending) { e.run.Judge.Stderr = []byte(traceback) }), `ValueError: no number: 'x'"`, "Traceback",
		},
		"all of it where that is short": {
			end(sandbox.OnItsOwn, judgeExits(1), func(e *ending) { e.run.Judge.Stderr = []byte("\xff no\n") }), "standard error: \"\ufffd no\"", "…",
		},
		"silence": {end(sandbox.OnItsOwn, judgeExits(1), func(e *ending) { e.run.Judge.Stderr = []byte("\n") }), "exit code 1", "standard error"},
	} {
		if _, err := decide(c.end); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), c.never) {
			t.Errorf("%s: %v; want %q in it and %q not", name, err, c.says, c.never)
		}
	}
}

func TestExitCodesOfSignalsAreNamed(t *testing.T) {
	for code, want := range map[int]string{
		1: "exit code 1", 3: "exit code 3", 128: "exit code 128", 132: "illegal instruction", 134: "aborted",
		135: "bus error", 136: "arithmetic error", 137: "killed", 139: "segmentation fault",
		141: "wrote to a closed stream", 143: "terminated", 255: "exit code 255",
	} {
		if got := noteRuntimeError(code); !strings.HasPrefix(got, "Runtime error") || !strings.Contains(got, want) {
			t.Errorf("noteRuntimeError(%d) = %q, want it to say %q", code, got, want)
		}
	}
	if got := noteRuntimeError(3); got != "Runtime error, exit code 3" {
		t.Errorf("a plain code: %q", got)
	}
}
