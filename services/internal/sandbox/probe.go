package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/verdict"
	"github.com/evalhost/evalhost/shim/wire"
	"github.com/evalhost/evalhost/shim/wire/nonce"
)

// The limits of the probe. They are numbers of nobody else's, so that reading one of them back inside proves that it was
// this container's.
const (
	ProbeMemory   = 96 * verdict.MiB
	ProbePids     = 24
	ProbeFileSize = verdict.MiB
	probeWall     = 60 * time.Second // an emulated processor takes ten to start a container
)

// ProbeConfig says where a probe is made.
type ProbeConfig struct {
	// Driver is the daemon's cgroup driver, CgroupRoot where this process sees the hierarchy; empty for /sys/fs/cgroup.
	Driver, CgroupRoot string
	// Scratch is an existing directory as the daemon sees it too; the probe's channels are made in it and mounted.
	Scratch string
	// Image is the reference or id of an image with a /bin/sh. It is never pulled.
	Image string
	// Mount is a directory that judges will mount, mounted read-only to prove that the daemon can; empty for none.
	Mount string
	// Locks is where instances' locks live; empty for DefaultLocks.
	Locks string
}

// probeScript prints what the kernel says about the container from inside. It uses the shell's own words alone: an image
// need have no other program, and none of them may be believed less than the shell. Every part begins with a line "== name".
const probeScript = `show() { echo "== $1"; while IFS= read -r l || [ -n "$l" ]; do printf '%s\n' "$l"; done <"$2"; }
show status /proc/self/status
show routes /proc/net/route
show routes6 /proc/net/ipv6_route
show links /proc/net/dev
show limits /proc/self/limits
show mounts /proc/self/mountinfo
show apparmor /proc/self/attr/current
show memory.max /sys/fs/cgroup/memory.max
show memory.swap.max /sys/fs/cgroup/memory.swap.max
show pids.max /sys/fs/cgroup/pids.max
show cpu.max /sys/fs/cgroup/cpu.max
echo "== written"
for f in / /etc /usr /bin /work /tmp /in ` + wire.OutputDir + ` /sys/fs/cgroup /proc/sys; do
	(: >"$f/evalhost-oops") && echo "$f"
done
echo "== end"`

// probeProfile is the container of the host check's probe: closed like a checker's, and without anything of a job. What
// it shows of identity, capabilities, filters, network and root is asked for by the same code as of every other profile.
func probeProfile(s step, said, mounted string) engine.Spec {
	spec := s.spec()
	spec.Argv = saying([]string{"/bin/sh", "-c", probeScript})
	spec.Memory = ProbeMemory
	spec.Pids = ProbePids
	spec.FileSize = ProbeFileSize
	spec.Mounts = []engine.Mount{{Source: said, Target: wire.OutputDir}}
	if mounted != "" {
		spec.Mounts = append(spec.Mounts, engine.Mount{Source: mounted, Target: wire.InputDir})
	}
	return spec
}

// Probe runs one container that does nothing but look at itself, and returns what it printed (spec/sandbox.md 7.1 #9;
// field case C70). It is made the way every run's container is, so an error is one that every run would have. Everything
// it makes is gone when it returns, or carries the name of a local instance and is swept.
func Probe(ctx context.Context, eng *engine.Client, cfg ProbeConfig) (string, error) {
	if cfg.CgroupRoot == "" {
		cfg.CgroupRoot = cgroup.Root
	}
	if cfg.Locks == "" {
		cfg.Locks = DefaultLocks
	}
	driver, err := cgroup.Open(ctx, cfg.Driver, cfg.CgroupRoot)
	if err != nil {
		return "", err
	}
	defer driver.Close()
	return probe(ctx, eng, driver, cfg)
}

// ProbeInstance makes the name of an instance for one probe: that of a local command, which is swept when its process was killed, and
// of nobody else. The process's number would not do: in containers every program may be the first of its own (spec/sandbox.md 9.1 #6).
func ProbeInstance(what string) string { return localPrefix + what + "-" + nonce.New()[:16] }

func probe(ctx context.Context, eng daemon, driver cgroup.Driver, cfg ProbeConfig) (_ string, err error) {
	instance := ProbeInstance("probe")
	// Without its lock it would look like what a killed command left, and be swept by whoever starts meanwhile.
	held, err := lockInstance(cfg.Locks, instance)
	if err != nil {
		return "", err
	}
	defer held.release()
	s := &Sandbox{
		cfg: Config{Instance: instance, Scratch: cfg.Scratch}, engine: eng, driver: driver,
		log: slog.New(slog.DiscardHandler), images: map[string]engine.Image{}, watch: nobody{},
	}
	dir := filepath.Join(cfg.Scratch, cgroup.Safe(instance))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("sandbox: making the probe's scratch: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", fmt.Errorf("sandbox: making the probe's scratch: %w", err)
	}
	said, err := newCollector(dir, buildOutput)
	if err != nil {
		return "", err
	}
	defer said.close()
	c, err := s.contain(ctx, cfg.Image, "", func(step step) engine.Spec { return probeProfile(step, dir, cfg.Mount) })
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.remove(ctx)) }()
	got, err := c.runBuild(ctx, said, probeWall)
	if err != nil {
		return "", err
	}
	if got.Stop != OnItsOwn || got.ExitCode != 0 {
		return "", fmt.Errorf("sandbox: the probe in %s ended with %v and exit code %d; it said %q", cfg.Image, got.Stop, got.ExitCode, got.Stderr)
	}
	return string(got.Stdout), nil
}
