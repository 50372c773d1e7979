package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
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

// demo judges every labelled solution of demoPackages: on this machine if it is fit, else in the guest. It returns the exit code
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
	fit := false
	if d.step("build the binaries", func() error { return d.binaries(ctx, bin) }) &&
		d.step("ask whether this machine can judge", func() (err error) { fit, err = d.fitHere(ctx, bin); return err }) {
		if fit {
			fmt.Fprintln(d.out, "This machine passes `evalhost check`: judging here.")
			code = d.demoHere(ctx, bin)
		} else {
			fmt.Fprintln(d.out, "This machine does not pass `evalhost check` (make build && bin/evalhost check says why): judging in the guest.")
			code = d.demoInGuest(ctx, bin)
		}
	}
	d.times()
	if code != 0 {
		fmt.Fprintf(d.out, "\nFAILED: the demo did not go as labelled (status %d)\n", code)
	}
	return code
}

// unfit is the exit status by which `evalhost check` says that a host cannot judge.
const unfit = 4

// fitHere asks `evalhost check` about this machine. Any answer but fit and unfit is an error.
func (d *drive) fitHere(ctx context.Context, bin string) (bool, error) {
	var said bytes.Buffer
	status, err := d.here(ctx, bin, &said, &said, "check")
	if err == nil && status != 0 && status != unfit {
		err = fmt.Errorf("evalhost check ended with status %d", status)
	}
	if err != nil {
		return false, fmt.Errorf("%w\n%s", err, said.String())
	}
	return status == 0, nil
}

// withoutSettingsOfTheChecks removes from an environment what the product does not know.
func withoutSettingsOfTheChecks(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains([]string{"EVALHOST_CACHE", "EVALHOST_NIXEVAL", inside.Override}, name)
	})
}

func (d *drive) demoHere(ctx context.Context, bin string) (code int) {
	args := []string{"verify"}
	for _, p := range demoPackages {
		args = append(args, filepath.Join("examples", p))
	}
	code = 1
	d.step("judge", func() error {
		status, err := d.here(ctx, bin, d.out, os.Stderr, args...)
		if err != nil {
			return err
		}
		if code = status; status != 0 {
			return fmt.Errorf("evalhost verify ended with status %d", status)
		}
		return nil
	})
	return code
}

func (d *drive) demoInGuest(ctx context.Context, bin string) (code int) {
	code = 1
	var g machine
	defer func() {
		if g != nil && !d.step("take down the guest", g.Down) {
			code = max(code, 1)
		}
	}()
	up := d.step("build the guest", func() error { return d.buildGuest(ctx) }) &&
		d.step("bring up the guest", func() (err error) {
			g, err = d.up(ctx, guest.Options{Name: fmt.Sprintf("demo-%d", os.Getpid()), Log: d.out})
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
		if !result.OK() {
			code = max(result.Code, 1)
			return fmt.Errorf("evalhost verify ended with %s", result)
		}
		code = 0
		return nil
	})
	return code
}
