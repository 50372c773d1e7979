package sandbox

import "time"

// Phase is a part of a container's life. The zero Phase is invalid.
type Phase int

const (
	_ Phase = iota
	// Create: the daemon makes the container.
	Create
	// Start: the daemon starts it, until it says that it has.
	Start
	// Running: from then on until the daemon says that it has ended, the wait at the barrier included.
	Running
	// Remove: the daemon removes it, and its home goes.
	Remove
)

// String names the phase for metrics.
func (p Phase) String() string {
	switch p {
	case Create:
		return "create"
	case Start:
		return "start"
	case Running:
		return "run"
	case Remove:
		return "remove"
	}
	return "invalid phase"
}

// Phases are all of them.
var Phases = []Phase{Create, Start, Running, Remove}

// Observer is told what a sandbox does, for metrics. Its methods return at once and are called by several goroutines.
type Observer interface {
	// PhaseTook is told how long a phase of a container took, whether or not it went well.
	PhaseTook(p Phase, took time.Duration)
	// LanesBusy is told in how many lanes a submission runs now.
	LanesBusy(n int)
	// RemovalFailed is told that a container or its home could not be removed; the next sweep tries again.
	RemovalFailed()
	// Leaked is told how many containers and homes a sweep found that should not have been there.
	Leaked(n int)
}

// laneTaken tells that a lane was taken or given back. The lock keeps what is told in order.
func (s *Sandbox) laneTaken(d int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy += d
	s.watch.LanesBusy(s.busy)
}

// nobody observes nothing.
type nobody struct{}

func (nobody) PhaseTook(Phase, time.Duration) {}
func (nobody) LanesBusy(int)                  {}
func (nobody) RemovalFailed()                 {}
func (nobody) Leaked(int)                     {}
