// Package sandbox runs one contained step at a time: a build, a judged run with or without a judging program beside it.
// It turns a description of the step into an Outcome (spec/sandbox.md sections 1 to 6).
//
// Life of a job:
//
//	job, err := box.OpenJob(ctx)            // a scratch directory of its own, with its own copy of the shim
//	built, err := job.Build(ctx, Build{…})  // one container; the artefact is collected into the job's scratch
//	run, err := job.Prepare(ctx, Run{…})    // container created and started; it waits at the barrier
//	outcome, err := run.Go(ctx)             // deadlines and measurement begin here
//	err = run.Close()                       // container, slice, channels gone; off the critical path
//	err = job.Close()                       // scratch gone
//
// A Go error from any of these means that the machinery failed: the caller reports an infrastructure failure and never
// a verdict. What the submission did, whatever it did, is an Outcome.
package sandbox

import (
	"io"
	"time"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Stop is what ended a step. The zero Stop is invalid.
type Stop int

const (
	_ Stop = iota
	// OnItsOwn: the program ended by itself; only then does the exit code mean anything.
	OnItsOwn
	// TimeLimit: it passed the processor ceiling of a timed step (spec/sandbox.md 5.1 #2).
	TimeLimit
	// WallClock: the no-progress window of a timed step, or the wall clock of an untimed one (5.1 #1).
	WallClock
	// Memory: the kernel killed for memory, by memory.events or by the runtime's word (4.6). Outranks every other stop.
	Memory
	// Output: it wrote more than it may.
	Output
	// NeverStarted: a deadline came and nothing had ever run (5.1 #4), or nothing but the shim. An infrastructure failure to
	// the caller.
	NeverStarted
	// Overall: the absolute cap on elapsed time (5.1 #3).
	Overall
	// Decided: the caller's sink had settled and no further output could change the answer.
	Decided
)

// String names the stop for logs.
func (s Stop) String() string {
	switch s {
	case OnItsOwn:
		return "on its own"
	case TimeLimit:
		return "processor ceiling"
	case WallClock:
		return "no progress"
	case Memory:
		return "memory"
	case Output:
		return "output"
	case NeverStarted:
		return "never started"
	case Overall:
		return "absolute cap"
	case Decided:
		return "decided"
	}
	return "invalid stop"
}

// Outcome is what a contained step did and what it cost. Absent measurements are nil, never zero by guess.
type Outcome struct {
	Stop Stop
	// ExitCode of the container's PID 1; 128+n for a death by signal n. Meaningful only when Stop is OnItsOwn.
	ExitCode int
	// CPU is the processor time charged, user and system, of the whole subtree: max(shim report, cgroup - 1 s) for a
	// judged run, the home's cpu.stat for any other (spec/sandbox.md 4.1).
	CPU *time.Duration
	// Peak is the box's memory.peak for a judged run (the home's for a build); nil when it could not be read.
	Peak *verdict.Bytes
	// Wall is the elapsed time from go to the end of the program.
	Wall time.Duration
	// Capped says that the output cap was crossed, even if that was noticed after the program had ended.
	Capped bool
	// Deadlines the step ran under, for the words told to a participant.
	Deadlines Deadlines
	// Home and Report are the two readings CPU was made from, for logs and tests; nil when absent.
	Home, Report *time.Duration
	// Failure is what the shim said about a submission's own program that the kernel would not execute, or killed while it
	// loaded it; empty otherwise. The exit code is then 126 or 127, or that of the signal. A start command of the image that
	// cannot be executed is no outcome but an error.
	Failure string
}

// Limits of a judged run.
type Limits struct {
	// Time is processor time, user and system, of everything the submission starts. More than zero.
	Time time.Duration
	// Memory is the box's memory.max. More than zero.
	Memory verdict.Bytes
}

// BuildKind tells the two builds apart. They have the same limits; what a failure means differs (sandbox.md 1.2).
type BuildKind int

const (
	_ BuildKind = iota
	// SubmissionBuild: a failure is the participant's compilation error.
	SubmissionBuild
	// JudgeBuild: a failure is a broken package.
	JudgeBuild
)

// Build describes one compilation.
type Build struct {
	Kind BuildKind
	// Image is the language's image: the reference that was proved to be the expected one, by its daemon id.
	Image string
	// Command is the argv of the build (the toolchain's build line).
	Command []string
	// SourceName is the file name under /src, a single path component; Source its bytes.
	SourceName string
	Source     []byte
	// Artifact is the file under /out that the build must leave, a single path component.
	Artifact string
}

// Built is the outcome of a build.
type Built struct {
	Outcome
	// Stdout and Stderr are what the compiler said: together counted against 256 KiB, each a prefix.
	Stdout, Stderr []byte
	// Program is the collected artefact; nil unless the build ended on its own with exit code 0.
	Program *Program
	// TooLarge says that the artefact was over its cap; then Program is nil (decisions 11: a compilation error).
	TooLarge bool
	// Odd says what the build left in the artefact's place that is no regular file, such as "a symbolic link"; empty otherwise.
	// Then Program is nil. It was made inside the container, so it is the source's doing (decisions 16).
	Odd string
}

// Sink consumes the output of a run as it crosses. Write is called from one goroutine, never after the run has ended;
// the bytes are valid during the call only. It returns true once nothing that follows can change the answer, and may
// be called again after that.
type Sink interface {
	Write(p []byte) (settled bool)
}

// JudgeKind tells the judging programs apart.
type JudgeKind int

const (
	_ JudgeKind = iota
	// Checker reads the submission's whole output and answers on its standard output (spec/judging.md 6.1).
	Checker
	// Interactor talks with the submission and answers on a channel of its own (spec/judging.md 6.5).
	Interactor
)

// Judge describes the judging program that runs beside a submission.
type Judge struct {
	Kind    JudgeKind
	Image   string
	Command []string
	Program *Program
	// Tests is the host directory mounted read-only at /in of the judge, never into a judged run.
	Tests string
	// Group is the test's group, told to the judge as AJ_GROUP.
	Group uint32
}

// Run describes one judged run: one test of one submission.
type Run struct {
	Image   string
	Command []string
	Program *Program
	// Test is the test's name: <digits><letters>.
	Test string
	// Input is copied into the run's own read-only file; nil for an interactive run. Closed by nobody here.
	Input  io.Reader
	Limits Limits
	// Output gets the run's standard output. Nil when a Judge is given.
	Output Sink
	// Judge runs beside it; nil for a plain comparison.
	Judge *Judge
	// Lane is the index of the lane to run in, from 0.
	Lane int
}

// RunOutcome is the outcome of a judged run.
type RunOutcome struct {
	Outcome
	// OutputBytes counts what crossed from the submission.
	OutputBytes verdict.Bytes
	// Judge is what the judging program did; nil without one.
	Judge *JudgeOutcome
}

// JudgeOutcome is what a judging program did and said. The words are not interpreted here.
type JudgeOutcome struct {
	Outcome
	// Answer is the checker's standard output, or what the interactor wrote to its verdict channel; at most 64 KiB.
	Answer []byte
	// Stderr is the judging program's standard error, bounded, for the log of a failure.
	Stderr []byte
	// Behind says that the judging program ended, or was ended, with more of the submission's output waiting for it than
	// the channel holds.
	Behind bool
}
