package main

import (
	"strconv"
	"strings"
)

// place is a cgroup under its two names.
type place struct {
	// dir is its directory in this container.
	dir string
	// name is what /proc/<pid>/cgroup calls it, relative to the cgroup namespace's root.
	name string
}

func (p place) child(name string) place {
	return place{dir: p.dir + "/" + name, name: p.name + "/" + name}
}

// findOwn finds the container's own cgroup below the place where the Runner mounted the run's home.
//
// /proc/self/cgroup gives the cgroup's name and /proc/self/mountinfo says which cgroup is mounted there; the rest of the
// way is the difference of the two names. Taking the name's last component would be wrong where a runtime makes a
// subgroup of its own inside the container's (crun with systemd: `docker-<id>.scope/container`).
func findOwn(mountinfo, cgroups, mounted string) (place, error) {
	name, err := unifiedName(cgroups)
	if err != nil {
		return place{}, err
	}
	root, err := mountedCgroup(mountinfo, mounted)
	if err != nil {
		return place{}, err
	}
	// In a cgroup namespace of its own a process sees itself at `/` and its parents as `/..`.
	if name == "/" || strings.Contains(name+"/", "/../") || strings.Contains(root+"/", "/../") {
		return place{}, &failure{
			what: "find this container's cgroup",
			reason: "the container has a cgroup namespace of its own (" + name + " below " + root +
				"); it needs the host's",
		}
	}
	below, isBelow := strings.CutPrefix(name, strings.TrimSuffix(root, "/")+"/")
	if !isBelow {
		return place{}, &failure{
			what:   "find this container's cgroup " + name,
			reason: "what is mounted on " + mounted + " is " + root + ", not a parent of it",
		}
	}
	return place{dir: mounted + "/" + below, name: name}, nil
}

// unifiedName returns the name on the line `0::…` of /proc/<pid>/cgroup, the one of the unified hierarchy.
func unifiedName(cgroups string) (string, error) {
	for line := range strings.Lines(cgroups) {
		if name, isUnified := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); isUnified && name != "" {
			return name, nil
		}
	}
	return "", &failure{
		what:   "read the cgroup file of a process",
		reason: "no line `0::`, so there is no unified cgroup hierarchy (version 2)",
	}
}

// mountedCgroup returns the name of the cgroup that a directory shows, from the mount that covers it: the longest mount
// point, and of several on the same point the last, which hides the others.
func mountedCgroup(mountinfo, dir string) (string, error) {
	var root, point, kind string
	for line := range strings.Lines(mountinfo) {
		// 36 35 98:0 /root /point options [tag…] - kind source options (proc_pid_mountinfo(5))
		before, after, whole := strings.Cut(line, " - ")
		fields, more := strings.Fields(before), strings.Fields(after)
		if !whole || len(fields) < 5 || len(more) < 1 {
			continue
		}
		covers := unescape(fields[4])
		if len(covers) >= len(point) && isOrHolds(covers, dir) {
			root, point, kind = unescape(fields[3]), covers, more[0]
		}
	}
	if kind != "cgroup2" {
		return "", &failure{
			what:   "find the cgroup mounted on " + dir,
			reason: "there is " + strconv.Quote(kind) + " on " + strconv.Quote(point) + ", want cgroup2",
		}
	}
	return strings.TrimSuffix(root, "/") + strings.TrimPrefix(dir, strings.TrimSuffix(point, "/")), nil
}

// isOrHolds tells whether a path is a directory or lies inside it.
func isOrHolds(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// unescape undoes the `\040` that mountinfo writes for a space, and its like.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				plain.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		plain.WriteByte(text[i])
	}
	return plain.String()
}
