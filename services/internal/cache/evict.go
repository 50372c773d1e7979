package cache

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// found is one entry on the disk.
type found struct {
	dir     string
	id      string
	size    verdict.Bytes
	used    time.Time // the epoch where there is no marker
	working bool      // something unfinished lies in it
}

// fitAgain evicts what is too much. What was fetched or prepared is there whether or not that works.
func (c *Cache) fitAgain(ctx context.Context) {
	if err := c.evict(ctx, c.cfg.MaxBytes); err != nil && ProblemOf(err) != Stopped {
		c.log.Warn("the cache could not be kept to its size", "path", c.cfg.Path, "error", err)
	}
}

// evict removes entries, the longest unwanted first, until what is left fits (5.7). Held entries and those that somebody
// works on stay, and count. What cannot be removed is left and said.
func (c *Cache) evict(ctx context.Context, fit verdict.Bytes) error {
	entries, total, err := c.entries()
	if err != nil {
		return err
	}
	if total <= fit {
		c.watch.Sized(len(entries), total)
		return nil
	}
	slices.SortFunc(entries, func(a, b found) int {
		if d := a.used.Compare(b.used); d != 0 {
			return d
		}
		return strings.Compare(a.dir, b.dir)
	})
	unlock, err := c.gate(ctx, unix.LOCK_EX)
	if err != nil {
		return err
	}
	gone, freed := 0, verdict.Bytes(0)
	for _, e := range entries {
		if total <= fit {
			break
		}
		// Asked under the gate: nobody takes hold now.
		if e.working || c.holders(e.id) || !c.throwAway(e) {
			continue
		}
		total -= e.size
		freed += e.size
		gone++
	}
	unlock()
	c.emptyTrash()
	if gone > 0 {
		c.watch.Evicted(gone, freed)
		c.log.Info("packages were evicted from the cache", "entries", gone, "bytes", int64(freed), "left", int64(total))
	}
	c.watch.Sized(len(entries)-gone, total)
	return nil
}

// throwAway takes an entry out of the way of everybody at once; deleting takes its time elsewhere.
func (c *Cache) throwAway(e found) bool {
	target := filepath.Join(c.cfg.Path, "trash", e.id+"."+randomName())
	if err := os.Rename(e.dir, target); err != nil {
		if !notThere(err) {
			c.log.Warn("a package cannot be evicted from the cache", "entry", e.dir, "error", err)
		}
		return false
	}
	_ = os.Remove(c.usedMarker(e.id))
	c.mu.Lock()
	maps.DeleteFunc(c.verified, func(product, _ string) bool { return strings.HasPrefix(product, e.dir+"/") })
	c.mu.Unlock()
	// The three directories of the checksum go if they are empty; who needs them at this moment makes them again.
	for dir := filepath.Dir(e.dir); dir != filepath.Join(c.cfg.Path, "packages") && os.Remove(dir) == nil; dir = filepath.Dir(dir) {
	}
	return true
}

// emptyTrash deletes what was thrown away, by whomever.
func (c *Cache) emptyTrash() {
	trash := filepath.Join(c.cfg.Path, "trash")
	names, err := os.ReadDir(trash)
	for _, name := range names {
		err = errors.Join(err, os.RemoveAll(filepath.Join(trash, name.Name())))
	}
	if err != nil {
		c.log.Warn("evicted packages still take room in the cache", "path", trash, "error", err)
	}
}

// entries lists what there is, with its sizes. Entries that vanish meanwhile are left out.
func (c *Cache) entries() (list []found, total verdict.Bytes, err error) {
	packages := filepath.Join(c.cfg.Path, "packages")
	for dir := range c.at(packages, 4, &err) {
		e := found{dir: dir, id: filepath.Base(dir), used: time.Unix(0, 0)}
		if info, err := os.Stat(c.usedMarker(e.id)); err == nil {
			e.used = info.ModTime()
		}
		if err := e.measure(); err != nil {
			if notThere(err) {
				continue
			}
			return nil, 0, trouble(err, "measuring %s", dir)
		}
		total += e.size
		list = append(list, e)
	}
	return list, total, trouble(err, "listing %s", packages)
}

// at goes over the directories at a depth below another, tolerant of what vanishes.
func (c *Cache) at(dir string, depth int, err *error) func(yield func(string) bool) {
	return func(yield func(string) bool) { descend(dir, depth, err, yield) }
}

func descend(dir string, depth int, err *error, yield func(string) bool) bool {
	names, e := os.ReadDir(dir)
	if e != nil && !notThere(e) {
		*err = e
		return false
	}
	for _, name := range names {
		path := filepath.Join(dir, name.Name())
		if !name.IsDir() {
			continue
		}
		if depth == 1 {
			if !yield(path) {
				return false
			}
		} else if !descend(path, depth-1, err, yield) {
			return false
		}
	}
	return true
}

// measure adds an entry up and sees whether somebody works on it.
func (e *found) measure() error {
	return filepath.WalkDir(e.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			if notThere(err) && path != e.dir {
				return nil
			}
			return err
		}
		if isPartial(entry.Name()) && (filepath.Dir(path) == e.dir || filepath.Dir(path) == filepath.Join(e.dir, buildName)) {
			e.working = true
		}
		if entry.Type().IsRegular() {
			info, err := entry.Info()
			if err != nil {
				if notThere(err) {
					return nil
				}
				return err
			}
			e.size += usage(info.Size())
		}
		return nil
	})
}
