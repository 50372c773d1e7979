package hostcheck

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Machine is what the requirements look at. Everything that is not a file below Root is a function, so that a test can
// put any machine together in a temporary directory.
type Machine struct {
	// Root is the directory in which proc and sys stand: "/" for the machine itself.
	Root string
	// GOOS, GOARCH and UID describe the asking process.
	GOOS, GOARCH string
	UID          int
	// CgroupRoot is the mount point of the unified hierarchy as this process sees it, below Root.
	CgroupRoot string
	// Socket is the path of Docker's socket, for the words of a refusal.
	Socket string
	// Docker asks the daemon what it is. An error is told apart by dockerReachable.
	Docker func(context.Context) (Docker, error)
	// Bus reaches the service manager and returns how; only asked under the systemd driver.
	Bus func(context.Context) (string, error)
	// Probe makes a home for a run, limits it, reads it and removes it, with the daemon's driver. It returns the kernel's list
	// of the processors that a run may use there.
	Probe func(ctx context.Context, driver string) (processors string, err error)
	// Container runs a container of the image that looks at itself from inside, and returns what it printed: sandbox.Probe.
	Container func(ctx context.Context, driver, image string) (string, error)
	// Lanes is how many tests shall be judged at once, and Processors what they are made of; zero is one. What runs may use
	// there is filled in by cgroupProbe.
	Lanes      int
	Processors sandbox.Processors
	// Cache is the directory that the probe container is given, as judges are; empty for none.
	Cache string
	// Scratch is the directory that runs are made in. It may be missing: then its file system is looked at.
	Scratch string
	// Shim is the path of the shim's executable.
	Shim string
	// Free returns the bytes an unprivileged writer could still store in the file system of a path.
	Free func(path string) (verdict.Bytes, error)
	// Execute makes an executable file in a directory, executes it and removes it.
	Execute func(ctx context.Context, dir string) error
	// Images are the language images that must be present, in the order to report them.
	Images []Image
	// ImagesErr is why it is not known which images must be present; nil when it is.
	ImagesErr error

	// docker is the daemon's answer, kept by dockerReachable for the rows that need it.
	docker Docker
	// proved is the id of the first image that was found to be the expected one, inside what its container printed.
	proved string
	inside inside
	close  func() error
}

// Close drops what asking the machine needed.
func (m *Machine) Close() error {
	if m.close == nil {
		return nil
	}
	return m.close()
}

// Docker is what the requirements need to know of a daemon.
type Docker struct {
	ServerVersion   string
	Architecture    string
	RootDir         string // where it keeps layers
	CgroupDriver    string
	CgroupVersion   string
	SecurityOptions []string
}

// Image is one language image that the machine must have.
type Image struct {
	// Key names the image in the table of toolchains; Ref is what the daemon knows it by.
	Key, Ref string
	// Digest is a short name for what the image must be, told to whoever compares hosts; empty tells none.
	Digest string
	// Look asks the daemon for the image and compares. Without differences it is the expected one, and id is the daemon's
	// own name for it; an error that is engine.ErrImageAbsent means that there is none.
	Look func(context.Context) (id string, differences []string, err error)
}

// path returns where an absolute path of the machine stands.
func (m *Machine) path(absolute string) string { return filepath.Join(m.Root, absolute) }

// read returns the content of a file of the machine without surrounding white space.
func (m *Machine) read(absolute string) (string, error) {
	b, err := os.ReadFile(m.path(absolute))
	return strings.TrimSpace(string(b)), err
}

// control reads a switch that not every machine has; present is false when this one has none.
func (m *Machine) control(absolute string) (value string, present bool, err error) {
	value, err = m.read(absolute)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	return value, true, err
}

// after is a table without its first n lines.
func after(lines []string, n int) []string { return lines[min(n, len(lines)):] }

// isOrHolds tells whether a path is a directory or lies inside it.
func isOrHolds(dir, path string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
