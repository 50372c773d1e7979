package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// remove ends what runs in an instance's directory and removes the directory.
func remove(dir string) error {
	r, err := readRecord(dir)
	if err == nil {
		if err := r.QEMU.kill(); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// downFile in an instance's directory tells whoever is starting it that somebody else wants it gone.
const downFile = "down"

// errTakenDown is a guest that somebody ended while it was being started.
var errTakenDown = errors.New("it was taken down while it was being started (guest down --all)")

func takenDown(dir string) bool { return exists(filepath.Join(dir, downFile)) || !exists(dir) }

// clearAway removes what a start that failed has left, and says so when the reason was that the guest was taken down.
func clearAway(dir, name string, failed error) error {
	if takenDown(dir) {
		failed = fmt.Errorf("the guest %s: %w", name, errTakenDown)
	}
	return errors.Join(failed, remove(dir))
}

// Down ends the guest of that name and removes what belongs to it. A guest that is not up is no error.
func Down(ctx context.Context, name string) error {
	if name == "" {
		name = DefaultName
	}
	dir, err := instanceDir(name)
	if err != nil {
		return err
	}
	if !exists(filepath.Dir(dir)) {
		return nil
	}
	unlock, err := lock(ctx, dir+".lock", nil)
	if err != nil {
		return err
	}
	defer unlock()
	return remove(dir)
}

// downAllPatience is how long DownAll waits for a command that is starting one of the guests to notice that it is gone.
const downAllPatience = 30 * time.Second

// DownAll ends every guest there is: those that are up, those that are being started, those that are booted for a snapshot or to
// try the processor out, and whatever a process that was killed has left of any of them.
func DownAll(ctx context.Context) error {
	cache, err := Cache()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(cache, "instances"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.IsDir() {
			errs = append(errs, takeDown(ctx, filepath.Join(cache, "instances", e.Name())))
		}
	}
	return errors.Join(errs...)
}

// takeDown ends the guest in a directory without waiting for whoever is starting it.
func takeDown(ctx context.Context, dir string) error {
	if err := os.WriteFile(filepath.Join(dir, downFile), nil, 0o644); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if r, err := readRecord(dir); err == nil {
		if err := r.QEMU.kill(); err != nil {
			return err
		}
	}
	if strings.HasPrefix(filepath.Base(dir), ".") {
		return remove(dir) // has no lock of its own; whoever made it looks for the mark
	}
	ctx, cancel := context.WithTimeoutCause(ctx, downAllPatience, errors.New("the command that is starting it goes on"))
	defer cancel()
	unlock, err := lock(ctx, dir+".lock", nil)
	if err != nil {
		return err
	}
	defer unlock()
	return remove(dir)
}
