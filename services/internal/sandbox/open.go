package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// DefaultLocks is where the locks of instances live. Every evalhost program of a host must use the same directory.
const DefaultLocks = "/run/evalhost"

// Lane is one place a test can be judged in.
type Lane struct {
	// Cpuset pins the lane, in the kernel's list form ("2-3"); empty for no pin.
	Cpuset string
}

// Config of a Sandbox.
type Config struct {
	// Instance names everything that is made; a Runner's is its key's fingerprint, a local command's "cli-<random>".
	Instance string
	// Scratch is a directory for what containers mount: on a file system that allows exec, seen by the daemon at the
	// same path, not under /run or a private /tmp (decisions 6).
	Scratch string
	// Shim is our own static shim. Empty: the images' own, which only compatibility tests want.
	Shim string
	// CgroupRoot is where this process sees the host's cgroup hierarchy; empty for /sys/fs/cgroup.
	CgroupRoot string
	// Lanes has at least one element. Builds get the lanes' sets together.
	Lanes []Lane
	// BuildWallFactor stretches the wall clock of builds, and the patience with the daemon before a run, for machines
	// that emulate a processor; zero is one. No deadline of a submission is stretched.
	BuildWallFactor float64
	// Locks is where instances' locks live; empty for DefaultLocks.
	Locks string
	// HostLock is a file that is locked for the length of every job, so that no two programs judge on one host at the
	// same moment; empty for no such lock (decisions 20).
	HostLock string
	// Log takes warnings; nil discards them.
	Log *slog.Logger
	// Observe is told what happens, for metrics; nil for nobody.
	Observe Observer
}

// daemon is the part of the engine the sandbox uses; the tests have one of their own.
type daemon interface {
	Image(ctx context.Context, ref string) (engine.Image, error)
	Create(ctx context.Context, s engine.Spec) (string, error)
	Start(ctx context.Context, id string) error
	Wait(ctx context.Context, id string, atMost time.Duration) (int, error)
	Inspect(ctx context.Context, id string) (engine.State, error)
	Kill(ctx context.Context, id string) error
	Remove(ctx context.Context, id string) error
	Sandboxes(ctx context.Context) ([]engine.Found, error)
	Archive(ctx context.Context, id, path string, atMost time.Duration) (io.ReadCloser, bool, error)
}

// Sandbox is a host's ability to run contained steps, for one instance. Safe for use by several goroutines.
type Sandbox struct {
	cfg    Config
	engine daemon
	driver cgroup.Driver
	lock   *lock
	log    *slog.Logger
	watch  Observer
	dir    string // this instance's scratch
	lanes  []chan struct{}
	cap    verdict.Bytes // outputCap; the tests of this package have less patience
	clock  time.Duration // judgeClock; the same
	layers string        // where the daemon keeps the layers of containers; empty when it does not say
	free   func(path string) (space, error)

	mu     sync.Mutex
	images map[string]engine.Image
	busy   int // lanes a submission runs in
}

// Open checks that judging is possible on this host and takes hold of what an instance needs: the daemon's driver, the
// bus, a scratch directory and the instance's lock. Then it removes whatever earlier lives of the instance left behind,
// and what local commands left that have died. An error says why nothing could be judged here.
func Open(ctx context.Context, eng *engine.Client, cfg Config) (*Sandbox, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := ThisMachine().checkLanes(cfg.Lanes); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("sandbox: this process is not root: the channels of a run must belong to uid 0, because the " +
			"container's root has no capability to open another's; run as root")
	}
	info, err := eng.Info(ctx)
	if err != nil {
		return nil, err
	}
	if info.CgroupVersion != "2" {
		return nil, fmt.Errorf("sandbox: the daemon reports cgroup version %q: limits would hold and no verdict could be "+
			"reached, because a time limit is processor time read from a cgroup v2; boot with "+
			"systemd.unified_cgroup_hierarchy=1", info.CgroupVersion)
	}
	for _, option := range info.SecurityOptions {
		if strings.Contains(option, "name=userns") || strings.Contains(option, "name=rootless") {
			return nil, fmt.Errorf("sandbox: the daemon reports the security option %q: root in its containers is not uid 0 of this "+
				"host, and could not open the channels of a run; run the daemon without userns-remap and as root", option)
		}
	}
	root := cfg.CgroupRoot
	if root == "" {
		root = cgroup.Root
	}
	if err := cgroup.CheckHierarchy(root); err != nil {
		return nil, err
	}
	driver, err := cgroup.Open(ctx, info.CgroupDriver, root)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, eng, driver, cfg)
	if err != nil {
		driver.Close()
		return nil, err
	}
	s.layers = info.RootDir
	return s, nil
}

// open does what Open does after the driver is chosen.
func open(ctx context.Context, eng daemon, driver cgroup.Driver, cfg Config) (*Sandbox, error) {
	if cfg.Locks == "" {
		cfg.Locks = DefaultLocks
	}
	if cfg.BuildWallFactor == 0 {
		cfg.BuildWallFactor = 1
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Sandbox{
		cfg: cfg, engine: eng, driver: driver, log: log,
		dir:    filepath.Join(cfg.Scratch, cgroup.Safe(cfg.Instance)),
		images: map[string]engine.Image{},
		cap:    outputCap,
		clock:  judgeClock,
		free:   freeAt,
	}
	if s.watch = cfg.Observe; s.watch == nil {
		s.watch = nobody{}
	}
	for range cfg.Lanes {
		s.lanes = append(s.lanes, make(chan struct{}, 1))
	}
	var err error
	if s.lock, err = lockInstance(cfg.Locks, cfg.Instance); err != nil {
		return nil, err
	}
	made, err := MakeScratch(s.dir, 0o700)
	if err == nil {
		err = s.prepareHost(ctx)
	}
	if err != nil {
		_ = os.Remove(s.dir) // only if it is empty: what an earlier life left is swept, not thrown away
		made.Unmake()
		s.lock.release()
		return nil, err
	}
	return s, nil
}

// Made lists directories that did not exist before, from the outermost.
type Made []string

// MakeScratch makes a directory and those above it, and says which ones it made. On an error none of them stays.
func MakeScratch(dir string, mode os.FileMode) (Made, error) {
	var made Made
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); err == nil || at == filepath.Dir(at) {
			break
		}
		made = append(Made{at}, made...)
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		made.Unmake()
		return nil, fmt.Errorf("sandbox: making the scratch directory: %w; nothing can be judged without it", err)
	}
	return made, nil
}

// Unmake removes the directories again, as far as nothing is in them.
func (m Made) Unmake() {
	for i := len(m) - 1; i >= 0; i-- {
		_ = os.Remove(m[i])
	}
}

// prepareHost proves that scratch, which was made, and the driver work, and sweeps.
func (s *Sandbox) prepareHost(ctx context.Context) error {
	if err := s.proveExec(ctx); err != nil {
		return err
	}
	if err := s.proveHome(ctx); err != nil {
		return err
	}
	_, err := s.Sweep(ctx)
	return err
}

// proveExec executes the shim from the scratch directory: a file system mounted noexec would fail every run.
func (s *Sandbox) proveExec(ctx context.Context) error {
	if s.cfg.Shim == "" {
		return nil
	}
	probe := filepath.Join(s.dir, ".probe")
	defer os.Remove(probe)
	if err := copyFile(s.cfg.Shim, probe, 0o500); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var out []byte
	var err error
	for {
		// A child that another goroutine is just starting may hold the copy's descriptor until it executes its program.
		if out, err = exec.CommandContext(ctx, probe, "--features").CombinedOutput(); !errors.Is(err, syscall.ETXTBSY) || ctx.Err() != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("sandbox: executing a copy of the shim as %s: %w; programs are run from this directory, so its "+
			"file system must allow exec (it must not be mounted noexec, as /run often is)", probe, err)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("sandbox: a copy of the shim at %s did not end: %w; %q", probe, ctx.Err(), out)
	}
	return nil
}

// proveHome makes, reads and removes a home.
func (s *Sandbox) proveHome(ctx context.Context) error {
	home, err := s.driver.Open(ctx, cgroup.NewName(s.cfg.Instance))
	if err != nil {
		return err
	}
	got, err := home.Read()
	if err == nil && (got.CPU == nil || got.Memory == nil) {
		err = fmt.Errorf("sandbox: the cgroup %s has no cpu.stat or no memory.events: runs could not be measured; "+
			"the controllers cpu and memory must be enabled", home.Dir)
	}
	return errors.Join(err, home.Close(ctx))
}

// Close removes what is left of the instance and gives everything back. Jobs must be closed before.
func (s *Sandbox) Close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	_, err := s.Sweep(ctx)
	if e := os.RemoveAll(s.dir); e != nil {
		err = errors.Join(err, fmt.Errorf("sandbox: removing the scratch directory: %w", e))
	}
	s.driver.Close()
	s.lock.release()
	return err
}

// Lanes is how many tests can be judged at once.
func (s *Sandbox) Lanes() int { return len(s.cfg.Lanes) }

// image looks an image up once per Sandbox. Its id does not change under a job, whatever happens to the tag.
func (s *Sandbox) image(ctx context.Context, ref string) (engine.Image, error) {
	s.mu.Lock()
	known, ok := s.images[ref]
	s.mu.Unlock()
	if ok {
		return known, nil
	}
	img, err := s.engine.Image(ctx, ref)
	if err != nil {
		return engine.Image{}, err
	}
	s.mu.Lock()
	s.images[ref] = img
	s.mu.Unlock()
	return img, nil
}

// buildCpuset is the set of all lanes together, empty when one of them is not pinned.
func (s *Sandbox) buildCpuset() string {
	var sets []string
	for _, lane := range s.cfg.Lanes {
		if lane.Cpuset == "" {
			return ""
		}
		sets = append(sets, lane.Cpuset)
	}
	return strings.Join(sets, ",")
}

// stretched is a wall clock of ours on this machine.
func (s *Sandbox) stretched(d time.Duration) time.Duration {
	return time.Duration(float64(d) * s.cfg.BuildWallFactor)
}

// check refuses a Config nothing can be judged with.
func (c Config) check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Instance == "" {
		wrong("the instance has no name, and a sweep could not tell its containers from others'")
	}
	if !filepath.IsAbs(c.Scratch) || filepath.Clean(c.Scratch) != c.Scratch || c.Scratch == "/" {
		wrong("the scratch directory is %q, expected a clean absolute path", c.Scratch)
	}
	if under(c.Scratch, "/run") || under(c.Scratch, "/var/run") {
		wrong("the scratch directory %s is under /run, which is usually mounted noexec: programs could not be executed from it", c.Scratch)
	}
	if c.Shim != "" && !filepath.IsAbs(c.Shim) {
		wrong("the shim is %q, expected an absolute path", c.Shim)
	}
	if len(c.Lanes) == 0 {
		wrong("there is no lane to judge in")
	}
	if err := (Processors{}).checkLanes(c.Lanes); err != nil {
		errs = append(errs, err)
	}
	if !(c.BuildWallFactor >= 0 && c.BuildWallFactor <= 1000) { // neither is true of what is not a number
		wrong("the factor on the wall clock of builds is %v, expected 1 to 1000", c.BuildWallFactor)
	}
	if len(errs) > 0 {
		return fmt.Errorf("sandbox: %w", errors.Join(errs...))
	}
	return nil
}

func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// ptr makes a value to point at.
func ptr[T any](v T) *T { return &v }
