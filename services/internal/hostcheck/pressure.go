package hostcheck

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
)

const cpuPressure = "/proc/pressure/cpu"

var pressure = requirement{
	id:    "pressure",
	asked: "pressure stall information",
	why:   "without it a machine that is too busy to run a program looks like a program that makes no progress",
	look: func(_ context.Context, m *Machine) finding {
		cure := "boot with psi=1 on the kernel command line"
		content, err := m.read(cpuPressure)
		switch {
		// The file is there and refuses to be read when the kernel has the code and it was turned off at boot.
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EOPNOTSUPP):
			return warning("the kernel does not tell it", cure)
		case err != nil:
			return warning(unreadable(err), cure)
		case content == "":
			return warning(cpuPressure+" is empty", cure)
		}
		return met("the kernel tells it")
	},
}
