package hostcheck

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// neededControllers are what limits and measures a run.
var neededControllers = []string{"cpu", "cpuset", "memory", "pids"}

var cgroupControllers = requirement{
	id:    "cgroup.controllers",
	asked: "the controllers cpu, cpuset, memory and pids, handed down to children",
	why:   "a missing controller raises no error: its limit is simply not applied",
	needs: []string{"cgroup.unified"},
	look: func(_ context.Context, m *Machine) finding {
		for _, file := range []struct{ name, cure string }{
			{"cgroup.controllers", "take cgroup_disable= off the kernel command line, and see that the kernel is built with "},
			{"cgroup.subtree_control", "hand them down: echo '%s' > " + m.CgroupRoot + "/cgroup.subtree_control, needed: "},
		} {
			content, err := m.read(m.CgroupRoot + "/" + file.name)
			if err != nil {
				return failed(unreadable(err), "see that "+m.CgroupRoot+" is the unified hierarchy")
			}
			var missing []string
			for _, name := range neededControllers {
				if !slices.Contains(strings.Fields(content), name) {
					missing = append(missing, name)
				}
			}
			if missing != nil {
				cure := strings.Replace(file.cure, "%s", "+"+strings.Join(missing, " +"), 1) + strings.Join(missing, ", ")
				return failed(fmt.Sprintf("%s/%s is without %s", m.CgroupRoot, file.name, strings.Join(missing, ", ")), cure)
			}
		}
		return met(strings.Join(neededControllers, " "))
	},
}
