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
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/evalhost/evalhost/services/internal/mutant"
)

// The time single steps over the bus may take.
const (
	busTimeout  = 20 * time.Second // one call
	unitTimeout = 30 * time.Second // a unit's start or stop, from asking to done
	askAgain    = time.Second      // how often a unit is asked meanwhile
)

// manager is the part of systemd the driver needs; the tests have one of their own.
type manager interface {
	// Start makes a transient slice and returns when systemd has said how that ended, or the context is over.
	Start(ctx context.Context, unit string, properties []sd.Property) error
	// Stop ends a unit. One that does not exist is no error.
	Stop(ctx context.Context, unit string) error
	// List gives the names of the loaded units that match a shell pattern.
	List(ctx context.Context, pattern string) ([]string, error)
	Close()
}

// systemdDriver makes a home by starting a transient slice, `evalhost-<run>.slice` inside evalhost.slice, and removes it
// by stopping it (spec/sandbox.md 10.3; decisions 3). Without a unit of its own a slice would be made by systemd on the
// way and stay for ever.
type systemdDriver struct {
	root string
	bus  manager
}

func openSystemd(ctx context.Context, root string) (Driver, error) {
	bus, err := dialManager(ctx)
	if err != nil {
		return nil, err
	}
	return &systemdDriver{root: root, bus: bus}, nil
}

// unit is the slice's name. Its directory follows from the name: systemd nests a slice by the dashes in it.
func unit(run Name) string { return family + "-" + string(run) + ".slice" }

func (d *systemdDriver) Name() string { return "systemd" }

func (d *systemdDriver) Open(ctx context.Context, run Name) (*Home, error) {
	name := unit(run)
	properties := []sd.Property{
		{Name: "Description", Value: dbus.MakeVariant("evalhost: one run")},
		// Collected even when it failed, so that nothing is left to reset.
		{Name: "CollectMode", Value: dbus.MakeVariant("inactive-or-failed")},
		{Name: "CPUAccounting", Value: dbus.MakeVariant(true)},
		{Name: "MemoryAccounting", Value: dbus.MakeVariant(true)},
		{Name: "TasksAccounting", Value: dbus.MakeVariant(true)},
	}
	below := path.Join(family+".slice", name)
	home := &Home{
		Parent: name,
		Dir:    filepath.Join(d.root, below),
		Source: path.Join(Root, below),
	}
	home.close = func(ctx context.Context) error { return d.remove(ctx, name, home.Dir) }
	if err := d.bus.Start(ctx, name, properties); err != nil {
		// A name that is taken belongs to somebody else, whose run must not be stopped for it.
		if !isUnitExists(err) || mutant.Off(mutant.TakenName) {
			_ = home.close(ctx)
		}
		return nil, fmt.Errorf("cgroup: starting the slice of a run: %w: the run cannot be measured, so it is not judged", err)
	}
	if err := await(ctx, func() bool { return exists(filepath.Join(home.Dir, "memory.events")) }); err != nil {
		_ = home.close(ctx)
		return nil, fmt.Errorf("cgroup: systemd started %s and %s/memory.events did not appear: %w: the memory controller is "+
			"not delegated or %s is not where this process sees the host's cgroups", name, home.Dir, err, d.root)
	}
	return home, nil
}

// remove stops a slice and waits until its directory is gone. What still lives in it is killed first: systemd would ask a
// container's scope to end and wait for its patience to run out, and that is longer than ours.
func (d *systemdDriver) remove(ctx context.Context, name, dir string) error {
	ctx = context.WithoutCancel(ctx)
	if err := killAll(dir); err != nil {
		return fmt.Errorf("cgroup: killing what is left in %s: %w: it stays until the next sweep", name, err)
	}
	if err := d.bus.Stop(ctx, name); err != nil {
		return fmt.Errorf("cgroup: stopping %s: %w: it stays until the next sweep", name, err)
	}
	if err := await(ctx, func() bool { return !exists(dir) }); err != nil {
		return fmt.Errorf("cgroup: systemd stopped %s and %s is still there: %w", name, dir, err)
	}
	return nil
}

// killAll kills what is in a cgroup. One that is gone holds nothing.
func killAll(dir string) error {
	if mutant.Off(mutant.KillFirst) {
		return nil
	}
	return writeControl(filepath.Join(dir, "cgroup.kill"), "1")
}

func (d *systemdDriver) Sweep(ctx context.Context, instance string) (int, error) {
	mine := runsOf(instance)
	runs, err := d.runs(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	var errs []error
	for _, run := range runs {
		if !mine.MatchString(run) {
			continue
		}
		name := unit(Name(run))
		if err := d.remove(ctx, name, filepath.Join(d.root, family+".slice", name)); err != nil {
			errs = append(errs, err)
			continue
		}
		n++
	}
	return n, errors.Join(errs...)
}

func (d *systemdDriver) Instances(ctx context.Context) ([]string, error) {
	runs, err := d.runs(ctx)
	return instancesOf(runs), err
}

// runs lists the runs that have a slice: those systemd knows, and those of which only a directory is left.
func (d *systemdDriver) runs(ctx context.Context) ([]string, error) {
	names, err := d.bus.List(ctx, family+"-*.slice")
	if err != nil {
		return nil, fmt.Errorf("cgroup: listing the slices: %w", err)
	}
	entries, err := os.ReadDir(filepath.Join(d.root, family+".slice"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cgroup: listing the slices: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	var runs []string
	seen := map[string]bool{}
	for _, name := range names {
		run, isSlice := strings.CutSuffix(name, ".slice")
		run, isOurs := strings.CutPrefix(run, family+"-")
		if isSlice && isOurs && !seen[run] {
			seen[run] = true
			runs = append(runs, run)
		}
	}
	return runs, nil
}

func (d *systemdDriver) Close() { d.bus.Close() }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// await looks until something is so, for at most busTimeout.
func await(ctx context.Context, so func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	pause := time.Millisecond
	for !so() {
		select {
		case <-time.After(pause):
			pause = min(2*pause, 100*time.Millisecond)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
