// Package hoststate looks at everything a contained step could leave behind on a host, so that a test can say that a host
// is after an attack what it was before.
//
// It is for tests: it reads the whole host and starts systemctl.
package hoststate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/evalhost/evalhost/services/internal/engine"
)

// Daemon is the part of the engine that is asked.
type Daemon interface {
	Info(ctx context.Context) (engine.Info, error)
	Sandboxes(ctx context.Context) ([]engine.Found, error)
}

// Snapshot is a set of facts, each a line of text that begins with its kind.
type Snapshot map[string]struct{}

func (s Snapshot) add(format string, args ...any) { s[fmt.Sprintf(format, args...)] = struct{}{} }

// Take looks at the host: containers with our labels, what the daemon keeps on its disk for any container, cgroups and
// units of containers and runs, mounts, processes, shared memory and message queues, network links, and every file below
// the given directories.
func Take(ctx context.Context, daemon Daemon, dirs ...string) (Snapshot, error) {
	s := Snapshot{}
	info, err := daemon.Info(ctx)
	if err != nil {
		return nil, err
	}
	found, err := daemon.Sandboxes(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range found {
		s.add("container %s %s", c.Name, c.ID)
	}
	return s, errors.Join(
		s.entries("daemon's container", filepath.Join(info.RootDir, "containers")),
		s.entries("daemon's volume", filepath.Join(info.RootDir, "volumes")),
		s.entries("daemon's layer", filepath.Join(info.RootDir, info.StorageDriver)),
		s.entries("shared memory", "/dev/shm"),
		s.entries("message queue", "/dev/mqueue"),
		s.entries("network link", "/sys/class/net"),
		s.lines("System V shared memory", "/proc/sysvipc/shm"),
		s.lines("System V semaphores", "/proc/sysvipc/sem"),
		s.lines("System V messages", "/proc/sysvipc/msg"),
		s.mounts(),
		s.cgroups(),
		s.units(ctx),
		s.processes(),
		s.files(dirs),
	)
}

// entries lists one directory; a directory that is not there holds nothing.
func (s Snapshot) entries(kind, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		s.add("%s %s", kind, e.Name())
	}
	return err
}

// lines takes the lines of a table without its heading. Of each line only its first two columns stay: the others are
// times and counts.
func (s Snapshot) lines(kind, path string) error {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for i, line := range strings.Split(strings.TrimSpace(string(content)), "\n") {
		if f := strings.Fields(line); i > 0 && len(f) > 1 {
			s.add("%s %s %s", kind, f[0], f[1])
		}
	}
	return err
}

func (s Snapshot) mounts() error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) > 4 {
			s.add("mount %s on %s", f[3], f[4])
		}
	}
	return nil
}

// cgroups lists the cgroups of runs and of containers, and every cgroup outside of systemd's own slices, whose services
// come and go without us.
func (s Snapshot) cgroups() error {
	const root = "/sys/fs/cgroup"
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went while we looked
		}
		if err != nil {
			return err
		}
		if !e.IsDir() {
			return nil
		}
		name := strings.TrimPrefix(path, root)
		if name == "/evalhost.slice" || name == "/evalhost" {
			return nil // what holds every run; one per host, for ever
		}
		if strings.Contains(name, "/evalhost-guest-agent.service") {
			return nil // whoever looks is in it, in a cgroup of its own each time
		}
		ours := strings.Contains(name, "evalhost-") || strings.Contains(name, "docker-")
		if ours || !strings.HasPrefix(name, "/system.slice") && !strings.HasPrefix(name, "/user.slice") {
			s.add("cgroup %s", name)
		}
		return nil
	})
}

func (s Snapshot) units(ctx context.Context) error {
	path, err := exec.LookPath("systemctl")
	if err != nil {
		return nil // a host without systemd has no units
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "list-units", "--all", "--plain", "--no-legend", "--no-pager", "--full",
		"evalhost*.slice", "docker-*.scope", "*docker*.mount").Output()
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "evalhost.slice" {
			s.add("unit %s", f[0])
		}
	}
	return err
}

// processes lists all processes but kernel threads, this one, and the workers systemd's device manager starts for a moment.
func (s Snapshot) processes() error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.Trim(e.Name(), "0123456789") != "" || e.Name() == fmt.Sprint(os.Getpid()) {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it went while we looked
		}
		begin, end := strings.IndexByte(string(stat), '('), strings.LastIndexByte(string(stat), ')')
		if begin < 0 || end < begin {
			continue
		}
		name, rest := string(stat[begin+1:end]), strings.Fields(string(stat[end+1:]))
		if len(rest) < 2 || rest[1] == "2" || rest[1] == fmt.Sprint(os.Getpid()) || strings.Contains(name, "udev-worker") {
			continue
		}
		s.add("process %s %s", e.Name(), name)
	}
	return nil
}

func (s Snapshot) files(dirs []string) error {
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			if path != dir {
				s.add("file %s %v", path, e.Type())
			}
			return nil
		}))
	}
	return errors.Join(errs...)
}

// Added lists, sorted, what is in s and was not before.
func (s Snapshot) Added(before Snapshot) []string {
	var added []string
	for fact := range s {
		if _, was := before[fact]; !was {
			added = append(added, fact)
		}
	}
	slices.Sort(added)
	return added
}

// Changed lists what came and what went since before, but for processes that ended: a host's own may.
func (s Snapshot) Changed(before Snapshot) []string {
	var changed []string
	for _, fact := range s.Added(before) {
		changed = append(changed, "left behind: "+fact)
	}
	for _, fact := range before.Added(s) {
		if !strings.HasPrefix(fact, "process ") {
			changed = append(changed, "gone: "+fact)
		}
	}
	return changed
}

// Settled takes snapshots until nothing has changed since before, or until patience is over; then it says what has. The
// daemon and systemd clean up a little after they said that they had.
func Settled(ctx context.Context, daemon Daemon, before Snapshot, patience time.Duration, dirs ...string) ([]string, error) {
	for end := time.Now().Add(patience); ; {
		now, err := Take(ctx, daemon, dirs...)
		if err != nil {
			return nil, err
		}
		changed := now.Changed(before)
		if len(changed) == 0 || time.Now().After(end) {
			return changed, nil
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return changed, ctx.Err()
		}
	}
}
