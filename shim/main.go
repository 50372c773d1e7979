// Neither a processor limit nor its later changes matter to a program that waits; looking for them would make the
// runtime read mountinfo and keep a cgroup file open.

//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command aj-shim is PID 1 of a judged container. It runs one submission as nobody in a cgroup of its own, measures that
// submission only, reports, and dies with the submission's fate:
//
//	aj-shim <input> <output> <program> [args…]
//	aj-shim --features
//
// The contract is spec/sandbox.md section 3. Root exists in the container only in this program and only until the
// submission runs: the submission is started stopped, put into its box, looked at from outside to see that every
// privilege is really gone, and only then let go.
//
// The program uses the standard library only, and of that as little as it can: its start is repeated for every test, so
// there is no fmt, no os.File and no garbage collection to speak of.
package main

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/evalhost/evalhost/shim/wire"
)

// init keeps the main goroutine on the main thread: ptrace, and the credentials used to end stragglers, belong to one
// thread.
func init() {
	runtime.LockOSThread()
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--features" {
		if err := writeAll(syscall.Stdout, []byte(wire.FeatureMarker+"\n")); err != nil {
			os.Exit(1)
		}
		return
	}
	s := shim{report: syscall.Stderr}
	os.Exit(s.conclude(func() (wire.Report, error) { return s.run(os.Args) }))
}

// shim is one run of the program.
type shim struct {
	// nonce marks every line of the report; empty until it is known.
	nonce string
	// report is the descriptor lines are written to: standard error until the named channel is open.
	report int
	// unopened is the channel named by the Runner, as long as its turn has not come.
	unopened string
}

// conclude writes the report of a run and returns the exit code of the container. Whatever goes wrong becomes a `failed`
// line and the code 125, a panic included: nobody reads a stack trace in a judged container.
func (s *shim) conclude(run func() (wire.Report, error)) (code int) {
	defer func() {
		if thrown := recover(); thrown != nil {
			code = s.fail(&failure{what: "panic", reason: describe(thrown)})
		}
	}()
	report, err := run()
	if err != nil {
		return s.fail(err)
	}
	if err := writeAll(s.report, report.AppendTo(nil, s.nonce)); err != nil {
		s.report = syscall.Stderr
		return s.fail(&failure{what: "write the report", err: err})
	}
	return report.ExitStatus()
}

// fail says why there is no measurement. That it could not even say so is visible from the missing line.
func (s *shim) fail(err error) int {
	if s.unopened != "" {
		// Too early for the channel's turn. If somebody reads it already, he shall know; there is no waiting for him.
		if channel, err := open(s.unopened, syscall.O_WRONLY|syscall.O_NONBLOCK); err == nil {
			s.report = channel
		}
	}
	_ = writeAll(s.report, wire.AppendFailure(nil, s.nonce, err.Error()))
	return wire.ExitShimFailed
}

// run does everything between the first instruction and the report. The order is load-bearing (spec/sandbox.md 3.2):
// secrets are destroyed before anything is opened; the output is opened first because that is where a container that was
// started ahead waits for its turn; the report channel comes before whatever may have to complain on it.
func (s *shim) run(args []string) (wire.Report, error) {
	if len(args) < 4 {
		return wire.Report{}, &failure{what: "usage", reason: "aj-shim <input> <output> <program> [args…]"}
	}
	given, err := takeInstructions()
	s.nonce, s.unopened = given.nonce, given.report
	if err != nil {
		return wire.Report{}, err
	}
	output, err := open(args[2], syscall.O_WRONLY)
	if err != nil {
		return wire.Report{}, &failure{what: "open output " + args[2], err: err}
	}
	s.unopened = ""
	if given.report != "" {
		channel, err := open(given.report, syscall.O_WRONLY)
		if err != nil {
			return wire.Report{}, &failure{what: "open report channel " + given.report, err: err}
		}
		s.report = channel
	}
	box, err := given.makeBox()
	if err != nil {
		return wire.Report{}, err
	}
	input, err := openInput(args[1])
	if err != nil {
		return wire.Report{}, err
	}
	null, err := open("/dev/null", syscall.O_WRONLY)
	if err != nil {
		return wire.Report{}, &failure{what: "open /dev/null", err: err}
	}
	if err := closeOnExec(); err != nil {
		return wire.Report{}, err
	}

	started := time.Now()
	if off("mutant.shim.errors") {
		null = output
	}
	child := program{argv: args[3:], environment: given.environment, files: [3]int{input, output, null}}
	err = child.start()
	// At once: while the shim holds the writing end, the reader sees no end of the output until the shim itself exits.
	for _, fd := range child.files {
		_ = syscall.Close(fd)
	}
	var fate fate
	if exec, isExec := err.(*execFailure); isExec {
		_ = writeAll(s.report, wire.AppendFailure(nil, s.nonce, exec.Error()))
		fate = exec.fate()
	} else if err != nil {
		return wire.Report{}, err
	} else if fate, err = child.release(box); err != nil {
		return wire.Report{}, err
	}
	if fate.unloaded {
		// Whose program it was, the Runner knows: a submission's that asks for too much, or an image's that is damaged.
		_ = writeAll(s.report, wire.AppendFailure(nil, s.nonce,
			"exec "+child.argv[0]+": ended by the kernel with signal "+strconv.Itoa(fate.signal)+" while it was being loaded"))
	}
	wall := time.Since(started)
	if err := endStragglers(box, child.pid); err != nil {
		return wire.Report{}, err
	}
	return measure(fate, wall, box)
}

// describe turns what a panic threw into text without fmt.
func describe(thrown any) string {
	switch value := thrown.(type) {
	case error:
		return value.Error()
	case string:
		return value
	}
	return "a value of an unknown type"
}
