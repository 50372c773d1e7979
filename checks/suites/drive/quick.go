package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// lintModule pins the linters outside the product's own module, so that they never become its dependencies.
const lintModule = "-modfile=checks/lint/go.mod"

// quick is lint and what needs no guest. The race detector needs a C compiler.
func (d *drive) quick(ctx context.Context, short bool) {
	d.step("tools", func() error { return d.tools(ctx) })
	d.step("lint", func() error { return d.lint(ctx, nil) })
	d.step("unit tests", func() error { return d.unit(ctx, short) })
}

// aside is put before a command that shall take no processor's time but what nobody else wants.
var aside = []string{"chrt", "--idle", "0"}

// test is what quick does, and then the suites. Guests that wait leave a fifth of two processors idle, and nothing after lint needs what it says: so it runs
// beside them.
func (d *drive) test(ctx context.Context, names []string) {
	d.step("tools", func() error { return d.tools(ctx) })
	d.step("unit tests", func() error { return d.unit(ctx, false) })
	d.step("flake", func() error { return d.evaluation(ctx) })
	var beside sync.WaitGroup
	beside.Go(func() { d.step("lint, beside the guests", func() error { return d.lint(ctx, aside) }) })
	defer beside.Wait()
	d.guestSuites(ctx, testVariants, names)
}

// lint checks formatting and runs the analysers over every build of the tree: the release, the guest suites, and what can be
// switched off. The last differs from the release in a few packages, and only those are looked at once more. The words of before are put
// before each analyser's command.
func (d *drive) lint(ctx context.Context, before []string) error {
	files, err := d.output(ctx, "git", "ls-files", "--cached", "--others", "--exclude-standard", "*.go")
	if err != nil {
		return err
	}
	present := files[:0:0]
	for _, f := range files {
		if _, err := os.Stat(f); err == nil { // a file deleted but not yet committed is still listed
			present = append(present, f)
		}
	}
	var errs []error
	unformatted, err := d.output(ctx, "go", append([]string{"tool", lintModule, "gofumpt", "-l"}, present...)...)
	if err != nil {
		errs = append(errs, err)
	}
	if len(unformatted) > 0 {
		errs = append(errs, fmt.Errorf("not gofumpt'ed (make fmt mends it): %s", strings.Join(unformatted, " ")))
	}
	switchable, err := behindTag(present, "mutants")
	if err != nil {
		errs = append(errs, err)
	}
	for _, build := range []struct {
		tags     string
		packages []string
	}{{"", []string{"./..."}}, {"guest", []string{"./..."}}, {"mutants", switchable}} {
		for _, analyser := range [][]string{{"vet"}, {"tool", lintModule, "staticcheck"}} {
			argv := slices.Concat(before, []string{"go"}, analyser, []string{"-tags", build.tags}, build.packages)
			errs = append(errs, d.command(ctx, nil, argv[0], argv[1:]...))
		}
	}
	return errors.Join(errs...)
}

// nixTrees names what the flake is evaluated with (checks/nix).
const nixTrees = "EVALHOST_NIXEVAL"

// unit runs every test that needs no guest, with the race detector. Evaluating the flake takes minutes and is no part of
// it: those tests skip themselves and say so. Neither, when it shall be short, are tests that build every program.
func (d *drive) unit(ctx context.Context, short bool) error {
	return d.tests(ctx, "unit tests", "env", nixTrees+"=", "go", "test", "-race", "-json", "-timeout", "10m",
		fmt.Sprintf("-short=%t", short), "./...")
}

// evaluation runs the tests of the flake once more, with what they evaluate against. Where that is not named there is
// nothing to add to what quick said.
func (d *drive) evaluation(ctx context.Context) error {
	if os.Getenv(nixTrees) == "" {
		fmt.Fprintf(d.out, "NOT EVALUATED: %s is not set (checks/nix/doc.go), so nothing of the flake was evaluated\n", nixTrees)
		return nil
	}
	return d.tests(ctx, "flake", "go", "test", "-json", "-timeout", "60m", "./checks/nix")
}

// tests runs a command that prints test events and tallies them under name.
func (d *drive) tests(ctx context.Context, name string, argv ...string) error {
	began := time.Now()
	cmd := d.prepare(ctx, nil, argv[0], argv[1:]...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("open a pipe for %s: %w", cmd, err)
	}
	cmd.Stderr = d.out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd, err)
	}
	t := d.tally(name)
	readErr := t.read(out, d.out)
	waitErr := cmd.Wait()
	t.took = time.Since(began)
	if waitErr != nil && t.failed == 0 { // otherwise the failures are counted one by one
		return errors.Join(fmt.Errorf("%s: %w", cmd, waitErr), readErr)
	}
	return readErr
}

// output runs a command and returns the lines it printed.
func (d *drive) output(ctx context.Context, name string, args ...string) ([]string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", cmd, err, stderr.String())
	}
	return strings.Fields(string(out)), nil
}
