package hostcheck

import (
	"context"
	"fmt"
)

var root = requirement{
	id:    "root",
	asked: "running as root",
	why:   "the cgroups that limit and measure a run can only be made by root",
	look: func(_ context.Context, m *Machine) finding {
		if m.UID != 0 {
			return failed(fmt.Sprintf("running as user id %d", m.UID), "run it as root, for example with sudo")
		}
		return met("running as root")
	},
}
