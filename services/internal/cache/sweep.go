package cache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// Swept is what a sweep removed.
type Swept struct {
	Holds    int // markers of this instance
	Partials int // unfinished work of this instance
	Old      int // entries of the earlier layout
}

// Sweep removes what an earlier life of this instance left behind, and nothing of another (5.7). It is called at the start,
// before anything is fetched: whatever this instance holds by its markers, it does not hold.
func (c *Cache) Sweep(ctx context.Context) (s Swept, err error) {
	unlock, err := c.gate(ctx, unix.LOCK_EX)
	if err != nil {
		return s, err
	}
	defer unlock()
	var errs []error
	remove := func(path string, count *int) {
		err := os.RemoveAll(path)
		if err != nil {
			errs = append(errs, err)
			return
		}
		*count++
	}
	holding := filepath.Join(c.cfg.Path, "holding")
	for dir := range c.at(holding, 1, &err) {
		marker := filepath.Join(dir, c.cfg.Instance)
		if _, err := os.Lstat(marker); err == nil {
			remove(marker, &s.Holds)
		}
		_ = os.Remove(dir) // only if nobody else holds it
	}
	errs = append(errs, err)
	for dir := range c.at(filepath.Join(c.cfg.Path, "packages"), 4, &err) {
		if c.holders(filepath.Base(dir)) {
			continue
		}
		for _, below := range []string{dir, filepath.Join(dir, buildName)} {
			names, err := os.ReadDir(below)
			if err != nil && !notThere(err) {
				errs = append(errs, err)
			}
			for _, name := range names {
				if strings.HasSuffix(name.Name(), "."+c.cfg.Instance+".partial") {
					remove(filepath.Join(below, name.Name()), &s.Partials)
				}
			}
		}
		_ = os.Remove(dir) // only if it is empty
	}
	errs = append(errs, err, c.sweepOld(&s, remove))
	c.emptyTrash()
	if err := errors.Join(errs...); err != nil {
		return s, trouble(err, "sweeping %s", c.cfg.Path)
	}
	if list, total, err := c.entries(); err == nil {
		c.watch.Sized(len(list), total)
	}
	if s != (Swept{}) {
		c.log.Info("swept the cache", "holds", s.Holds, "partials", s.Partials, "old", s.Old)
	}
	return s, nil
}

var pair = regexp.MustCompile(`^[0-9a-f]{2}$`)

// sweepOld reclaims the earlier layout, <2 hex>/<2 hex>/<2 hex>/<fileId> at the root, each entry a plain file.
func (c *Cache) sweepOld(s *Swept, remove func(string, *int)) error {
	names, err := os.ReadDir(c.cfg.Path)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if !name.IsDir() || !pair.MatchString(name.Name()) {
			continue
		}
		first := filepath.Join(c.cfg.Path, name.Name())
		var err error
		for third := range c.at(first, 2, &err) {
			files, err := os.ReadDir(third)
			errs = append(errs, err)
			for _, file := range files {
				if file.Type().IsRegular() && !isPartial(file.Name()) && !c.holders(file.Name()) {
					remove(filepath.Join(third, file.Name()), &s.Old)
				}
			}
			_ = os.Remove(third)
			_ = os.Remove(filepath.Dir(third))
		}
		errs = append(errs, err)
		_ = os.Remove(first)
	}
	return errors.Join(errs...)
}
