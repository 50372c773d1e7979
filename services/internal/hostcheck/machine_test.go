package hostcheck

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// goodInside is what the probe container prints on such a machine.
const goodInside = `== status
Name:	sh
Uid:	65534	65534	65534	65534
Gid:	65534	65534	65534	65534
Groups:	65534 
CapInh:	0000000000000000
CapPrm:	0000000000000000
CapEff:	0000000000000000
CapBnd:	0000000000000000
CapAmb:	0000000000000000
NoNewPrivs:	1
Seccomp:	2
Seccomp_filters:	1
== routes
Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
== routes6
00000000000000000000000000000001 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000000 00000002 00000000 80200001       lo
== links
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
== limits
Limit                     Soft Limit           Hard Limit           Units     
Max file size             1048576              1048576              bytes     
Max core file size        0                    0                    bytes     
Max open files            256                  256                  files     
== mounts
120 90 0:50 / / ro,relatime - overlay overlay rw,lowerdir=/x
121 120 0:53 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
122 120 0:54 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
123 122 0:55 / /dev/shm rw,nosuid,nodev,noexec,relatime - tmpfs shm rw,size=65536k
124 120 0:57 / /sys ro,nosuid,nodev,noexec,relatime - sysfs sysfs ro
125 120 254:1 /scratch/cli_probe1 /aj-out ro,relatime - ext4 /dev/vda1 rw
== apparmor
docker-default (enforce)
== memory.max
100663296
== memory.swap.max
0
== pids.max
24
== cpu.max
100000 100000
== written
== end
`

// insideSays makes a change of what the probe container prints.
func insideSays(from, to string) func(*testing.T, *Machine) {
	return func(t *testing.T, m *Machine) {
		t.Helper()
		said := strings.Replace(goodInside, from, to, 1)
		if said == goodInside {
			t.Fatalf("nothing was changed: no %q", from)
		}
		m.Container = func(context.Context, string, string) (string, error) { return said, nil }
	}
}

// goodFiles is a machine on which every requirement is met.
var goodFiles = map[string]string{
	osrelease: "6.12.117-amd64\n",
	mountinfo: "25 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw\n" +
		"31 25 0:27 / /sys/fs/cgroup rw,nosuid,nodev,noexec shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n",
	"/sys/fs/cgroup/cgroup.controllers":     "cpuset cpu io memory hugetlb pids\n",
	"/sys/fs/cgroup/cgroup.subtree_control": "cpuset cpu io memory pids\n",
	swaps:                                   "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
	ptraceScope:                             "1\n",
	corePatternFile:                         "core\n",
	cpuPressure:                             "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
	hugePagesFile:                           "always [madvise] never\n",
	"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":  "performance\n",
	"/sys/devices/system/cpu/cpu12/cpufreq/scaling_governor": "performance\n",
	"/sys/devices/system/cpu/intel_pstate/no_turbo":          "1\n",
	smtActive:   "0\n",
	clockSource: "tsc\n",
}

// goodMachine puts a machine together in a temporary directory.
func goodMachine(t *testing.T) *Machine {
	t.Helper()
	root := t.TempDir()
	m := &Machine{
		Root: root, GOOS: "linux", GOARCH: "amd64", UID: 0,
		CgroupRoot: "/sys/fs/cgroup",
		Socket:     filepath.Join(root, "docker.sock"),
		Docker: func(context.Context) (Docker, error) {
			return Docker{
				ServerVersion: "26.1.5+dfsg1", Architecture: "x86_64", RootDir: root,
				CgroupDriver: "systemd", CgroupVersion: "2",
				SecurityOptions: []string{"name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"},
			}, nil
		},
		Bus:        func(context.Context) (string, error) { return "the system bus", nil },
		Probe:      func(context.Context, string) (string, error) { return "", nil },
		Container:  func(context.Context, string, string) (string, error) { return goodInside, nil },
		Processors: sandbox.Processors{Allowed: "0-3", Online: "0-3"},
		Scratch:    filepath.Join(root, "scratch", "below"),
		Free:       func(string) (verdict.Bytes, error) { return 20 * verdict.GiB, nil },
		Execute:    func(context.Context, string) error { return nil },
		Images: []Image{
			{Key: "gcc", Ref: "evalhost/gcc", Look: func(context.Context) (string, []string, error) { return "sha256:1", nil, nil }},
		},
	}
	m.Shim = writeExecutable(t, root, false)
	for path, content := range goodFiles {
		write(t, m, path, content)
	}
	listen(t, m.Socket)
	return m
}

func write(t *testing.T, m *Machine, path, content string) {
	t.Helper()
	full := m.path(path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, m *Machine, path string) {
	t.Helper()
	if err := os.RemoveAll(m.path(path)); err != nil {
		t.Fatal(err)
	}
}

// listen accepts connections on a socket for as long as the test lasts.
func listen(t *testing.T, socket string) net.Listener {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

// changed makes a change of the good machine for a table.
func changed(path, content string) func(*testing.T, *Machine) {
	return func(t *testing.T, m *Machine) { write(t, m, path, content) }
}

func without(path string) func(*testing.T, *Machine) {
	return func(t *testing.T, m *Machine) { remove(t, m, path) }
}

func docker(change func(*Docker)) func(*testing.T, *Machine) {
	return func(_ *testing.T, m *Machine) {
		good, _ := m.Docker(context.Background())
		change(&good)
		m.Docker = func(context.Context) (Docker, error) { return good, nil }
	}
}

func result(t *testing.T, report Report, id string) Result {
	t.Helper()
	for _, r := range report.Requirements {
		if r.ID == id {
			return r
		}
	}
	t.Fatalf("no requirement is called %s", id)
	return Result{}
}

// neutral takes the temporary directory out of a text.
func neutral(m *Machine, text string) string { return strings.ReplaceAll(text, m.Root, "ROOT") }
