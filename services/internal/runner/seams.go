package runner

import (
	"context"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Evaluator judges. Its methods are called one at a time.
type Evaluator interface {
	// Judge judges one job that has passed Check. The error says that there is no verdict: an *Away, if the Server could
	// not be reached; anything else is an infrastructure failure, best a *Failure. When ctx ends it returns soon, with an
	// error unless it is done already. step is told what begins.
	Judge(ctx context.Context, job protocol.Job, step func(Step)) (Answer, error)
	// Ready asks whether this machine can judge at all. It is asked after an infrastructure failure and before the next
	// claim: a machine that cannot judge must not use up the deliveries of one job after another. An ErrStale ends Run.
	Ready(ctx context.Context) error
}

// Measurer times the model solutions of a package (section 7). A Runner without one never claims a trial.
type Measurer interface {
	// Measure returns the rows of the measurement. The error is as Judge's; its text is reported as the trial's reason.
	Measure(ctx context.Context, trial protocol.Trial, step func(Step)) ([]protocol.Measured, error)
}

// Answer is a submission that was judged.
type Answer struct {
	// Score of Max is on the package's own scale.
	Score, Max float64
	Verdict    verdict.Verdict
	// Log is the text of the attachment log, Details the details document; neither is attached when it is blank.
	Log     string
	Details []byte
}

// Step is what begins now.
type Step struct {
	// Doing says what, for the status line: "compiling".
	Doing string
	// Test is the name of the test that is judged, Number its place from 1, Of the number of tests; zero outside of tests.
	Test       string
	Number, Of int
	// AtMost is the longest that this step can take before the next one begins. Past it the watchdog is not fed.
	AtMost time.Duration
}

// Away is an evaluation that was given up because the Server could not be reached: nothing is said about the work.
type Away struct{ Err error }

// Error says what was attempted.
func (a *Away) Error() string { return a.Err.Error() }

// Unwrap is the failed call.
func (a *Away) Unwrap() error { return a.Err }

// FailureKind tells infrastructure failures apart, for whoever has to look. The zero kind is invalid.
type FailureKind int

const (
	_ FailureKind = iota
	// BadJob: the Server handed out something that cannot be judged, or that has ended this Runner or its host too often.
	BadJob
	// BadDownload: a file is not there, or its bytes are not the announced ones.
	BadDownload
	// BadPackage: the package cannot be judged with, or its judging program failed.
	BadPackage
	// BadMachine: this machine could not do its part.
	BadMachine
)

// String names the kind for logs and metrics.
func (k FailureKind) String() string {
	switch k {
	case BadJob:
		return "job"
	case BadDownload:
		return "download"
	case BadPackage:
		return "package"
	case BadMachine:
		return "machine"
	}
	return "invalid kind"
}

// FailureKinds are all of them.
var FailureKinds = []FailureKind{BadJob, BadDownload, BadPackage, BadMachine}

// Failure is an infrastructure failure: there is no verdict, and Err says why.
type Failure struct {
	Kind FailureKind
	Err  error
}

// Error is the reason that is reported.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap is what lies beneath.
func (f *Failure) Unwrap() error { return f.Err }

// Notifier is the service manager. Its methods return at once.
type Notifier interface {
	// Status is one line for people.
	Status(text string)
	// Alive feeds the watchdog. It is called on the goroutine of the work loop.
	Alive()
}

// State is what a Runner is doing. The zero State is invalid.
type State int

const (
	_ State = iota
	// Starting: nothing was asked of the Server yet.
	Starting
	// WaitingForServer: it does not answer, or says that it is busy or in maintenance.
	WaitingForServer
	// WaitingForApproval: nobody has approved this Runner yet.
	WaitingForApproval
	// Idle: there is no work.
	Idle
	// Judging: a job or a trial is worked on.
	Judging
	// Reporting: an answer is on its way.
	Reporting
	// Unfit: this machine cannot judge at the moment, so nothing is claimed.
	Unfit
	// Stopping: a stop was asked for.
	Stopping
)

// String names the state for logs, metrics and the health file.
func (s State) String() string {
	switch s {
	case Starting:
		return "starting"
	case WaitingForServer:
		return "waiting for the Server"
	case WaitingForApproval:
		return "waiting for approval"
	case Idle:
		return "idle"
	case Judging:
		return "judging"
	case Reporting:
		return "reporting"
	case Unfit:
		return "unfit"
	case Stopping:
		return "stopping"
	}
	return "invalid state"
}

// States are all of them.
var States = []State{Starting, WaitingForServer, WaitingForApproval, Idle, Judging, Reporting, Unfit, Stopping}

// Ending is what became of a piece of work. The zero Ending is invalid.
type Ending int

const (
	_ Ending = iota
	// Reported: a verdict, or a measurement, was delivered.
	Reported
	// Failed: an infrastructure failure was delivered.
	Failed
	// Lost: the work was no longer this Runner's; nothing was said.
	Lost
	// Released: it was given back because this Runner is stopping.
	Released
	// Abandoned: the Server was away before there was an answer; nothing was said, the lease gives the work back.
	Abandoned
	// Undelivered: there was an answer and the Server did not take it; the lease gives the work back.
	Undelivered
)

// String names the ending for logs and metrics.
func (e Ending) String() string {
	switch e {
	case Reported:
		return "reported"
	case Failed:
		return "failed"
	case Lost:
		return "lost"
	case Released:
		return "released"
	case Abandoned:
		return "abandoned"
	case Undelivered:
		return "undelivered"
	}
	return "invalid ending"
}

// Endings are all of them.
var Endings = []Ending{Reported, Failed, Lost, Released, Abandoned, Undelivered}

// Kind tells a job from a trial. The zero Kind is invalid.
type Kind int

const (
	_ Kind = iota
	// Job is an attempt to judge.
	Job
	// Trial is a package whose model solutions are timed.
	Trial
)

// String names the kind for logs.
func (k Kind) String() string {
	switch k {
	case Job:
		return "job"
	case Trial:
		return "trial"
	}
	return "invalid kind"
}

// Work is a piece of work that has ended.
type Work struct {
	Kind   Kind
	Ending Ending
	// Verdict of a job that ended as Reported; empty otherwise.
	Verdict verdict.Verdict
	// Failure of work that ended as Failed; zero otherwise.
	Failure FailureKind
	// Took is the time since the work was handed out.
	Took time.Duration
}

// Renewal is how the renewal of a lease went. The zero Renewal is invalid.
type Renewal int

const (
	_ Renewal = iota
	// Renewed: the lease is longer.
	Renewed
	// RenewalMissed: there was no good answer; the next one follows after the usual interval.
	RenewalMissed
	// RenewalRefused: the work is no longer this Runner's.
	RenewalRefused
)

// String names it for metrics.
func (r Renewal) String() string {
	switch r {
	case Renewed:
		return "renewed"
	case RenewalMissed:
		return "missed"
	case RenewalRefused:
		return "refused"
	}
	return "invalid renewal"
}

// Observer is told what a Runner does, for metrics and the health file. Its methods return at once and may be called from
// several goroutines.
type Observer interface {
	// Changed is told a new state and the status line that goes with it.
	Changed(s State, text string)
	// Ended is told what became of a piece of work.
	Ended(w Work)
	// RenewalEnded is told how a renewal went.
	RenewalEnded(r Renewal)
	// Admitted is told whether the Server has admitted this Runner.
	Admitted(yes bool)
}

// nobody observes nothing and notifies nobody.
type nobody struct{}

func (nobody) Changed(State, string) {}
func (nobody) Ended(Work)            {}
func (nobody) RenewalEnded(Renewal)  {}
func (nobody) Admitted(bool)         {}
func (nobody) Status(string)         {}
func (nobody) Alive()                {}
