//go:build guest

package suite

import (
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/refserver"
)

// moment is a stage of a job's life at which a daemon is ended. reach brings the daemon there and returns what undoes what it
// did to the Server.
type moment struct {
	name  string
	reach func(d *daemon) (undo func())
}

var moments = []moment{
	{"claim", func(d *daemon) func() { return d.held("POST", "/runner/jobs/claim", "STATUS=idle") }},
	{"download", func(d *daemon) func() { return d.held("GET", "/runner/files/*", "fetching the package") }},
	{"build", func(d *daemon) func() { return d.said("compiling") }},
	{"test", func(d *daemon) func() { return d.said("test 1a, 1 of 2") }},
	{"report", func(d *daemon) func() { return d.held("POST", "/runner/jobs/*/report", "reporting") }},
	{"resend", func(d *daemon) func() {
		id := d.s.fault(refserver.Fault{Path: "/runner/jobs/*/report", Kind: refserver.FaultStatus, Status: 503})
		d.start()
		d.s.eventually("a report was refused", func() bool { return d.s.hits(id) > 0 })
		return func() { d.s.ClearFault(id) }
	}},
}

// held starts a life and waits until a call of it is held.
func (d *daemon) held(method, path, word string) func() {
	id := d.s.fault(refserver.Fault{Method: method, Path: path, Kind: refserver.FaultHold})
	d.start()
	d.until(word)
	d.s.eventually("a call is held: "+path, func() bool { return d.s.hits(id) > 0 })
	return func() { d.s.ClearFault(id) }
}

// said starts a life and waits until it says something, and a moment more: containers take seconds here.
func (d *daemon) said(word string) func() {
	d.start()
	d.until(word)
	time.Sleep(1500 * time.Millisecond)
	return func() {}
}

// hits is how often a fault has hit.
func (s *stage) hits(id string) int {
	for _, f := range s.Faults() {
		if f.ID == id {
			return f.Hits
		}
	}
	return 0
}

// One job through SIGTERM at every stage: the daemon ends in order and within a service manager's grace each time, and gives
// back what it holds; the next life judges it in the end, once.
func TestSIGTERMAtEveryStageLosesNothing(t *testing.T) {
	s := newStage(t)
	d := s.daemon()
	j := s.submit(adds)
	for _, m := range moments {
		undo := m.reach(d)
		took := d.stop()
		undo()
		got := s.job(j.ID)
		t.Logf("%s: stopping took %v, the job is %s after %d deliveries and %d releases", m.name, took.Round(10*time.Millisecond), got.State, got.Deliveries, got.Releases)
		if took > 25*time.Second {
			t.Errorf("%s: stopping took %v", m.name, took)
		}
		if got.State != refserver.Queued || got.Result != nil {
			t.Errorf("%s: the job is %s with %+v", m.name, got.State, got.Result)
		}
		if t.Failed() {
			return
		}
		if got.Releases == 3 { // a release is free three times, and this is about none of them being lost
			s.judgedBy(d, j)
			j = s.submit(adds)
		}
	}
	s.judgedBy(d, j)
}

// judgedBy lets a new life judge a job to its end.
func (s *stage) judgedBy(d *daemon, j refserver.Job) {
	s.t.Helper()
	d.start()
	s.judged(j, "Accepted", 100)
	s.once(j)
	d.stop()
}

// The same with SIGKILL: what the dead daemon held returns by its lease, what it left on the machine is swept by the next
// life, and nobody else's verdict is touched. Every job is killed once and judged by the life after: twice would be enough for
// it not to be begun here again (docs/decisions/0046).
func TestC71SIGKILLAtEveryStageLosesNothing(t *testing.T) {
	s := newStage(t)
	d := s.daemon()
	var j refserver.Job
	for _, m := range moments {
		if j.ID == "" {
			j = s.submit(adds)
		}
		undo := m.reach(d)
		d.kill()
		undo()
		s.Advance(11 * time.Minute) // the lease; an injected clock
		s.Sweep()
		got := s.job(j.ID)
		t.Logf("%s: the job is %s after %d deliveries and %d refunds", m.name, got.State, got.Deliveries, got.Refunds)
		if got.State != refserver.Queued || got.Result != nil {
			t.Fatalf("%s: the job is %s with %+v", m.name, got.State, got.Result)
		}
		if m.name != "claim" { // where nothing of it has begun
			s.judgedBy(d, j)
			j = refserver.Job{}
		}
	}
}
