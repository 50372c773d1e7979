package hostcheck

import "context"

var cgroupBus = requirement{
	id:    "cgroup.bus",
	asked: "the service manager can be reached",
	why:   "under the systemd driver every run gets a slice of its own, and only the service manager can make it",
	needs: []string{"cgroup.driver"},
	look: func(ctx context.Context, m *Machine) finding {
		if m.docker.CgroupDriver != "systemd" {
			return absent("Docker uses the driver " + m.docker.CgroupDriver)
		}
		how, err := m.Bus(ctx)
		if err != nil {
			return failed(err.Error(), "start the system bus (systemctl start dbus), and run as root outside any container")
		}
		return met(how)
	},
}
