//go:build !guest

package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/internal/cgroup"
)

// probing runs a probe over the fakes and checks that nothing of it is left.
func probing(t *testing.T, daemon *fakeDaemon) (string, error) {
	t.Helper()
	dir := t.TempDir()
	daemon.containers = map[string]*box{}
	for _, d := range []string{"homes", "scratch"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	said, err := probe(t.Context(), daemon, fakeDriver{filepath.Join(dir, "homes")}, ProbeConfig{
		Scratch: filepath.Join(dir, "scratch"), Image: "sha256:1", Mount: dir, Locks: filepath.Join(dir, "locks"),
	})
	for _, d := range []string{"homes", "scratch", "locks"} {
		if left, _ := os.ReadDir(filepath.Join(dir, d)); len(left) > 0 {
			t.Errorf("the probe left %v in %s", left, d)
		}
	}
	if len(daemon.containers) > 0 {
		t.Errorf("the probe left %d containers", len(daemon.containers))
	}
	return said, err
}

func TestAProbeIsLockedSweptAndGoneWhenItHasSpoken(t *testing.T) {
	daemon := &fakeDaemon{}
	daemon.other = func(ctx context.Context, c *box) int {
		if !strings.HasPrefix(c.spec.Instance, localPrefix) || len(c.spec.Mounts) != 2 || c.spec.Mounts[1].Writable {
			t.Errorf("the probe is %+v", c.spec)
		}
		// Whoever starts meanwhile must not take it for what a killed command left.
		locks := filepath.Join(filepath.Dir(filepath.Dir(c.home)), "locks")
		if l, err := tryLock(instanceLock(locks, c.spec.Instance)); err == nil {
			l.release()
			t.Error("the probe's instance is not locked while it lives")
		}
		c.say(false, "== end\n")
		c.say(true, "nothing of this\n")
		return 0
	}
	said, err := probing(t, daemon)
	if err != nil || said != "== end\n" {
		t.Errorf("the probe said %q, %v", said, err)
	}
}

// Two programs in containers of their own may have the same process number, as both are the first of theirs.
func TestTwoProbesOfOneProcessNumberDoNotMeet(t *testing.T) {
	dir := t.TempDir()
	daemon := &fakeDaemon{containers: map[string]*box{}}
	cfg := ProbeConfig{Scratch: filepath.Join(dir, "scratch"), Image: "sha256:1", Locks: filepath.Join(dir, "locks")}
	homes := fakeDriver{filepath.Join(dir, "homes")}
	if err := errors.Join(os.Mkdir(homes.root, 0o755), os.Mkdir(cfg.Scratch, 0o755)); err != nil {
		t.Fatal(err)
	}
	probes := 0
	daemon.other = func(ctx context.Context, c *box) int {
		if probes++; probes == 1 { // the second while the first lives
			if said, err := probe(t.Context(), daemon, homes, cfg); err != nil || said != "second\n" {
				t.Errorf("the second probe said %q, %v", said, err)
			}
			c.say(false, "first\n")
			return 0
		}
		c.say(false, "second\n")
		return 0
	}
	if said, err := probe(t.Context(), daemon, homes, cfg); err != nil || said != "first\n" {
		t.Errorf("the first probe said %q, %v", said, err)
	}
	if probes != 2 {
		t.Errorf("%d probes were made", probes)
	}
	// The check of cgroups takes its name from the same place.
	a, b := ProbeInstance("cgroup"), ProbeInstance("cgroup")
	if cgroup.Safe(a) == cgroup.Safe(b) || !strings.HasPrefix(a, localPrefix) {
		t.Errorf("two names for a probe: %s and %s", a, b)
	}
}

func TestAProbeThatFailsInAnyWayIsAnError(t *testing.T) {
	quiet := func(exit int) program {
		return func(_ context.Context, c *box) int { c.say(true, "oh\n"); return exit }
	}
	for name, daemon := range map[string]*fakeDaemon{
		"no image":       {failOn: "image", other: quiet(0)},
		"not created":    {failOn: "create", other: quiet(0)},
		"not started":    {failOn: "start", other: quiet(0)},
		"a lost end":     {loses: true, other: quiet(0)},
		"a failed shell": {other: quiet(127)},
		"out of memory": {other: func(ctx context.Context, c *box) int {
			c.set("memory.events", "oom 1\noom_kill 1\n")
			return 0
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if said, err := probing(t, daemon); err == nil {
				t.Errorf("it said %q and no error", said)
			}
		})
	}
}

func TestTheProbesScriptNamesNoProgramButTheShell(t *testing.T) {
	for _, word := range []string{"cat", "grep", "ls", "id ", "mount"} {
		for line := range strings.Lines(probeScript) {
			if strings.HasPrefix(strings.TrimSpace(line), word+" ") {
				t.Errorf("the probe starts %s", word)
			}
		}
	}
	spec := profiles()["probe"]
	if spec.Shim || spec.WritableRoot || spec.Tmp != 0 || len(spec.Env) != 0 {
		t.Errorf("the probe is more open than a checker: %+v", spec)
	}
}
