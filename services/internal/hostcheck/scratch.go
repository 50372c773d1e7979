package hostcheck

import (
	"context"
	"os"
	"strings"
)

var scratch = requirement{
	id:    "scratch",
	asked: "a scratch directory that executables can be started from",
	why:   "compiled programs and the shim are mounted into containers from there",
	look: func(ctx context.Context, m *Machine) finding {
		if strings.HasPrefix(m.Scratch+"/", "/run/") {
			return failed(m.Scratch+" is below /run", "set EVALHOST_SCRATCH to a directory on a disk, such as /var/lib/evalhost/scratch")
		}
		if err := os.MkdirAll(m.Scratch, 0o711); err != nil {
			return failed(err.Error(), "make it, or set EVALHOST_SCRATCH to a directory that can be written")
		}
		if err := m.Execute(ctx, m.Scratch); err != nil {
			return failed("an executable in "+m.Scratch+" cannot be started: "+err.Error(),
				"mount it without noexec, or set EVALHOST_SCRATCH to a directory elsewhere")
		}
		return met("executables start from " + m.Scratch)
	},
}
