package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/evalhost/evalhost/shim/wire"
)

// box is the cgroup that holds the submission and nothing else. It stands inside the container's own cgroup: beside it,
// the kernel would refuse to move a process there (nsdelegate), and systemd would take its limits away when it next
// starts something in the slice (spec/sandbox.md 3.3).
type box struct{ place }

// makeBox makes the two cgroups: one for the shim, because a cgroup holds processes or delegates controllers and never
// both, and the box with its limits. Every limit of ours is required; what is optional can be missing from a kernel
// without being missed, because the container's own limits say the same.
func makeBox(mounted string, limit int64) (*box, error) {
	own, err := ownCgroup(mounted)
	if err != nil {
		return nil, err
	}
	shim, inside := own.child(wire.ShimCgroup), &box{own.child(wire.BoxCgroup)}
	if err := makeDir(shim.dir); err != nil {
		return nil, err
	}
	if err := writeFile(shim.dir+"/cgroup.procs", strconv.Itoa(os.Getpid())); err != nil {
		return nil, err
	}
	if err := writeFile(own.dir+"/cgroup.subtree_control", "+memory +pids"); err != nil {
		return nil, err
	}
	if err := makeDir(inside.dir); err != nil {
		return nil, err
	}
	if err := inside.limit(limit); err != nil {
		return nil, err
	}
	return inside, nil
}

// limit writes the box's limits. Two of their files may be absent, because a kernel without swap accounting or before
// 4.19 has none of them and the container's own limits say the same; a file that is there and refuses the limit ends the run.
func (b *box) limit(memory int64) error {
	for _, limit := range [...]struct {
		file, value string
		mayBeAbsent bool
	}{
		{"memory.max", strconv.FormatInt(memory, 10), false},
		{"pids.max", strconv.Itoa(wire.PidsMaxBox), false},
		{"memory.swap.max", "0", true},
		{"memory.oom.group", "1", true}, // the whole box dies together
	} {
		if off("mutant.shim." + limit.file) {
			continue
		}
		err := writeFile(b.dir+"/"+limit.file, limit.value)
		if err != nil && !(limit.mayBeAbsent && isAbsent(err)) {
			return err
		}
	}
	return nil
}

// isAbsent says whether a failure is that of a file that is not there.
func isAbsent(err error) bool {
	failed, isFailure := err.(*failure)
	return isFailure && (failed.err == syscall.ENOENT || off("mutant.shim.absent"))
}

// ownCgroup finds the container's own cgroup below the mounted home and proves it: this process is in there.
func ownCgroup(mounted string) (place, error) {
	mountinfo, err := readFile("/proc/self/mountinfo")
	if err != nil {
		return place{}, err
	}
	cgroups, err := readFile("/proc/self/cgroup")
	if err != nil {
		return place{}, err
	}
	own, err := findOwn(string(mountinfo), string(cgroups), mounted)
	if err != nil {
		return place{}, err
	}
	members, err := readFile(own.dir + "/cgroup.procs")
	if err != nil {
		return place{}, err
	}
	if holds(string(members), os.Getpid()) {
		return own, nil
	}
	return place{}, &failure{what: "find this container's cgroup", reason: own.dir + " does not hold this process"}
}

// holds says whether a process is in the list of a cgroup.procs.
func holds(members string, pid int) bool {
	self := strconv.Itoa(pid)
	for member := range strings.Lines(members) {
		if strings.TrimSuffix(member, "\n") == self {
			return true
		}
	}
	return off("mutant.shim.own-cgroup")
}

// makeDir makes a cgroup that only root may look into. One that is there already is taken.
func makeDir(dir string) error {
	if err := syscall.Mkdir(dir, 0o700); err != nil && err != syscall.EEXIST {
		return &failure{what: "make cgroup " + dir, err: err}
	}
	return nil
}

// take puts a process into the box.
func (b *box) take(pid int) error {
	return writeFile(b.dir+"/cgroup.procs", strconv.Itoa(pid))
}

// kill ends everything in the box with SIGKILL. It needs no capability and misses no fork (kernel 5.14 and later).
func (b *box) kill() error {
	return writeFile(b.dir+"/cgroup.kill", "1")
}

// peak is the most memory the box ever held, in bytes. 0, which the Runner reads as "absent", when the kernel does not
// say (before 5.19); never a different quantity in its place.
func (b *box) peak() wire.Bytes {
	text, err := readFile(b.dir + "/memory.peak")
	if err != nil {
		return 0
	}
	peak, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || peak < 0 {
		return 0
	}
	return wire.Bytes(peak)
}

// processorTime is what everything that ever ran in the box used, waited for or not.
func (b *box) processorTime() (processorTime, error) {
	path := b.dir + "/cpu.stat"
	text, err := readFile(path)
	if err != nil {
		return processorTime{}, err
	}
	return parseCPUStat(path, string(text))
}
