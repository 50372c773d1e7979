package hostcheck

import (
	"context"
	"strings"
)

var dockerSeccomp = requirement{
	id:    "docker.seccomp",
	asked: "Docker's own seccomp profile",
	why:   "it closes the calls into the kernel that a submission could attack the machine with",
	needs: []string{"docker.reachable"},
	look: func(_ context.Context, m *Machine) finding {
		cure := `take "seccomp-profile" out of /etc/docker/daemon.json, and see that the kernel has CONFIG_SECCOMP_FILTER`
		for _, option := range m.docker.SecurityOptions {
			rest, isSeccomp := strings.CutPrefix(option, "name=seccomp")
			if !isSeccomp {
				continue
			}
			// Before version 23 the daemon called its own profile "default".
			switch profile := strings.TrimPrefix(rest, ",profile="); profile {
			case "builtin", "default":
				return met("profile " + profile)
			default:
				return failed("profile "+profile, cure)
			}
		}
		return failed("off", cure)
	},
}
