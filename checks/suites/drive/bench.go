package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/evalhost/evalhost/checks/guest"
)

// benchRuns is how many containers the figures are the mean of.
const benchRuns = "20x"

// bench prints what a judged run costs outside the judged program, in a guest that does nothing else.
func (d *drive) bench(ctx context.Context) {
	dir, err := os.MkdirTemp("", "evalhost-bench-")
	if err != nil {
		d.step("bench", func() error { return err })
		return
	}
	defer os.RemoveAll(dir)
	wanted, err := choose([]string{"sandbox"})
	ready := d.step("choose the suite", func() error { return err }) &&
		d.step("tools", func() error { return d.tools(ctx) }) &&
		d.step("build", func() error {
			if err := d.binaries(ctx, filepath.Join(dir, "bin")); err != nil {
				return err
			}
			return d.compile(ctx, dir, wanted)
		})
	if !ready {
		return
	}
	var g machine
	defer func() {
		if g != nil {
			d.step("take down the guest", g.Down)
		}
	}()
	_ = d.step("bring up the guest", func() (err error) {
		g, err = d.up(ctx, guest.Options{Name: fmt.Sprintf("bench-%d", os.Getpid()), Log: d.out})
		return err
	}) && d.step("push", func() error { return pushSuites(ctx, g, dir, wanted) }) && d.step("measure", func() error {
		result, err := g.Exec(ctx, guest.Cmd{
			Args: []string{path.Join(guestSuites, "sandbox.test"), "-test.run=^$", "-test.bench=.", "-test.benchtime=" + benchRuns},
			Env: append(guestEnv(g), "EVALHOST_TEST_SHIM="+path.Join(guestBin, "aj-shim"),
				"EVALHOST_TEST_PROGRAMS="+path.Join(guestPrograms, "sandbox")),
			Stdout: d.out, Stderr: d.out, Timeout: 20 * time.Minute,
		})
		if err == nil && !result.OK() {
			err = fmt.Errorf("the benchmark ended with %s", result)
		}
		return err
	})
}
