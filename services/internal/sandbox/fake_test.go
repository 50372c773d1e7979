//go:build !guest

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/verdict"
	"github.com/evalhost/evalhost/shim/wire"
)

// program is what the PID 1 of a container of the fake daemon does. It ends with ctx, which is its kill.
type program func(ctx context.Context, c *box) (exit int)

// fakeDaemon runs programs of the test in place of containers. They see the host's files through the container's mounts.
type fakeDaemon struct {
	// judged and other give the programs of containers with and without a shim.
	judged, other program
	// archive answers a look into a container; nil for nothing there.
	archive func(path string) io.ReadCloser
	// oomFlag is the runtime's word about every container, slowWait delays the news of an end.
	oomFlag  bool
	slowWait time.Duration
	loses    bool   // a wait fails when the container has ended: nobody knows its exit code
	lingers  bool   // homes look populated for ever
	undying  bool   // a judge outlives every kill but its removal
	failOn   string // the name of a call that fails

	mu         sync.Mutex
	containers map[string]*box
	removed    int
	foreign    []engine.Found
}

// box is one container of the fake daemon.
type box struct {
	spec   engine.Spec
	home   string // directory of its home
	kill   context.CancelFunc
	exited chan struct{}
	code   int
	ran    bool

	mu   sync.Mutex
	said map[bool]*os.File // the two channels, opened at the first word
}

// say writes to one of the two channels, as a shell would have opened them. A broken pipe and a kill end it.
func (b *box) say(stderr bool, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.said == nil {
		b.said = map[bool]*os.File{}
	}
	if b.said[stderr] == nil {
		name := saidOut
		if stderr {
			name = saidErr
		}
		b.said[stderr], _ = os.OpenFile(b.host(wire.OutputDir+"/"+name), os.O_WRONLY, 0)
	}
	b.said[stderr].WriteString(text)
}

// hush closes the channels, as the end of the last process does.
func (b *box) hush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.said {
		f.Close()
	}
}

// host gives the host's path of a path in the container.
func (b *box) host(path string) string {
	for _, m := range b.spec.Mounts {
		if rest, ok := strings.CutPrefix(path, m.Target); ok {
			return m.Source + rest
		}
	}
	return "/nonexistent" + path
}

func (b *box) env(name string) string {
	for _, e := range b.spec.Env {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}

// set writes a file of the home, as the kernel would.
func (b *box) set(file, content string) { setFile(b.home, file, content) }

func setFile(dir, file, content string) {
	tmp := filepath.Join(dir, ".new")
	if os.WriteFile(tmp, []byte(content), 0o644) == nil {
		_ = os.Rename(tmp, filepath.Join(dir, file))
	}
}

func (b *box) burn(d time.Duration) {
	b.set("cpu.stat", fmt.Sprintf("usage_usec %d\nuser_usec %d\nsystem_usec 0\n", d.Microseconds(), d.Microseconds()))
}

// letGo makes the box of a program that runs in it, where the shim makes it.
func (b *box) letGo() {
	_ = os.MkdirAll(filepath.Join(b.home, "container", wire.BoxCgroup), 0o755)
	b.boxSays(10, 1)
}

// boxSays changes what the box says of itself.
func (b *box) boxSays(usedMicros, populated int) {
	dir := filepath.Join(b.home, "container", wire.BoxCgroup)
	setFile(dir, "cpu.stat", fmt.Sprintf("usage_usec %d\nuser_usec 0\nsystem_usec 0\n", usedMicros))
	setFile(dir, "cgroup.events", fmt.Sprintf("populated %d\nfrozen 0\n", populated))
}

var errAsked = errors.New("the test asked for this failure")

func (d *fakeDaemon) fails(call string) error {
	if d.failOn == call {
		return errAsked
	}
	return nil
}

func (d *fakeDaemon) get(id string) (*box, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.containers[id]
	if b == nil {
		return nil, fmt.Errorf("no container %s", id)
	}
	return b, nil
}

func (d *fakeDaemon) Image(_ context.Context, ref string) (engine.Image, error) {
	return engine.Image{Reference: ref, ID: "id-of-" + ref}, d.fails("image")
}

func (d *fakeDaemon) Create(_ context.Context, s engine.Spec) (string, error) {
	if err := d.fails("create"); err != nil {
		return "", err
	}
	if _, err := s.Describe(); err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.containers[s.Name] = &box{spec: s, home: s.Parent, exited: make(chan struct{})}
	return s.Name, nil
}

func (d *fakeDaemon) Start(_ context.Context, id string) error {
	b, err := d.get(id)
	if err = errors.Join(err, d.fails("start")); err != nil {
		return err
	}
	do := d.other
	if b.spec.Shim {
		do = d.judged
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.kill, b.ran = cancel, true
	setFile(b.home, "cgroup.events", "populated 1\n")
	go func() {
		defer cancel()
		b.code = do(ctx, b)
		if ctx.Err() != nil {
			b.code = 137
		}
		b.hush()
		if !d.lingers {
			setFile(b.home, "cgroup.events", "populated 0\n")
		}
		close(b.exited)
	}()
	return nil
}

func (d *fakeDaemon) Wait(ctx context.Context, id string, _ time.Duration) (int, error) {
	b, err := d.get(id)
	if err = errors.Join(err, d.fails("wait")); err != nil {
		return 0, err
	}
	select {
	case <-b.exited:
		time.Sleep(d.slowWait)
		if d.loses {
			return 0, errAsked
		}
		return b.code, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (d *fakeDaemon) Inspect(context.Context, string) (engine.State, error) {
	return engine.State{OOMKilled: d.oomFlag}, d.fails("inspect")
}

func (d *fakeDaemon) Kill(_ context.Context, id string) error {
	b, err := d.get(id)
	if err == nil && d.undying && !b.spec.Shim {
		return errAsked
	}
	if err == nil && b.kill != nil {
		b.kill()
	}
	return errors.Join(err, d.fails("kill"))
}

func (d *fakeDaemon) Remove(_ context.Context, id string) error {
	b, err := d.get(id)
	if err != nil {
		return nil
	}
	if b.ran {
		b.kill()
		<-b.exited
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.containers, id)
	d.removed++
	return d.fails("remove")
}

func (d *fakeDaemon) Sandboxes(context.Context) ([]engine.Found, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := append([]engine.Found{}, d.foreign...)
	for name, b := range d.containers {
		found = append(found, engine.Found{ID: name, Name: name, Instance: b.spec.Instance, HasInstance: true})
	}
	return found, d.fails("list")
}

func (d *fakeDaemon) Archive(_ context.Context, _, path string, _ time.Duration) (io.ReadCloser, bool, error) {
	if err := d.fails("archive"); err != nil || d.archive == nil {
		return nil, false, err
	}
	return d.archive(path), true, nil
}

// fakeDriver makes homes out of plain directories.
type fakeDriver struct{ root string }

func (d fakeDriver) Name() string { return "fake" }

func (d fakeDriver) Open(_ context.Context, run cgroup.Name) (*cgroup.Home, error) {
	dir := filepath.Join(d.root, string(run))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	// What starting the container costs stands in the home before go.
	setFile(dir, "cpu.stat", "usage_usec 50000\nuser_usec 50000\nsystem_usec 0\n")
	setFile(dir, "memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n")
	setFile(dir, "memory.peak", "1048576\n")
	setFile(dir, "cgroup.events", "populated 0\nfrozen 0\n")
	return cgroup.NewHome(dir, dir, dir, func(context.Context) error { return os.RemoveAll(dir) }), nil
}

func (d fakeDriver) Sweep(_ context.Context, instance string) (int, error) {
	found, _ := filepath.Glob(filepath.Join(d.root, cgroup.Safe(instance)+"_r*"))
	for _, dir := range found {
		os.RemoveAll(dir)
	}
	return len(found), nil
}

func (d fakeDriver) Instances(context.Context) ([]string, error) {
	entries, err := os.ReadDir(d.root)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name()[:strings.LastIndex(e.Name(), "_r")])
	}
	return names, err
}

func (d fakeDriver) Close() {}

// labCap is the output cap of the lab.
const labCap = 2 * verdict.MiB

// lab is a Sandbox over the fakes, and a check at the end of the test that nothing is left.
type lab struct {
	t      *testing.T
	daemon *fakeDaemon
	dir    string
	box    *Sandbox
	job    *Job
	warned atomic.Int64
}

func newLab(t *testing.T, daemon *fakeDaemon, change ...func(*Config)) *lab {
	t.Helper()
	goroutines := runtime.NumGoroutine()
	l := &lab{t: t, daemon: daemon, dir: t.TempDir()}
	if daemon.containers == nil {
		daemon.containers = map[string]*box{}
	}
	for _, dir := range []string{"homes", "scratch"} {
		if err := os.Mkdir(filepath.Join(l.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	shim := filepath.Join(l.dir, "shim")
	if err := os.WriteFile(shim, []byte("#!/bin/sh\nexit 125\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Instance: "test", Scratch: filepath.Join(l.dir, "scratch"), Shim: shim, Lanes: []Lane{{Cpuset: "0"}, {Cpuset: "1"}},
		Locks: filepath.Join(l.dir, "locks"), Log: slog.New(counting{slog.DiscardHandler, &l.warned}),
	}
	for _, c := range change {
		c(&cfg)
	}
	var err error
	if l.box, err = open(t.Context(), daemon, fakeDriver{filepath.Join(l.dir, "homes")}, cfg); err != nil {
		t.Fatal(err)
	}
	l.box.cap = labCap
	if l.job, err = l.box.OpenJob(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.leavesNothing(goroutines) })
	return l
}

// leavesNothing closes everything and looks for what is still there.
func (l *lab) leavesNothing(goroutines int) {
	l.t.Helper()
	if err := l.job.Close(); err != nil {
		l.t.Error(err)
	}
	l.daemon.mu.Lock()
	for name := range l.daemon.containers {
		l.t.Errorf("the container %s was left behind", name)
	}
	l.daemon.mu.Unlock()
	for _, dir := range []string{"homes", "scratch/test"} {
		entries, _ := os.ReadDir(filepath.Join(l.dir, dir))
		for _, e := range entries {
			l.t.Errorf("%s/%s was left behind", dir, e.Name())
		}
	}
	if err := l.box.Close(context.Background()); err != nil {
		l.t.Error(err)
	}
	for end := time.Now().Add(soon); runtime.NumGoroutine() > goroutines; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			buf := make([]byte, 1<<16)
			l.t.Fatalf("goroutines were left behind:\n%s", buf[:runtime.Stack(buf, true)])
		}
	}
}

// counting counts the warnings of a log.
type counting struct {
	slog.Handler
	n *atomic.Int64
}

func (c counting) Enabled(context.Context, slog.Level) bool { return true }

func (c counting) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		c.n.Add(1)
	}
	return nil
}

// submission is what a judged program does between its shim's barrier and its shim's report.
type submission func(ctx context.Context, c *box, stdin, stdout *os.File) (exit int)

// rescue ends an open that waits: somebody comes to the other side for a moment.
func rescue(path string) {
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
		defer f.Close()
		time.Sleep(time.Millisecond)
	}
}

// opening opens a channel as a program does, which waits for the other side and is ended there by a kill.
func opening(ctx context.Context, path string, flag int) (*os.File, error) {
	opened := make(chan struct{})
	var rescuing sync.WaitGroup
	rescuing.Go(func() {
		select {
		case <-opened:
			return
		case <-ctx.Done():
		}
		for {
			rescue(path)
			select {
			case <-opened:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	f, err := os.OpenFile(path, flag, 0)
	close(opened)
	rescuing.Wait()
	if err == nil && ctx.Err() != nil {
		f.Close()
		return nil, ctx.Err()
	}
	return f, err
}

// underShim does what the shim does: output, report, input, in that order; then the program; then one report.
func underShim(do submission) program {
	return func(ctx context.Context, c *box) int {
		out, report := c.host(wire.StdoutPath), c.host(c.env(wire.EnvReport))
		stop := context.AfterFunc(ctx, func() { rescue(out); rescue(report); rescue(c.host(c.spec.Argv[1])) })
		defer stop()
		stdout, err := os.OpenFile(out, os.O_WRONLY, 0)
		if err != nil || ctx.Err() != nil {
			return 125
		}
		defer stdout.Close()
		tell, err := os.OpenFile(report, os.O_WRONLY, 0)
		if err != nil {
			return 125
		}
		defer tell.Close()
		stdin, err := os.Open(c.host(c.spec.Argv[1]))
		if err != nil {
			tell.Write(wire.AppendFailure(nil, c.env(wire.EnvNonce), err.Error()))
			return 125
		}
		defer stdin.Close()
		context.AfterFunc(ctx, func() { stdout.Close(); stdin.Close() })
		c.burn(60 * ms)
		c.letGo()
		exit := do(ctx, c, stdin, stdout)
		if ctx.Err() != nil {
			return 137
		}
		stdout.Close()
		tell.Write(wire.Report{ExitCode: exit, CPU: 5 * ms, User: 5 * ms, Peak: 300_000}.AppendTo(nil, c.env(wire.EnvNonce)))
		return exit
	}
}
