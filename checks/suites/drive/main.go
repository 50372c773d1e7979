// Command drive runs the project's checks and closes with one line that counts them.
//
//	drive lint     formatting, go vet, staticcheck
//	drive quick    lint and the tests that need no guest and no second build of the programs, with the race detector
//	drive test     quick and those builds, then every suite in the guest, on hosts that judge and on broken ones, two guests at a time
//	drive suites   only the suites in the guest; [--on VARIANT,VARIANT] [--run EXPRESSION] [--soak] [SUITE...] picks some
//	drive soak     every fuzz target for a minute, every suite on every kind of host that it is for, then the mutants
//	drive mutants  every control switched off in turn, and the test that notices; "unit" or "guest" for half of it, then names of controls
//	drive bench    what a judged run costs outside the judged program
//	drive demo-server  a reference server and a Runner in the guest, three submissions
//	drive demo     judges every labelled solution of the examples sum and squares and compares the verdicts with their labels
//
// It is started by the Makefile in the root of the tree.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

// run carries out one command. Exit codes: 0 all passed, 1 something failed, 2 wrong usage.
func run(ctx context.Context, args []string, w io.Writer) int {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: drive lint|quick|test|suites|soak|mutants|bench|demo|demo-server")
		return 2
	}
	return newDrive(w).run(ctx, args)
}

// run carries out one command, which is named.
func (d *drive) run(ctx context.Context, args []string) int {
	if args[0] != "soak" && !(args[0] == "suites" && slices.Contains(args, "--soak")) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, atMost, fmt.Errorf("this took longer than %s", atMost))
		defer cancel()
	}
	switch args[0] {
	case "lint":
		d.step("lint", func() error { return d.lint(ctx, nil) })
	case "quick":
		d.quick(ctx, true)
	case "test":
		d.goal = testGoal
		d.test(ctx, args[1:])
	case "suites":
		flags := flag.NewFlagSet("drive suites", flag.ContinueOnError)
		on := flags.String("on", strings.Join(testVariants, ","), "the `variants` to run on")
		only := flags.String("run", "", "the tests whose names match this `expression`")
		long := flags.Bool("soak", false, "everything and as often as in a soak")
		if err := flags.Parse(args[1:]); err != nil {
			return 2
		}
		var err error
		if d.only, err = regexp.Compile(*only); err != nil {
			fmt.Fprintln(os.Stderr, "drive suites: --run:", err)
			return 2
		}
		if d.soak = *long; d.soak {
			d.everything = "1"
		}
		d.guestSuites(ctx, strings.Split(*on, ","), flags.Args())
	case "soak":
		d.everything, d.soak = "1", true
		d.step("fuzz", func() error { return d.fuzz(ctx) })
		d.step("guest, every variant", func() error {
			return d.tests(ctx, "guest", "env", "EVALHOST_GUEST_TESTS=1", "go", "test", "-json", "-count=1", "-timeout", "40m", "-run", "Live", "./checks/guest")
		})
		d.step("1,000 jobs through one Runner", func() error {
			return d.tests(ctx, "many jobs", "env", "EVALHOST_SOAK_JOBS=1000", "go", "test", "-json", "-count=1", "-timeout", "20m", "-v", "-run", "ManyJobs",
				"./services/internal/runner")
		})
		d.guestSuites(ctx, slices.Concat(testVariants, soakVariants), args[1:])
		d.mutants(ctx, "", nil)
	case "mutants":
		where, names := "", args[1:]
		if len(names) > 0 && (names[0] == "unit" || names[0] == "guest") {
			where, names = names[0], names[1:]
		}
		d.mutants(ctx, where, names)
	case "bench":
		d.bench(ctx)
	case "demo":
		code := d.demo(ctx)
		d.endedEarly(ctx)
		return code
	case "demo-server":
		code := d.demoServer(ctx)
		d.endedEarly(ctx)
		return code
	default:
		fmt.Fprintf(os.Stderr, "drive: no command %q; there are lint, quick, test, suites, soak, mutants, bench, demo, demo-server\n", args[0])
		return 2
	}
	d.endedEarly(ctx)
	return d.close()
}

// endedEarly says why everything was ended before it was done, where it was: steps know of it as "context canceled" only.
func (d *drive) endedEarly(ctx context.Context) {
	if ctx.Err() != nil {
		why := fmt.Sprintf("ended before it was done: %v", context.Cause(ctx))
		fmt.Fprintln(d.out, "\nFAILED", why)
		d.broken = append(d.broken, why)
	}
}

// testGoal is what a whole test may take on two processors under emulation. One that takes longer passes, and says so loudly.
const testGoal = time.Hour

// atMost bounds everything but a soak, and suites that are run as in one. It is far above testGoal, and below what a machine that runs this by itself allows.
const atMost = 86 * time.Minute

// drive collects what was run. A step that could not be carried out counts as one failure.
type drive struct {
	shop
	out    io.Writer
	hunted []mutation // the controls that are switched off
	soak   bool       // suites repeat what they only try a few times in a test
	// only are the tests of suites that are run; nil for all.
	only  *regexp.Regexp
	began time.Time
	// goal is how long the whole should take at most; 0 for no such goal.
	goal time.Duration

	mu      sync.Mutex // over what follows: guests are up side by side
	tallies []*tally
	steps   []timed
	broken  []string // steps that could not be carried out

	// everything is not empty when a suite shall run all it has on every variant, and not only what depends on it.
	everything string
}

func newDrive(w io.Writer) *drive {
	d := &drive{out: &inTurn{w: w}, began: time.Now()}
	d.shop = d.real()
	return d
}

// inTurn lets several programs and goroutines write to one writer.
type inTurn struct {
	mu sync.Mutex
	w  io.Writer
}

func (t *inTurn) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.Write(p)
}

// step runs one named part of the work and takes its time.
func (d *drive) step(name string, f func() error) bool {
	began := time.Now()
	fmt.Fprintf(d.out, "== %s\n", name)
	d.mu.Lock()
	at := len(d.steps) // its parts come after it
	d.steps = append(d.steps, timed{name: name})
	d.mu.Unlock()
	err := f()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps[at].took = time.Since(began)
	if err != nil {
		fmt.Fprintf(d.out, "FAILED %s: %v\n", name, err)
		d.broken = append(d.broken, fmt.Sprintf("%s: %v", name, err))
		return false
	}
	return true
}

// tally begins the tally of one suite.
func (d *drive) tally(name string) *tally {
	t := newTally(name)
	t.aloud = d.soak
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tallies = append(d.tallies, t)
	return t
}

// part notes the time of something inside the step that is being carried out.
func (d *drive) part(name string, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps = append(d.steps, timed{"  of that: " + name, took})
}

// times prints where the time went.
func (d *drive) times() {
	fmt.Fprintf(d.out, "\nWhere the time went (%s in all)\n", time.Since(d.began).Round(time.Second))
	for _, s := range d.steps {
		fmt.Fprintf(d.out, "  %8s  %s\n", s.took.Round(100*time.Millisecond), s.name)
	}
}

// close prints where the time went, what each suite counted, and the closing line. It returns the exit code.
func (d *drive) close() int {
	d.times()
	fmt.Fprintln(d.out)
	var passed, failed, skipped int
	for _, t := range d.tallies {
		t.summary(d.out)
		passed, failed, skipped = passed+t.passed, failed+t.failed, skipped+t.skipped
	}
	for _, b := range d.broken {
		fmt.Fprintf(d.out, "FAILED  %s\n", b)
	}
	failed += len(d.broken)
	if took := time.Since(d.began); d.goal > 0 && took > d.goal {
		fmt.Fprintf(d.out, "SLOW: this took %s, and should take %s at most: see above where the time went, and move what repeats or waits to make soak\n",
			took.Round(time.Second), d.goal)
	}
	fmt.Fprintf(d.out, "\n%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if failed > 0 {
		return 1
	}
	return 0
}

// command runs a program with its output shown, ended with its whole process group when ctx ends.
func (d *drive) command(ctx context.Context, env []string, name string, args ...string) error {
	cmd := d.prepare(ctx, env, name, args...)
	cmd.Stdout, cmd.Stderr = d.out, d.out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", cmd, err)
	}
	return nil
}

func (d *drive) prepare(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}
