//go:build guest

package sandbox

import (
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

// EVALHOST_TEST_SOAK is how many runs the soak makes, EVALHOST_TEST_SOAK_FOR how long it goes on at most.
const (
	soakRuns    = "EVALHOST_TEST_SOAK"
	soakFor     = "EVALHOST_TEST_SOAK_FOR"
	soakDefault = "6" // every kind of run twice; make soak asks for 500
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

// Nothing of a host and of the process that judges grows with the number of runs.
func TestNothingGrowsWithTheNumberOfRuns(t *testing.T) {
	n, err := strconv.Atoi(told(soakRuns, soakDefault))
	if err != nil {
		t.Fatal(err)
	}
	limit, err := time.ParseDuration(told(soakFor, "3h"))
	if err != nil {
		t.Fatal(err)
	}
	g := onAHost(t)
	kinds := []func() Run{
		func() Run { return g.actor("copy") },
		func() Run { return g.actor("exit", "3") },
		func() Run {
			r := g.actor("touch", "64")
			r.Limits.Memory = 16 * verdict.MiB
			return r
		},
	}
	// Every kind once before the first count: what is made once for ever is no growth.
	round := func(i int) error {
		r := kinds[i%len(kinds)]()
		r.Lane = i % len(testLanes())
		p, err := g.job.Prepare(t.Context(), r)
		if err != nil {
			return err
		}
		o, err := p.Go(t.Context())
		if err == nil && o.Stop != OnItsOwn && o.Stop != Memory {
			err = fmt.Errorf("run %d: %s", i, shown(o.Outcome))
		}
		if e := p.Close(); err == nil {
			err = e
		}
		return err
	}
	two := func(i int) {
		errs := make(chan error, 2)
		for k := range 2 {
			go func() { errs <- round(2*i + k) }()
		}
		for range 2 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range len(kinds) {
		two(i)
	}
	before, journalBefore := g.settled(nil, 0), journal()
	began := time.Now()
	done := 0
	trails := map[string][]int{} // of what is dying
	for ; done < n && time.Since(began) < limit; done += 2 {
		if done%soakTrail == 0 && n >= soakTrail {
			c := g.count()
			for name, n := range c {
				if strings.HasPrefix(name, dying) {
					trails[name] = append(trails[name], n)
				}
			}
			t.Logf("SOAK after %d runs, with what was before: %s", done, c.since(before))
		}
		two(done / 2)
	}
	took := time.Since(began)
	after := g.settled(before, done)
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
	t.Logf("SOAK %d runs in two lanes, %v each; journal before: %s; after: %s", done, (took / time.Duration(max(done, 1))).Round(time.Millisecond), journalBefore, journal())
	for _, name := range names {
		t.Logf("SOAK %-60s %5d %5d", name, before[name], after[name])
	}
	for _, one := range grew {
		t.Errorf("after %d runs %s", done, one)
	}
	if done < n {
		t.Logf("SOAK stopped by %s=%v after %d of %d runs", soakFor, limit, done, n)
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
