package hostcheck

import (
	"context"
	"strings"
)

var containerIdentity = requirement{
	id:    "container.identity",
	asked: "everything but the shim runs as 65534, a user of nothing",
	why:   "a program that is somebody could read and write what is somebody's",
	needs: []string{"container.probe"},
	look: func(_ context.Context, m *Machine) finding {
		const id = "65534 65534 65534 65534"
		wrong := m.inside.wants(map[string]string{"Uid": id, "Gid": id}, "Uid", "Gid")
		if groups, _ := m.inside.status("Groups"); groups != "" && groups != "65534" {
			wrong = append(wrong, "it is in the groups "+groups)
		}
		if wrong != nil {
			return failed(strings.Join(wrong, "; "), "run the daemon without userns-remap and without a runtime of its own that changes users")
		}
		return met("user and group 65534")
	},
}
