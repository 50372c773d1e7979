package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/services/internal/cache"
	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/config"
	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/hostcheck"
	"github.com/evalhost/evalhost/services/internal/identity"
	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/metrics"
	"github.com/evalhost/evalhost/services/internal/policy"
	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/runner"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// startAtMost is how long the host check may take: about thirty questions of 20 s each at the very worst.
const startAtMost = 15 * time.Minute

// checkingMachine is the Status until this machine is proved.
const checkingMachine = "checking this machine"

// serve works until it is told to stop, and returns the exit status.
func serve(ctx context.Context, s config.Settings, stderr io.Writer) int {
	log := newLog(stderr, s.LogLevel)
	defer takeWords(log)()
	d := &service{s: s, log: log, manager: manager{log}}
	err := d.run(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // stopped while it was starting
	}
	if err != nil {
		d.manager.Status("ended: " + err.Error())
		log.Error("the daemon ends", "error", err, "status", status(err))
	}
	return status(err)
}

// service is the daemon on its way up and down.
type service struct {
	s       config.Settings
	log     *slog.Logger
	manager manager

	key     *identity.Key
	client  *protocol.Client
	cache   *cache.Cache
	engine  *engine.Client
	box     *sandbox.Sandbox
	figures *metrics.Metrics
	// current is put into what the sandbox logs: which job it was at.
	current runner.Current
}

// run starts in the order of spec/protocol.md 4.1: everything that could make judging impossible is found before the Server
// hears of this Runner. It has a handler for stops from the beginning, and every wait hears one.
func (d *service) run(ctx context.Context) (err error) {
	if err := checkWatchdog(); err != nil {
		return hopeless{err}
	}
	d.figures = metrics.New(metrics.Options{
		Version: version, Lanes: d.s.Lanes, CacheMax: d.s.CacheMax, HealthFile: d.s.HealthFile, Log: d.log,
	})
	defer func() {
		if err := d.figures.Close(); err != nil {
			d.log.Warn("the health file of this life could not be removed", "path", d.s.HealthFile, "error", err)
		}
	}()
	quiet, err := d.tellFigures(ctx)
	if err != nil {
		return err
	}
	defer quiet()
	if err := d.begin(ctx); err != nil {
		return err
	}
	defer d.client.Close()
	d.manager.needs(startAtMost)
	d.manager.Status(checkingMachine)
	checked, err := d.check(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.end()) }()
	r, err := d.runner(checked)
	if err != nil {
		return err
	}
	d.manager.ready()
	stopped := context.AfterFunc(ctx, d.manager.stopping)
	defer stopped()
	return r.Run(ctx)
}

// tellFigures tells them at the loopback address that the settings name, if they name one, until quiet is called.
func (d *service) tellFigures(ctx context.Context) (quiet func(), err error) {
	if !d.s.Metrics.IsValid() {
		return func() {}, nil
	}
	listener, err := metrics.Listen(ctx, d.s.Metrics)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := d.figures.Serve(ctx, listener); err != nil {
			d.log.Error("figures are not told any more; judging goes on", "error", err)
		}
	}()
	return func() { stop(); <-done }, nil
}

// begin is what needs neither Docker nor the Server: the key, the lanes, the client, the cache.
func (d *service) begin(ctx context.Context) (err error) {
	var created bool
	if d.key, created, err = identity.LoadOrCreate(d.s.KeyPath); err != nil {
		return unusable(err)
	}
	d.log.Info("evalhost-runner starts", "version", version, "name", d.s.Name, "fingerprint", d.key.Fingerprint(), "newKey", created,
		"server", d.s.BaseURL, "types", strings.Join(d.s.ProblemTypes, ","), "tags", strings.Join(d.s.Tags, ","))
	// What this process may use is known now; what a run's cgroup may, once one was made.
	if _, err = d.plan(sandbox.ThisMachine()); err != nil {
		return err
	}
	d.client, err = protocol.New(protocol.Options{
		BaseURL: d.s.BaseURL, UserAgent: "evalhost-runner/" + version, CAFile: d.s.CAFile, Log: d.log,
	})
	if err != nil {
		return err
	}
	d.cache, err = cache.Open(cache.Config{
		Path: d.s.CachePath, MaxBytes: d.s.CacheMax, Instance: string(d.key.Fingerprint()), Log: d.log, Observe: d.figures,
	})
	if err != nil {
		return err
	}
	_, err = d.cache.Sweep(ctx)
	return err
}

// unusable is a key file that stays refused until a person has acted: another size, mode or owner, zeros. What the system refused
// may be over at the next start, a disk that is not mounted yet.
func unusable(err error) error {
	var refused *identity.FileError
	if !errors.As(err, &refused) || refused.Problem == identity.Unreachable {
		return err
	}
	return hopeless{err}
}

// plan divides processors into lanes. A set that does not give as many as are asked for stays too small whenever this
// process is started again.
func (d *service) plan(p sandbox.Processors) (planned, error) {
	lanes, warnings, err := sandbox.PlanLanes(d.s.Lanes, p)
	if err != nil {
		return planned{}, hopeless{fmt.Errorf("AJ_Runner__TestsAtOnce is %d: %w", d.s.Lanes, err)}
	}
	return planned{lanes, warnings}, nil
}

// planned are lanes and what is wrong with them.
type planned struct {
	lanes    []sandbox.Lane
	warnings []string
}

// proved is what the host check gave.
type proved struct {
	images     map[string]string
	versions   judge.Versions
	lanes      []sandbox.Lane
	unmeasured string
}

// check asks the machine everything and takes hold of the sandbox, which removes what an earlier life left (4.1 steps 8 to 11).
func (d *service) check(ctx context.Context) (proved, error) {
	report, standing, err := d.ask(ctx)
	if err != nil {
		return proved{}, err
	}
	if standing == hostcheck.Unmeasured {
		d.log.Error("STARTING BELOW SPECIFICATION: this machine cannot measure, so every job will fail as an infrastructure failure " +
			"(AJ_Sandbox__AllowUnmeasured is set)")
		return proved{unmeasured: "this host cannot measure what is judged, and was started for tests only (AJ_Sandbox__AllowUnmeasured)"}, nil
	}
	plan, err := d.plan(report.Processors)
	if err != nil {
		return proved{}, err
	}
	for _, w := range plan.warnings {
		d.log.Warn("a lane shares a physical core with something else", "why", w)
	}
	for i, lane := range plan.lanes {
		d.log.Info("a lane for tests", "lane", i, "processors", cmp.Or(lane.Cpuset, "any"))
	}
	if d.engine, err = engine.Connect(ctx, engine.Options{Host: d.s.DockerHost}); err != nil {
		return proved{}, err
	}
	if d.s.BuildWallFactor != 1 {
		d.log.Warn("the wall clock of builds is stretched", "factor", d.s.BuildWallFactor)
	}
	d.box, err = sandbox.Open(ctx, d.engine, sandbox.Config{
		Instance: string(d.key.Fingerprint()), Scratch: d.s.Scratch, Shim: d.s.Shim, CgroupRoot: d.s.CgroupRoot, Lanes: plan.lanes,
		BuildWallFactor: d.s.BuildWallFactor, HostLock: sandbox.HostLock, Log: d.current.Log(d.log), Observe: d.figures,
	})
	if err != nil {
		return proved{}, errors.Join(err, d.engine.Close())
	}
	// The proof that every compiler and interpreter starts, before the Server hears of them.
	box := patient{judge.InSandbox(d.box), d.manager.needs, d.manager.Status, checkingMachine}
	versions, err := judge.ReadEveryVersion(ctx, box, d.s.Languages, report.Images)
	if err != nil {
		return proved{}, errors.Join(err, d.end())
	}
	for _, t := range d.s.Languages.Offered() {
		d.log.Info("a language is offered", "toolchain", t.ID, "version", versions[t.ID])
	}
	return proved{images: report.Images, versions: versions, lanes: plan.lanes}, nil
}

// checked is what the host check looks at: everything that this daemon will use.
func checked(s config.Settings) hostcheck.Options {
	return hostcheck.Options{
		CgroupRoot: s.CgroupRoot, Scratch: s.Scratch, Shim: s.Shim, Manifest: s.Manifest, DockerHost: s.DockerHost,
		References: s.References, Keys: s.NeededImages(), Cache: s.CachePath, Lanes: s.Lanes,
	}
}

// ask runs the host check once.
func (d *service) ask(ctx context.Context) (hostcheck.Report, hostcheck.Standing, error) {
	machine := hostcheck.Here(checked(d.s))
	defer func() { _ = machine.Close() }()
	report := hostcheck.Run(ctx, machine)
	if ctx.Err() != nil {
		return report, 0, ctx.Err()
	}
	d.figures.HostChecked(report)
	standing, causes := report.Standing(d.s.AllowUnmeasured)
	var why []error
	for _, c := range causes {
		d.log.Error("this machine does not meet a requirement", "requirement", c.ID, "asked", c.Asked, "found", c.Found, "why", c.Why, "cure", c.Cure)
		why = append(why, fmt.Errorf("%s: %s", c.ID, c.Found))
	}
	for _, r := range report.Requirements {
		if r.Status == hostcheck.Warning {
			d.log.Warn("this machine meets a requirement in part; figures will be noisier", "requirement", r.ID, "found", r.Found, "cure", r.Cure)
		}
	}
	if standing == hostcheck.Refused {
		return report, standing, fmt.Errorf("this machine is not fit to judge: %w", errors.Join(why...))
	}
	return report, standing, nil
}

// runner puts the Runner together.
func (d *service) runner(p proved) (*runner.Runner, error) {
	rules, err := policy.Default()
	if err != nil {
		return nil, err
	}
	c := runner.MachineConfig{
		Source: d.client, Packages: packages{d.cache}, Table: d.s.Languages, Versions: p.versions, Rules: rules, Lanes: d.s.Lanes,
		WallFactor: d.s.BuildWallFactor, Scratch: filepath.Join(d.s.Scratch, cgroup.Safe(string(d.key.Fingerprint()))),
		Unmeasured: p.unmeasured, Current: &d.current, Log: d.current.Log(d.log),
		Check: d.again(p),
	}
	if d.box != nil {
		c.Box = judge.InSandbox(d.box)
	}
	machine := runner.NewMachine(c, p.images)
	o := runner.Options{
		Client: d.client, Key: d.key, Evaluator: machine, Measurer: machine,
		Reload: func() (*identity.Key, error) { return identity.Load(d.s.KeyPath) },
		Registration: protocol.Registration{
			Name: d.s.Name, Product: "evalhost-runner", Version: version, ProblemTypes: d.s.ProblemTypes, Tags: d.s.Tags, Machine: thisMachine(),
		},
		Ledger: runner.OpenLedger(runner.LedgerPath(d.s.KeyPath), d.log),
		Lease:  d.s.LeaseRequest, Wait: d.s.PollWait, PollMin: d.s.PollMin, PollMax: d.s.PollMax, Heartbeat: d.s.Heartbeat,
		Notify: d.manager, Observe: d.figures, Log: d.log,
	}
	return runner.New(o)
}

// leastRoom is what the cache's disk must have free for another attempt after an infrastructure failure.
const leastRoom = 64 * verdict.MiB

// again is the question after an infrastructure failure: the host check, and room for packages.
func (d *service) again(p proved) func(ctx context.Context) (map[string]string, error) {
	return func(ctx context.Context) (map[string]string, error) {
		report, standing, err := d.ask(ctx)
		if err != nil || p.unmeasured != "" {
			return p.images, err
		}
		if standing != hostcheck.Ready {
			return nil, errors.New("this machine cannot measure any more what is judged")
		}
		plan, err := d.plan(report.Processors)
		if err != nil {
			return nil, err
		}
		if !slices.Equal(plan.lanes, p.lanes) {
			return nil, fmt.Errorf("%w: the processors that judged programs may use are not what they were at the start (%v, now %v)",
				runner.ErrStale, p.lanes, plan.lanes)
		}
		var fs unix.Statfs_t
		if err := unix.Statfs(d.s.CachePath, &fs); err != nil {
			return nil, &os.PathError{Op: "statfs", Path: d.s.CachePath, Err: err}
		}
		if free := verdict.Bytes(fs.Bavail) * verdict.Bytes(fs.Bsize); free < leastRoom {
			return nil, fmt.Errorf("the disk of the cache %s has %s free; at least %s are needed: make room there, or give the cache another "+
				"place with AJ_Cache__Path", d.s.CachePath, free, leastRoom)
		}
		return report.Images, nil
	}
}

// end removes what is left of this instance and gives everything back.
func (d *service) end() error {
	var errs []error
	if d.box != nil {
		errs = append(errs, d.box.Close(context.Background()))
	}
	if d.engine != nil {
		errs = append(errs, d.engine.Close())
	}
	if err := errors.Join(errs...); err != nil {
		// The next start sweeps it; an ordered stop stays one.
		d.log.Warn("something was left behind and will be removed by the next start", "error", err)
	}
	return nil
}

// thisMachine describes the host, for the people at the Server.
func thisMachine() protocol.Machine {
	m := protocol.Machine{OS: runtime.GOOS, CPU: cpuName(runtime.GOARCH), Cores: runtime.NumCPU()}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return m
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "MemTotal:" {
			if kib, err := strconv.ParseInt(fields[1], 10, 50); err == nil {
				m.Memory = verdict.Bytes(kib) * verdict.KiB
			}
		}
	}
	return m
}

// cpuName is the kernel's name of an architecture.
func cpuName(arch string) string {
	if arch == "amd64" {
		return "x86_64"
	}
	return arch
}
