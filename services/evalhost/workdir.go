package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/config"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/sandbox"
)

// newInstance names this command, once: everything it makes carries the name, and a sweep tells by it what belonged to a
// command that lives no more.
func newInstance() string {
	var random [6]byte
	rand.Read(random[:]) //nolint:errcheck // never returns an error
	return "cli-" + hex.EncodeToString(random[:])
}

// workdir is where packages are unpacked: below scratch, because judging programs mount the tests from there. Like the
// sandbox's own directories it belongs to an instance whose lock is held, so that the next command removes it should this
// one be killed. Somebody who is not root cannot judge, but is still told what is wrong with a package.
type workdir struct {
	dir    string
	made   sandbox.Made
	unlock func()
}

func newWorkdir(s config.Settings) (*workdir, error) {
	if os.Geteuid() != 0 {
		dir, err := os.MkdirTemp("", "evalhost-")
		if err != nil {
			return nil, unfit(fmt.Errorf("there is no directory for packages: %w; set TMPDIR to a directory that can be written", err))
		}
		return &workdir{dir: dir, unlock: func() {}}, nil
	}
	instance := newInstance()
	unlock, err := sandbox.HoldInstance(sandbox.DefaultLocks, instance)
	if err != nil {
		return nil, unfit(err)
	}
	w := &workdir{dir: filepath.Join(s.Scratch, cgroup.Safe(instance)), unlock: unlock}
	if w.made, err = sandbox.MakeScratch(w.dir, 0o711); err != nil {
		w.close()
		return nil, unfit(fmt.Errorf("%w; make it, or set EVALHOST_SCRATCH to a directory that can be written", err))
	}
	return w, nil
}

// open reads a package, zip or directory, of whatever type. Its faults are bad input.
func (w *workdir) open(ctx context.Context, path string) (*problem.Problem, error) {
	tree, err := w.unpack(ctx, path)
	if err != nil {
		return nil, err
	}
	p, err := problem.Load(tree, problem.Options{})
	return p, w.refused(ctx, path, err)
}

// unpack unpacks a package.
func (w *workdir) unpack(ctx context.Context, path string) (tree string, err error) {
	target, err := os.MkdirTemp(w.dir, "package-")
	if err != nil {
		return "", unfit(err)
	}
	// Judging programs run as nobody and read the tests.
	if err := os.Chmod(target, 0o755); err != nil {
		return "", unfit(err)
	}
	tree = filepath.Join(target, "tree")
	_, err = problem.UnpackPackage(ctx, path, tree)
	return tree, w.refused(ctx, path, err)
}

// refused says whose fault it is that a package could not be read.
func (w *workdir) refused(ctx context.Context, path string, err error) error {
	var bad *problem.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &bad) && bad.Code == problem.CodeTarget:
		return unfit(err)
	case errors.As(err, &bad) && bad.Where == path:
		return badUse("the package %w", err)
	}
	return badUse("the package %s: %w", path, err)
}

// close removes the directory, and those above it that were made for it and hold nothing.
func (w *workdir) close() {
	_ = os.RemoveAll(w.dir)
	w.made.Unmake()
	w.unlock()
}

// maxSourceRead is the longest source that is read at all. One between this and the largest submission is judged, and
// told that it is too large.
const maxSourceRead = problem.MaxSourceBytes

// readSource reads the source a person wants to have judged.
func readSource(path string) ([]byte, error) {
	return readRegular("the source", path, int64(maxSourceRead))
}

// readRegular reads a file that a person named, of at most so many bytes: reading a FIFO might wait for ever, and a device might
// never end. what says in words what the file is.
func readRegular(what, path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, badUse("%s cannot be read: %w", what, err)
	case info.IsDir():
		return nil, badUse("%s %s is a directory", what, path)
	case !info.Mode().IsRegular():
		return nil, badUse("%s %s is not a regular file", what, path)
	case info.Size() > most:
		return nil, badUse("%s %s has %d bytes; more than %d are not read", what, path, info.Size(), most)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, badUse("%s cannot be read: %w", what, err)
	}
	return content, nil
}
