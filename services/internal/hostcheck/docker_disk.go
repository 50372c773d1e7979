package hostcheck

import "context"

var dockerDisk = requirement{
	id:    "docker.disk",
	asked: "at least " + diskEasy.String() + " free for Docker's layers",
	why:   "every container writes a layer of its own; a disk that fills up while judging fails the job",
	needs: []string{"docker.reachable"},
	look: func(_ context.Context, m *Machine) finding {
		return m.space(m.docker.RootDir, `free space there, or move Docker's "data-root" in /etc/docker/daemon.json`)
	},
}
