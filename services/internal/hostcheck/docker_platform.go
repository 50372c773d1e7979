package hostcheck

import "context"

var dockerPlatform = requirement{
	id:    "docker.platform",
	asked: "a daemon that runs amd64 containers",
	why:   "the language images are built for it",
	needs: []string{"docker.reachable"},
	look: func(_ context.Context, m *Machine) finding {
		if found := m.docker.Architecture; found != "x86_64" && found != "amd64" {
			return failed(found, "judge on an x86-64 machine with a Docker of its own")
		}
		return met(m.docker.Architecture)
	},
}
