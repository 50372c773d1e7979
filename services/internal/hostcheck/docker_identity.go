package hostcheck

import (
	"context"
	"strings"
)

var dockerIdentity = requirement{
	id:    "docker.identity",
	asked: "a daemon that runs as root and does not remap users",
	why:   "under remapped users the container's root cannot execute the shim, and cannot place a program in its cgroup",
	needs: []string{"docker.reachable"},
	look: func(_ context.Context, m *Machine) finding {
		for _, option := range m.docker.SecurityOptions {
			switch name, _, _ := strings.Cut(strings.TrimPrefix(option, "name="), ","); name {
			case "rootless":
				return failed("the daemon is rootless", "use the daemon of the system: systemctl start docker")
			case "userns":
				return failed("the daemon remaps users", `take "userns-remap" out of /etc/docker/daemon.json and restart Docker`)
			}
		}
		return met("root, no remapping")
	},
}
