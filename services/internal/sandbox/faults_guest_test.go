//go:build guest

package sandbox

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// faultBound is how long a run may take to be given up after the machinery under it has broken: the two patiences with a
// daemon that does not say that a container has ended, and some for an emulated processor.
const faultBound = endTimeout + 2*killTimeout

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// daemonAnswers waits until Docker answers again.
func (g *guest) daemonAnswers() {
	g.t.Helper()
	var err error
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		if _, err = g.eng.Info(g.t.Context()); err == nil {
			return
		}
	}
	g.t.Fatalf("the daemon does not come back: %v", err)
}

// isRunning waits until the program of a run that is under way works or waits: its shim has put it into the box.
func (g *guest) isRunning(c *contained) {
	g.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for _, above := range []string{"*", "*/*"} {
			boxes, _ := filepath.Glob(filepath.Join(c.home.Dir, above, "box", "cgroup.procs"))
			for _, box := range boxes {
				if procs, _ := os.ReadFile(box); len(procs) > 0 {
					return
				}
			}
		}
	}
	g.t.Fatal("the program never came into its box")
}

// broken starts a run, breaks something under it, and asks that no outcome comes of it, in time.
func (g *guest) broken(name string, r Run, breaking func(p *Prepared)) {
	g.t.Helper()
	p, err := g.job.Prepare(g.t.Context(), r)
	if err != nil {
		g.t.Fatal(err)
	}
	type answer struct {
		o   RunOutcome
		err error
	}
	came := make(chan answer, 1)
	go func() {
		o, err := p.Go(g.t.Context())
		came <- answer{o, err}
	}()
	g.isRunning(p.sub)
	broke := time.Now()
	breaking(p)
	select {
	case a := <-came:
		if a.err == nil {
			g.t.Errorf("%s: the run has an outcome: %s", name, shown(a.o.Outcome))
		}
		g.t.Logf("%s: given up after %v: %v", name, time.Since(broke).Round(time.Millisecond), a.err)
	case <-time.After(faultBound):
		g.t.Errorf("%s: not given up within %v", name, faultBound)
	}
	g.daemonAnswers()
	if err := p.Close(); err != nil {
		g.t.Logf("%s: closing said %v", name, err)
		// What could not be removed while the daemon was away is for the sweep.
		if _, err := g.box.Sweep(g.t.Context()); err != nil {
			g.t.Error(err)
		}
	}
}

func TestARunWhoseContainerIsTakenAwayHasNoOutcome(t *testing.T) {
	g := onAHost(t)
	g.broken("docker rm -f", g.actor("sleep", "3600"), func(p *Prepared) {
		if err := g.eng.Remove(t.Context(), p.sub.id); err != nil {
			t.Error(err)
		}
	})
	g.broken("docker kill", g.actor("sleep", "3600"), func(p *Prepared) {
		if err := g.eng.Kill(t.Context(), p.sub.id); err != nil {
			t.Error(err)
		}
	})
	// The judge beside a run: its end from outside is its outcome, which is no answer, and the pipeline refuses that.
	r := g.judgedBy(Checker, "check-ok", "sleep", "3")
	p, err := g.job.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan error, 1)
	var o RunOutcome
	go func() {
		var err error
		o, err = p.Go(t.Context())
		came <- err
	}()
	g.isRunning(p.sub)
	if err := g.eng.Remove(t.Context(), p.peer.c.id); err != nil {
		t.Error(err)
	}
	if err := <-came; err == nil && (o.Judge.ExitCode == 0 || len(o.Judge.Answer) > 0) {
		t.Errorf("a judge that was taken away answered %q: %s", o.Judge.Answer, shown(o.Judge.Outcome))
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// shimOf finds containerd's process for a container.
func shimOf(t *testing.T, id string) int {
	t.Helper()
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		line, _ := os.ReadFile(file)
		if words := string(line); strings.Contains(words, "containerd-shim") && strings.Contains(words, id) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			return pid
		}
	}
	t.Fatalf("no containerd-shim names the container %s", id)
	return 0
}

func TestARunWhoseContainerdShimDiesHasNoOutcome(t *testing.T) {
	g := onAHost(t)
	g.broken("containerd-shim killed", g.actor("sleep", "3600"), func(p *Prepared) {
		shim, err := os.FindProcess(shimOf(t, p.sub.id))
		if err == nil {
			err = shim.Kill()
		}
		if err != nil {
			t.Error(err)
		}
	})
}

func TestDockerRestartedInTheMiddleOfARunOrABuildIsNoVerdict(t *testing.T) {
	g := onAHost(t)
	g.restarted = []string{"dockerd", "containerd", "docker-proxy"}
	// Three starts within a minute are more than the unit allows.
	restart := func() {
		command(t, "systemctl", "reset-failed", "docker")
		command(t, "systemctl", "restart", "docker")
	}
	g.broken("docker restarted", g.actor("sleep", "3600"), func(*Prepared) { restart() })
	g.broken("docker killed", g.actor("sleep", "3600"), func(*Prepared) {
		command(t, "systemctl", "kill", "--signal=KILL", "--kill-whom=main", "docker")
		restart()
	})
	built := make(chan error, 1)
	var b Built
	go func() {
		var err error
		b, err = g.job.Build(t.Context(), shell("echo ok >/out/program; sleep 3600"))
		built <- err
	}()
	time.Sleep(5 * time.Second)
	restart()
	select {
	case err := <-built:
		// A build that was ended from outside says so by its exit code, which no source can cause (decision 0050).
		if err == nil && (b.Program != nil || b.Stop == OnItsOwn && b.ExitCode != 137 && b.ExitCode != 143) {
			t.Errorf("a build across a restart of Docker: %s", shown(b.Outcome))
		}
		t.Logf("the build: %s, %v", shown(b.Outcome), err)
	case <-time.After(faultBound):
		t.Errorf("the build was not given up within %v", faultBound)
	}
	g.daemonAnswers()
	if _, err := g.box.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSystemdMayReloadAndReexecuteInTheMiddleOfARunAndItsLimitsHold(t *testing.T) {
	g := onAHost(t)
	r := g.actor("sleep", "4", "touch", "256")
	r.Limits.Memory = 32 * verdict.MiB
	p, err := g.job.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	reloaded := make(chan struct{})
	go func() {
		defer close(reloaded)
		g.isRunning(p.sub)
		command(t, "systemctl", "daemon-reload")
		command(t, "systemctl", "daemon-reexec")
	}()
	o, err := p.Go(t.Context())
	<-reloaded
	if err != nil || o.Stop != Memory {
		t.Errorf("a run under 32 MiB across a reload: %s, %v", shown(o.Outcome), err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestABusThatGoesAwayInTheMiddleCostsNoRunItsOutcomeAndNoNextOneAVerdict(t *testing.T) {
	g := onAHost(t)
	if g.box.driver.Name() != "systemd" {
		t.Skip("SKIPPED: cgroupfs needs no bus; the systemd variants run this")
	}
	g.restarted = []string{"dbus-daemon", "dbus-broker", "dbus-broker-lau", "systemd-logind"}
	const private, hidden = "/run/systemd/private", "/run/systemd/private.hidden"
	// The reserve is systemd's own socket. Both are taken away, and given back whatever happens.
	restore := func() {
		_ = os.Rename(hidden, private)
		_ = exec.Command("systemctl", "start", "dbus.socket", "dbus.service").Run()
	}
	t.Cleanup(restore)
	p, err := g.job.Prepare(t.Context(), g.actor("sleep", "3", "exit", "4"))
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		g.isRunning(p.sub)
		command(t, "systemctl", "stop", "dbus.socket", "dbus.service")
	}()
	o, err := p.Go(t.Context())
	<-gone
	if err != nil {
		t.Errorf("a run across the end of the bus: %v", err)
	} else {
		ended(t, o, 4)
	}
	if err := p.Close(); err != nil { // over systemd's own socket
		t.Errorf("its slice could not be stopped over systemd's own socket: %v", err)
	}
	if err := os.Rename(private, hidden); err != nil {
		t.Fatal(err)
	}
	g.box.driver.(interface{ Close() }).Close() // and no connection is left
	if q, err := g.job.Prepare(t.Context(), g.actor("exit", "0")); err == nil {
		t.Error("a run was prepared without anybody to make its slice")
		q.Close()
	} else {
		t.Logf("without any way to systemd: %v", err)
	}
	restore()
	ended(t, g.mustRun(g.actor("exit", "5")), 5)
}

func TestAHomeIsNeverSharedAndALivingOneCanBeRemoved(t *testing.T) {
	g := onAHost(t)
	img, err := g.eng.Image(t.Context(), testImage)
	if err != nil {
		t.Fatal(err)
	}
	run := cgroup.NewName(g.box.cfg.Instance)
	home, err := g.box.driver.Open(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	spec := buildProfile(step{run: run, instance: g.box.cfg.Instance, image: img, home: home}, nil, scratch(), scratch())
	spec.Argv = []string{"/bin/sleep", "3600"}
	id, err := g.eng.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.eng.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := g.box.driver.Open(t.Context(), run); err == nil {
		t.Error("one name was given to two runs")
	}
	if s, err := g.eng.Inspect(t.Context(), id); err != nil || !s.Running {
		t.Errorf("the first run of the name was ended by the second: running %v, %v", s.Running, err)
	}
	// The daemon hears of a death later than its cgroup is gone.
	if _, err := os.Stat(home.Dir); err != nil {
		t.Errorf("the home of the first run went with the second: %v", err)
	}
	// The daemon could not remove the container; its home goes all the same, and in time.
	began := time.Now()
	if err := home.Close(t.Context()); err != nil {
		t.Errorf("a home with a live process: %v", err)
	}
	t.Logf("a home with a live process was removed in %v", time.Since(began).Round(time.Millisecond))
	if _, err := os.Stat(home.Dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", home.Dir, err)
	}
	if err := g.eng.Remove(t.Context(), id); err != nil {
		t.Error(err)
	}
}

func TestTheProbeSeesTheContainerFromInside(t *testing.T) {
	g := onAHost(t)
	said, err := Probe(t.Context(), g.eng, ProbeConfig{Driver: g.box.driver.Name(), Scratch: scratch(), Image: testImage})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("it said:\n%s", said)
	for _, want := range []string{
		"Uid:\t65534\t65534\t65534\t65534\n", "CapBnd:\t0000000000000000\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n", "\n== memory.max\n100663296\n",
		"\n== pids.max\n24\n", "\n== written\n== end\n", "docker-default (enforce)",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it did not say %q", want)
		}
	}
}

// victim is the process that TestAKilledOwnerIsSweptAndNobodyElse kills: it does what a Runner does, for ever.
func victim(instance string) error {
	ctx := context.Background()
	eng, err := engine.Connect(ctx, engine.Options{})
	if err != nil {
		return err
	}
	box, err := Open(ctx, eng, Config{
		Instance: instance, Scratch: scratch(), Shim: shimFile(), Lanes: testLanes(), BuildWallFactor: 8,
	})
	if err != nil {
		return err
	}
	program, err := ProgramAt(filepath.Join(programs(), "actor"))
	if err != nil {
		return err
	}
	os.Stdout.WriteString("at work\n")
	for {
		job, err := box.OpenJob(ctx)
		if err != nil {
			return err
		}
		run := Run{
			Image: testImage, Command: []string{"/program/actor", "burn", "0.2"}, Program: program, Test: "1a",
			Limits: Limits{Time: 10 * time.Second, Memory: 64 * verdict.MiB}, Input: strings.NewReader("x"),
			Judge: &Judge{Kind: Checker, Image: testImage, Command: []string{"/program/actor", "check-ok"}, Program: program, Tests: scratch()},
		}
		p, err := job.Prepare(ctx, run)
		if err != nil {
			return err
		}
		if _, err = p.Go(ctx); err != nil {
			return err
		}
		if err := p.Close(); err != nil {
			return err
		}
		if err := job.Close(); err != nil {
			return err
		}
	}
}
