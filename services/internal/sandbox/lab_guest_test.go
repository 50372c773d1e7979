//go:build guest

package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/sandbox/hoststate"
	"github.com/evalhost/evalhost/services/internal/verdict"
	"github.com/evalhost/evalhost/shim/wire/nonce"
)

// The guest suite runs real containers on a real host, as root. What it needs is told in the environment:
//
//	EVALHOST_TEST_PROGRAMS      the directory of the built test programs, testdata/programs/*.c without the ending
//	EVALHOST_TEST_SHIM          the built shim
//	EVALHOST_BUILD_WALL_FACTOR  how much longer builds may take here; 1 by default
//	EVALHOST_TEST_SCRATCH       where scratch goes; /var/lib/evalhost-test by default
//
// Built with the tag "guest" the test binary holds this suite alone; without it, the tests that need no host.
//
// Nothing here asserts how fast anything is. Every test ends with a comparison of the host with what it was before.
const (
	langImage    = "evalhost/lang-gcc:local"
	testImage    = "evalhost/test-busybox:local"
	hostileImage = "evalhost/test-hostile:local"
	wilfulImage  = "evalhost/test-wilful:local"
)

// guest is one Sandbox over the real daemon.
type guest struct {
	t   *testing.T
	eng *engine.Client
	box *Sandbox
	job *Job
	log *bytes.Buffer
	// restarted names the host's own services that a test restarts, whose processes are others afterwards.
	restarted []string
}

// patience is how long the host is given to be what it was.
const patience = 40 * time.Second

func told(variable, otherwise string) string {
	if d := os.Getenv(variable); d != "" {
		return d
	}
	return otherwise
}

func programs() string { return told("EVALHOST_TEST_PROGRAMS", "/usr/local/lib/evalhost-test") }
func shimFile() string { return told("EVALHOST_TEST_SHIM", filepath.Join(programs(), "aj-shim")) }
func scratch() string  { return told("EVALHOST_TEST_SCRATCH", "/var/lib/evalhost-test") }

func wallFactor(t *testing.T) float64 {
	t.Helper()
	factor, err := strconv.ParseFloat(told("EVALHOST_BUILD_WALL_FACTOR", "1"), 64)
	if err != nil {
		t.Fatal(err)
	}
	return factor
}

// onAHost opens a Sandbox of an instance of its own and checks at the end that the host is what it was.
func onAHost(t *testing.T, change ...func(*Config)) *guest {
	t.Helper()
	g := &guest{t: t, log: &bytes.Buffer{}}
	var err error
	if g.eng, err = engine.Connect(t.Context(), engine.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(scratch(), 0o755); err != nil {
		t.Fatal(err)
	}
	before, err := hoststate.Take(t.Context(), g.eng, scratch(), DefaultLocks)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Instance: "guest-" + nonce.New()[:8], Scratch: scratch(), Shim: shimFile(), Lanes: testLanes(),
		BuildWallFactor: wallFactor(t), Log: slog.New(slog.NewTextHandler(g.log, nil)),
	}
	for _, c := range change {
		c(&cfg)
	}
	began := time.Now()
	if g.box, err = Open(t.Context(), g.eng, cfg); err != nil {
		t.Fatal(err)
	}
	if g.job, err = g.box.OpenJob(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("opened in %v", time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() {
		if err := g.job.Close(); err != nil {
			t.Error(err)
		}
		if n, err := g.box.Sweep(context.Background()); n != 0 || err != nil {
			t.Errorf("a sweep at the end finds %d, %v; want nothing", n, err)
		}
		if err := g.box.Close(context.Background()); err != nil {
			t.Error(err)
		}
		changed, err := hoststate.Settled(context.Background(), g.eng, before, patience, scratch(), DefaultLocks)
		if err != nil {
			t.Error(err)
		}
		for _, c := range changed {
			if name := c[strings.LastIndexByte(c, ' ')+1:]; strings.HasPrefix(c, "left behind: process ") && slices.Contains(g.restarted, name) {
				continue
			}
			t.Errorf("the host is not what it was: %s", c)
		}
		g.eng.Close()
		if g.log.Len() > 0 {
			t.Logf("the log:\n%s", g.log)
		}
	})
	return g
}

// actor describes a run of the test program into a sink that keeps everything.
func (g *guest) actor(words ...string) Run {
	g.t.Helper()
	p, err := ProgramAt(filepath.Join(programs(), "actor"))
	if err != nil {
		g.t.Fatal(err)
	}
	return Run{
		Image: testImage, Command: append([]string{"/program/actor"}, words...), Program: p, Test: "1a",
		Input: strings.NewReader("the input\n"), Limits: Limits{Time: 10 * time.Second, Memory: 64 * verdict.MiB}, Output: &sink{},
	}
}

// run judges one run and logs what it cost.
func (g *guest) run(r Run) (RunOutcome, error) {
	g.t.Helper()
	began := time.Now()
	p, err := g.job.Prepare(g.t.Context(), r)
	if err != nil {
		return RunOutcome{}, err
	}
	prepared := time.Now()
	o, err := p.Go(g.t.Context())
	went := time.Now()
	if e := p.Close(); e != nil {
		g.t.Error(e)
	}
	g.t.Logf("%v: prepare %v, go %v, close %v: %s", r.Command[1:], prepared.Sub(began).Round(time.Millisecond),
		went.Sub(prepared).Round(time.Millisecond), time.Since(went).Round(time.Millisecond), shown(o.Outcome))
	return o, err
}

// mustRun is run without a failure of the machinery.
func (g *guest) mustRun(r Run) RunOutcome {
	g.t.Helper()
	o, err := g.run(r)
	if err != nil {
		g.t.Fatalf("%v: %v", r.Command, err)
	}
	return o
}

func shown(o Outcome) string {
	text := func(d *time.Duration) string {
		if d == nil {
			return "none"
		}
		return d.String()
	}
	peak := "none"
	if o.Peak != nil {
		peak = o.Peak.String()
	}
	return fmt.Sprintf("%v, exit %d, charged %s (report %s, home %s), peak %s, wall %v, capped %v", o.Stop, o.ExitCode, text(o.CPU),
		text(o.Report), text(o.Home), peak, o.Wall.Round(time.Millisecond), o.Capped)
}

// output is what a run's sink kept.
func output(r Run) string {
	s := r.Output.(*sink)
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.got)
}

// onOneDriver leaves a test to a soak on every driver but one, and says why: what is long and comes to the same whoever makes
// the homes need not be seen twice on every day.
func onOneDriver(t *testing.T, why string) {
	t.Helper()
	if v := told("EVALHOST_TEST_VARIANT", "systemd"); v != "systemd" && os.Getenv("EVALHOST_TEST_EVERYTHING") == "" {
		t.Skipf("NOT RUN on %s, because %s; make test shows it on the systemd driver, make soak on every host", v, why)
	}
}

// testLanes are two where the host has two processors, and one otherwise. Tests that need two have Lane in their names, which brings
// them to a host with two.
func testLanes() (lanes []Lane) {
	for _, cpuset := range hoststate.Cpusets() {
		lanes = append(lanes, Lane{Cpuset: cpuset})
	}
	return lanes
}
