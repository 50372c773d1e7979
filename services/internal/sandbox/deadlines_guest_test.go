//go:build guest

package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/services/internal/verdict"
	"github.com/evalhost/evalhost/shim/wire"
)

// Every way a run can go on for ever, each ended by the deadline that is there for it (spec/sandbox.md 5).
func TestEachWayOfNotEndingIsEndedByItsOwnDeadline(t *testing.T) {
	onOneDriver(t, "which deadline ends a program is decided from the same readings")
	g := onAHost(t)
	for _, c := range []struct {
		verb string
		want Stop
	}{
		{"spin", TimeLimit},
		{"sleep", WallClock},
		{"wake", Overall}, // progress at every look, and never an end
		{"drip", Overall}, // the same with bytes
	} {
		r := g.actor(c.verb, "3600")
		r.Limits.Time = 50 * time.Millisecond
		o := g.mustRun(r)
		if o.Stop != c.want {
			t.Errorf("%s: %s, want %v", c.verb, shown(o.Outcome), c.want)
		}
		if c.want == Overall && o.Wall < o.Deadlines.Cap || c.want == WallClock && (o.Wall < o.Deadlines.Window || o.Wall >= o.Deadlines.Cap) {
			t.Errorf("%s was stopped after %v under %+v", c.verb, o.Wall, o.Deadlines)
		}
	}
}

func TestAProgramThatWaitsForInputThatNeverComesIsStoppedByTheWindow(t *testing.T) {
	onOneDriver(t, "which deadline ends a program is decided from the same readings")
	g := onAHost(t)
	r := g.judgedBy(Interactor, "interact-mute", "play")
	r.Limits.Time = 50 * time.Millisecond
	o := g.mustRun(r)
	if o.Stop != WallClock {
		t.Errorf("a player whose interactor says nothing: %s, want the window", shown(o.Outcome))
	}
	// The interactor saw its input end and could still answer: nobody killed it before its own clock.
	if o.Judge.Stop != OnItsOwn || string(o.Judge.Answer) != "WRONG\nmute\n" {
		t.Errorf("the interactor: %s, said %q", shown(o.Judge.Outcome), o.Judge.Answer)
	}
}

// C31 and C32: neither side can hang the Runner or be charged for the other.
func TestTheSideThatDoesNotReadIsBlamed(t *testing.T) {
	onOneDriver(t, "channels know nothing of homes")
	g := onAHost(t)
	deaf := g.judgedBy(Interactor, "interact-flood", "sleep", "3600")
	deaf.Limits.Time = 50 * time.Millisecond
	o := g.mustRun(deaf)
	if o.Stop != WallClock || o.Judge.Stop != OnItsOwn || o.Judge.ExitCode != 0 {
		t.Errorf("C32 a submission that does not read: %s; its interactor %s", shown(o.Outcome), shown(o.Judge.Outcome))
	}
	// The same after it has closed its output, under a window that is longer than the interactor's clock.
	silent := g.judgedBy(Interactor, "interact-flood", "close", "sleep", "3600")
	silent.Limits.Time = 3 * time.Second // a window of 16 s
	g.box.clock = 14 * time.Second
	o = g.mustRun(silent)
	if o.Stop != WallClock || o.Judge.Stop != OnItsOwn || o.Judge.ExitCode != 0 {
		t.Errorf("C32 a submission that closed its output and does not read: %s; its interactor %s", shown(o.Outcome), shown(o.Judge.Outcome))
	}
	g.box.clock = judgeClock
	g.box.cap = 8 * verdict.MiB
	chatter := g.judgedBy(Interactor, "interact-mute", "chatter")
	o = g.mustRun(chatter)
	// What it says between the cap and its end is read and counted, and how much that is depends on how fast both are.
	if o.Stop != Output || o.OutputBytes <= g.box.cap {
		t.Errorf("C31 a submission that only talks: %s, %v read", shown(o.Outcome), o.OutputBytes)
	}
	if o.Judge.Stop != OnItsOwn && o.Judge.Stop != WallClock {
		t.Errorf("C31 its interactor: %s", shown(o.Judge.Outcome))
	}
}

// A container that was frozen before it could open its output is what a host looks like that has no processor for it.
func TestARunThatNeverStartedIsNoVerdict(t *testing.T) {
	g := onAHost(t)
	r := g.actor("exit", "0")
	r.Limits.Time = 50 * time.Millisecond
	p, err := g.job.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	freeze(t, p.sub.home.Dir)
	began := time.Now()
	o, err := p.Go(t.Context())
	if err == nil && o.Stop != NeverStarted {
		t.Errorf("a run that never started: %s, want no outcome", shown(o.Outcome))
	}
	t.Logf("after %v: %v, %v", time.Since(began).Round(time.Millisecond), o.Stop, err)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// A shim that hangs after its first milliseconds has used processor time of the home, and its program has not: here it waits in the
// opening of a report channel that nobody reads.
func TestAShimThatHangsBeforeItsProgramIsNoVerdict(t *testing.T) {
	g := onAHost(t)
	r := g.actor("exit", "0")
	r.Limits.Time = 50 * time.Millisecond
	p, err := g.job.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := makeFIFO(filepath.Join(p.dir, "run", filepath.Base(wire.ReportPath)), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := p.Go(t.Context())
	t.Logf("%s, %v", shown(o.Outcome), err)
	if err != nil || o.Stop != NeverStarted {
		t.Errorf("a shim that hangs before its program: %s, %v; want never started", shown(o.Outcome), err)
	}
	if o.Home == nil || *o.Home == 0 {
		t.Error("its home has used nothing, so that this is the case of a run that never started, and shows nothing of its box")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// freeze stops everything in a cgroup and waits until the kernel says that it stands: until then a thread may still come
// as far as its next return from the kernel, and that is processor time and an opened channel.
func freeze(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		events, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(events), "frozen 1") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not stand still within a minute of its freezing: %q", dir, events)
		}
	}
}

// withoutReserves lets a real-time thread take a processor whole: the kernel's two reserves for everybody else are switched
// off until the test has ended.
func withoutReserves(t *testing.T) {
	t.Helper()
	debugfs := t.TempDir()
	if err := unix.Mount("debugfs", debugfs, "debugfs", 0, ""); err != nil {
		t.Fatalf("mount debugfs on %s: %v", debugfs, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(debugfs, 0); err != nil {
			t.Errorf("unmount debugfs from %s: %v", debugfs, err)
		}
	})
	fairServer := filepath.Join(debugfs, "sched/fair_server/cpu1/runtime")
	for path, value := range map[string]string{"/proc/sys/kernel/sched_rt_runtime_us": "-1", fairServer: "0"} {
		before, err := os.ReadFile(path)
		if os.IsNotExist(err) && path == fairServer {
			continue // a kernel before 6.12 has no such reserve
		}
		if err == nil {
			err = os.WriteFile(path, []byte(value), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.WriteFile(path, before, 0); err != nil {
				t.Error(err)
			}
		})
	}
}

// starve takes processor 1 from everybody else for so long. It is a process of C: a thread of Go's is put aside by its own
// runtime every few milliseconds, and what it starves would get a little every time.
func starve(length time.Duration) error {
	return exec.Command(filepath.Join(programs(), "actor"), "hog", strconv.FormatFloat(length.Seconds(), 'f', 3, 64)).Run()
}

func TestAProgramWhoseLaneANeighbourStarvesIsNotStoppedForMakingNoProgress(t *testing.T) {
	if _, err := os.Stat("/proc/pressure/cpu"); err != nil {
		t.Fatal("this guest tells no pressure, and the brake is made of it")
	}
	withoutReserves(t)
	g := onAHost(t)
	r := g.actor("burn", "0.3", "sleep", "0.5", "burn", "0.3")
	r.Lane = 1
	r.Limits.Time = 500 * time.Millisecond // a window of 6 s, a cap of 12.5 s
	p, err := g.job.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	// When the first of its program's work is there, its processor is taken away.
	zero, err := p.sub.home.Read()
	if err != nil {
		t.Fatal(err)
	}
	starved := make(chan error, 1)
	go func() {
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if now, err := p.sub.home.Read(); err == nil && now.CPU.Usage-zero.CPU.Usage > 50*time.Millisecond {
				break
			}
		}
		starved <- starve(8 * time.Second)
	}()
	o, err := p.Go(t.Context())
	if err = errors.Join(err, <-starved); err != nil {
		t.Fatal(err)
	}
	t.Logf("starved: %s", shown(o.Outcome))
	if o.Stop != OnItsOwn {
		t.Errorf("a starved program: %s, want its own end", shown(o.Outcome))
	}
	if o.Wall < o.Deadlines.Window {
		t.Errorf("it was starved for less than its window: %v of %v; the test proves nothing", o.Wall, o.Deadlines.Window)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestExactlyTheOutputCapIsLegalAndOneByteMoreIsNot(t *testing.T) {
	onOneDriver(t, "channels know nothing of homes")
	g := onAHost(t)
	g.box.cap = 2*verdict.MiB + 5 // the program's last word is five bytes
	o := g.mustRun(g.actor("token-of", "2"))
	ended(t, o, 0)
	if o.Capped || o.OutputBytes != g.box.cap {
		t.Errorf("exactly the cap: %s, %v read", shown(o.Outcome), o.OutputBytes)
	}
	g.box.cap--
	if o := g.mustRun(g.actor("token-of", "2")); !o.Capped {
		t.Errorf("one byte more than the cap: %s, %v read", shown(o.Outcome), o.OutputBytes)
	}
}

func TestEveryContainerIsPinnedToItsLane(t *testing.T) {
	g := onAHost(t)
	for lane, want := range []string{"Cpus_allowed_list:\t0\n", "Cpus_allowed_list:\t1\n"} {
		r := g.actor("status")
		r.Lane = lane
		ended(t, g.mustRun(r), 0)
		if got := output(r); !strings.Contains(got, want) {
			t.Errorf("lane %d: %q, want %q", lane, got, want)
		}
		for _, want := range []string{"Uid:\t65534\t65534\t65534\t65534\n", "CapEff:\t0000000000000000\n", "CapBnd:\t00000000000000c0\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n"} {
			if got := output(r); !strings.Contains(got, want) {
				t.Errorf("a judged run does not show %q: %q", want, got)
			}
		}
		j := g.judgedBy(Checker, "check-status", "exit", "0")
		j.Lane = lane
		if o := g.mustRun(j); !strings.Contains(string(o.Judge.Answer), want) {
			t.Errorf("the checker of lane %d: %q, want %q", lane, o.Judge.Answer, want)
		}
	}
	if b := g.build(shell("grep Cpus_allowed_list /proc/self/status; cat /src/main.c >/out/program")); !strings.Contains(string(b.Stdout), "\t0-1\n") {
		t.Errorf("a build is pinned to %q, want both lanes", b.Stdout)
	}
}
