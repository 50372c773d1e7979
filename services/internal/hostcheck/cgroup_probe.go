package hostcheck

import "context"

var cgroupProbe = requirement{
	id:    "cgroup.probe",
	asked: "a cgroup can be made, limited, read and removed",
	why:   "a time limit is processor time read from a cgroup of the run's own",
	needs: []string{"cgroup.controllers", "cgroup.bus"},
	look: func(ctx context.Context, m *Machine) finding {
		processors, err := m.Probe(ctx, m.docker.CgroupDriver)
		if err != nil {
			return failed(err.Error(), "run as root with "+m.CgroupRoot+" writable; in a container: "+
				"--cgroupns=host -v "+m.CgroupRoot+":"+m.CgroupRoot)
		}
		m.Processors.Runs = processors
		return met("done with one")
	},
}
