//go:build guest

package hosts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The places of nixos/host/sysctl.conf: here, and on NixOS.
var sysctlFiles = []string{"/etc/sysctl.d/60-evalhost.conf", "/etc/sysctl.d/90-evalhost.conf"}

// theKernelIsAsTheFileSays reads every line of sysctl.conf back. A line with a dash may be missing, and never be another value.
func theKernelIsAsTheFileSays(t *testing.T) {
	var text []byte
	err := fs.ErrNotExist
	for _, name := range sysctlFiles {
		if errors.Is(err, fs.ErrNotExist) {
			text, err = os.ReadFile(name)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, want, isSetting := strings.Cut(line, "=")
		if !isSetting {
			t.Errorf("%q is no setting", line)
			continue
		}
		key, mayBeMissing := strings.CutPrefix(strings.TrimSpace(key), "-")
		got, err := os.ReadFile(path.Join("/proc/sys", strings.ReplaceAll(key, ".", "/")))
		if mayBeMissing && errors.Is(err, fs.ErrNotExist) {
			t.Logf("this kernel has no %s", key)
			continue
		}
		found++
		if err != nil || strings.TrimSpace(string(got)) != strings.TrimSpace(want) {
			t.Errorf("%s is %q (%v), and the file says%s", key, got, err, want)
		}
	}
	if found < 15 {
		t.Errorf("only %d settings were found", found)
	}
}

// noProgramLoadsAModuleByAsking: sockets of families that nobody here needs are refused, and no code was loaded for it.
func noProgramLoadsAModuleByAsking(t *testing.T) {
	modules := func() string {
		t.Helper()
		text, err := os.ReadFile("/proc/modules")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for line := range strings.Lines(string(text)) {
			name, _, _ := strings.Cut(line, " ")
			names = append(names, name)
		}
		return strings.Join(names, " ")
	}
	before := modules()
	families := map[string]int{
		"AX25": unix.AF_AX25, "X25": unix.AF_X25, "RDS": unix.AF_RDS, "CAN": unix.AF_CAN, "TIPC": unix.AF_TIPC, "BLUETOOTH": unix.AF_BLUETOOTH,
		"ALG": unix.AF_ALG, "RXRPC": unix.AF_RXRPC, "PPPOX": unix.AF_PPPOX, "LLC": unix.AF_LLC, "KCM": unix.AF_KCM, "SMC": unix.AF_SMC,
	}
	for name, family := range families {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET, unix.SOCK_RAW} {
			fd, err := unix.Socket(family, kind, 0)
			if err == nil {
				unix.Close(fd)
				t.Errorf("a socket of the family %s, type %d, can be had", name, kind)
			}
		}
	}
	if fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP); err == nil {
		unix.Close(fd)
		t.Error("a socket of SCTP can be had")
	}
	if after := modules(); after != before {
		t.Errorf("asking loaded modules: before %s, after %s", before, after)
	}
}

// thePlacesOfTheHostAreThere: what tmpfiles.conf makes and what the slice hands on.
func thePlacesOfTheHostAreThere(t *testing.T) {
	for place, mode := range map[string]fs.FileMode{"/var/lib/evalhost": 0o711, "/var/lib/evalhost/scratch": 0o700, "/var/lib/evalhost/cache": 0o700} {
		var status unix.Stat_t
		if err := unix.Stat(place, &status); err != nil {
			t.Errorf("%s: %v", place, err)
			continue
		}
		if got := fs.FileMode(status.Mode & 0o7777); got != mode || status.Uid != 0 || status.Gid != 0 || status.Mode&unix.S_IFMT != unix.S_IFDIR {
			t.Errorf("%s has the mode %o of %d:%d, want the directory %o of 0:0", place, got, status.Uid, status.Gid, mode)
		}
	}
	run(t, "systemctl", "start", "evalhost.slice")
	controllers, err := os.ReadFile("/sys/fs/cgroup/evalhost.slice/cgroup.controllers")
	if err != nil {
		t.Fatal(err)
	}
	for _, controller := range []string{"cpu", "cpuset", "io", "memory", "pids"} {
		if !strings.Contains(" "+strings.TrimSpace(string(controllers))+" ", fmt.Sprintf(" %s ", controller)) {
			t.Errorf("the slice is handed %q, without %s: that limit would just not be there", controllers, controller)
		}
	}
}
