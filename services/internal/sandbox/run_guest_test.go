//go:build guest

package sandbox

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/verdict"
	"github.com/evalhost/evalhost/shim/wire"
)

// ended checks that a run ended by itself with this code and was measured by both instruments.
func ended(t *testing.T, o RunOutcome, exit int) {
	t.Helper()
	if o.Stop != OnItsOwn || o.ExitCode != exit {
		t.Errorf("ended as %v with code %d, want %v with %d", o.Stop, o.ExitCode, OnItsOwn, exit)
	}
	if o.CPU == nil || o.Report == nil || o.Home == nil || o.Peak == nil {
		t.Errorf("not measured: %s", shown(o.Outcome))
	}
}

func TestHostAnOrdinaryRun(t *testing.T) {
	g := onAHost(t)
	r := g.actor("again")
	o := g.mustRun(r)
	ended(t, o, 0)
	if got, want := output(r), "the input\nthe input\ndone\n"; got != want {
		t.Errorf("output %q, want %q: the input can be read twice", got, want)
	}
	if int(o.OutputBytes) != len(output(r)) {
		t.Errorf("%d bytes were counted of %d", o.OutputBytes, len(output(r)))
	}
	// What starting the container cost was there before go.
	if *o.Home > time.Second {
		t.Errorf("a program that does nothing was charged %v by its home; the start of its container is in it", *o.Home)
	}
	if *o.Peak < 64*verdict.KiB || *o.Peak > 8*verdict.MiB {
		t.Errorf("a small static program's peak is %v", *o.Peak)
	}

	r = g.actor("exit", "42")
	ended(t, g.mustRun(r), 42)

	// C04, 8.4: four MiB are enough for a small program and not for a greedy one.
	r = g.actor("exit", "0")
	r.Limits.Memory = 4 * verdict.MiB
	ended(t, g.mustRun(r), 0)
}

func TestHostMemoryIsTheKernelsWord(t *testing.T) {
	g := onAHost(t)
	for _, words := range [][]string{{"touch", "256"}, {"child", "256"}, {"shm", "48"}} {
		r := g.actor(words...)
		r.Limits.Memory = 32 * verdict.MiB
		o := g.mustRun(r)
		if o.Stop != Memory {
			t.Errorf("%v under 32 MiB ended as %v with code %d, want memory", words, o.Stop, o.ExitCode)
		}
		if o.Peak == nil || *o.Peak > 32*verdict.MiB || *o.Peak < 24*verdict.MiB {
			t.Errorf("%v: the peak is %v, want nearly the limit and no more", words, o.Peak)
		}
	}
	// The same within the limit.
	o := g.mustRun(g.actor("touch", "32"))
	ended(t, o, 0)
	if *o.Peak < 32*verdict.MiB || *o.Peak > 40*verdict.MiB {
		t.Errorf("32 MiB and a small program make a peak of %v", *o.Peak)
	}
}

func TestHostWhatDoesNotEndIsStopped(t *testing.T) {
	g := onAHost(t)
	spin := g.actor("spin")
	spin.Limits.Time = 100 * time.Millisecond
	if o := g.mustRun(spin); o.Stop != TimeLimit || *o.CPU <= o.Deadlines.Ceiling || o.Peak == nil {
		t.Errorf("a spinning program: %s, want the ceiling, and its peak all the same", shown(o.Outcome))
	}
	sleeper := g.actor("sleep", "3600")
	sleeper.Limits.Time = 100 * time.Millisecond
	if o := g.mustRun(sleeper); o.Stop != WallClock || o.Wall < o.Deadlines.Window || *o.CPU > 2*time.Second {
		t.Errorf("a sleeping program: %s, want the window", shown(o.Outcome))
	}
}

func TestHostAWaitingProgramIsNotChargedForItsWait(t *testing.T) {
	g := onAHost(t)
	r := g.actor("sleep", "3")
	o := g.mustRun(r)
	ended(t, o, 0)
	if *o.CPU*4 > o.Wall || o.Wall < 3*time.Second {
		t.Errorf("three seconds of sleep: %s", shown(o.Outcome))
	}
}

func TestHostOutputIsReadToItsEndAndBounded(t *testing.T) {
	g := onAHost(t)
	g.box.cap = 8 * verdict.MiB
	token := g.actor("token")
	if o := g.mustRun(token); o.Stop != Output || !o.Capped || o.OutputBytes <= g.box.cap || verdict.Bytes(len(output(token))) > g.box.cap {
		t.Errorf("an endless token: %s, %v read, %d passed on", shown(o.Outcome), o.OutputBytes, len(output(token)))
	}
	burst := g.actor("burst", "9")
	if o := g.mustRun(burst); !o.Capped || o.OutputBytes < g.box.cap {
		t.Errorf("C37 a burst and an immediate exit: %s, %v read", shown(o.Outcome), o.OutputBytes)
	}
	settled := g.actor("flood")
	settled.Output = &sink{at: 1}
	if o := g.mustRun(settled); o.Stop != Decided || o.Capped {
		t.Errorf("a flood after a settled answer: %s", shown(o.Outcome))
	}
}

func TestHostAProgramMayCloseItsOutputAndIgnoreItsInput(t *testing.T) {
	g := onAHost(t)
	r := g.actor("close", "2")
	r.Input = strings.NewReader(strings.Repeat("never read\n", 100_000))
	o := g.mustRun(r)
	ended(t, o, 9)
	if output(r) != "early\n" || o.Wall < 2*time.Second {
		t.Errorf("output %q, %s", output(r), shown(o.Outcome))
	}
}

func TestHostEveryDescendantIsCharged(t *testing.T) {
	g := onAHost(t)
	o := g.mustRun(g.actor("orphan", "1"))
	ended(t, o, 0)
	if *o.CPU < 950*time.Millisecond || *o.Report < 950*time.Millisecond {
		t.Errorf("N3 a second of work in an orphan: %s", shown(o.Outcome))
	}
}

func TestHostAnEscapeeEndsWithItsProgram(t *testing.T) {
	g := onAHost(t)
	r := g.actor("escape")
	o := g.mustRun(r)
	ended(t, o, 0)
	if output(r) != "done\n" {
		t.Errorf("output %q", output(r))
	}
}

func TestHostAForgedReportIsOutputAndNothingElse(t *testing.T) {
	g := onAHost(t)
	r := g.actor("forge")
	o := g.mustRun(r)
	ended(t, o, 0)
	if strings.Contains(output(r), "opened") {
		t.Errorf("a submission could open more than its output:\n%s", output(r))
	}
	if *o.Report == 1 {
		t.Error("the forged report was believed")
	}
	if strings.Contains(g.log.String(), "no report") {
		t.Errorf("something else than the shim wrote into the report channel:\n%s", g.log)
	}
}

func TestHostForksAreBounded(t *testing.T) {
	g := onAHost(t)
	r := g.actor("count")
	if o := g.mustRun(r); o.Stop != OnItsOwn {
		t.Errorf("counting processes: %s", shown(o.Outcome))
	}
	if n, err := strconv.Atoi(strings.TrimSpace(output(r))); err != nil || n != wire.PidsMaxBox-1 {
		t.Errorf("a submission could have %q processes besides its own, want %d", output(r), wire.PidsMaxBox-1)
	}
	bomb := g.actor("bomb")
	bomb.Limits.Time = 100 * time.Millisecond
	if o := g.mustRun(bomb); o.Stop != TimeLimit {
		t.Errorf("C58 a fork bomb: %s", shown(o.Outcome))
	}
	ended(t, g.mustRun(g.actor("exit", "0")), 0)
}

func TestHostWhatASubmissionSees(t *testing.T) {
	g := onAHost(t)
	r := g.actor("look")
	ended(t, g.mustRun(r), 0)
	first := output(r)
	t.Logf("it saw:\n%s", first)
	for _, want := range []string{
		"/in: 1a.in\n", "/program: actor\n", "/sys/fs/cgroup:\n", "/answers:\n", "/src:\n", "/work:\n",
		"Max core file size        0                    0", "Max open files            256                  256",
		"Max file size             268435456            268435456",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("it did not see %q", want)
		}
	}
	for line := range strings.Lines(first) {
		if strings.Contains(line, "ALLOWED") && line != "write /dev/shm/oops: ALLOWED\n" {
			t.Errorf("it could %s", line)
		}
	}
	// Another lane, at the same time: no inode in common.
	other := g.actor("look")
	other.Lane = 1
	ended(t, g.mustRun(other), 0)
	for _, path := range []string{"/in/1a.in", "/program/actor"} {
		if a, b := lineOf(first, "inode "+path), lineOf(output(other), "inode "+path); a == "" || a == b {
			t.Errorf("two lanes mount one inode: %q and %q", a, b)
		}
	}
	if strings.Contains(output(other), "/dev/shm/oops: ALLOWED") && strings.Contains(output(other), "shm: oops") {
		t.Error("C55 the second run saw the first one's shared memory")
	}
}

func lineOf(text, prefix string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			return line
		}
	}
	return ""
}

func TestHostTwoLanesAtOnce(t *testing.T) {
	g := onAHost(t)
	var both sync.WaitGroup
	outcomes := make([]RunOutcome, 2)
	errs := make([]error, 2)
	for lane, words := range [][]string{{"touch", "48"}, {"burn", "0.5"}} {
		r := g.actor(words...)
		r.Lane = lane
		both.Go(func() { outcomes[lane], errs[lane] = g.run(r) })
	}
	both.Wait()
	for lane := range 2 {
		if errs[lane] != nil {
			t.Fatal(errs[lane])
		}
		ended(t, outcomes[lane], 0)
	}
	if *outcomes[0].Peak < 48*verdict.MiB || *outcomes[1].Peak > 8*verdict.MiB {
		t.Errorf("the lanes' peaks are %v and %v", *outcomes[0].Peak, *outcomes[1].Peak)
	}
	if *outcomes[1].CPU < 450*time.Millisecond {
		t.Errorf("half a second of work was charged %v", *outcomes[1].CPU)
	}
}

func TestHostARunThatWaitsAtTheBarrierCostsNothingAndLeavesNothing(t *testing.T) {
	g := onAHost(t)
	p, err := g.job.Prepare(t.Context(), g.actor("exit", "3"))
	if err != nil {
		t.Fatal(err)
	}
	idle, err := g.job.Prepare(t.Context(), g.actor("exit", "4"))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // both wait
	o, err := p.Go(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended(t, o, 3)
	if o.Wall > time.Minute || *o.Home > time.Second {
		t.Errorf("its wait was counted: %s", shown(o.Outcome))
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := idle.Close(); err != nil { // it never goes
		t.Error(err)
	}
}
