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

// mutantVariable names the control that a build with mutants does without.
const mutantVariable = "EVALHOST_MUTANT"

// mutantTimeout bounds one test of one mutant. A control that bounds a wait makes its test hang when it is gone.
const mutantTimeout = time.Minute

// guestMutantTimeout is the same in the guest, whose processors are emulated.
const guestMutantTimeout = 3 * time.Minute

// healingTest is a test in the guest that sweeps, and fails when it had something to sweep.
const healingTest = "TestAnOrdinaryRun"

// caught is what became of one mutant at one test.
type caught struct {
	mutation
	where string // "unit" or the guest's variant
	test  string
	err   error  // why it survived; nil when it was caught
	how   string // how it was noticed
}

// mutants switches off one control after the other and asks the test that is named for it. A control whose loss nobody
// notices is a failure, and so is a test that fails without any mutant: it would notice everything. where is "unit",
// "guest" or empty for both. names, without "mutant.", restrict the controls.
func (d *drive) mutants(ctx context.Context, where string, names []string) {
	if err := d.chooseMutants(names); err != nil {
		d.step("mutants", func() error { return err })
		return
	}
	dir, err := os.MkdirTemp("", "evalhost-mutants-")
	if err != nil {
		d.step("mutants", func() error { return err })
		return
	}
	defer os.RemoveAll(dir)
	var all []caught
	if where != "guest" {
		d.step("mutants, unit tests", func() error {
			got, err := d.unitMutants(ctx, dir)
			all = append(all, got...)
			return err
		})
	}
	if where != "unit" {
		d.guestMutants(ctx, dir, &all)
	}
	d.step("mutants, the table", func() error {
		table, err := mutantTable(all)
		fmt.Fprintf(d.out, "\n%s\n", table)
		// Only a whole run may say what catches what.
		if err == nil && where == "" && len(names) == 0 && len(d.broken) == 0 {
			err = writeTable(securityPage, table)
		}
		return err
	})
}

// chooseMutants takes the mutations of those names; without names, all of them.
func (d *drive) chooseMutants(names []string) error {
	d.hunted = nil
	for _, m := range mutations {
		if len(names) == 0 || slices.Contains(names, strings.TrimPrefix(m.control, "mutant.")) {
			d.hunted = append(d.hunted, m)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(mutations, func(m mutation) bool { return m.control == "mutant."+name }) {
			return fmt.Errorf("there is no control %q", name)
		}
	}
	return nil
}

// unitMutants runs the unit tests of the table, without and with each mutant.
func (d *drive) unitMutants(ctx context.Context, dir string) ([]caught, error) {
	binaries := map[string]string{}
	for _, m := range d.hunted {
		if binaries[m.pkg] != "" {
			continue
		}
		binary := filepath.Join(dir, strings.ReplaceAll(m.pkg, "/", "-")+".test")
		if err := d.command(ctx, nil, "go", "test", "-c", "-tags", "mutants", "-o", binary, "./"+m.pkg); err != nil {
			return nil, err
		}
		binaries[m.pkg] = binary
	}
	run := func(ctx context.Context, m mutation, control string) (string, error) {
		cmd := d.prepare(ctx, []string{mutantVariable + "=" + control}, binaries[m.pkg],
			"-test.run=^"+m.test+"$", "-test.v", "-test.timeout="+mutantTimeout.String())
		cmd.Dir = m.pkg
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	return d.hunt(ctx, "unit", func(m mutation) string { return m.test }, run, func(context.Context) error { return nil })
}

// guestMutants does the same with the sandbox's suite on a real host.
func (d *drive) guestMutants(ctx context.Context, dir string, all *[]caught) {
	if !d.step("tools", func() error { return d.tools(ctx) }) {
		return
	}
	suites := filepath.Join(dir, "guest", "suites")
	ready := d.step("build the mutants for the guest", func() error {
		programs := filepath.Join(dir, "guest", "programs")
		if err := errors.Join(os.MkdirAll(programs, 0o755), os.MkdirAll(suites, 0o755)); err != nil {
			return err
		}
		static := []string{"CGO_ENABLED=0"}
		errs := []error{
			d.command(ctx, static, "go", "test", "-c", "-trimpath", "-tags", "guest mutants", "-o", filepath.Join(suites, "sandbox.test"), "./"+inSandbox),
			d.command(ctx, nil, "gcc", "-O2", "-static", "-pthread", "-o", filepath.Join(programs, "actor"), inSandbox+"/testdata/programs/actor.c"),
			d.mutantShim(ctx, filepath.Join(suites, "aj-shim"), ""),
		}
		for _, m := range d.hunted {
			if m.pkg == inShim && m.inGuest != "" {
				errs = append(errs, d.mutantShim(ctx, filepath.Join(suites, m.control), m.control))
			}
		}
		return errors.Join(errs...)
	}) && d.step("build the guest", func() error { return d.buildGuest(ctx) })
	if !ready {
		return
	}
	const variant = "systemd"
	var g machine
	defer func() {
		if g != nil {
			d.step("take down the guest", g.Down)
		}
	}()
	if !d.step("bring up the guest", func() (err error) {
		g, err = d.up(ctx, guest.Options{Name: fmt.Sprintf("mutants-%d", os.Getpid()), Variant: variant, Log: d.out})
		return err
	}) || !d.step("push the mutants", func() error { return g.Push(ctx, guestSuites, filepath.Join(dir, "guest")) }) {
		return
	}
	run := func(ctx context.Context, m mutation, control string) (string, error) {
		shim := path.Join(guestSuites, "suites", "aj-shim")
		if m.pkg == inShim && control != "" {
			shim = path.Join(guestSuites, "suites", control)
		}
		result, err := g.Exec(ctx, guest.Cmd{
			Args: []string{
				path.Join(guestSuites, "suites", "sandbox.test"), "-test.run=^" + m.inGuest + "$", "-test.v",
				"-test.timeout=" + guestMutantTimeout.String(),
			},
			Env: append(guestEnv(g), mutantVariable+"="+control, "EVALHOST_TEST_SHIM="+shim,
				"EVALHOST_TEST_PROGRAMS="+path.Join(guestSuites, "programs"), "EVALHOST_TEST_VARIANT="+variant),
			Timeout: guestMutantTimeout + time.Minute,
		})
		if err == nil && !result.OK() {
			err = fmt.Errorf("it ended with %s", result)
		}
		return result.Stdout + result.Stderr, err
	}
	// A mutant may leave something behind on the host. The next test would see it vanish, and fail for that.
	heal := func(ctx context.Context) error {
		whole := mutation{pkg: inSandbox, inGuest: healingTest}
		said, err := run(ctx, whole, "")
		if err != nil {
			said, err = run(ctx, whole, "")
		}
		if err != nil {
			return fmt.Errorf("%s fails twice without a mutant, so the mutant before left what is not swept: %w\n%s", healingTest, err, last(said, 1500))
		}
		return nil
	}
	d.step("mutants in the guest", func() error {
		got, err := d.hunt(ctx, variant, func(m mutation) string { return m.inGuest }, run, heal)
		*all = append(*all, got...)
		return err
	})
}

// mutantShim builds a shim that does without one control; all of them with an empty one.
func (d *drive) mutantShim(ctx context.Context, out, control string) error {
	return d.command(ctx, []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-tags", "mutants",
		"-ldflags", "-s -w -X main.chosen="+control, "-o", out, "./shim")
}

// hunt runs the test of every mutation that has one here: first each test without a mutant, then each mutant, and after it what
// makes the place whole again.
func (d *drive) hunt(ctx context.Context, where string, testOf func(mutation) string,
	run func(ctx context.Context, m mutation, control string) (string, error), heal func(context.Context) error,
) ([]caught, error) {
	sound := map[string]error{}
	var all []caught
	var survived []error
	for _, m := range d.hunted {
		test := testOf(m)
		if test == "" {
			continue
		}
		key := m.pkg + " " + test
		if where != "unit" {
			key = test
		}
		if _, known := sound[key]; !known {
			said, err := run(ctx, m, "")
			if err == nil && !strings.Contains(said, "--- PASS: "+test) {
				err = errors.New("it did not run")
			}
			if err != nil {
				err = fmt.Errorf("%s fails without any mutant, so it shows nothing: %w\n%s", test, err, last(said, 1500))
			}
			sound[key] = err
		}
		one := caught{mutation: m, where: where, test: test, err: sound[key]}
		if one.err == nil {
			said, err := run(ctx, m, m.control)
			one.how, one.err = noticed(test, said, err)
			if err := heal(ctx); err != nil {
				return all, err
			}
		}
		if ctx.Err() != nil {
			return all, context.Cause(ctx)
		}
		if one.err != nil {
			survived = append(survived, fmt.Errorf("%s in %s: %w", m.control, where, one.err))
			fmt.Fprintf(d.out, "SURVIVED  %-36s %s: %v\n", m.control, test, one.err)
		} else {
			fmt.Fprintf(d.out, "caught    %-36s %s %s\n", m.control, test, one.how)
		}
		all = append(all, one)
	}
	return all, errors.Join(survived...)
}

// noticed says how a test noticed a mutant, or why it did not. A binary that ended in any other way than by this test has
// noticed nothing.
func noticed(test, said string, ended error) (how string, err error) {
	switch {
	case ended == nil:
		return "", errors.New("the test passes without the control")
	case strings.Contains(said, "--- FAIL: "+test):
		return "fails", nil
	case strings.Contains(said, "panic: test timed out") && strings.Contains(said, test+" ("):
		return "hangs", nil
	}
	return "", fmt.Errorf("the test neither passed nor failed: %w\n%s", ended, last(said, 1500))
}

func last(text string, n int) string {
	if len(text) > n {
		return "…" + text[len(text)-n:]
	}
	return text
}

// securityPage holds the table, between two lines of its own.
const (
	securityPage = "docs/security.md"
	tableBegins  = "<!-- mutants: begin. The table between these two lines is written by `make mutants`. -->\n"
	tableEnds    = "<!-- mutants: end -->\n"
)

// mutantTable makes the table of docs/security.md: every control once, with all tests that noticed.
func mutantTable(all []caught) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "| control | without it | noticed by |\n|---|---|---|\n")
	total, survived := 0, 0
	for _, m := range mutations {
		var by []string
		for _, c := range all {
			if c.control != m.control {
				continue
			}
			if c.err != nil {
				survived++
				by = append(by, "**nobody** ("+c.where+": "+c.test+")")
				continue
			}
			by = append(by, "`"+c.test+"` ("+c.where+")")
		}
		if len(by) > 0 {
			total++
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.TrimPrefix(m.control, "mutant."), m.removed, strings.Join(by, ", "))
		}
	}
	fmt.Fprintf(&b, "\n%d controls, each switched off alone and looked for by the tests beside it (%d times in all); not noticed: %d.\n",
		total, len(all), survived)
	if total == 0 {
		return "", errors.New("no control was switched off")
	}
	return b.String(), nil
}

// writeTable puts the table into a page, in place of the one that is there.
func writeTable(page, table string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		return fmt.Errorf("%s has no place for the table of mutants", page)
	}
	return os.WriteFile(page, []byte(before+tableBegins+"\n"+table+"\n"+tableEnds+after), 0o644)
}
