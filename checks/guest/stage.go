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
	"time"
)

// stage is one kept result of the build: a directory that holds whatever make put there.
type stage struct {
	name  string
	key   string
	needs []*stage
	make  func(ctx context.Context, dir string) error
	limit time.Duration // of one make; a stage that hangs is ended, with everything it started
	dir   string        // set by plan
}

// keepStages is how many results of one stage stay in the cache, so that two states of the tree do not rebuild each other's.
const keepStages = 2

// workers is how many stages are made at a time: they are limited by the processor more than by anything else.
const workers = 2

// makeAll makes every stage that is not there yet, each after those it needs, and in the order given where there is a
// choice. The caller holds the build lock.
func makeAll(ctx context.Context, cache string, stages []*stage, log io.Writer) ([]Made, error) {
	start := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		s   *stage
		err error
	}
	outcomes := make(chan outcome)
	done, begun := map[*stage]bool{}, map[*stage]time.Time{}
	for _, s := range stages {
		if exists(s.dir) {
			now := time.Now()
			_ = os.Chtimes(s.dir, now, now)
			done[s] = true
		}
	}
	missing := len(stages) - len(done)
	running := 0
	var failed error
	var made []Made
	for failed == nil && len(done) < len(stages) || running > 0 {
		for _, s := range stages {
			if failed != nil || running == workers {
				break
			}
			if _, ok := begun[s]; ok || done[s] || slices.ContainsFunc(s.needs, func(n *stage) bool { return !done[n] }) {
				continue
			}
			begun[s] = time.Now()
			running++
			go func() { outcomes <- outcome{s, s.run(ctx, cache)} }()
		}
		if running == 0 {
			return made, errors.New("guest build: the stages need each other")
		}
		o := <-outcomes
		running--
		if o.err != nil {
			if failed == nil {
				failed = fmt.Errorf("guest build, stage %s: %w", o.s.name, o.err)
			}
			cancel()
			continue
		}
		done[o.s] = true
		made = append(made, Made{o.s.name, time.Since(begun[o.s])})
		fmt.Fprintf(log, "guest build: %-14s %5.1f s  (at %.0f s)\n", o.s.name, time.Since(begun[o.s]).Seconds(), time.Since(start).Seconds())
	}
	if failed == nil && missing > 0 {
		fmt.Fprintf(log, "guest build: done in %.0f s\n", time.Since(start).Seconds())
	}
	return made, failed
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
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("it was not done within %v and was ended", s.limit))
	defer cancel()
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
		if s.limit <= 0 {
			return errors.New("a stage without a deadline: " + s.name)
		}
		if s.key == "" {
			return errors.New("a stage without a key: " + s.name)
		}
		s.dir = filepath.Join(cache, "stages", s.name+"-"+s.key)
	}
	return nil
}
