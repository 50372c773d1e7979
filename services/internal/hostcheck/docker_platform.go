package hostcheck

import "context"

var dockerPlatform = requirement{
	id:    "docker.platform",
	asked: "a daemon that runs linux/amd64 containers",
	why:   "the language images are built for it",
	needs: "docker.reachable",
	look: func(_ context.Context, m *Machine) finding {
		found := m.docker.OSType + "/" + m.docker.Architecture
		if m.docker.OSType != "linux" || m.docker.Architecture != "x86_64" && m.docker.Architecture != "amd64" {
			return failed(found, "judge on an x86-64 machine whose Docker runs Linux containers natively")
		}
		return met(found)
	},
}
