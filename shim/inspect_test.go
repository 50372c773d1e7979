package main

import (
	"strings"
	"testing"
)

// droppedStatus is /proc/<pid>/status of a submission in a judged container, shortened.
const droppedStatus = `Name:	probe
Umask:	0022
State:	t (tracing stop)
Tgid:	19
Pid:	19
PPid:	1
TracerPid:	1
Uid:	65534	65534	65534	65534
Gid:	65534	65534	65534	65534
FDSize:	64
Groups:	` + `
NStgid:	19
Threads:	1
SigIgn:	0000000000000000
CapInh:	0000000000000000
CapPrm:	0000000000000000
CapEff:	0000000000000000
CapBnd:	00000000000000c0
CapAmb:	0000000000000000
NoNewPrivs:	1
Seccomp:	2
Seccomp_filters:	1
`

func TestAProcessWithoutPrivilegesPassesTheInspection(t *testing.T) {
	if err := inspectStatus(droppedStatus, true); err != nil {
		t.Error(err)
	}
	unfiltered := strings.Replace(droppedStatus, "Seccomp:\t2", "Seccomp:\t0", 1)
	if err := inspectStatus(unfiltered, false); err != nil {
		t.Errorf("outside a container: %v", err)
	}
}

func TestAProcessWithAnyPrivilegeLeftIsRefusedByName(t *testing.T) {
	for _, test := range [...]struct{ field, from, to string }{
		{"Uid", "Uid:\t65534", "Uid:\t0"},
		{"Uid", "Uid:\t65534\t65534\t65534\t65534", "Uid:\t65534\t65534\t0\t65534"},
		{"Uid", "Uid:\t65534\t65534\t65534\t65534", "Uid:\t65534\t65534\t65534"},
		{"Gid", "Gid:\t65534\t65534\t65534\t65534", "Gid:\t65534\t65534\t65534\t0"},
		{"Groups", "Groups:\t", "Groups:\t0"},
		{"Groups", "Groups:\t", "Groups:\t65534 "},
		{"CapPrm", "CapPrm:\t0000000000000000", "CapPrm:\t00000000000000c0"},
		{"CapEff", "CapEff:\t0000000000000000", "CapEff:\t0000000000000080"},
		{"CapAmb", "CapAmb:\t0000000000000000", "CapAmb:\t0000000000000001"},
		{"NoNewPrivs", "NoNewPrivs:\t1", "NoNewPrivs:\t0"},
		{"Seccomp", "Seccomp:\t2", "Seccomp:\t0"},
		{"Seccomp", "Seccomp:\t2", "Seccomp:\t1"},
		{"Uid", "Uid:", "uid:"},
		{"Groups", "Groups:\t\n", ""},
		{"CapEff", "CapEff:\t0000000000000000\n", ""},
		{"NoNewPrivs", "NoNewPrivs:\t1\n", ""},
		{"Seccomp", "Seccomp:\t2\n", ""}, // a kernel without the field; Seccomp_filters is another one
	} {
		status := strings.Replace(droppedStatus, test.from, test.to, 1)
		if status == droppedStatus {
			t.Fatalf("%q is not in the fixture", test.from)
		}
		err := inspectStatus(status, true)
		if err == nil {
			t.Errorf("%q instead of %q passed the inspection", test.to, test.from)
		} else if !strings.Contains(err.Error(), test.field) {
			t.Errorf("%q instead of %q: %q does not name %s", test.to, test.from, err, test.field)
		}
	}
}

func TestAProcessOutsideItsBoxIsRefused(t *testing.T) {
	const box = "/evalhost/run/9f/box"
	if err := inspectCgroup("0::"+box+"\n", box); err != nil {
		t.Error(err)
	}
	for _, cgroups := range []string{"0::/evalhost/run/9f/shim\n", "0::" + box + "/in\n", "0::/\n", "4:memory:" + box + "\n", ""} {
		if err := inspectCgroup(cgroups, box); err == nil {
			t.Errorf("a process in %q passed", cgroups)
		}
	}
}
