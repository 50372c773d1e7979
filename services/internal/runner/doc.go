// Package runner is the daemon's work: it joins a Server, claims jobs, keeps their leases, has them judged, delivers the
// answers and stops when it is told to (spec/protocol.md sections 4, 6 and 7).
//
// One Runner works on one job at a time. What it works with is behind small interfaces: an Evaluator judges, a Notifier
// is the service manager, an Observer counts. Time is the time package's, so that tests in a bubble of testing/synctest
// wait for nothing.
//
// What becomes of a piece of work is an Ending, and there are no others. Three rules stand above everything here:
//
//   - An infrastructure failure is never a verdict: only an Answer without an error is reported as a result.
//   - Work that is not this Runner's any more is dropped without a word, whatever was found out about it.
//   - Where the Server is away, nothing is said about the work at all: its lease gives it to the next Runner.
//
// The watchdog is fed by the goroutine of the work loop and by nothing else, and only while the step under way is within
// the time it can take at most: a step that hangs ends the process, and the leases do the rest.
package runner
