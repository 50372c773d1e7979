package hostcheck

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

func TestAGoodMachineMeetsEveryRequirement(t *testing.T) {
	report := Run(t.Context(), goodMachine(t))
	if !report.Fit {
		t.Error("the good machine is not fit")
	}
	if report.Images["gcc"] != "sha256:1" {
		t.Errorf("proved images: %v", report.Images)
	}
	for _, r := range report.Requirements {
		if r.Status != OK {
			t.Errorf("%s is %s: %s", r.ID, r.Status, r.Found)
		}
	}
}

// Every way a requirement can fail to be met, one change of the good machine at a time.
func TestWhatIsNotMetIsNamedWithItsCure(t *testing.T) {
	type change = func(*testing.T, *Machine)
	v1 := "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	for _, c := range []struct {
		id     string
		name   string
		change change
		status Status
		found  string
		cure   string
	}{
		{"root", "another user", func(_ *testing.T, m *Machine) { m.UID = 1000 }, Failed, "1000", "sudo"},
		{"platform", "another processor", func(_ *testing.T, m *Machine) { m.GOARCH = "arm64" }, Failed, "linux/arm64", "x86-64"},
		{"platform", "another system", func(_ *testing.T, m *Machine) { m.GOOS = "darwin" }, Failed, "darwin/amd64", "Linux"},

		{"kernel", "too old", changed(osrelease, "5.18.19\n"), Failed, "5.18.19", "5.19"},
		{"kernel", "much too old", changed(osrelease, "4.99.1\n"), Failed, "4.99.1", "5.19"},
		{"kernel", "just new enough", changed(osrelease, "5.19.0-50-generic\n"), OK, "5.19.0", ""},
		{"kernel", "no release", changed(osrelease, "plan9\n"), Failed, "plan9", "Linux"},
		{"kernel", "a number beyond measure", changed(osrelease, "99999999999999999999.1\n"), Failed, "999", "5.19"},
		{"kernel", "no file", without(osrelease), Failed, "could not be read", "/proc"},

		{
			"cgroup.unified", "C62 legacy", changed(mountinfo, "29 25 0:25 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n"+v1),
			Failed, "legacy", "systemd.unified_cgroup_hierarchy=1",
		},
		{
			"cgroup.unified", "C62 hybrid", changed(mountinfo, v1+"32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"),
			Failed, "hybrid", "systemd.unified_cgroup_hierarchy=1",
		},
		{
			"cgroup.unified", "elsewhere", changed(mountinfo, "32 25 0:28 / /cgroup rw - cgroup2 cgroup2 rw\n"),
			Failed, "/cgroup", "AJ_Sandbox__CgroupRoot",
		},
		{"cgroup.unified", "nothing mounted", changed(mountinfo, ""), Failed, "no cgroup", "mount"},
		{"cgroup.unified", "a table that cannot be read", without(mountinfo), Failed, "could not be read", "/proc"},
		{
			"cgroup.unified", "a mount hidden by another",
			changed(mountinfo, goodFiles[mountinfo]+"40 25 0:30 / /sys/fs/cgroup rw - cgroup none rw,memory\n"), Failed, "legacy", "",
		},
		{"cgroup.unified", "empty content", changed("/sys/fs/cgroup/cgroup.controllers", "\n"), Failed, "empty", "unified"},
		{"cgroup.unified", "no content", without("/sys/fs/cgroup/cgroup.controllers"), Failed, "could not be read", "unified"},

		{
			"cgroup.controllers", "one is missing", changed("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n"),
			Failed, "cgroup.controllers is without pids", "cgroup_disable=",
		},
		{
			"cgroup.controllers", "a name that only contains another", changed("/sys/fs/cgroup/cgroup.controllers", "cpuset memory pids\n"),
			Failed, "without cpu", "",
		},
		{
			"cgroup.controllers", "not handed down", changed("/sys/fs/cgroup/cgroup.subtree_control", "cpu pids\n"),
			Failed, "cgroup.subtree_control is without cpuset, memory", "echo '+cpuset +memory'",
		},
		{"cgroup.controllers", "cannot be read", without("/sys/fs/cgroup/cgroup.subtree_control"), Failed, "could not be read", ""},

		{"docker.reachable", "no socket", func(t *testing.T, m *Machine) { m.Socket = filepath.Join(m.Root, "nothing") }, Failed, "no socket", "install Docker"},
		{"docker.reachable", "a file that nobody listens on", func(t *testing.T, m *Machine) {
			m.Socket = filepath.Join(m.Root, "stale")
			write(t, m, "/stale", "")
		}, Failed, "not running", "systemctl start docker"},
		{"docker.reachable", "something else answers", func(_ *testing.T, m *Machine) {
			m.Docker = func(context.Context) (Docker, error) { return Docker{}, errors.New("malformed HTTP response") }
		}, Failed, "malformed HTTP response", "journalctl"},

		{"docker.version", "too old", docker(func(d *Docker) { d.ServerVersion = "19.03.15" }), Failed, "19.03.15", "20.10"},
		{"docker.version", "just new enough", docker(func(d *Docker) { d.ServerVersion = "20.10.24+dfsg1" }), OK, "20.10.24", ""},
		{"docker.version", "no version", docker(func(d *Docker) { d.ServerVersion = "" }), Failed, `""`, "20.10"},

		{"docker.platform", "another processor", docker(func(d *Docker) { d.Architecture = "aarch64" }), Failed, "aarch64", "x86-64"},

		{"docker.identity", "rootless", docker(func(d *Docker) { d.SecurityOptions = append(d.SecurityOptions, "name=rootless") }), Failed, "rootless", "systemctl"},
		{"docker.identity", "remapped", docker(func(d *Docker) { d.SecurityOptions = append(d.SecurityOptions, "name=userns") }), Failed, "remaps", "userns-remap"},

		{"docker.seccomp", "off", docker(func(d *Docker) { d.SecurityOptions = []string{"name=apparmor"} }), Failed, "off", "seccomp-profile"},
		{"docker.seccomp", "unconfined", docker(func(d *Docker) { d.SecurityOptions = []string{"name=seccomp,profile=unconfined"} }), Failed, "unconfined", "seccomp-profile"},
		{"docker.seccomp", "a profile of its own", docker(func(d *Docker) { d.SecurityOptions = []string{"name=seccomp,profile=/etc/open.json"} }), Failed, "/etc/open.json", "seccomp-profile"},
		{"docker.seccomp", "an old name for the same profile", docker(func(d *Docker) { d.SecurityOptions = []string{"name=seccomp,profile=default"} }), OK, "default", ""},

		{"cgroup.driver", "version 1", docker(func(d *Docker) { d.CgroupVersion = "1" }), Failed, "version 1", "unified"},
		{"cgroup.driver", "unknown", docker(func(d *Docker) { d.CgroupDriver = "none" }), Failed, "none", "docker info"},
		{"cgroup.bus", "cannot be reached", func(_ *testing.T, m *Machine) {
			m.Bus = func(context.Context) (string, error) {
				return "", errors.New("dial unix /run/dbus/system_bus_socket: refused")
			}
		}, Failed, "refused", "systemctl start dbus"},
		{"cgroup.bus", "not needed", docker(func(d *Docker) { d.CgroupDriver = "cgroupfs" }), NotApplicable, "cgroupfs", ""},
		{"cgroup.probe", "C07 C67 cannot be made", func(_ *testing.T, m *Machine) {
			m.Probe = func(context.Context, string) (string, error) {
				return "", errors.New("mkdir /sys/fs/cgroup/x: read-only file system")
			}
		}, Failed, "read-only", "writable"},

		{"swap", "C13 on", changed(swaps, goodFiles[swaps]+"/dev/vda2 partition 1048572 0 -2\n/dev/zram0 partition 1 0 100\n"), Failed, "/dev/vda2, /dev/zram0", "swapoff -a"},
		{"swap", "not the table", changed(swaps, ""), Failed, "not the kernel's table", "/proc"},
		{"swap", "cannot be read", without(swaps), Failed, "could not be read", "/proc"},

		{"ptrace", "off", changed(ptraceScope, "0\n"), OK, "0", ""},
		{"ptrace", "administrators only", changed(ptraceScope, "2\n"), Failed, "= 2", "sysctl"},
		{"ptrace", "nobody", changed(ptraceScope, "3\n"), Failed, "= 3", "reboot"},
		{"ptrace", "an unknown word", changed(ptraceScope, "\n"), Failed, "= ", "sysctl"},
		{"ptrace", "no Yama", without(ptraceScope), NotApplicable, "Yama", ""},

		{"core-pattern", "C68 a pipe", changed(corePatternFile, "|/usr/lib/systemd/systemd-coredump %P\n"), Failed, "systemd-coredump", "sysctl"},
		{"core-pattern", "C68 a socket", changed(corePatternFile, "@/run/systemd/coredump\n"), Failed, "@/run/systemd/coredump", "sysctl"},
		{"core-pattern", "a socket with a request", changed(corePatternFile, "@@/run/systemd/coredump\n"), Failed, "@@/run", "sysctl"},
		{"core-pattern", "a file", changed(corePatternFile, "/var/core/%p\n"), OK, "/var/core", ""},
		{"core-pattern", "cannot be read", without(corePatternFile), Failed, "could not be read", "/proc"},

		{"shim", "missing", func(_ *testing.T, m *Machine) { m.Shim = m.Root + "/none" }, Failed, "no such file", "EVALHOST_SHIM_PATH"},
		{"shim", "a text", func(t *testing.T, m *Machine) {
			write(t, m, "/text", "#!/bin/sh\n")
			m.Shim = m.Root + "/text"
			if err := os.Chmod(m.Shim, 0o755); err != nil {
				t.Fatal(err)
			}
		}, Failed, "not an executable", "aj-shim"},
		{"shim", "not executable", func(t *testing.T, m *Machine) {
			if err := os.Chmod(m.Shim, 0o644); err != nil {
				t.Fatal(err)
			}
		}, Failed, "not an executable file", "aj-shim"},
		{"shim", "dynamic", func(t *testing.T, m *Machine) { m.Shim = writeExecutable(t, m.Root, true) }, Failed, "loader", "CGO_ENABLED=0"},

		{"scratch", "below /run", func(_ *testing.T, m *Machine) { m.Scratch = "/run/evalhost" }, Failed, "/run", "EVALHOST_SCRATCH"},
		{"scratch", "no directory", func(t *testing.T, m *Machine) {
			write(t, m, "/file", "")
			m.Scratch = m.Root + "/file"
		}, Failed, "not a directory", "EVALHOST_SCRATCH"},
		{"scratch", "noexec", func(_ *testing.T, m *Machine) {
			m.Execute = func(context.Context, string) error { return fs.ErrPermission }
		}, Failed, "permission denied", "noexec"},

		{"disk", "nearly full", freeing(diskLeast - 1), Failed, "free", "EVALHOST_SCRATCH"},
		{"disk", "scarce", freeing(diskLeast), Warning, "1 GiB", "EVALHOST_SCRATCH"},
		{"disk", "enough", freeing(diskEasy), OK, "4 GiB", ""},
		{"disk", "cannot be asked", func(_ *testing.T, m *Machine) {
			m.Free = func(string) (verdict.Bytes, error) { return 99 * verdict.GiB, errors.New("statfs: input/output error") }
		}, Failed, "input/output", ""},

		{"docker.disk", "nearly full", freeing(diskLeast - 1), Failed, "free", "data-root"},
		{"docker.disk", "scarce", freeing(diskLeast), Warning, "1 GiB", "data-root"},
		{"docker.disk", "not told where", docker(func(d *Docker) { d.RootDir = "" }), Failed, "", "data-root"},

		{"clock", "slow", changed(clockSource, "acpi_pm\n"), Warning, "acpi_pm", "tsc"},
		{"clock", "not told", without(clockSource), NotApplicable, "", ""},
		{"pressure", "not told", without(cpuPressure), Warning, "does not tell", "psi=1"},
		{"pressure", "empty", changed(cpuPressure, ""), Warning, "empty", "psi=1"},
		{"huge-pages", "always", changed(hugePagesFile, "[always] madvise never\n"), Warning, "always", "madvise"},
		{"huge-pages", "never", changed(hugePagesFile, "always madvise [never]\n"), OK, "never", ""},
		{"huge-pages", "an unknown line", changed(hugePagesFile, "[never"), Warning, "[never", "madvise"},
		{"huge-pages", "none", without(hugePagesFile), NotApplicable, "", ""},
		{"governor", "one of many", changed("/sys/devices/system/cpu/cpu12/cpufreq/scaling_governor", "powersave\n"), Warning, "powersave", "performance"},
		{"governor", "no control", without("/sys/devices/system/cpu"), NotApplicable, "", ""},
		{"boost", "on, Intel", changed("/sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"), Warning, "on", "no_turbo"},
		{"boost", "on, others", func(t *testing.T, m *Machine) {
			remove(t, m, "/sys/devices/system/cpu/intel_pstate")
			write(t, m, "/sys/devices/system/cpu/cpufreq/boost", "1\n")
		}, Warning, "on", "cpufreq/boost"},
		{"boost", "no control", without("/sys/devices/system/cpu"), NotApplicable, "", ""},
		{"smt", "on", changed(smtActive, "1\n"), Warning, "shared", "nosmt"},
		{"smt", "no control", without(smtActive), NotApplicable, "", ""},

		{"lanes", "more than cores", func(_ *testing.T, m *Machine) { m.Lanes = 5 }, Failed, "5 lanes", "AJ_Runner__TestsAtOnce"},
		{"lanes", "half a core", func(_ *testing.T, m *Machine) {
			m.Processors = sandbox.Processors{Allowed: "0-1", Online: "0-3", Siblings: func(cpu int) []int { return []int{cpu % 2, cpu%2 + 2} }}
		}, Warning, "sibling", "nosmt"},
		{"lanes", "more than the slice of judged programs has", func(_ *testing.T, m *Machine) {
			m.Lanes = 3
			m.Probe = func(context.Context, string) (string, error) { return "2-3", nil }
		}, Failed, "processors 2-3", "AllowedCPUs="},
		{"lanes", "a set of the slice", func(_ *testing.T, m *Machine) {
			m.Probe = func(context.Context, string) (string, error) { return "2-3", nil }
		}, OK, "pinned to 2-3", ""},
		{"lanes", "a set", func(_ *testing.T, m *Machine) { m.Processors.Allowed = "1,2"; m.Lanes = 2 }, OK, "pinned to 1 and 2", ""},

		{"container.probe", "cannot be started", func(_ *testing.T, m *Machine) {
			m.Container = func(context.Context, string, string) (string, error) { return "", errors.New("no such runtime") }
		}, Failed, "no such runtime", "journalctl"},
		{"container.probe", "says nothing", func(_ *testing.T, m *Machine) {
			m.Container = func(context.Context, string, string) (string, error) { return "", nil }
		}, Failed, "did not say everything", "/bin/sh"},
		{"container.probe", "is cut short", insideSays("== end\n", ""), Failed, "did not say everything", ""},
		{"container.probe", "has no proved image", image([]string{"another"}, nil), Failed, "no image", "docker load"},
		{"container.identity", "C70 root", insideSays("Uid:\t65534\t65534", "Uid:\t0\t0"), Failed, `Uid is "0 0 65534 65534"`, "userns"},
		{"container.identity", "another group", insideSays("Gid:\t65534", "Gid:\t0"), Failed, "Gid", ""},
		{"container.identity", "more groups", insideSays("Groups:\t65534", "Groups:\t65534 27"), Failed, "groups 65534 27", ""},
		{"container.identity", "not told", insideSays("Uid:", "Xid:"), Failed, "Uid is not told", ""},
		{"container.capabilities", "Docker's own set in the bounding set", insideSays("CapBnd:\t0000000000000000", "CapBnd:\t00000000a80425fb"), Failed, "CapBnd", "runtime"},
		{"container.capabilities", "not told", insideSays("CapAmb", "CapXyz"), Failed, "CapAmb is not told", ""},
		{"container.privileges", "can be gained", insideSays("NoNewPrivs:\t1", "NoNewPrivs:\t0"), Failed, "NoNewPrivs", "runtime"},
		{"container.seccomp", "C70 none", insideSays("Seccomp:\t2", "Seccomp:\t0"), Failed, `Seccomp is "0"`, "seccomp-profile"},
		{"container.network", "a link", insideSays("    lo:", "  eth0:"), Failed, "a link eth0", "none"},
		{"container.network", "C70 a route", insideSays("IRTT\n", "IRTT\neth0 00000000 0102A8C0\n"), Failed, "eth0 00000000", ""},
		{"container.network", "a route of IPv6", insideSays("80200001       lo", "80200001       eth0"), Failed, "eth0", ""},
		{"container.root", "C70 writable", insideSays("/ / ro,", "/ / rw,"), Failed, "/ is mounted writable", "runtime"},
		{"container.root", "another writable mount", insideSays("/aj-out ro,", "/aj-out rw,"), Failed, "/aj-out is mounted writable", ""},
		{"container.root", "no root", insideSays("/ / ro,", "/ /x ro,"), Failed, "no root", ""},
		{"container.root", "a file was made", insideSays("== written\n", "== written\n/etc\n"), Failed, "made in /etc", ""},
		{"container.limits", "no memory limit", insideSays("100663296", "max"), Failed, `memory.max is "max"`, "controllers"},
		{"container.limits", "swap", insideSays("== memory.swap.max\n0\n", "== memory.swap.max\nmax\n"), Failed, "memory.swap.max", ""},
		{"container.limits", "a kernel that cannot swap", insideSays("== memory.swap.max\n0\n", ""), OK, "", ""},
		{"container.limits", "no pids", insideSays("== pids.max\n24\n", ""), Failed, `pids.max is ""`, ""},
		{"container.limits", "a whole machine", insideSays("100000 100000", "max 100000"), Failed, "cpu.max", ""},
		{"container.limits", "core dumps", insideSays("size        0                    0 ", "size        0                    unlimited "), Failed, "core", ""},
		{"container.limits", "files of any size", insideSays("1048576              1048576 ", "unlimited            unlimited "), Failed, "Max file size", ""},
		{"container.limits", "larger files for who asks", insideSays("1048576              1048576 ", "1048576              unlimited "), Failed, "Max file size", ""},
		{"container.limits", "the size of files is not told", insideSays("Max file size ", "Max xile size "), Failed, `Max file size is ""`, ""},
		{"container.limits", "files", insideSays("256                  256 ", "1024 1024 "), Failed, "open files", ""},
		{"container.apparmor", "unconfined", insideSays("docker-default (enforce)", "unconfined"), Failed, "unconfined", "apparmor"},
		{"container.apparmor", "complains only", insideSays("(enforce)", "(complain)"), Failed, "complain", "apparmor"},
		{"container.apparmor", "none", docker(func(d *Docker) { d.SecurityOptions = d.SecurityOptions[1:] }), NotApplicable, "no AppArmor", ""},

		{"images", "no manifest", func(_ *testing.T, m *Machine) {
			m.Images, m.ImagesErr = nil, errors.New("open /etc/evalhost/images.json: no such file or directory")
		}, Failed, "/etc/evalhost/images.json", "EVALHOST_MANIFEST"},
		{"image.gcc", "absent", image(nil, engine.ErrImageAbsent), Failed, "no image evalhost/gcc", "docker load"},
		{"image.gcc", "another", image([]string{"layer 2 is b, want a", "user is root, want 65534"}, nil), Failed, "layer 2 is b, want a; user is root", "docker load"},
		{"image.gcc", "cannot be asked", image(nil, errors.New("EOF")), Failed, "EOF", "journalctl"},
	} {
		t.Run(c.id+": "+c.name, func(t *testing.T) {
			m := goodMachine(t)
			c.change(t, m)
			report := Run(t.Context(), m)
			r := result(t, report, c.id)
			if r.Status != c.status || !strings.Contains(r.Found, c.found) || !strings.Contains(r.Cure, c.cure) {
				t.Errorf("got %+v, want %s, found %q, cure %q", r, c.status, c.found, c.cure)
			}
			if (r.Status == Failed || r.Status == Warning) != (r.Cure != "") {
				t.Errorf("%s with the cure %q", r.Status, r.Cure)
			}
			if c.id == "image.gcc" && len(report.Images) > 0 {
				t.Errorf("an image that is not the expected one was proved: %v", report.Images)
			}
			if report.Fit != (len(report.Failed()) == 0) || c.status == Failed && report.Fit {
				t.Errorf("fit is %t with %d failures", report.Fit, len(report.Failed()))
			}
		})
	}
}

func freeing(n verdict.Bytes) func(*testing.T, *Machine) {
	return func(_ *testing.T, m *Machine) { m.Free = func(string) (verdict.Bytes, error) { return n, nil } }
}

func image(differences []string, err error) func(*testing.T, *Machine) {
	return func(_ *testing.T, m *Machine) {
		m.Images[0].Look = func(context.Context) (string, []string, error) { return "sha256:1", differences, err }
	}
}

// What was seen on real broken hosts: the daemon on cgroup version 1 says so as well, and a cgroup cannot be limited where the
// controller is missing. Each has a cure of its own, and neither mends anything.
func TestASymptomIsNoCauseBesideItsCause(t *testing.T) {
	for _, c := range []struct {
		cause   string
		damage  func(*testing.T, *Machine)
		symptom string
	}{
		{"cgroup.controllers", changed("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n"), "cgroup.probe"},
		{"cgroup.unified", changed(mountinfo, "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"), "cgroup.driver"},
	} {
		m := goodMachine(t)
		c.damage(t, m)
		m.Probe = func(context.Context, string) (string, error) { return "", errors.New("permission denied") }
		docker(func(d *Docker) { d.CgroupVersion = "1" })(t, m)
		for _, r := range Run(t.Context(), m).Requirements {
			switch {
			case r.ID == c.symptom && r.Because != c.cause:
				t.Errorf("%s is not met because of %q, want %q: %+v", r.ID, r.Because, c.cause, r)
			case c.cause == "cgroup.unified" && r.Status == Failed && r.Because == "" && r.ID != c.cause:
				t.Errorf("a second cause: %+v", r)
			}
		}
	}
}

func TestEveryRequirementHasAFailingRowOrOnlyWarns(t *testing.T) {
	// The table above is the proof for each; this one keeps the identifiers and the texts whole.
	seen := map[string]bool{}
	for _, req := range slices.Concat(requirements, insideRequirements) {
		if seen[req.id] {
			t.Errorf("two requirements are called %s", req.id)
		}
		for _, need := range req.needs {
			if !seen[need] {
				t.Errorf("%s needs %s, which does not come before it", req.id, need)
			}
		}
		seen[req.id] = true
		if req.asked == "" || req.why == "" || req.look == nil {
			t.Errorf("%s does not say what it asks and why", req.id)
		}
	}
}

func TestOneCauseIsReportedOnce(t *testing.T) {
	m := goodMachine(t)
	m.Socket = m.Root + "/nothing"
	m.Docker = func(context.Context) (Docker, error) {
		t.Error("asked a daemon that is not there")
		return Docker{}, nil
	}
	report := Run(t.Context(), m)
	var causes, followers []string
	for _, r := range report.Failed() {
		if r.Because == "" {
			causes = append(causes, r.ID)
			continue
		}
		followers = append(followers, r.ID)
		if r.Because != "docker.reachable" || r.Cure != "" {
			t.Errorf("%s follows from %q with the cure %q", r.ID, r.Because, r.Cure)
		}
	}
	want := []string{
		"docker.version", "docker.platform", "docker.identity", "docker.seccomp", "docker.disk", "cgroup.driver",
		"cgroup.bus", "cgroup.probe", "image.gcc", "container.probe", "container.identity", "container.capabilities",
		"container.privileges", "container.seccomp", "container.network", "container.root", "container.limits", "container.apparmor",
	}
	if diff := cmp.Diff([]string{"docker.reachable"}, causes); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, followers); diff != "" {
		t.Errorf("followers (-want +got):\n%s", diff)
	}
	var text bytes.Buffer
	if err := report.WriteFailures(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Count(text.String(), "FAILED") != 1 || !strings.Contains(text.String(), "systemctl start docker") {
		t.Errorf("what stands in the way:\n%s", text.String())
	}
}

func TestTheErrorOfOpeningTheSocketNamesTheCure(t *testing.T) {
	for err, want := range map[error][2]string{
		syscall.ENOENT:       {"no socket", "install Docker"},
		syscall.EACCES:       {"may not be opened", "sudo"},
		syscall.ECONNREFUSED: {"not running", "systemctl start docker"},
		syscall.EIO:          {"input/output error", "journalctl"},
	} {
		f := socketRefused("/var/run/docker.sock", &fs.PathError{Op: "connect", Path: "x", Err: err})
		if f.status != Failed || !strings.Contains(f.found, want[0]) || !strings.Contains(f.cure, want[1]) {
			t.Errorf("%v: %+v, want %q", err, f, want)
		}
	}
}

// A report that is read by programs must not change by accident.
func TestTheReportKeepsItsShape(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *Machine){
		"fit": func(*testing.T, *Machine) {},
		"unfit": func(t *testing.T, m *Machine) {
			changed(swaps, goodFiles[swaps]+"/dev/vda2 partition 1048572 0 -2\n")(t, m)
			changed(hugePagesFile, "[always] madvise never\n")(t, m)
			without(smtActive)(t, m)
			docker(func(d *Docker) { d.CgroupDriver = "none" })(t, m)
			image([]string{"layer 2 is b, want a"}, nil)(t, m)
		},
	} {
		m := goodMachine(t)
		change(t, m)
		report := Run(t.Context(), m)
		var text bytes.Buffer
		if err := report.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", neutral(m, text.String()))
		document, err := json.MarshalIndent(report, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", neutral(m, string(document)+"\n"))
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// writeExecutable writes the smallest file that reads as an executable for x86-64, static or not.
func writeExecutable(t *testing.T, dir string, dynamic bool) string {
	t.Helper()
	header := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
		Shentsize: 64,
	}
	copy(header.Ident[:], "\x7fELF\x02\x01\x01")
	segment := elf.Prog64{Type: uint32(elf.PT_LOAD)}
	if dynamic {
		segment.Type = uint32(elf.PT_INTERP)
	}
	var b bytes.Buffer
	for _, part := range []any{header, segment} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "executable")
	if dynamic {
		path += "-dynamic"
	}
	if err := os.WriteFile(path, b.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
