package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// removeTimeout bounds how long a home is given to become empty after everything in it was killed.
const removeTimeout = 20 * time.Second

// fsDriver makes a home by making a directory: `<root>/evalhost/<run>` (spec/sandbox.md 4.3).
type fsDriver struct {
	root string // as this process sees it
	base string // root/evalhost
}

func openFS(root string) (Driver, error) {
	d := &fsDriver{root: root, base: filepath.Join(root, family)}
	if err := os.MkdirAll(d.base, 0o755); err != nil {
		return nil, fmt.Errorf("cgroup: making the cgroup all runs live in: %w: without it nothing is measured, and a time "+
			"limit is processor time read from a cgroup; run as root with a writable %s", err, root)
	}
	return d, nil
}

func (d *fsDriver) Name() string { return "cgroupfs" }

func (d *fsDriver) Open(_ context.Context, run Name) (*Home, error) {
	dir := filepath.Join(d.base, string(run))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("cgroup: making the home of a run: %w: the run cannot be measured, so it is not judged", err)
	}
	// The runtime enables these on its way down when it makes the container; doing it now gives the home its files from
	// the start. A controller that is not there is found out by reading.
	for _, controller := range []string{"+cpu", "+cpuset", "+memory", "+pids"} {
		for _, at := range []string{d.root, d.base, dir} {
			_ = writeControl(filepath.Join(at, "cgroup.subtree_control"), controller)
		}
	}
	return &Home{
		Parent: path.Join("/", family, string(run)),
		Dir:    dir,
		Source: path.Join(Root, family, string(run)),
		close:  func(ctx context.Context) error { return removeTree(ctx, dir) },
	}, nil
}

func (d *fsDriver) Sweep(ctx context.Context, instance string) (int, error) {
	mine := runsOf(instance)
	runs, err := d.runs()
	if err != nil {
		return 0, err
	}
	n := 0
	var errs []error
	for _, run := range runs {
		if !mine.MatchString(run) {
			continue
		}
		if err := removeTree(ctx, filepath.Join(d.base, run)); err != nil {
			errs = append(errs, err)
			continue
		}
		n++
	}
	return n, errors.Join(errs...)
}

func (d *fsDriver) Instances(context.Context) ([]string, error) {
	runs, err := d.runs()
	return instancesOf(runs), err
}

func (d *fsDriver) Close() {}

// runs lists the directories under the base.
func (d *fsDriver) runs() ([]string, error) {
	entries, err := os.ReadDir(d.base)
	if err != nil {
		return nil, fmt.Errorf("cgroup: listing the homes: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// instancesOf gives each instance named by a run once.
func instancesOf(runs []string) []string {
	var instances []string
	seen := map[string]bool{}
	for _, run := range runs {
		if instance, ok := instanceOf(run); ok && !seen[instance] {
			seen[instance] = true
			instances = append(instances, instance)
		}
	}
	return instances
}

// removeTree kills what is left in a cgroup and removes it with everything below it. The kernel refuses a busy cgroup
// for a moment after its last process has died, so it is tried again with growing pauses.
func removeTree(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	pause := time.Millisecond
	for {
		if err := writeControl(filepath.Join(dir, "cgroup.kill"), "1"); err != nil {
			return err
		}
		err := removeDirs(dir)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) && !errors.Is(err, syscall.ENOTEMPTY) {
			return fmt.Errorf("cgroup: removing the home: %w: it stays until the next sweep", err)
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, 200*time.Millisecond)
		case <-ctx.Done():
			return fmt.Errorf("cgroup: removing the home %s: still busy after %v (%w): it stays until the next sweep", dir, removeTimeout, err)
		}
	}
}

// removeDirs removes a tree of directories from its leaves. The control files in it are not removed: they go with the
// directory they stand in. A tree that is gone is no error.
func removeDirs(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			if err := removeDirs(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	// rmdir and not remove: what is not a directory must never be deleted here.
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}
