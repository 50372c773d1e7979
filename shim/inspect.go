package main

import (
	"strconv"
	"strings"

	"github.com/evalhost/evalhost/shim/wire"
)

// inspect looks at a process that is stopped before its first instruction and refuses it unless every privilege is gone.
// It does not ask whether the calls that drop privileges succeeded; it looks at what the kernel says of the process
// itself (spec/sandbox.md 3.4, 10.4).
//
// Without a box there is no judged container: then neither the seccomp filter, which is the container runtime's, nor a
// cgroup is asked for.
func inspect(pid int, box *box) error {
	dir := "/proc/" + strconv.Itoa(pid)
	status, err := readFile(dir + "/status")
	if err != nil {
		return err
	}
	if err := inspectStatus(string(status), box != nil); err != nil {
		return err
	}
	if box == nil {
		return nil
	}
	cgroups, err := readFile(dir + "/cgroup")
	if err != nil {
		return err
	}
	return inspectCgroup(string(cgroups), box.name)
}

// inspectStatus judges the text of /proc/<pid>/status (proc_pid_status(5)).
func inspectStatus(status string, filtered bool) error {
	nobody := strconv.Itoa(wire.Nobody)
	everyID := nobody + " " + nobody + " " + nobody + " " + nobody // real, effective, saved, file system
	for _, rule := range [...]struct {
		field, want string
		always      bool
	}{
		{"Uid", everyID, true},
		{"Gid", everyID, true},
		{"Groups", "", true},
		// The bounding set is not asked about: emptying it needs a capability the shim was never given.
		{"CapPrm", noCapability, true},
		{"CapEff", noCapability, true},
		{"CapAmb", noCapability, true},
		{"NoNewPrivs", "1", true},
		{"Seccomp", "2", filtered}, // a filter is in force
	} {
		if !rule.always || off("mutant.shim.inspection") {
			continue
		}
		got, isThere := statusField(status, rule.field)
		if !isThere {
			return &failure{what: "inspect the program", reason: "its status has no " + rule.field}
		}
		if got != rule.want {
			return &failure{
				what:   "inspect the program",
				reason: rule.field + " is " + strconv.Quote(got) + ", must be " + strconv.Quote(rule.want),
			}
		}
	}
	return nil
}

const noCapability = "0000000000000000"

// statusField returns the words after `<name>:`, separated by single spaces.
func statusField(status, name string) (string, bool) {
	for line := range strings.Lines(status) {
		if words, isIt := strings.CutPrefix(line, name+":"); isIt {
			return strings.Join(strings.Fields(words), " "), true
		}
	}
	return "", false
}

// inspectCgroup refuses a process that is not in the box: outside it has no limit.
func inspectCgroup(cgroups, want string) error {
	got, err := unifiedName(cgroups)
	if err != nil {
		return err
	}
	if got != want && !off("mutant.shim.inspection-of-the-box") {
		return &failure{what: "inspect the program", reason: "its cgroup is " + got + ", must be " + want}
	}
	return nil
}
