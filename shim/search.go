package main

import (
	"strings"
	"syscall"
)

// defaultPath is where a program is looked for when the environment has no PATH.
const defaultPath = "/bin:/usr/bin"

func pathOf(environment []string) string {
	for _, entry := range environment {
		if path, isIt := strings.CutPrefix(entry, "PATH="); isIt {
			return path
		}
	}
	return defaultPath
}

// search runs a program by trying to start it, as execvp(3) does: a name with a slash as it stands, any other in every
// directory of the path. Permission is the started process's and not the shim's, so nothing but trying can tell; a
// directory without the name costs no attempt. Unlike execvp, a file without a format the kernel knows is not handed to a
// shell.
//
// The error is an *execFailure when the program cannot be run, and a *failure when the attempt itself went wrong.
func search(name, path string, try func(file string) error) error {
	if strings.Contains(name, "/") {
		return judgeExec(name, try(name))
	}
	refusal := syscall.ENOENT
	if name != "" {
		for dir := range strings.SplitSeq(path, ":") {
			file := dir + "/" + name
			if dir == "" {
				file = "./" + name // an empty element is the working directory
			}
			var about syscall.Stat_t
			if err := syscall.Stat(file, &about); err == syscall.ENOENT || err == syscall.ENOTDIR {
				continue
			}
			err := judgeExec(name, try(file))
			exec, isExec := err.(*execFailure)
			if !isExec {
				return err
			}
			switch exec.errno {
			case syscall.EACCES:
				refusal = syscall.EACCES // found, so "not found" is no longer the answer
			case syscall.ENOENT, syscall.ENOTDIR, syscall.ESTALE, syscall.ENODEV, syscall.ETIMEDOUT:
			default:
				return err
			}
		}
	}
	return &execFailure{program: name, errno: refusal}
}

// judgeExec tells a program that cannot be run from a shim that could not try. One call makes the process, drops its
// privileges and executes; what that call answers in these cases is not said of the file, or is the fault of whoever put
// the file there.
func judgeExec(name string, err error) error {
	if err == nil {
		return nil
	}
	errno, isErrno := err.(syscall.Errno)
	if !isErrno {
		return &failure{what: "start " + name, err: err}
	}
	switch errno {
	case syscall.EPERM, syscall.EINVAL, // dropping privileges, or being traced, was refused
		syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, // no room for a process; the box has no say in it yet
		syscall.E2BIG,   // the arguments and the environment are the Runner's and the image's
		syscall.ETXTBSY: // somebody outside is still writing the file
		return &failure{what: "start " + name, err: errno}
	}
	return &execFailure{program: name, errno: errno}
}
