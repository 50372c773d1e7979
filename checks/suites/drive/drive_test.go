package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalhost/evalhost/checks/guest"
)

// fakeGuest is a machine that does nothing but answer.
type fakeGuest struct {
	variant string
	ran     []string // the first two words of every command
	pushed  []string
	downs   int
	suite   func(ctx context.Context, c guest.Cmd) (guest.Result, error)
	compare string // what `look compare` prints
	look    error
	push    error
	down    error
	verify  guest.Result
}

func (g *fakeGuest) Emulated() bool { return true }

func (g *fakeGuest) Down() error { g.downs++; return g.down }

func (g *fakeGuest) Push(_ context.Context, dst string, _ ...string) error {
	g.pushed = append(g.pushed, dst)
	return g.push
}

func (g *fakeGuest) Exec(ctx context.Context, c guest.Cmd) (guest.Result, error) {
	g.ran = append(g.ran, path.Base(c.Args[0])+" "+c.Args[1])
	switch {
	case path.Base(c.Args[0]) == lookName && c.Args[1] == "compare":
		return guest.Result{Stdout: g.compare}, g.look
	case path.Base(c.Args[0]) == lookName:
		return guest.Result{}, g.look
	case path.Base(c.Args[0]) == "evalhost":
		return g.verify, nil
	}
	return g.suite(ctx, c)
}

const nothingLeft = `{"counts":[{"kind":"containers","before":1,"after":1},{"kind":"mounts","before":30,"after":29}],"left":[]}`

// prints answers a suite with what a test binary prints and how it ends.
func prints(text string, result guest.Result) func(context.Context, guest.Cmd) (guest.Result, error) {
	return func(_ context.Context, c guest.Cmd) (guest.Result, error) {
		_, err := io.WriteString(c.Stdout, text)
		return result, err
	}
}

const (
	passes = "\x16=== RUN   TestA\n\x16--- PASS: TestA (0.10s)\n\x16PASS\n"
	fails  = "\x16=== RUN   TestA\n    a_test.go:1: it broke\n\x16--- FAIL: TestA (0.10s)\n\x16FAIL\n"
	crash  = "\x16=== RUN   TestA\n\x16--- PASS: TestA (0.10s)\n\x16=== RUN   TestB\npanic: boom\n"
	skips  = "\x16=== RUN   TestA\n    a_test.go:1: no reason to run\n\x16--- SKIP: TestA (0.00s)\n\x16PASS\n"
)

// test2json is where the real one is: started by itself it needs milliseconds, and through the go command half a second.
var test2json = sync.OnceValue(func() string {
	said, err := exec.Command("go", "tool", "-n", "test2json").Output()
	words := strings.Fields(string(said))
	if err != nil || len(words) != 1 {
		panic(fmt.Sprintf("go tool -n test2json: %q, %v", said, err))
	}
	return words[0]
})

// faked is a drive whose guests, compilers and product are g and its friends.
func faked(g *fakeGuest) (*drive, *bytes.Buffer) {
	out := &bytes.Buffer{}
	d := newDrive(out)
	fine := func(context.Context) error { return nil }
	d.shop = shop{
		tools: fine, buildGuest: fine,
		converter: func(ctx context.Context, args ...string) *exec.Cmd {
			return exec.CommandContext(ctx, test2json(), args...)
		},
		binaries: func(context.Context, string) error { return nil },
		compile:  oneTestEach,
		up: func(_ context.Context, o guest.Options) (machine, error) {
			g.variant = o.Variant
			return g, nil
		},
		oneByOne: func() string { return "these guests are all one" },
		here:     func(context.Context, string, io.Writer, io.Writer, ...string) (int, error) { return unfit, nil },
	}
	return d, out
}

func TestARunOfTheSuitesPassesOnlyWhenEverythingDid(t *testing.T) {
	broken := errors.New("it is broken")
	for name, c := range map[string]struct {
		change func(*drive, *fakeGuest)
		line   string // the closing one
		says   string
		downs  int
	}{
		"everything passes": {func(*drive, *fakeGuest) {}, "1 passed, 0 failed, 0 skipped", "containers 1 (1), mounts 29 (30); 0 left behind", 1},
		"a test fails": {
			func(_ *drive, g *fakeGuest) { g.suite = prints(fails, guest.Result{Code: 1}) }, "0 passed, 1 failed, 0 skipped", "it broke", 1,
		},
		"a suite crashes": {
			func(_ *drive, g *fakeGuest) { g.suite = prints(crash, guest.Result{Code: 2}) }, "1 passed, 1 failed, 0 skipped", "boom", 1,
		},
		"a suite prints nothing": {
			func(_ *drive, g *fakeGuest) { g.suite = prints("", guest.Result{}) }, "0 passed, 1 failed, 0 skipped", "no test passed or failed", 1,
		},
		"a suite skips everything": {
			func(_ *drive, g *fakeGuest) { g.suite = prints(skips, guest.Result{}) }, "0 passed, 1 failed, 1 skipped", "no reason to run", 1,
		},
		"a suite passes every test and fails": {
			func(_ *drive, g *fakeGuest) { g.suite = prints(passes, guest.Result{Code: 3}) }, "1 passed, 1 failed, 0 skipped", "exit status 3", 1,
		},
		"a suite runs out of time": {
			func(_ *drive, g *fakeGuest) { g.suite = prints(passes, guest.Result{TimedOut: true, Code: -1}) },
			"1 passed, 1 failed, 0 skipped", "did not end within", 1,
		},
		"the guest dies in the middle": {
			func(_ *drive, g *fakeGuest) {
				g.suite = func(_ context.Context, c guest.Cmd) (guest.Result, error) {
					_, _ = io.WriteString(c.Stdout, passes)
					return guest.Result{}, broken
				}
			}, "1 passed, 1 failed, 0 skipped", "it is broken", 1,
		},
		"the guest cannot be had": {
			func(d *drive, _ *fakeGuest) {
				d.up = func(context.Context, guest.Options) (machine, error) { return nil, broken }
			}, "0 passed, 1 failed, 0 skipped", "FAILED bring up the systemd guest of judging: it is broken", 0,
		},
		"the guest cannot be built": {
			func(d *drive, _ *fakeGuest) { d.buildGuest = func(context.Context) error { return broken } },
			"0 passed, 1 failed, 0 skipped", "FAILED build the guest", 0,
		},
		"the compilers are missing": {
			func(d *drive, _ *fakeGuest) { d.tools = func(context.Context) error { return broken } },
			"0 passed, 1 failed, 0 skipped", "FAILED tools", 0,
		},
		"the product does not build": {
			func(d *drive, _ *fakeGuest) { d.binaries = func(context.Context, string) error { return broken } },
			"0 passed, 1 failed, 0 skipped", "FAILED build the binaries", 0,
		},
		"a suite does not build": {
			func(d *drive, _ *fakeGuest) {
				d.compile = func(context.Context, string, []suite) error { return broken }
			},
			"0 passed, 1 failed, 0 skipped", "FAILED build the suites", 0,
		},
		"nothing can be pushed": {
			func(_ *drive, g *fakeGuest) { g.push = broken }, "0 passed, 1 failed, 0 skipped", "FAILED push the suites", 1,
		},
		"the guest cannot be looked at": {
			func(_ *drive, g *fakeGuest) { g.look = broken }, "0 passed, 1 failed, 0 skipped", "FAILED look at the systemd guest of judging", 1,
		},
		"something is left": {
			func(_ *drive, g *fakeGuest) {
				g.compare = `{"counts":[{"kind":"mounts","before":3,"after":4}],"left":["mount / on /left"]}`
			},
			"1 passed, 1 failed, 0 skipped", "mounts 4 (3); 1 left behind", 1,
		},
		"nothing was counted": {
			func(_ *drive, g *fakeGuest) { g.compare = `{}` }, "1 passed, 1 failed, 0 skipped", "nothing was counted", 1,
		},
		"the count is no count": {
			func(_ *drive, g *fakeGuest) { g.compare = "" }, "1 passed, 1 failed, 0 skipped", "FAILED count what is left", 1,
		},
		"the guest does not go away": {
			func(_ *drive, g *fakeGuest) { g.down = broken }, "1 passed, 1 failed, 0 skipped", "FAILED take down the systemd guest of judging", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := &fakeGuest{suite: prints(passes, guest.Result{}), compare: nothingLeft}
			d, out := faked(g)
			c.change(d, g)
			d.guestSuites(t.Context(), []string{"systemd"}, []string{"judging"})
			code := d.close()
			if want := min(1, strings.Count(c.line, " 1 failed")); code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
			if !strings.HasSuffix(strings.TrimSpace(out.String()), c.line) || !strings.Contains(out.String(), c.says) || g.downs != c.downs {
				t.Errorf("want %q and %q, %d guests taken down; %d were:\n%s", c.line, c.says, c.downs, g.downs, out)
			}
			if c.downs > 0 && !slices.ContainsFunc(d.steps, func(s timed) bool { return s.name == "bring up the systemd guest of judging" }) {
				t.Errorf("the table of times has no bringing up: %v", d.steps)
			}
		})
	}
}

func TestASuiteThatFailsStopsNeitherTheOthersNorTheCount(t *testing.T) {
	g := &fakeGuest{compare: nothingLeft}
	g.suite = func(ctx context.Context, c guest.Cmd) (guest.Result, error) {
		if strings.HasSuffix(c.Args[0], "/shim.test") {
			return guest.Result{}, errors.New("gone")
		}
		return prints(passes, guest.Result{})(ctx, c)
	}
	d, out := faked(g)
	d.guestSuites(t.Context(), []string{"systemd", "docker20", "cgroupfs"}, nil)
	if d.close() != 1 {
		t.Error("it passed")
	}
	var ran []string
	for _, line := range g.ran {
		name, _, _ := strings.Cut(line, " ")
		ran = append(ran, strings.TrimSuffix(name, ".test"))
	}
	named, err := choose(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := oneTestEach(t.Context(), "", named); err != nil {
		t.Fatal(err)
	}
	var want []string
	guests := 0
	for _, s := range plan([]string{"systemd", "docker20", "cgroupfs"}, named) {
		want = append(want, lookName)
		for _, one := range s.suites {
			want = append(want, one.name)
		}
		want = append(want, lookName)
		guests++
	}
	if !slices.Equal(ran, want) {
		t.Errorf("ran %q, want %q\n%s", ran, want, out)
	}
	if guests < 4 || g.downs != guests {
		t.Errorf("of %d guests %d were taken down", guests, g.downs)
	}
}

// oneTestEach compiles nothing, and says that every suite has one test.
func oneTestEach(_ context.Context, _ string, wanted []suite) error {
	for i := range wanted {
		wanted[i].tests = []string{"TestTheOne"}
	}
	return nil
}

func TestOnlyWhatAVariantRunsIsPushed(t *testing.T) {
	g := &fakeGuest{suite: prints(passes, guest.Result{}), compare: nothingLeft}
	d, _ := faked(g)
	d.soak = true
	d.guestSuites(t.Context(), []string{"legacy"}, nil)
	for _, dst := range g.pushed {
		if strings.HasPrefix(dst, guestSuites) && dst != path.Join(guestSuites, "hosts.test") {
			t.Errorf("pushed %s", dst)
		}
	}
	if !slices.Contains(g.pushed, path.Join(guestSuites, "hosts.test")) || !slices.Contains(g.pushed, guestBin) {
		t.Errorf("pushed %q", g.pushed)
	}
}

func TestANameThatIsNoSuiteOrRunsNowhereFails(t *testing.T) {
	for _, c := range []struct{ variants, names []string }{
		{[]string{"systemd"}, []string{"nonsense"}},
		{[]string{"legacy"}, []string{"judging"}},
	} {
		g := &fakeGuest{}
		d, out := faked(g)
		d.guestSuites(t.Context(), c.variants, c.names)
		if d.close() != 1 || g.downs != 0 {
			t.Errorf("%v: %d guests, and it passes:\n%s", c, g.downs, out)
		}
	}
}

func TestASuiteIsGivenItsSettingsAndATime(t *testing.T) {
	var given guest.Cmd
	g := &fakeGuest{compare: nothingLeft}
	g.suite = func(ctx context.Context, c guest.Cmd) (guest.Result, error) {
		given = c
		return prints(passes, guest.Result{})(ctx, c)
	}
	d, _ := faked(g)
	d.compile = func(_ context.Context, _ string, wanted []suite) error {
		wanted[0].tests = []string{"TestA", "TestB"}
		return nil
	}
	d.guestSuites(t.Context(), []string{"cgroupfs"}, []string{"shim"})
	if given.Timeout <= d.suiteTime() || given.Timeout > d.suiteTime()+time.Minute {
		t.Errorf("it may take %v", given.Timeout)
	}
	for _, want := range []string{"-test.run=^(TestA|TestB)$", "EVALHOST_TEST_VARIANT=cgroupfs", "EVALHOST_BIN=/opt/evalhost/bin/evalhost", "EVALHOST_BUILD_WALL_FACTOR=8"} {
		if !slices.Contains(slices.Concat(given.Args, given.Env), want) {
			t.Errorf("no %q in %q %q", want, given.Args, given.Env)
		}
	}
}

// A soak that is out of time says how far it came and fails. It can do so only before its suite is ended: it once had three hours, and
// its suite two.
func TestASoakIsOutOfTimeBeforeItsSuiteIs(t *testing.T) {
	d, _ := faked(&fakeGuest{})
	d.soak = true
	for _, variant := range []string{"systemd", "cgroupfs"} {
		var bound string
		for _, setting := range d.repetition(variant) {
			if value, ok := strings.CutPrefix(setting, "EVALHOST_TEST_SOAK_FOR="); ok {
				bound = value
			}
		}
		if soak, err := time.ParseDuration(bound); err != nil || soak <= 0 || soak > d.suiteTime()-30*time.Minute {
			t.Errorf("%s: the soak may take %q (%v), and its suite %v", variant, bound, err, d.suiteTime())
		}
	}
}

func TestTheTimesOfABuildAreInTheTable(t *testing.T) {
	g := &fakeGuest{suite: prints(passes, guest.Result{}), compare: nothingLeft}
	d, out := faked(g)
	d.buildGuest = func(context.Context) error { d.part("disk", 9*time.Second); return nil }
	d.guestSuites(t.Context(), []string{"systemd"}, []string{"judging"})
	d.close()
	_, table, _ := strings.Cut(out.String(), "Where the time went")
	for _, want := range []string{
		"0s  build the guest\n        9s    of that: disk\n", "build the binaries", "build the suites", "bring up the systemd guest of judging", "push the suites into the systemd guest of judging",
		"suite judging on systemd", "count what is left in the systemd guest of judging", "take down the systemd guest of judging",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("the table has no line %q:\n%s", want, table)
		}
	}
}

func TestTheDemoEndsAsTheVerificationDoes(t *testing.T) {
	broken := errors.New("it is broken")
	answers := func(check, verify int, err error) func(context.Context, string, io.Writer, io.Writer, ...string) (int, error) {
		return func(_ context.Context, _ string, stdout, _ io.Writer, args ...string) (int, error) {
			fmt.Fprintf(stdout, "%s on this machine\n", args[0])
			if args[0] == "check" {
				return check, err
			}
			return verify, err
		}
	}
	for name, c := range map[string]struct {
		change func(*drive, *fakeGuest)
		code   int
		says   string
		guests int
	}{
		"in the guest, as labelled":        {func(*drive, *fakeGuest) {}, 0, "judging in the guest", 1},
		"in the guest, not as labelled":    {func(_ *drive, g *fakeGuest) { g.verify = guest.Result{Code: 1} }, 1, "did not go as labelled", 1},
		"in the guest, a failure":          {func(_ *drive, g *fakeGuest) { g.verify = guest.Result{Code: 3} }, 3, "status 3", 1},
		"in the guest, killed":             {func(_ *drive, g *fakeGuest) { g.verify = guest.Result{Code: -1, Signal: 9} }, 1, "signal 9", 1},
		"in the guest, out of time":        {func(_ *drive, g *fakeGuest) { g.verify = guest.Result{TimedOut: true} }, 1, "timed out", 1},
		"the guest stays up":               {func(_ *drive, g *fakeGuest) { g.down = broken }, 1, "it is broken", 1},
		"nothing can be pushed":            {func(_ *drive, g *fakeGuest) { g.push = broken }, 1, "it is broken", 1},
		"here, as labelled":                {func(d *drive, _ *fakeGuest) { d.here = answers(0, 0, nil) }, 0, "judging here", 0},
		"here, not as labelled":            {func(d *drive, _ *fakeGuest) { d.here = answers(0, 1, nil) }, 1, "did not go as labelled", 0},
		"the check is neither fit nor not": {func(d *drive, _ *fakeGuest) { d.here = answers(3, 0, nil) }, 1, "ended with status 3", 0},
		"the check cannot be run":          {func(d *drive, _ *fakeGuest) { d.here = answers(0, 0, broken) }, 1, "it is broken", 0},
		"the product does not build":       {func(d *drive, _ *fakeGuest) { d.binaries = func(context.Context, string) error { return broken } }, 1, "it is broken", 0},
		"the guest cannot be built":        {func(d *drive, _ *fakeGuest) { d.buildGuest = func(context.Context) error { return broken } }, 1, "it is broken", 0},
		"the guest cannot be had": {func(d *drive, _ *fakeGuest) {
			d.up = func(context.Context, guest.Options) (machine, error) { return nil, broken }
		}, 1, "it is broken", 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := &fakeGuest{}
			d, out := faked(g)
			c.change(d, g)
			if code := d.demo(t.Context()); code != c.code || !strings.Contains(out.String(), c.says) || g.downs != c.guests {
				t.Errorf("code %d, want %d; %d guests, want %d; it should say %q:\n%s", code, c.code, g.downs, c.guests, c.says, out)
			}
			if !strings.Contains(out.String(), "Where the time went") {
				t.Error("it does not say where the time went")
			}
		})
	}
}

func TestEverySuiteIsOnVariantsThatThereAre(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range suites {
		if seen[s.name] || len(s.on) == 0 {
			t.Errorf("suite %q is there twice or runs nowhere", s.name)
		}
		seen[s.name] = true
		for _, variant := range s.on {
			if _, err := guest.FindVariant(variant); err != nil {
				t.Error(err)
			}
		}
	}
	booted := slices.Concat(testVariants, soakVariants)
	for _, variant := range booted {
		if _, err := guest.FindVariant(variant); err != nil {
			t.Error(err)
		}
	}
	// A host that no target boots is one that nobody looks at: hybrid was, while its documented command failed.
	for _, variant := range guest.VariantNames() {
		if !slices.Contains(booted, variant) {
			t.Errorf("neither test nor soak boots the host %s", variant)
		}
	}
}

func TestWrongUseIsStatusTwo(t *testing.T) {
	for _, args := range [][]string{nil, {"nonsense"}} {
		if code := run(t.Context(), args, io.Discard); code != 2 {
			t.Errorf("%q: %d", args, code)
		}
	}
}

func TestATestThatTakesMoreThanAnHourSaysSoLoudly(t *testing.T) {
	t.Setenv(nixTrees, "")
	for _, c := range []struct {
		args []string
		took time.Duration
		slow bool
	}{
		{[]string{"test", "judging"}, 61 * time.Minute, true},
		{[]string{"test", "judging"}, 59 * time.Minute, false},
		{[]string{"suites", "judging"}, 61 * time.Minute, false}, // may be told to do as much as it likes
	} {
		d, out := faked(&fakeGuest{suite: prints(passes, guest.Result{}), compare: nothingLeft})
		d.began = time.Now().Add(-c.took)
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // neither linters nor tests are started
		if code := d.run(ctx, c.args); code != 1 {
			t.Errorf("%v: status %d", c, code)
		}
		slow := strings.Contains(out.String(), "\nSLOW: this took 1h1m") && strings.Contains(out.String(), "should take 1h0m0s at most")
		if slow != c.slow || strings.Contains(out.String(), "SLOW") != c.slow {
			t.Errorf("%v: it says\n%s", c, out)
		}
		if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); !strings.HasSuffix(lines[len(lines)-1], " skipped") {
			t.Errorf("%v: the closing line is %q", c, lines[len(lines)-1])
		}
	}
}

func TestARunThatIsStoppedSaysWhatStoppedItAndFails(t *testing.T) {
	d, out := faked(&fakeGuest{})
	ctx, cancel := context.WithCancelCause(t.Context())
	d.endedEarly(ctx)
	if out.Len() > 0 || len(d.broken) > 0 {
		t.Errorf("nothing stopped it, and it says %s %v", out, d.broken)
	}
	cancel(errors.New("terminated signal received"))
	d.endedEarly(ctx)
	if code := d.close(); code == 0 || !strings.Contains(out.String(), "ended before it was done: terminated signal received") {
		t.Errorf("status %d and %s", code, out)
	}
}
