package wire

import "time"

// PortName returns the name of virtio serial port i, as QEMU is told it and as it appears under /dev/virtio-ports.
func PortName(i int) string { return "org.evalhost.guest." + string(rune('0'+i)) }

// Ports is how many clients can be connected at a time. One port serves one client process with any number of sessions.
const Ports = 8

// Op names what a session asks for.
type Op string

// The operations of the agent.
const (
	OpExec  Op = "exec"  // run a command
	OpPush  Op = "push"  // unpack the tar stream on stream 0
	OpPull  Op = "pull"  // pack paths as a tar stream on stream 1
	OpReady Op = "ready" // wait until the host is up
	OpClock Op = "clock" // set the clock
)

// Request begins a session.
type Request struct {
	Op    Op     `json:"op"`
	Exec  *Exec  `json:"exec,omitempty"`
	Path  string `json:"path,omitempty"`
	Into  bool   `json:"into,omitempty"` // push: Path is a directory to unpack into
	Clock int64  `json:"clock,omitempty"`
	// Wait bounds OpReady.
	Wait time.Duration `json:"wait,omitempty"`
}

// Exec is a command to run in the guest.
type Exec struct {
	Args []string `json:"args"`
	// Env is added to the agent's environment.
	Env []string `json:"env,omitempty"`
	Dir string   `json:"dir,omitempty"`
	// Timeout ends the command and everything it started; zero means none.
	Timeout time.Duration `json:"timeout,omitempty"`
	// NoStdin gives the command an empty standard input.
	NoStdin bool `json:"noStdin,omitempty"`
}

// ExecResult says how a command ended.
type ExecResult struct {
	Code     int           `json:"code"`             // exit status, -1 when a signal ended it
	Signal   int           `json:"signal,omitempty"` // signal that ended it
	TimedOut bool          `json:"timedOut,omitempty"`
	Canceled bool          `json:"canceled,omitempty"`
	Duration time.Duration `json:"duration"` // by the guest's clock
	// NotStarted says why the command could not be started.
	NotStarted string `json:"notStarted,omitempty"`
}

// ReadyResult describes the guest once it is up.
type ReadyResult struct {
	System  string   `json:"system"`           // systemctl is-system-running
	Failed  []string `json:"failed,omitempty"` // units
	Docker  string   `json:"docker"`           // version of the engine
	Kernel  string   `json:"kernel"`
	Variant string   `json:"variant"`
	Boot    string   `json:"boot"` // boot id
}
