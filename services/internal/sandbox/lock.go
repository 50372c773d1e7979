package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/mutant"
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
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil && !mutant.Off(mutant.InstanceLock) {
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

// waitLock takes a lock that others give up in time, until the context is over. tell is called once if it has to wait, with
// the name of the holder; nil tells nobody.
func waitLock(ctx context.Context, path string, tell func(holder string)) (*lock, error) {
	if mutant.Off(mutant.HostLock) {
		return &lock{}, nil
	}
	for {
		l, err := tryLock(path)
		if err == nil {
			// Who holds it is for the message of one who waits; the lock is what counts.
			_ = l.file.Truncate(0)
			_, _ = l.file.WriteAt(fmt.Appendf(nil, "process %d", os.Getpid()), 0)
			return l, nil
		}
		if !errors.Is(err, errLocked) {
			return nil, err
		}
		if tell != nil {
			tell(holderOf(path))
			tell = nil
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			return nil, fmt.Errorf("sandbox: waiting for another program that judges on this host: %w", errors.Join(err, context.Cause(ctx)))
		}
	}
}

// lockPoll is how often a taken lock is tried again.
const lockPoll = 50 * time.Millisecond

// holderOf reads who wrote its name into a lock.
func holderOf(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return "another process"
	}
	defer file.Close()
	name := make([]byte, 64)
	n, _ := file.ReadAt(name, 0)
	if text := strings.TrimSpace(string(name[:n])); text != "" {
		return text
	}
	return "another process"
}

// HostLock is held by whoever judges on this machine, command or daemon: two at once would disturb each other's
// measurements (decisions 20). It lies where only root can make files, so that nobody else can hold it.
const HostLock = DefaultLocks + "/host.lock"

// WaitLock takes the lock at path, whose directory it makes, and waits until ctx ends for others to give it up. tell is called
// once if it has to wait, with the name of the holder; nil tells nobody. release gives the lock up and removes its file.
func WaitLock(ctx context.Context, path string, tell func(holder string)) (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("sandbox: making the directory of the locks: %w", err)
	}
	l, err := waitLock(ctx, path, tell)
	if err != nil {
		return nil, err
	}
	return l.release, nil
}

// HoldInstance says that an instance is alive, until release: no sweep removes what carries its name. It fails if another
// process says so already.
func HoldInstance(dir, instance string) (release func(), err error) {
	l, err := lockInstance(dir, instance)
	if err != nil {
		return nil, err
	}
	return l.release, nil
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
