package hostcheck

import (
	"context"
	"strings"
)

var containerSeccomp = requirement{
	id:    "container.seccomp",
	asked: "a filter of calls into the kernel, seen from inside",
	why:   "Docker was seen to run without its profile and to say nothing; without it a submission reaches the whole kernel",
	needs: []string{"container.probe"},
	look: func(_ context.Context, m *Machine) finding {
		if wrong := m.inside.wants(map[string]string{"Seccomp": "2"}, "Seccomp"); wrong != nil {
			return failed(strings.Join(wrong, "; "), `take "seccomp-profile" out of /etc/docker/daemon.json, and see that the kernel has CONFIG_SECCOMP_FILTER`)
		}
		return met("Seccomp 2")
	},
}
