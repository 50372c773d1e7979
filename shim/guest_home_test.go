//go:build guest

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/shim/wire/nonce"
)

const (
	cgroupRoot   = "/sys/fs/cgroup"
	systemdHomes = cgroupRoot + "/evalhost.slice"
	plainHomes   = cgroupRoot + "/evalhost-shim-suite"
	homePrefix   = "evalhost-shimsuite_"
)

// home is the cgroup of one run that outlives its container, and the mount's source.
type home struct {
	dir    string
	parent string // HostConfig.CgroupParent
}

// newHome makes a home the way the daemon's driver wants it and removes it with the test.
func newHome(t *testing.T, driver string) home {
	t.Helper()
	name := homePrefix + nonce.New()[:12]
	var made home
	switch driver {
	case "systemd":
		unit := name + ".slice"
		made = home{dir: filepath.Join(systemdHomes, unit), parent: unit}
		t.Cleanup(func() {
			if output, err := exec.Command("systemctl", "stop", unit).CombinedOutput(); err != nil {
				t.Errorf("systemctl stop %s: %v: %s", unit, err, output)
			}
		})
	case "cgroupfs":
		made = home{dir: filepath.Join(plainHomes, name), parent: strings.TrimPrefix(plainHomes, cgroupRoot) + "/" + name}
	default:
		t.Fatalf("the cgroup driver is %q", driver)
	}
	if err := os.MkdirAll(made.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // runs before the one above
		if driver == "cgroupfs" {
			removeCgroup(t, made.dir)
		}
	})
	return made
}

// removeCgroup removes a cgroup the kernel may still be emptying.
func removeCgroup(t *testing.T, dir string) {
	t.Helper()
	var err error
	for range 100 {
		if err = os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("remove home: %v", err)
}

// box finds the box below a home, wherever the runtime and the driver put the container.
func (h home) box() (string, error) {
	found := ""
	err := filepath.WalkDir(h.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == "box" {
			found = path
			return fs.SkipAll
		}
		return nil
	})
	if err == nil && found == "" {
		err = fs.ErrNotExist
	}
	return found, err
}

// homesLeft lists every cgroup and unit of this suite.
func homesLeft(driver string) ([]string, error) {
	var left []string
	for _, parent := range []string{systemdHomes, plainHomes} {
		entries, err := os.ReadDir(parent)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, entry := range entries {
			if strings.HasPrefix(entry.Name(), homePrefix) {
				left = append(left, filepath.Join(parent, entry.Name()))
			}
		}
	}
	if driver == "systemd" {
		output, err := exec.Command("systemctl", "list-units", "--all", "--plain", "--no-legend", homePrefix+"*").Output()
		if err != nil {
			return nil, err
		}
		left = append(left, slices.DeleteFunc(strings.Split(string(output), "\n"), func(line string) bool { return line == "" })...)
	}
	return left, nil
}

// field reads the value after `<key> ` in a file of the kernel's, or the whole file for an empty key.
func field(t *testing.T, path, key string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if key == "" {
		return strings.TrimSpace(string(text))
	}
	for line := range strings.Lines(string(text)) {
		if value, isIt := strings.CutPrefix(line, key+" "); isIt {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("no %s in %s: %q", key, path, text)
	return ""
}
