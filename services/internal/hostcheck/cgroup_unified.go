package hostcheck

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
)

const mountinfo = "/proc/self/mountinfo"

const unifiedCure = "boot with systemd.unified_cgroup_hierarchy=1 on the kernel command line, or unmount the old hierarchy"

var cgroupUnified = requirement{
	id:    "cgroup.unified",
	asked: "cgroup version 2, the unified hierarchy alone",
	why:   "a time limit is processor time read from a cgroup; in any other arrangement no verdict can be reached",
	look: func(_ context.Context, m *Machine) finding {
		mounts, err := m.cgroupMounts()
		if err != nil {
			return failed(unreadable(err), "mount /proc")
		}
		if mounts.types[m.CgroupRoot] != "cgroup2" {
			switch {
			case mounts.first("cgroup2") != "" && mounts.first("cgroup") != "":
				return failed(fmt.Sprintf("the hybrid arrangement: version 1 at %s, version 2 only at %s",
					mounts.first("cgroup"), mounts.first("cgroup2")), unifiedCure)
			case mounts.first("cgroup") != "":
				return failed("the legacy arrangement: version 1 at "+mounts.first("cgroup"), unifiedCure)
			case mounts.first("cgroup2") != "":
				return failed(fmt.Sprintf("version 2 at %s, nothing at %s", mounts.first("cgroup2"), m.CgroupRoot),
					"set AJ_Sandbox__CgroupRoot to "+mounts.first("cgroup2"))
			}
			return failed("no cgroup hierarchy is mounted", "mount the unified hierarchy: mount -t cgroup2 none "+m.CgroupRoot)
		}
		// The size of a kernel file is always 0; only its content tells.
		controllers, err := m.read(m.CgroupRoot + "/cgroup.controllers")
		if err != nil {
			return failed(unreadable(err), unifiedCure)
		}
		if controllers == "" {
			return failed(m.CgroupRoot+"/cgroup.controllers is empty: the controllers are elsewhere", unifiedCure)
		}
		return met("the unified hierarchy at " + m.CgroupRoot)
	},
}

// cgroupMounts holds where cgroup hierarchies are mounted, in the order of the kernel's table.
type cgroupMounts struct {
	types  map[string]string
	points []string
}

func (c cgroupMounts) first(fstype string) string {
	for _, point := range c.points {
		if c.types[point] == fstype {
			return point
		}
	}
	return ""
}

// cgroupMounts reads the mounts of this process. A later mount on the same point hides an earlier one.
func (m *Machine) cgroupMounts() (cgroupMounts, error) {
	mounts := cgroupMounts{types: map[string]string{}}
	f, err := os.Open(m.path(mountinfo))
	if err != nil {
		return mounts, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// 36 35 98:0 /root /point options optional... - type source superoptions
		before, after, _ := strings.Cut(lines.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 5 || len(right) < 1 {
			continue
		}
		if right[0] == "cgroup" || right[0] == "cgroup2" {
			mounts.types[left[4]] = right[0]
			mounts.points = append(mounts.points, left[4])
		}
	}
	return mounts, lines.Err()
}
