// Package guest builds and runs the test guest: a host without Nix, made from Debian packages, as a virtual machine that a
// test may break in any way it likes.
//
// Build makes the disk, once for each state of its inputs. Up starts a pristine guest, by restoring a snapshot where there
// is one, and returns when Docker answers. The only way in is a virtio serial port, so nothing a test does to the guest's
// network or firewall cuts it off.
package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

const module = "module github.com/evalhost/evalhost"

// treeRoot finds the project's tree: the guest is built from its files.
func treeRoot() (string, error) {
	var starts []string
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		starts = append(starts, filepath.Dir(file))
	}
	for _, dir := range starts {
		for {
			if data, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && strings.HasPrefix(string(data), module+"\n") {
				return dir, nil
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	return "", fmt.Errorf("the guest is built from the project's tree, and none of %v is inside it: run this in the tree", starts)
}

// Cache returns the directory everything is kept in: ${EVALHOST_CACHE:-$HOME/.cache/evalhost}/guest.
func Cache() (string, error) {
	if dir := os.Getenv("EVALHOST_CACHE"); dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		return filepath.Join(abs, "guest"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no place for the guest's disk: set EVALHOST_CACHE to a directory: %w", err)
	}
	return filepath.Join(home, ".cache", "evalhost", "guest"), nil
}

var instanceName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,39}$`)

func instanceDir(name string) (string, error) {
	if !instanceName.MatchString(name) {
		return "", fmt.Errorf("%q is no name for a guest: small letters, digits, dots and hyphens, at most 40", name)
	}
	cache, err := Cache()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "instances", name), nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}
