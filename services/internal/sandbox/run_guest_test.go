//go:build guest

package sandbox

import (
	"fmt"
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

func TestAnOrdinaryRun(t *testing.T) {
	g := onAHost(t)
	r := g.actor("copy", "again", "copy")
	o := g.mustRun(r)
	ended(t, o, 0)
	if got, want := output(r), "the input\nthe input\ndone\n"; got != want {
		t.Errorf("output %q, want %q: the input can be read twice", got, want)
	}
	if int(o.OutputBytes) != len(output(r)) {
		t.Errorf("%d bytes were counted of %d", o.OutputBytes, len(output(r)))
	}
	if *o.Peak < 64*verdict.KiB || *o.Peak > 8*verdict.MiB {
		t.Errorf("a small static program's peak is %v", *o.Peak)
	}
	// 8.4: four MiB are enough for a small program.
	r = g.actor("exit", "42")
	r.Limits.Memory = 4 * verdict.MiB
	ended(t, g.mustRun(r), 42)
}

// One container, everything a submission can try without being stopped for it.
func TestAHostileRunInALaneIsMeasuredLikeAnyOther(t *testing.T) {
	g := onAHost(t)
	r := g.actor("look", "forge", "count", "orphan", "1", "escape", "close", "sleep", "2", "exit", "9")
	r.Input = strings.NewReader(strings.Repeat("never read\n", 100_000))
	// In another lane a second one waits meanwhile, so that both have their files at the same time.
	other := g.actor("look")
	other.Lane = 1
	waiting, err := g.job.Prepare(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	o := g.mustRun(r)
	ended(t, o, 9)
	first := output(r)
	t.Logf("it said:\n%s", first)

	// What there is to see, and to write to.
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
	// A forged report is output and nothing else.
	if strings.Contains(first, "opened") {
		t.Error("it could open more than its output")
	}
	if *o.Report == time.Microsecond || strings.Contains(g.log.String(), "no report") {
		t.Errorf("something else than the shim wrote into the report channel:\n%s", g.log)
	}
	// C58: processes are counted.
	if want := fmt.Sprintf("processes: %d\n", wire.PidsMaxBox-1); !strings.Contains(first, want) {
		t.Errorf("it did not say %q", want)
	}
	// N3: work in an orphan is charged. The escapee would have slept for ever, and held the output.
	if *o.CPU < 950*time.Millisecond || *o.Report < 950*time.Millisecond {
		t.Errorf("a second of work in an orphan: %s", shown(o.Outcome))
	}
	// It closed its output and went on; its wait was not charged.
	if o.Wall < 3*time.Second || *o.CPU > o.Wall-time.Second {
		t.Errorf("a second of work and two of sleep: %s", shown(o.Outcome))
	}

	// Decisions 8: another lane mounts no inode of this one. C55: and sees nothing of its shared memory.
	second, err := waiting.Go(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended(t, second, 0)
	for _, path := range []string{"/in/1a.in", "/program/actor"} {
		if a, b := lineOf(first, "inode "+path), lineOf(output(other), "inode "+path); a == "" || a == b {
			t.Errorf("two lanes mount one inode: %q and %q", a, b)
		}
	}
	if !strings.Contains(output(other), "/dev/shm:\n") {
		t.Errorf("C55 the second run saw in shared memory: %q", lineOf(output(other), "/dev/shm:"))
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

func TestMemoryIsTheKernelsWord(t *testing.T) {
	g := onAHost(t)
	for _, words := range [][]string{{"touch", "256"}, {"child", "256"}, {"shm", "48"}} {
		r := g.actor(words...)
		r.Limits.Memory = 32 * verdict.MiB
		o := g.mustRun(r)
		if o.Stop != Memory {
			t.Errorf("%v under 32 MiB ended as %v with code %d, want memory", words, o.Stop, o.ExitCode)
		}
		if o.Peak == nil || *o.Peak > 32*verdict.MiB || *o.Peak < 31*verdict.MiB {
			t.Errorf("%v: the peak is %v, want at most 1 MiB below the limit and no more", words, o.Peak)
		}
	}
	// The same within the limit.
	o := g.mustRun(g.actor("touch", "32"))
	ended(t, o, 0)
	if *o.Peak < 32*verdict.MiB || *o.Peak > 40*verdict.MiB {
		t.Errorf("32 MiB and a small program make a peak of %v", *o.Peak)
	}
}

func TestWhatDoesNotEndIsStopped(t *testing.T) {
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

func TestOutputIsReadToItsEndAndBounded(t *testing.T) {
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

func TestC58AForkBombIsStopped(t *testing.T) {
	g := onAHost(t)
	bomb := g.actor("bomb")
	bomb.Limits.Time = 100 * time.Millisecond
	if o := g.mustRun(bomb); o.Stop != TimeLimit {
		t.Errorf("a fork bomb: %s", shown(o.Outcome))
	}
}

func TestTwoLanesAtOnce(t *testing.T) {
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

func TestARunThatWaitsAtTheBarrierCostsNothingAndLeavesNothing(t *testing.T) {
	g := onAHost(t)
	p, err := g.job.Prepare(t.Context(), g.actor("exit", "3"))
	if err != nil {
		t.Fatal(err)
	}
	idle, err := g.job.Prepare(t.Context(), g.actor("exit", "4"))
	if err != nil {
		t.Fatal(err)
	}
	// Both wait, and cost nothing while they do.
	for _, waiting := range []*Prepared{p, idle} {
		before, err := waiting.sub.home.Read()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		after, err := waiting.sub.home.Read()
		if err != nil || after.CPU.Usage != before.CPU.Usage {
			t.Errorf("a run that waits at its barrier used %v, %v", after.CPU.Usage-before.CPU.Usage, err)
		}
	}
	o, err := p.Go(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended(t, o, 3)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := idle.Close(); err != nil { // it never goes
		t.Error(err)
	}
}
