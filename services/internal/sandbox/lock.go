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

// tryLock makes and locks the file at path without waiting. Removing a lock's file is part of giving it up, so a file that
// was locked may already have lost its name: then it is not the lock, and is tried again.
func tryLock(path string) (*lock, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, fmt.Errorf("sandbox: opening the lock: %w", err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, fmt.Errorf("sandbox: the lock %s: %w", path, errLocked)
			}
			return nil, fmt.Errorf("sandbox: locking %s: %w", path, err)
		}
		held, err1 := f.Stat()
		named, err2 := os.Lstat(path)
		if err1 == nil && err2 == nil && os.SameFile(held, named) {
			return &lock{f, path}, nil
		}
		f.Close()
	}
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
