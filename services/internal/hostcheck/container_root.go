package hostcheck

import (
	"context"
	"slices"
	"strings"
)

var containerRoot = requirement{
	id:    "container.root",
	asked: "a root file system that nobody can write to",
	why:   "what one run leaves on a disk another one finds, and a disk can be filled",
	needs: []string{"container.probe"},
	look: func(_ context.Context, m *Machine) finding {
		var wrong []string
		found := false
		for _, line := range m.inside["mounts"] {
			// 36 35 98:0 /root /point options … (proc_pid_mountinfo(5))
			fields := strings.Fields(line)
			if len(fields) < 6 {
				continue
			}
			point, readOnly := fields[4], slices.Contains(strings.Split(fields[5], ","), "ro")
			if point == "/" {
				found = true
			}
			// The devices are the kernel's, their directory is not nobody's, and shared memory counts as the run's own.
			if !readOnly && !isOrHolds("/dev", point) && !isOrHolds("/proc", point) {
				wrong = append(wrong, point+" is mounted writable")
			}
		}
		if !found {
			wrong = append(wrong, "no root is mounted")
		}
		for _, dir := range m.inside["written"] {
			wrong = append(wrong, "a file could be made in "+dir)
		}
		if wrong != nil {
			return failed(strings.Join(wrong, "; "), "use the runtime crun or runc as Docker brings it: docker info, Default Runtime")
		}
		return met("read-only, and so is everything else but /dev/shm")
	},
}
