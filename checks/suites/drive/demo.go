package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/evalhost/evalhost/checks/guest"
	"github.com/evalhost/evalhost/checks/guest/inside"
)

// demoPackages are the examples whose labelled solutions the demo judges.
var demoPackages = []string{"sum", "squares"}

// demo judges every labelled example solution: on this machine if it is fit, else in the guest. It returns the exit code
// of `evalhost verify`, or 1 when it did not come that far.
func (d *drive) demo(ctx context.Context) int {
	code := 1
	dir, err := os.MkdirTemp("", "evalhost-demo-")
	if err != nil {
		fmt.Fprintln(d.out, "FAILED demo:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "bin")
	if d.step("build the binaries", func() error { return d.binaries(ctx, bin) }) {
		fit, err := d.fitHere(ctx, bin)
		switch {
		case err != nil:
			fmt.Fprintln(d.out, "FAILED demo:", err)
		case fit:
			fmt.Fprintln(d.out, "This machine passes `evalhost check`: judging here.")
			code = d.demoHere(ctx, bin)
		default:
			fmt.Fprintln(d.out, "This machine does not pass `evalhost check` (make build && bin/evalhost check says why): judging in the guest.")
			code = d.demoInGuest(ctx, bin)
		}
	}
	fmt.Fprintf(d.out, "\nWhere the time went (%s in all)\n", time.Since(d.began).Round(time.Second))
	for _, s := range d.steps {
		fmt.Fprintf(d.out, "  %8s  %s\n", s.took.Round(100*time.Millisecond), s.name)
	}
	if code != 0 {
		fmt.Fprintf(d.out, "\nFAILED: the demo did not go as labelled (status %d)\n", code)
	}
	return code
}

// unfit is the exit status by which `evalhost check` says that a host cannot judge.
const unfit = 4

// fitHere asks `evalhost check` about this machine. Any answer but fit and unfit is an error.
func (d *drive) fitHere(ctx context.Context, bin string) (bool, error) {
	check := d.product(ctx, bin, "check")
	said, err := check.CombinedOutput()
	if err == nil {
		return true, nil
	}
	if check.ProcessState != nil && check.ProcessState.ExitCode() == unfit {
		return false, nil
	}
	return false, fmt.Errorf("evalhost check: %w\n%s", err, said)
}

// product prepares the evalhost command on this machine, without the settings of the checks, which it does not know.
func (d *drive) product(ctx context.Context, bin string, args ...string) *exec.Cmd {
	cmd := d.prepare(ctx, nil, filepath.Join(bin, "evalhost"), args...)
	cmd.Env = slices.DeleteFunc(cmd.Env, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains([]string{"EVALHOST_CACHE", "EVALHOST_NIXEVAL", inside.Override}, name)
	})
	return cmd
}

func (d *drive) demoHere(ctx context.Context, bin string) (code int) {
	args := []string{"verify"}
	for _, p := range demoPackages {
		args = append(args, filepath.Join("examples", p))
	}
	d.step("judge", func() error {
		cmd := d.product(ctx, bin, args...)
		cmd.Stdout, cmd.Stderr = d.out, os.Stderr
		err := cmd.Run()
		code = 1
		if cmd.ProcessState != nil {
			code = cmd.ProcessState.ExitCode()
		}
		return err
	})
	return code
}

func (d *drive) demoInGuest(ctx context.Context, bin string) (code int) {
	code = 1
	var g *guest.Guest
	defer func() {
		if g != nil && !d.step("take down the guest", g.Down) {
			code = 1
		}
	}()
	up := d.step("build the guest", func() error { return guest.Build(ctx, d.out) }) &&
		d.step("bring up the guest", func() (err error) {
			g, err = guest.Up(ctx, guest.Options{Name: fmt.Sprintf("demo-%d", os.Getpid()), Log: d.out})
			return err
		}) &&
		d.step("push the binaries and examples", func() error {
			if err := g.Push(ctx, guestBin, bin); err != nil {
				return err
			}
			return g.Push(ctx, guestExamples, "examples")
		})
	if !up {
		return 1
	}
	args := []string{path.Join(guestBin, "evalhost"), "verify"}
	for _, p := range demoPackages {
		args = append(args, path.Join(guestExamples, p))
	}
	d.step("judge", func() error {
		result, err := g.Exec(ctx, guest.Cmd{Args: args, Env: guestEnv(g), Stdout: d.out, Stderr: d.out, Timeout: 30 * time.Minute})
		if err != nil {
			return err
		}
		code = result.Code
		if !result.OK() {
			code = max(result.Code, 1)
			return fmt.Errorf("evalhost verify ended with %s", result)
		}
		return nil
	})
	return code
}
