package main

import (
	"os"
	"syscall"

	"github.com/evalhost/evalhost/shim/wire"
)

// endStragglers ends everything the submission left behind and buries it, so that nothing runs on while the numbers are
// read, and nothing still holds the output. group is the submission's process group; 0 if nothing was started.
//
// The box is killed as a whole. Killing the process group would miss whoever called setsid; kill(-1) by this root, who
// has no CAP_KILL, reaches nobody and says nothing.
func endStragglers(box *box, group int) error {
	if group == 0 || off("mutant.shim.stragglers") {
		return nil
	}
	isInit := os.Getpid() == 1
	switch {
	case box != nil:
		if err := box.kill(); err != nil && !isInit {
			return err
		} else if err == nil {
			break
		}
		fallthrough // a kernel before 5.14
	case isInit:
		if err := killAllOfNobody(); err != nil {
			return err
		}
	default: // not in a container: everything else belongs to somebody
		_ = syscall.Kill(-group, syscall.SIGKILL)
		buryTheDead()
		return nil
	}
	return buryAll()
}

// killAllOfNobody kills every process of the namespace as the user they belong to. Only the calling thread changes its
// user, for the length of one system call.
func killAllOfNobody() error {
	const unchanged = ^uintptr(0)
	if err := setresuid(unchanged, wire.Nobody, unchanged); err != nil {
		return &failure{what: "become the submission's user to end it", err: err}
	}
	killed := syscall.Kill(-1, syscall.SIGKILL)
	if err := setresuid(unchanged, 0, unchanged); err != nil {
		return &failure{what: "become root again", err: err}
	}
	if killed != nil && killed != syscall.ESRCH {
		return &failure{what: "end what the submission left behind", err: killed}
	}
	return nil
}

// setresuid is the plain system call: package syscall's function changes every thread.
func setresuid(real, effective, saved uintptr) error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, real, effective, saved); errno != 0 {
		return errno
	}
	return nil
}

// buryAll waits until this process has no children. As PID 1 that means that nothing else is left in the namespace.
func buryAll() error {
	_, _, err := waitFor(-1)
	if failed, isFailure := err.(*failure); isFailure && failed.err == syscall.ECHILD {
		return nil
	}
	return err
}

// buryTheDead waits for those children only that have ended already; 1024 at most.
func buryTheDead() {
	for range 1024 {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG|syscall.WALL, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
