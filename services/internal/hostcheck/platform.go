package hostcheck

import "context"

var platform = requirement{
	id:    "platform",
	asked: "linux on amd64",
	why:   "the language images and the shim are built for linux/amd64 only",
	look: func(_ context.Context, m *Machine) finding {
		found := m.GOOS + "/" + m.GOARCH
		if found != "linux/amd64" {
			return failed(found, "judge on an x86-64 machine that runs Linux")
		}
		return met(found)
	},
}
