package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/mutant"
)

// localPrefix begins the instance of every local command. Such instances are used once, so nobody but a sweep of others
// would ever clean up after one that was killed (decisions 20).
const localPrefix = "cli-"

// Sweep removes what the instance left behind: containers in any state, then their homes, then scratch. Containers of
// other instances are left alone, except those of local commands that live no more, and those that carry no instance at
// all. It returns how many containers and homes there were. What cannot be removed is warned about and is no error: the
// next sweep tries again (spec/sandbox.md 7.4).
func (s *Sandbox) Sweep(ctx context.Context) (int, error) {
	found, err := s.engine.Sandboxes(ctx)
	if err != nil {
		return 0, err
	}
	abandoned, release := s.abandoned(ctx, found)
	defer release()

	n := 0
	for _, c := range found {
		if mutant.Off(mutant.SweepOwn) && c.Instance == s.cfg.Instance {
			continue
		}
		if !mutant.Off(mutant.SweepOthers) && c.HasInstance && c.Instance != s.cfg.Instance && !slices.Contains(abandoned, cgroup.Safe(c.Instance)) {
			continue
		}
		if err := s.engine.Remove(ctx, c.ID); err != nil {
			s.log.Warn("a container of an earlier run could not be removed", "container", c.Name, "error", err)
			continue
		}
		n++
	}
	for _, instance := range append(abandoned, s.cfg.Instance) {
		if mutant.Off(mutant.SweepHomes) {
			break
		}
		homes, err := s.driver.Sweep(ctx, instance)
		n += homes
		if err != nil {
			s.log.Warn("a cgroup of an earlier run could not be removed", "instance", instance, "error", err)
		}
		if err := s.sweepScratch(instance); err != nil {
			s.log.Warn("scratch of an earlier run could not be removed", "instance", instance, "error", err)
		}
	}
	if n > 0 {
		s.watch.Leaked(n)
		s.log.Warn("removed what earlier runs left behind", "containers and cgroups", n)
	}
	return n, nil
}

// abandoned gives, in their safe spelling, the instances of local commands that are dead: the ones whose lock is free. The
// locks are held until release, so that none of them comes alive meanwhile.
func (s *Sandbox) abandoned(ctx context.Context, found []engine.Found) (dead []string, release func()) {
	if mutant.Off(mutant.SweepDead) {
		return nil, func() {}
	}
	var candidates []string
	consider := func(instance string) {
		safe := cgroup.Safe(instance)
		if strings.HasPrefix(safe, cgroup.Safe(localPrefix)) && safe != cgroup.Safe(s.cfg.Instance) {
			candidates = append(candidates, safe)
		}
	}
	for _, c := range found {
		if c.HasInstance {
			consider(c.Instance)
		}
	}
	homes, err := s.driver.Instances(ctx)
	if err != nil {
		s.log.Warn("the cgroups of other instances could not be listed", "error", err)
	}
	for _, instance := range homes {
		consider(instance)
	}
	if entries, err := os.ReadDir(s.cfg.Scratch); err == nil {
		for _, e := range entries {
			consider(e.Name())
		}
	}
	slices.Sort(candidates)
	candidates = slices.Compact(candidates)
	var locks []*lock
	for _, instance := range candidates {
		l, err := tryLock(instanceLock(s.cfg.Locks, instance))
		if err != nil {
			if !errors.Is(err, errLocked) {
				s.log.Warn("the lock of another instance could not be looked at", "instance", instance, "error", err)
			}
			continue
		}
		locks = append(locks, l)
		dead = append(dead, instance)
	}
	return dead, func() {
		for _, l := range locks {
			l.release()
		}
	}
}

// sweepScratch removes an instance's scratch; of the own instance only what is in it.
func (s *Sandbox) sweepScratch(instance string) error {
	dir := filepath.Join(s.cfg.Scratch, cgroup.Safe(instance))
	if dir != s.dir {
		return os.RemoveAll(dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("listing the scratch directory: %w", err)
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return errors.Join(errs...)
}
