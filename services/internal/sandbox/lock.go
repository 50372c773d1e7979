package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/services/internal/cgroup"
)

// lock is a locked file. The kernel gives it up when its owner dies, however it dies.
type lock struct {
	file *os.File
	path string
}

// errLocked says that somebody else holds a lock.
var errLocked = errors.New("it is held by another process")

// tryLock makes and locks the file at path without waiting.
func tryLock(path string) (*lock, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, fmt.Errorf("sandbox: opening the lock: %w", err)
		}
		l, err := claim(f, path)
		if l != nil {
			return l, nil
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
}

// claim locks an open file and makes sure that it is still the one at path: removing its file is part of giving a lock up,
// so what was opened may have lost its name meanwhile, and then it is nobody's lock. Neither a lock nor an error means to
// open it anew.
func claim(f *os.File, path string) (*lock, error) {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errLocked
		}
		return nil, fmt.Errorf("sandbox: the lock %s: %w", path, err)
	}
	held, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("sandbox: the lock %s: %w", path, err)
	}
	named, err := os.Lstat(path)
	if err != nil || !os.SameFile(held, named) {
		return nil, nil
	}
	return &lock{f, path}, nil
}

// waitLock takes a lock that others give up in time, until the context is over.
func waitLock(ctx context.Context, path string) (*lock, error) {
	for {
		l, err := tryLock(path)
		if err == nil || !errors.Is(err, errLocked) {
			return l, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("sandbox: waiting for another program that judges on this host: %w", errors.Join(err, ctx.Err()))
		}
	}
}

// release gives a lock up. The name goes first: whoever opens the path from now on makes a new file.
func (l *lock) release() {
	if l == nil || l.file == nil {
		return
	}
	_ = os.Remove(l.path)
	_ = l.file.Close()
	l.file = nil
}

// lockInstance takes the lock that says an instance is alive.
func lockInstance(dir, instance string) (*lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("sandbox: making the directory of the locks: %w", err)
	}
	l, err := tryLock(instanceLock(dir, instance))
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("sandbox: the instance %s is at work already: %w; two of one name would remove each other's containers", instance, err)
	}
	return l, err
}

func instanceLock(dir, instance string) string {
	return filepath.Join(dir, cgroup.Safe(instance)+".lock")
}
