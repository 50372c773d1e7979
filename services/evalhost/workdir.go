package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

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
	made   []string // the directories above it that did not exist, from the outermost
	unlock func()
}

func newWorkdir(ctx context.Context, s config.Settings) (*workdir, error) {
	if os.Geteuid() != 0 {
		dir, err := os.MkdirTemp("", "evalhost-")
		return &workdir{dir: dir, unlock: func() {}}, err
	}
	// The spelling of a lock's and a directory's name has no dashes: see cgroup.Safe.
	name := "cli_" + newInstance()[len("cli-"):]
	unlock, err := lockHost(ctx, filepath.Join(sandbox.DefaultLocks, name+".lock"), os.Stderr)
	if err != nil {
		return nil, err
	}
	w := &workdir{dir: filepath.Join(s.Scratch, name), unlock: unlock}
	for dir := s.Scratch; !exists(dir); dir = filepath.Dir(dir) {
		w.made = append([]string{dir}, w.made...)
	}
	if err := os.MkdirAll(w.dir, 0o711); err != nil {
		w.close()
		return nil, unfit(fmt.Errorf("%w; make it, or set EVALHOST_SCRATCH to a directory that can be written", err))
	}
	return w, nil
}

// open reads a package, zip or directory. Its faults are bad input.
func (w *workdir) open(ctx context.Context, path string) (*problem.Problem, error) {
	target, err := os.MkdirTemp(w.dir, "package-")
	if err != nil {
		return nil, unfit(err)
	}
	p, err := problem.Open(ctx, path, filepath.Join(target, "tree"), problem.Options{Type: problem.StandardIO})
	var bad *problem.Error
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, &bad) && bad.Code == problem.CodeTarget:
		return nil, unfit(err)
	case errors.As(err, &bad) && bad.Where == path:
		return nil, badUse("the package %w", err)
	case err != nil:
		return nil, badUse("the package %s: %w", path, err)
	}
	// Judging programs run as nobody and read the tests.
	if err := os.Chmod(target, 0o755); err != nil {
		return nil, unfit(err)
	}
	return p, nil
}

// close removes the directory, and those above it that were made for it and hold nothing.
func (w *workdir) close() {
	_ = os.RemoveAll(w.dir)
	for i := len(w.made) - 1; i >= 0 && os.Remove(w.made[i]) == nil; i-- {
	}
	w.unlock()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// maxSourceRead is the longest source that is read at all. One between this and the largest submission is judged, and
// told that it is too large.
const maxSourceRead = problem.MaxSourceBytes

// readSource reads the source a person wants to have judged.
func readSource(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, badUse("the source cannot be read: %w", err)
	case info.IsDir():
		return nil, badUse("the source %s is a directory", path)
	case !info.Mode().IsRegular():
		return nil, badUse("the source %s is not a regular file", path)
	case info.Size() > int64(maxSourceRead):
		return nil, badUse("the source %s has %d bytes; more than %d are not read", path, info.Size(), maxSourceRead)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, badUse("the source cannot be read: %w", err)
	}
	return source, nil
}
