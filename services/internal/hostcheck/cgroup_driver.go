package hostcheck

import (
	"context"
	"fmt"
)

var cgroupDriver = requirement{
	id:    "cgroup.driver",
	asked: "Docker on cgroup version 2 with the driver systemd or cgroupfs",
	why:   "the cgroup that limits a run must be made in the daemon's own way",
	needs: []string{"cgroup.unified", "docker.reachable"},
	look: func(_ context.Context, m *Machine) finding {
		driver, version := m.docker.CgroupDriver, m.docker.CgroupVersion
		found := fmt.Sprintf("driver %s, version %s", driver, version)
		if version != "2" {
			return failed(found, unifiedCure+"; then restart Docker")
		}
		if driver != "systemd" && driver != "cgroupfs" {
			return failed(found, "see docker info, Cgroup Driver; either of the two named here will do")
		}
		return met(found)
	},
}
