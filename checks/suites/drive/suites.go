package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/evalhost/evalhost/checks/guest"
)

// Where things are put inside the guest. Nothing here is under /run or /tmp: what a container mounts must allow execution.
const (
	guestBin      = "/opt/evalhost/bin"
	guestSuites   = "/opt/evalhost/suites"
	guestPrograms = "/opt/evalhost/programs"
	guestExamples = "/opt/evalhost/examples"
)

// buildWallFactor is how many times longer an emulated machine may take over a build before the wall clock ends it.
const buildWallFactor = "8"

// guestEnv is the configuration of an emulated guest: its compilers are slow, and only their wall clock is stretched.
func guestEnv(g machine) []string {
	if g.Emulated() {
		return []string{"EVALHOST_BUILD_WALL_FACTOR=" + buildWallFactor}
	}
	return nil
}

// suite is a package whose tests carry the build tag "guest". Its programs under testdata/programs are compiled
// here, statically, and pushed.
type suite struct {
	name string
	pkg  string // directory in the tree
	// on lists the variants it runs on.
	on []string
	// half says with which others it shares a guest: two halves of the suites of a variant may run beside each other.
	half int
	// tests are the names of those that only the build tag brings; the others ran without a guest already.
	tests []string
}

// testVariants are the hosts that every suite is run on, as far as it says so: two that judge, and three that are broken and must
// refuse to.
var testVariants = []string{"systemd", "cgroupfs", "legacy", "unconfined", "nopids"}

// suites in the order in which they run.
var suites = []suite{
	{"hosts", "checks/suites/hosts", []string{"systemd", "cgroupfs", "legacy", "hybrid", "unconfined", "nopids", "docker20"}, 0, nil},
	{"shim", "shim", []string{"systemd", "cgroupfs"}, 0, nil},
	{"sandbox", "services/internal/sandbox", []string{"systemd", "cgroupfs", "docker20"}, 0, nil},
	{"judge", "services/internal/judge", []string{"systemd"}, 1, nil},
	{"judging", "checks/suites/judging", []string{"systemd"}, 1, nil},
	{"adversarial", "checks/suites/adversarial", []string{"systemd", "cgroupfs"}, 0, nil},
	{"protocol", "services/runner/suite", []string{"systemd"}, 1, nil},
}

// guestSuites builds everything, brings up one guest a variant and runs every suite in it. names restricts the suites.
func (d *drive) guestSuites(ctx context.Context, variants, names []string) {
	wanted, err := choose(names)
	if err != nil {
		d.step("suites", func() error { return err })
		return
	}
	if !d.step("tools", func() error { return d.tools(ctx) }) {
		return
	}
	dir, err := os.MkdirTemp("", "evalhost-suites-")
	if err != nil {
		d.step("suites", func() error { return err })
		return
	}
	defer os.RemoveAll(dir)
	if !d.step("build the binaries", func() error { return d.binaries(ctx, filepath.Join(dir, "bin")) }) {
		return
	}
	if !d.step("build the suites", func() error { return d.compile(ctx, dir, wanted) }) {
		return
	}
	if !d.step("build the guest", func() error { return d.buildGuest(ctx) }) {
		return
	}
	stays := plan(variants, wanted)
	d.twoAtATime(stays, func(s stay) { d.stayIn(ctx, s, dir) })
	if len(stays) == 0 {
		d.step("suites", func() error { return fmt.Errorf("none of %q runs on any of %q", names, variants) })
	}
}

// choose finds suites by name; without a name, all of them.
func choose(names []string) ([]suite, error) {
	var wanted []suite
	for _, s := range suites {
		if len(names) == 0 || slices.Contains(names, s.name) {
			wanted = append(wanted, s)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(suites, func(s suite) bool { return s.name == name }) {
			return nil, fmt.Errorf("there is no suite %q", name)
		}
	}
	return wanted, nil
}

// stayIn runs suites in a pristine guest, which is gone afterwards whatever happened. What is on the host after all of them is
// counted here, by somebody who had no part in any of them.
func (d *drive) stayIn(ctx context.Context, s stay, dir string) {
	var g machine
	defer func() {
		if g != nil {
			d.step("take down the "+s.name(), g.Down)
		}
	}()
	if !d.step("bring up the "+s.name(), func() (err error) {
		g, err = d.up(ctx, guest.Options{Name: fmt.Sprintf("suites-%d-%d", os.Getpid(), s.number), Variant: s.variant, Processors: s.processors, Log: d.out})
		return err
	}) {
		return
	}
	if !d.step("push the suites into the "+s.name(), func() error { return pushSuites(ctx, g, dir, s.suites) }) {
		return
	}
	if !d.step("look at the "+s.name(), func() error { return takeLook(ctx, g) }) {
		return
	}
	for _, one := range s.suites {
		d.step("suite "+s.title(one), func() error { return d.runSuite(ctx, g, one, s) })
	}
	d.step("count what is left in the "+s.name(), func() error { return d.countLeft(ctx, g, s.name()) })
}

// runSuite runs one pushed test binary and tallies what it prints.
func (d *drive) runSuite(ctx context.Context, g machine, s suite, where stay) error {
	began := time.Now()
	// test2json keeps the time of each event, so the conversion runs here, on the stream as it arrives.
	convert := d.converter(ctx, "-t", "-p", path.Join("guest", s.pkg))
	in, err := convert.StdinPipe()
	if err != nil {
		return err
	}
	events, err := convert.StdoutPipe()
	if err != nil {
		return err
	}
	convert.Stderr = d.out
	if err := convert.Start(); err != nil {
		return fmt.Errorf("start test2json: %w", err)
	}
	t := d.tally(where.title(s))
	read := make(chan error, 1)
	go func() { read <- t.read(events, d.out) }()
	result, execErr := g.Exec(ctx, guest.Cmd{
		Args: []string{
			path.Join(guestSuites, s.name+".test"), "-test.v=test2json", "-test.timeout=" + d.suiteTime().String(),
			"-test.run=^(" + strings.Join(s.tests, "|") + ")$",
		},
		Dir: guestSuites,
		Env: append(append(guestEnv(g), d.repetition(where.variant)...),
			"EVALHOST_BIN="+path.Join(guestBin, "evalhost"),
			"EVALHOST_TEST_RUNNER="+path.Join(guestBin, "evalhost-runner"),
			"EVALHOST_TEST_SHIM="+path.Join(guestBin, "aj-shim"),
			"EVALHOST_TEST_PROGRAMS="+path.Join(guestPrograms, s.name),
			"EVALHOST_TEST_EXAMPLES="+guestExamples,
			"EVALHOST_TEST_VARIANT="+where.variant,
			"EVALHOST_TEST_EVERYTHING="+d.everything,
		),
		Stdout:  in,
		Stderr:  d.out,
		Timeout: d.suiteTime() + time.Minute,
	})
	errs := []error{execErr, in.Close(), <-read, convert.Wait()}
	t.took = time.Since(began)
	if execErr == nil && result.TimedOut {
		errs = append(errs, fmt.Errorf("the suite did not end within %v", d.suiteTime()+time.Minute))
	} else if execErr == nil && !result.OK() && t.failed == 0 {
		errs = append(errs, fmt.Errorf("the suite ended with %s and named no failed test", result))
	}
	return errors.Join(errs...)
}

// soakFor is how long a soak may go on making runs. It is in the middle of a suite, so a suite is given more.
const soakFor = 4 * time.Hour

// suiteTime bounds one suite on one variant: the test binary ends itself, and says where it was, a minute before it is ended.
func (d *drive) suiteTime() time.Duration {
	if d.soak {
		return soakFor + time.Hour
	}
	return 40 * time.Minute
}

// repetition says how often the suites repeat what is worth repeating. A soak makes 500 runs in a row on each driver and
// kills ten owners; a test shows the same with few.
func (d *drive) repetition(variant string) []string {
	switch {
	case !d.soak:
		return []string{"EVALHOST_TEST_KILLS=3"}
	case slices.Contains(testVariants, variant):
		return []string{"EVALHOST_TEST_KILLS=10", "EVALHOST_TEST_SOAK=500", "EVALHOST_TEST_SOAK_FOR=" + soakFor.String()}
	}
	return nil
}

// compileSuites builds the suites' test binaries and the programs under attack.
func (d *drive) compileSuites(ctx context.Context, dir string, wanted []suite) error {
	var errs []error
	for i, s := range wanted {
		var err error
		if wanted[i].tests, err = taggedTests(s); err != nil {
			errs = append(errs, err)
			continue
		}
		if wanted[i].tests = d.restricted(wanted[i].tests); len(wanted[i].tests) == 0 {
			continue
		}
		out := filepath.Join(dir, "suites", s.name+".test")
		errs = append(errs, d.command(ctx, []string{"CGO_ENABLED=0"}, "go", "test", "-c", "-trimpath", "-ldflags", "-s -w", "-tags", "guest", "-o", out, "./"+s.pkg))
		programs := filepath.Join(dir, "programs", s.name)
		if err := os.MkdirAll(programs, 0o755); err != nil {
			return err
		}
		for ending, compiler := range map[string]string{".c": "gcc", ".cpp": "g++"} {
			sources, err := filepath.Glob(filepath.Join(s.pkg, "testdata", "programs", "*"+ending))
			if err != nil {
				return err
			}
			for _, src := range sources {
				program := filepath.Join(programs, strings.TrimSuffix(filepath.Base(src), ending))
				errs = append(errs, d.command(ctx, nil, compiler, "-O2", "-static", "-pthread", "-o", program, src))
			}
		}
	}
	return errors.Join(errs...)
}

// restricted leaves the tests that were asked for.
func (d *drive) restricted(tests []string) []string {
	if d.only == nil {
		return tests
	}
	return slices.DeleteFunc(tests, func(test string) bool { return !d.only.MatchString(test) })
}

// pushSuites puts binaries, examples, and the wanted suites with their programs into the guest.
func pushSuites(ctx context.Context, g machine, dir string, wanted []suite) error {
	if err := errors.Join(g.Push(ctx, guestBin, filepath.Join(dir, "bin")), g.Push(ctx, guestExamples, "examples")); err != nil {
		return err
	}
	for _, s := range wanted {
		binary := filepath.Join(dir, "suites", s.name+".test")
		if err := g.Push(ctx, path.Join(guestSuites, s.name+".test"), binary); err != nil {
			return err
		}
		if err := g.Push(ctx, path.Join(guestPrograms, s.name), filepath.Join(dir, "programs", s.name)); err != nil {
			return err
		}
	}
	return nil
}
