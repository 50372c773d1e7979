//go:build guest

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/sandbox/hoststate"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Cases of spec/sandbox.md 8.1 that need a container of somebody else's, an image of its own, or a run that never gets to its program.

// repetitions is how often what happens at moments is tried: EVALHOST_TEST_KILLS, three times in a test and ten in a soak.
func repetitions(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(told("EVALHOST_TEST_KILLS", "10"))
	if err != nil || n < 1 {
		t.Fatalf("EVALHOST_TEST_KILLS: %d, %v", n, err)
	}
	return n
}

// 8.1 #6: a container that is gone has left 64 MiB of a file that stays in the cache, charged to the cgroup that holds every run. The
// next run is charged its own and nothing of that.
func TestC16WhatADeadContainerLeftInTheCacheIsNotTheNextRuns(t *testing.T) {
	g := onAHost(t)
	const dirt = 64 * verdict.MiB
	dir := filepath.Join(scratch(), "dirt")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	home, err := g.box.driver.Open(t.Context(), cgroup.NewName(g.box.cfg.Instance))
	if err != nil {
		t.Fatal(err)
	}
	above := filepath.Join(filepath.Dir(home.Dir), "memory.current")
	charged := func() verdict.Bytes {
		t.Helper()
		text, err := os.ReadFile(above)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return verdict.Bytes(n)
	}
	before := charged()
	// No container of ours can write to a file of the host's, so this one is made past the engine.
	command(t, "docker", "run", "--rm", "--network", "none", "--cgroup-parent", home.Parent, "--volume", dir+":/dirt", testImage,
		"/bin/dd", "if=/dev/zero", "of=/dirt/file", "bs=1M", fmt.Sprintf("count=%d", dirt/verdict.MiB))
	if err := home.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	still := func() {
		t.Helper()
		if now := charged(); now < before+dirt/2 {
			t.Fatalf("%s: %v, and %v before; the dead container's pages are charged nowhere, so that nothing is shown", above, now, before)
		}
	}
	still()
	for range 2 {
		o := g.mustRun(g.actor("exit", "0"))
		ended(t, o, 0)
		if *o.Peak > 8*verdict.MiB {
			t.Errorf("a tiny program's peak is %v after a container that left %v in the cache", *o.Peak, dirt)
		}
		still()
	}
}

// 8.1 #37: what an image declares of itself is not run, in a run and in a build, while any other container of it does all of that.
func TestAnImagesOwnEntryPointAndHealthCheckNeverRun(t *testing.T) {
	onOneDriver(t, "what the daemon is asked for is the same under either driver")
	g := onAHost(t)
	const plain = "evalhost-test-plain"
	out, err := exec.Command("docker", "run", "--rm", "--network", "none", wilfulImage).CombinedOutput()
	if want := "the image's own entry point ran the image's own command\n"; err != nil || string(out) != want {
		t.Fatalf("a plain container of the image said %q, %v, want %q; nothing would be shown", out, err, want)
	}
	began := time.Now()
	t.Cleanup(func() { command(t, "docker", "rm", "--force", "--volumes", plain) })
	command(t, "docker", "run", "--detach", "--name", plain, "--network", "none", "--entrypoint", "/bin/sleep", wilfulImage, "3600")
	for healthy := false; !healthy; time.Sleep(300 * time.Millisecond) {
		out, _ := exec.Command("docker", "exec", plain, "/bin/cat", "/dev/shm/health").Output()
		healthy = strings.HasPrefix(string(out), "healthy\n")
		if time.Since(began) > 2*time.Minute {
			t.Fatal("the health check of a plain container of the image does not run; nothing would be shown")
		}
	}
	took := time.Since(began)
	command(t, "docker", "kill", plain)
	t.Logf("the health check of a plain container had run %v after its start was asked for", took.Round(time.Millisecond))

	// Longer than that took, at least five seconds: it is asked for every second.
	long := strconv.Itoa(int((took + 5*time.Second) / time.Second))
	r := g.actor("sleep", long, "look")
	r.Image, r.Limits.Time = wilfulImage, time.Minute
	ended(t, g.mustRun(r), 0)
	if said := output(r); !strings.HasPrefix(said, "/in: 1a.in\n") || !strings.HasSuffix(said, "done\n") || !strings.Contains(said, "\n/dev/shm:\n") {
		t.Errorf("a judged run in the image said\n%s", said)
	}
	wilful := shell("sleep " + long + "; ls -A /dev/shm; echo looked; cp /src/main.c /out/program")
	wilful.Image = wilfulImage
	if b := g.build(wilful); b.Program == nil || string(b.Stdout) != "looked\n" {
		t.Errorf("a build in the image: %s; it said %q, %q", shown(b.Outcome), b.Stdout, b.Stderr)
	}
	checked := g.judgedBy(Checker, "check-ok", "copy")
	checked.Judge.Image = wilfulImage
	if o := g.mustRun(checked); string(o.Judge.Answer) != "OK\n1a 1 15 reference stream\n" {
		t.Errorf("a checker in the image said %q", o.Judge.Answer)
	}
}

// nothingStays closes the job, sweeps until nothing is found any more, compares the host, and opens another job. A daemon that was
// interrupted may finish what it had begun a little later.
func (g *guest) nothingStays(before hoststate.Snapshot, after string) {
	g.t.Helper()
	if err := g.job.Close(); err != nil {
		g.t.Errorf("%s: %v", after, err)
	}
	swept := 0
	for end := time.Now().Add(patience); ; time.Sleep(500 * time.Millisecond) {
		n, err := g.box.Sweep(g.t.Context())
		if err != nil {
			g.t.Fatal(err)
		}
		swept += n
		if n == 0 {
			break
		}
		if time.Now().After(end) {
			g.t.Fatalf("%s: there is no end of what a sweep finds", after)
		}
	}
	changed, err := hoststate.Settled(g.t.Context(), g.eng, before, patience, scratch(), DefaultLocks)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, c := range changed {
		g.t.Errorf("%s: the host is not what it was: %s", after, c)
	}
	g.t.Logf("%s: swept %d", after, swept)
	if g.job, err = g.box.OpenJob(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
}

// 8.1 #38: a run that is given up while its containers are made and started, and one whose container is taken away then, have no
// outcome and leave nothing.
func TestARunThatIsEndedDuringItsStartHasNoOutcomeAndLeavesNothing(t *testing.T) {
	onOneDriver(t, "it is long, and TestASweepFindsWhatADeadOwnerLeft shows on each driver that what is left is found")
	g := onAHost(t)
	// Without a job, and before the first container: the daemon and systemd clean up a little after they said that they had.
	if err := g.job.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := hoststate.Take(t.Context(), g.eng, scratch(), DefaultLocks)
	if err != nil {
		t.Fatal(err)
	}
	if g.job, err = g.box.OpenJob(t.Context()); err != nil {
		t.Fatal(err)
	}
	var whole time.Duration
	for range 2 { // the first one copies its program as well
		began := time.Now()
		p, err := g.job.Prepare(t.Context(), g.judgedBy(Checker, "check-ok", "sleep", "3600"))
		if err != nil {
			t.Fatal(err)
		}
		whole = time.Since(began)
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	n, given := repetitions(t), 0
	for i := range n {
		at := whole * time.Duration(2*i+1) / time.Duration(2*n)
		ctx, cancel := context.WithTimeout(t.Context(), at)
		p, err := g.job.Prepare(ctx, g.judgedBy(Checker, "check-ok", "sleep", "3600"))
		cancel()
		if err == nil {
			err = p.Close()
		} else {
			given++
		}
		g.nothingStays(before, fmt.Sprintf("given up after %v of %v (%v)", at.Round(time.Millisecond), whole.Round(time.Millisecond), err))
	}
	if given == 0 {
		t.Error("no run was given up before it was ready; the test proves nothing")
	}

	for name, take := range map[string]func(ctx context.Context, id string) error{
		"docker rm -f": g.eng.Remove,
		// Past the engine, for which a container that does not run yet is killed already.
		"docker kill": func(ctx context.Context, id string) error {
			return exec.CommandContext(ctx, "docker", "kill", id).Run()
		},
	} {
		came := make(chan error, 1)
		go func() {
			p, err := g.job.Prepare(t.Context(), g.actor("sleep", "3600"))
			if err == nil {
				_, err = p.Go(t.Context())
				err = errors.Join(err, p.Close())
			}
			came <- err
		}()
		g.takeAway(take)
		select {
		case err := <-came:
			if err == nil {
				t.Errorf("%s during its start: the run has an outcome", name)
			}
			g.nothingStays(before, fmt.Sprintf("%s during its start (%v)", name, err))
		case <-time.After(faultBound):
			t.Fatalf("%s during its start: not given up within %v", name, faultBound)
		}
	}
}

// takeAway does something to the first container of this instance as soon as it lets it be done.
func (g *guest) takeAway(take func(ctx context.Context, id string) error) {
	g.t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		found, e := g.eng.Sandboxes(g.t.Context())
		if e != nil {
			g.t.Fatal(e)
		}
		for _, c := range found {
			if c.Instance == g.box.cfg.Instance {
				if err = take(g.t.Context(), c.ID); err == nil {
					return
				}
			}
		}
	}
	g.t.Fatalf("the container of the run never came, or stood everything: %v", err)
}

// 8.1 #40: two Runners that start in the same moment, beside a third that is judging, disturb neither each other nor it, and of one
// instance only one comes to be.
func TestRunnersThatStartAtOnceDoNotDisturbEachOther(t *testing.T) {
	onOneDriver(t, "it is long, and TestTwoInstancesDoNotTouchEachOther shows two Runners on each driver")
	g := onAHost(t)
	waiting, err := g.job.Prepare(t.Context(), g.actor("exit", "6"))
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	n := repetitions(t)
	for round := range n {
		var all sync.WaitGroup
		boxes, errs := make([]*Sandbox, 3), make([]error, 3)
		for i, name := range []string{"-left", "-right", "-right"} {
			cfg := g.box.cfg
			cfg.Instance += name
			all.Go(func() { boxes[i], errs[i] = Open(t.Context(), g.eng, cfg) })
		}
		all.Wait()
		if errs[0] != nil {
			t.Errorf("round %d: beside two others: %v", round, errs[0])
		}
		if (errs[1] == nil) == (errs[2] == nil) {
			t.Errorf("round %d: of one instance two started at once: %v; %v", round, errs[1], errs[2])
		}
		for i, box := range boxes {
			if box == nil {
				if i > 0 && !strings.Contains(errs[i].Error(), "is at work already") {
					t.Errorf("round %d: it was refused for another reason: %v", round, errs[i])
				}
				continue
			}
			r := g.actor("exit", "7")
			all.Go(func() {
				if round == n-1 { // both judge as well
					errs[i] = judgesOne(t.Context(), box, r)
				}
				errs[i] = errors.Join(errs[i], box.Close(context.Background()))
			})
		}
		all.Wait()
		for i, box := range boxes {
			if box != nil && errs[i] != nil {
				t.Errorf("round %d: %v", round, errs[i])
			}
		}
	}
	o, err := waiting.Go(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended(t, o, 6)
}

// judgesOne judges a run that ends with code 7.
func judgesOne(ctx context.Context, box *Sandbox, r Run) error {
	job, err := box.OpenJob(ctx)
	if err != nil {
		return err
	}
	p, err := job.Prepare(ctx, r)
	if err != nil {
		return errors.Join(err, job.Close())
	}
	o, err := p.Go(ctx)
	if err == nil && (o.Stop != OnItsOwn || o.ExitCode != 7) {
		err = fmt.Errorf("its run: %s", shown(o.Outcome))
	}
	return errors.Join(err, p.Close(), job.Close())
}
