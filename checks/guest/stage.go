package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// stage is one kept result of the build: a directory that holds whatever make put there.
type stage struct {
	name  string
	key   string
	needs []*stage
	make  func(ctx context.Context, dir string) error
	dir   string // set by plan
}

// keepStages is how many results of one stage stay in the cache, so that two states of the tree do not rebuild each other's.
const keepStages = 2

// makeAll makes every stage that is not there yet, two at a time, each after those it needs. The caller holds the build
// lock.
func makeAll(ctx context.Context, cache string, stages []*stage, log io.Writer) error {
	start := time.Now()
	slots := semaphore.NewWeighted(2)
	group, ctx := errgroup.WithContext(ctx)
	done := map[*stage]chan struct{}{}
	for _, s := range stages {
		done[s] = make(chan struct{})
	}
	var mu sync.Mutex
	said := false
	for _, s := range stages {
		group.Go(func() error {
			if exists(s.dir) {
				now := time.Now()
				_ = os.Chtimes(s.dir, now, now)
				close(done[s])
				return nil
			}
			for _, need := range s.needs {
				select {
				case <-done[need]:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			if err := slots.Acquire(ctx, 1); err != nil {
				return err
			}
			defer slots.Release(1)
			begun := time.Now()
			if err := s.run(ctx, cache); err != nil {
				return fmt.Errorf("guest build, stage %s: %w", s.name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			said = true
			fmt.Fprintf(log, "guest build: %-14s %5.1f s  (at %.0f s)\n", s.name, time.Since(begun).Seconds(), time.Since(start).Seconds())
			close(done[s])
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if said {
		fmt.Fprintf(log, "guest build: done in %.0f s\n", time.Since(start).Seconds())
	}
	return nil
}

// run makes the stage in a temporary directory and puts it in place whole.
func (s *stage) run(ctx context.Context, cache string) error {
	tmp, err := os.MkdirTemp(filepath.Join(cache, "tmp"), s.name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	work := filepath.Join(tmp, "result")
	if err := os.Mkdir(work, 0o755); err != nil {
		return err
	}
	if err := s.make(ctx, work); err != nil {
		return err
	}
	if err := os.Rename(work, s.dir); err != nil {
		return err
	}
	prune(filepath.Dir(s.dir), s.name)
	return nil
}

// prune keeps the last used results of a stage. A file that a running guest has open stays with that guest.
func prune(dir, name string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	type result struct {
		path string
		used time.Time
	}
	var results []result
	for _, e := range entries {
		base, _, ok := cutLast(e.Name(), "-")
		if !ok || base != name {
			continue
		}
		if info, err := e.Info(); err == nil {
			results = append(results, result{filepath.Join(dir, e.Name()), info.ModTime()})
		}
	}
	slices.SortFunc(results, func(a, b result) int { return b.used.Compare(a.used) })
	for _, r := range results[min(keepStages, len(results)):] {
		_ = os.RemoveAll(r.path)
	}
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// place sets the directories of the stages and makes the cache's own.
func place(cache string, stages []*stage) error {
	for _, dir := range []string{"stages", "tmp", "instances", "templates"} {
		if err := os.MkdirAll(filepath.Join(cache, dir), 0o755); err != nil {
			return fmt.Errorf("guest cache: %w", err)
		}
	}
	for _, s := range stages {
		if s.key == "" {
			return errors.New("a stage without a key: " + s.name)
		}
		s.dir = filepath.Join(cache, "stages", s.name+"-"+s.key)
	}
	return nil
}
