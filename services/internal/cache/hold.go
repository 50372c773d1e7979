package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/services/internal/protocol"
)

// lockPoll is how often a taken lock is tried again, so that a stop is heard meanwhile (5.5).
const lockPoll = 100 * time.Millisecond

// locked opens the file at path, makes it if it is missing and takes its lock in the given mode. Lock files are never
// removed: two Runners would lock two inodes. told is called once if somebody else has the lock.
func locked(ctx context.Context, path string, mode int, told func()) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, trouble(err, "opening the lock %s", path)
	}
	return wait(ctx, file, mode, told)
}

// wait takes the lock of an open file, whose owner it becomes.
func wait(ctx context.Context, file *os.File, mode int, told func()) (unlock func(), err error) {
	for first := true; ; first = false {
		err := unix.Flock(int(file.Fd()), mode|unix.LOCK_NB)
		switch {
		case err == nil:
			// Closing the only descriptor gives the lock back.
			return func() { _ = file.Close() }, nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			_ = file.Close()
			return nil, trouble(err, "taking the lock %s", file.Name())
		}
		if first && told != nil {
			told()
		}
		if protocol.Sleep(ctx, lockPoll) != nil {
			_ = file.Close()
			return nil, stopped(ctx, "waiting for the lock "+file.Name())
		}
	}
}

// gate excludes taking hold (shared) and choosing what to evict (exclusive) from each other. It is held for moments.
func (c *Cache) gate(ctx context.Context, mode int) (unlock func(), err error) {
	path := filepath.Join(c.cfg.Path, "holding")
	dir, err := os.Open(path)
	if err != nil {
		return nil, trouble(err, "opening the lock %s", path)
	}
	return wait(ctx, dir, mode, nil)
}

// hold marks an entry as used by this Runner, so that nobody evicts it. Every hold is owed one release. A disk without
// room for a marker costs what nobody holds, once.
func (c *Cache) hold(ctx context.Context, id protocol.FileID) error {
	err := c.tryHold(ctx, id)
	if ProblemOf(err) != NoSpace {
		return err
	}
	if e := c.makeRoom(ctx, err); e != nil {
		return errors.Join(err, e)
	}
	return c.tryHold(ctx, id)
}

func (c *Cache) tryHold(ctx context.Context, id protocol.FileID) error {
	unlock, err := c.gate(ctx, unix.LOCK_SH)
	if err != nil {
		return err
	}
	defer unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[id] == 0 {
		if err := c.mark(id); err != nil {
			return err
		}
	}
	c.held[id]++
	return nil
}

// mark writes the marker. Another Runner may remove the empty directory in between.
func (c *Cache) mark(id protocol.FileID) error {
	dir := filepath.Join(c.cfg.Path, "holding", string(id))
	for range 100 {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return trouble(err, "marking a package as held in %s", dir)
		}
		file, err := os.OpenFile(filepath.Join(dir, c.cfg.Instance), os.O_WRONLY|os.O_CREATE, 0o644)
		if err == nil {
			return trouble(file.Close(), "marking a package as held in %s", dir)
		}
		if !notThere(err) {
			return trouble(err, "marking a package as held in %s", dir)
		}
	}
	return &Error{Disk, "marking a package as held", fmt.Errorf("%s vanishes as soon as it is made", dir)}
}

// release gives one hold back; the last one removes the marker.
func (c *Cache) release(id protocol.FileID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[id]--; c.held[id] > 0 {
		return
	}
	delete(c.held, id)
	dir := filepath.Join(c.cfg.Path, "holding", string(id))
	if err := os.Remove(filepath.Join(dir, c.cfg.Instance)); err != nil && !notThere(err) {
		c.log.Warn("a cached package stays marked as held and will not be evicted before the next start",
			"file", string(id), "error", err)
		return
	}
	_ = os.Remove(dir) // only if nobody else holds it
}

// holders reports whether anybody holds an entry. What cannot be read counts as held.
func (c *Cache) holders(id string) bool {
	names, err := os.ReadDir(filepath.Join(c.cfg.Path, "holding", id))
	if err != nil {
		return !notThere(err)
	}
	return len(names) > 0
}

// alone reports whether this Runner holds an entry once and nobody else does.
func (c *Cache) alone(id protocol.FileID) bool {
	names, err := os.ReadDir(filepath.Join(c.cfg.Path, "holding", string(id)))
	c.mu.Lock()
	defer c.mu.Unlock()
	return err == nil && len(names) == 1 && names[0].Name() == c.cfg.Instance && c.held[id] == 1
}

// Held is a package that is here and stays here until Release.
type Held struct {
	cache  *Cache
	ref    Ref
	source Source
	waits  func(waiting bool)
	once   sync.Once
}

// OnWait has waits told when Tree or Program begins to wait for another Runner that prepares the package, which takes as long as
// that takes, and when it has waited. It is set before they are called.
func (h *Held) OnWait(waits func(waiting bool)) { h.waits = waits }

// Archive is the package as served. It was whole when Get returned; Tree compares it with its checksum before it reads it.
func (h *Held) Archive() string { return filepath.Join(h.entry(), archiveName) }

// Entry is the directory of the package.
func (h *Held) entry() string { return h.cache.entry(h.ref) }

// Release gives the package back. What Tree and Program returned must not be used afterwards. More than one call is one.
func (h *Held) Release() { h.once.Do(func() { h.cache.release(h.ref.File) }) }
