//go:build guest

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/sandbox/hoststate"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// EVALHOST_TEST_SOAK is how many runs the soak makes, EVALHOST_TEST_SOAK_FOR how long it goes on at most; fewer runs are a failure.
const (
	soakRuns    = "EVALHOST_TEST_SOAK"
	soakFor     = "EVALHOST_TEST_SOAK_FOR"
	soakDefault = "8" // every kind of run once more; make soak asks for 500
)

// soakTrail is after how many runs everything is counted on the way: whether it grows is seen in the middle already.
const soakTrail = 20

// counts is everything that could grow with the number of runs.
type counts map[string]int

// count looks at this process and at the host. The kernel frees a cgroup when its last page is gone, so the caches are
// dropped first: what is then still dying is held by something.
func (g *guest) count() counts {
	g.t.Helper()
	runtime.GC()
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
		g.t.Fatal(err)
	}
	time.Sleep(time.Second)
	c := counts{"goroutines": runtime.NumGoroutine(), "descriptors": entries(g.t, "/proc/self/fd"), "threads": entries(g.t, "/proc/self/task")}
	s, err := hoststate.Take(g.t.Context(), g.eng, scratch(), DefaultLocks)
	if err != nil {
		g.t.Fatal(err)
	}
	for fact := range s {
		kind, _, _ := strings.Cut(fact, " ")
		if kind == "daemon's" {
			kind = "entry of the daemon's data directory"
		}
		c["kind "+kind]++
	}
	for _, file := range []string{"/sys/fs/cgroup/cgroup.stat", "/sys/fs/cgroup/evalhost.slice/cgroup.stat", "/sys/fs/cgroup/evalhost/cgroup.stat"} {
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) == 2 && strings.HasPrefix(f[0], "nr_") && !strings.HasPrefix(f[0], "nr_subsys") && !strings.HasPrefix(f[0], "nr_dying_subsys") {
				c[f[0]+" of "+filepath.Dir(file)], _ = strconv.Atoi(f[1])
			}
		}
	}
	return c
}

// since lists what differs from before, and what is dying.
func (c counts) since(before counts) string {
	words := []string{}
	for name, n := range c {
		if n != before[name] || strings.HasPrefix(name, dying) {
			words = append(words, fmt.Sprintf("%s %d (%d)", name, n, before[name]))
		}
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

func entries(t *testing.T, dir string) int {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// journal is how large systemd's journal is.
func journal() string {
	out, err := exec.Command("journalctl", "--disk-usage").Output()
	if err != nil {
		return err.Error()
	}
	lines, _ := exec.Command("sh", "-c", "journalctl -b --no-pager | wc -l").Output()
	return strings.TrimSpace(string(out)) + "; lines " + strings.TrimSpace(string(lines))
}

// soakKind is one kind of step, and what must come of it.
type soakKind struct {
	name string
	run  *Run // nil for a build
	ends []Stop
}

// soakKinds are runs of every profile and of every way to be ended. Their number is even: two are made at a time.
func (g *guest) soakKinds() []soakKind {
	g.t.Helper()
	kind := func(name string, r Run, ends ...Stop) soakKind { return soakKind{name, &r, ends} }
	greedy, spin := g.actor("touch", "64"), g.actor("spin")
	greedy.Limits.Memory = 16 * verdict.MiB
	spin.Limits.Time = 100 * time.Millisecond
	return []soakKind{
		kind("input that is copied", g.actor("copy"), OnItsOwn),
		kind("an exit code", g.actor("exit", "3"), OnItsOwn),
		kind("too much memory", greedy, Memory),
		kind("a checker", g.judgedBy(Checker, "check-ok", "copy"), OnItsOwn),
		kind("an interactor", g.judgedBy(Interactor, "interact", "play"), OnItsOwn),
		kind("a loop without end", spin, TimeLimit, Overall), // the latter where others have the processors
		kind("output without end", g.actor("token"), Output),
		{name: "a build"},
	}
}

// soakStep makes one of them in a lane.
func (g *guest) soakStep(k soakKind, lane int) error {
	ctx := g.t.Context()
	if k.run == nil {
		b, err := g.job.Build(ctx, shell("cp /src/main.c /out/program"))
		if err == nil && b.Program == nil {
			err = fmt.Errorf("it left nothing: %s", shown(b.Outcome))
		}
		return err
	}
	r := *k.run
	r.Lane = lane
	if r.Input != nil {
		r.Input = strings.NewReader("the input\n")
	}
	if r.Judge == nil {
		r.Output = &sink{}
	}
	p, err := g.job.Prepare(ctx, r)
	if err != nil {
		return err
	}
	o, err := p.Go(ctx)
	switch {
	case err != nil:
	case !slices.Contains(k.ends, o.Stop):
		err = fmt.Errorf("it ended otherwise than by %v: %s", k.ends, shown(o.Outcome))
	case r.Judge != nil && (o.Judge == nil || !strings.HasPrefix(string(o.Judge.Answer), "OK\n")):
		err = fmt.Errorf("its judge's answer: %+v", o.Judge)
	}
	return errors.Join(err, p.Close())
}

// Nothing of a host and of the process that judges grows with the number of runs, of jobs and of builds. Two are made at a time, each in
// a lane of its own.
func TestNothingGrowsWithTheNumberOfRunsInTwoLanes(t *testing.T) {
	n, err := strconv.Atoi(told(soakRuns, soakDefault))
	if err != nil {
		t.Fatal(err)
	}
	limit, err := time.ParseDuration(told(soakFor, "3h"))
	if err != nil {
		t.Fatal(err)
	}
	g := onAHost(t)
	g.box.cap = 4 * verdict.MiB
	kinds, lanes := g.soakKinds(), len(testLanes())
	made := 0
	two := func() {
		errs := make(chan error, 2)
		for i := made; i < made+2; i++ {
			k := kinds[i%len(kinds)]
			lane := (i + i/len(kinds)) % lanes // each kind in each lane, the two at a time in different ones
			go func() {
				err := g.soakStep(k, lane)
				if err != nil {
					err = fmt.Errorf("run %d, %s, in lane %d: %w", i, k.name, lane, err)
				}
				errs <- err
			}()
		}
		if err := errors.Join(<-errs, <-errs); err != nil {
			t.Fatal(err)
		}
		made += 2
	}
	// Counted between jobs: the sources of builds and the copies of programs are a job's until its end.
	between := func(count func() counts) counts {
		if err := g.job.Close(); err != nil {
			t.Fatal(err)
		}
		c := count()
		if g.job, err = g.box.OpenJob(t.Context()); err != nil {
			t.Fatal(err)
		}
		return c
	}
	// Every kind once before the first count, and in a soak in every lane: what is made once for ever is no growth.
	first := len(kinds)
	if n >= soakTrail {
		first *= 2
	}
	for made < first {
		two()
	}
	before, journalBefore := between(func() counts { return g.settled(nil, 0) }), journal()
	began := time.Now()
	trails := map[string][]int{} // of what is dying
	for ; made-first < n && time.Since(began) < limit; two() {
		if done := made - first; done%soakTrail == 0 && n >= soakTrail {
			c := between(g.count)
			for name, n := range c {
				if strings.HasPrefix(name, dying) {
					trails[name] = append(trails[name], n)
				}
			}
			t.Logf("SOAK after %d runs, with what was before: %s", done, c.since(before))
		}
	}
	done, took := made-first, time.Since(began)
	after := between(func() counts { return g.settled(before, done) })
	grew := after.above(before, done)
	for name, trail := range trails {
		if rises(trail) {
			grew = append(grew, fmt.Sprintf("%s goes on growing: every %d runs there were %v", name, soakTrail, trail))
		}
	}
	names := make([]string, 0, len(after))
	for name := range after {
		names = append(names, name)
	}
	slices.Sort(names)
	t.Logf("SOAK %d runs of %d kinds in %d lanes, %v each; journal before: %s; after: %s", done, len(kinds), lanes,
		(took / time.Duration(max(done, 1))).Round(time.Millisecond), journalBefore, journal())
	for _, name := range names {
		t.Logf("SOAK %-60s %5d %5d", name, before[name], after[name])
	}
	for _, one := range grew {
		t.Errorf("after %d runs %s", done, one)
	}
	if done < n {
		t.Errorf("only %d of %d runs were made in %v (%s)", done, n, limit, soakFor)
	}
}

// above lists what is more than before by more than so many runs allow.
func (c counts) above(before counts, runs int) []string {
	var grew []string
	for name, now := range c {
		if now > before[name]+allowance(name, runs) {
			grew = append(grew, fmt.Sprintf("%s grew from %d to %d", name, before[name], now))
		}
	}
	slices.Sort(grew)
	return grew
}

// settled counts until nothing is above what it was before or, without a before, until nothing gets less any more. The
// daemon, systemd and the kernel clean up after the last run, and the kernel frees a dead cgroup some seconds later.
func (g *guest) settled(before counts, runs int) counts {
	g.t.Helper()
	now, same := g.count(), 0
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end) && same < 4; {
		if before != nil && len(now.above(before, runs)) == 0 {
			break
		}
		time.Sleep(3 * time.Second)
		next := g.count()
		if before == nil && len(now.above(next, 0)) == 0 {
			same++
		} else {
			same = 0
		}
		now = next
	}
	return now
}
