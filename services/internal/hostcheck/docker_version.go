package hostcheck

import (
	"context"
	"fmt"
)

// The oldest Docker that speaks of cgroup version 2.
const dockerMajor, dockerMinor = 20, 10

var dockerVersion = requirement{
	id:    "docker.version",
	asked: fmt.Sprintf("Docker %d.%d or newer", dockerMajor, dockerMinor),
	why:   "older daemons do not know cgroup version 2",
	needs: []string{"docker.reachable"},
	look: func(_ context.Context, m *Machine) finding {
		version := m.docker.ServerVersion
		numbers := releaseNumber.FindStringSubmatch(version)
		if numbers == nil || !atLeast(numbers[1], numbers[2], dockerMajor, dockerMinor) {
			return failed(fmt.Sprintf("Docker %q", version), fmt.Sprintf("install Docker %d.%d or newer", dockerMajor, dockerMinor))
		}
		return met("Docker " + version)
	},
}
