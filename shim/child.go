package main

import (
	"os"
	"syscall"

	"github.com/evalhost/evalhost/shim/wire"
)

// program is the submission.
type program struct {
	argv        []string
	environment []string
	files       [3]int // input, output, and what its standard error goes to
	pid         int    // of its first process, once it was started
}

// execFailure tells that the kernel would not run the program. That is the program's fate and not the shim's failure.
type execFailure struct {
	program string
	errno   syscall.Errno
}

func (e *execFailure) Error() string { return "exec " + e.program + ": " + e.errno.Error() }

// fate is the exit code a shell would give, and what the attempt used.
func (e *execFailure) fate() fate {
	fate := fate{exitCode: wire.ExitNotRunnable}
	if e.errno == syscall.ENOENT || e.errno == syscall.ENOTDIR {
		fate.exitCode = wire.ExitNotFound
	}
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &fate.usage)
	return fate
}

// start starts the program stopped: it is loaded and has not run one instruction. Its error is an *execFailure if the
// program cannot be run, and a *failure if the shim could not try.
func (p *program) start() error {
	// The container's runtime does this too. Here it holds without it, and before the inspection asks for it.
	const noNewPrivileges = 38 // PR_SET_NO_NEW_PRIVS
	if off("mutant.shim.no-new-privileges") {
		return search(p.argv[0], pathOf(p.environment), p.tryStart)
	}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, noNewPrivileges, 1, 0, 0, 0, 0); errno != 0 {
		return &failure{what: "give up new privileges", err: errno}
	}
	return search(p.argv[0], pathOf(p.environment), p.tryStart)
}

func (p *program) tryStart(path string) error {
	attributes := &syscall.ProcAttr{
		Env:   p.environment,
		Files: []uintptr{uintptr(p.files[0]), uintptr(p.files[1]), uintptr(p.files[2])},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Ptrace: true},
	}
	if os.Getuid() == 0 && !off("mutant.shim.drop") {
		// Groups are set to none, then the group, then the user; in the child only. Any failure is an error here.
		attributes.Sys.Credential = &syscall.Credential{Uid: wire.Nobody, Gid: wire.Nobody}
	}
	pid, err := syscall.ForkExec(path, p.argv, attributes)
	if err != nil {
		return err
	}
	p.pid = pid
	return nil
}

// release puts the stopped program into its box, inspects it there, lets it go and waits for its end. A program that
// does not pass is ended without having run.
func (p *program) release(box *box) (fate, error) {
	status, usage, err := p.waitStopped()
	if err != nil {
		return fate{}, err
	}
	if !status.Stopped() {
		// The kernel had thrown away the old image before it found that it cannot load the new one, so exec did not
		// return: a program too large for the machine, for one. That is the program's fate.
		fate := fateOf(status, usage)
		fate.unloaded = true
		return fate, nil
	}
	if err := p.prepare(box); err != nil {
		// Only root in this namespace may end it, and this root has no CAP_KILL; but a tracer may pass on any signal.
		_ = ptrace(syscall.PTRACE_CONT, p.pid, uintptr(syscall.SIGKILL))
		_, _, _ = waitFor(p.pid)
		return fate{}, err
	}
	// The stop after exec is a SIGTRAP, which only a tracer ever sees. Any other signal is the program's own fate: the
	// same failed loading as above, on kernels that let a tracer see it.
	var deliver uintptr
	if signal := status.StopSignal(); signal != syscall.SIGTRAP {
		deliver = uintptr(signal)
	}
	if err := ptrace(syscall.PTRACE_DETACH, p.pid, deliver); err != nil {
		return fate{}, &failure{what: "let the program go", err: err}
	}
	status, usage, err = waitFor(p.pid)
	if err != nil {
		return fate{}, err
	}
	end := fateOf(status, usage)
	end.unloaded = deliver != 0
	return end, nil
}

// prepare does what has to be done while the program is stopped.
func (p *program) prepare(box *box) error {
	const exitKill = 0x100000 // PTRACE_O_EXITKILL: should the shim die now, so does the program
	if err := syscall.PtraceSetOptions(p.pid, exitKill); err != nil {
		return &failure{what: "tie the program to the shim", err: err}
	}
	if box != nil && !off("mutant.shim.join") {
		if err := box.take(p.pid); err != nil {
			return err
		}
	}
	return inspect(p.pid, box)
}

// waitStopped waits until the program has stopped after exec, or has ended already.
func (p *program) waitStopped() (syscall.WaitStatus, syscall.Rusage, error) {
	for {
		var status syscall.WaitStatus
		var usage syscall.Rusage
		_, err := syscall.Wait4(p.pid, &status, syscall.WALL, &usage)
		if err == nil {
			return status, usage, nil
		}
		if err != syscall.EINTR {
			return status, usage, &failure{what: "wait for the program to stop", err: err}
		}
	}
}

// waitFor waits for the end of one child and buries every other one on the way: orphans of the submission become
// children of PID 1, and the dead count against the submission's processes until somebody has waited for them.
func waitFor(pid int) (syscall.WaitStatus, syscall.Rusage, error) {
	for {
		var status syscall.WaitStatus
		var usage syscall.Rusage
		ended, err := syscall.Wait4(-1, &status, syscall.WALL, &usage)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return status, usage, &failure{what: "wait for the program", err: err}
		case status.Stopped() && !off("mutant.shim.unhand"):
			unhand(ended, status)
		case ended == pid:
			return status, usage, nil
		}
	}
}

// unhand lets a process go that asked to be traced by its parent, which is the shim: it would wait for ever for a tracer
// that never answers. The signal that stopped it takes its course, except for the one that only tracing causes.
func unhand(pid int, status syscall.WaitStatus) {
	var deliver uintptr
	if signal := status.StopSignal(); signal != syscall.SIGTRAP {
		deliver = uintptr(signal)
	}
	_ = ptrace(syscall.PTRACE_DETACH, pid, deliver)
}

// ptrace makes a request that may pass a signal on, which package syscall has no function for.
func ptrace(request, pid int, signal uintptr) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, uintptr(request), uintptr(pid), 0, signal, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func fateOf(status syscall.WaitStatus, usage syscall.Rusage) fate {
	if status.Signaled() {
		return fate{signal: int(status.Signal()), usage: usage}
	}
	return fate{exitCode: status.ExitStatus(), usage: usage}
}
