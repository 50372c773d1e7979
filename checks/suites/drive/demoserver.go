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

// demoServerSources are handed in by the demo of the Server: an accepted one, a wrong one, and one that does not end.
var demoServerSources = []string{"accepted/sum.c", "wrong_answer/narrow.c", "time_limit_exceeded/endless.c"}

// demoServer shows a reference server and a Runner at work in the guest. It returns 0 when every submission got a verdict.
func (d *drive) demoServer(ctx context.Context) int {
	dir, err := os.MkdirTemp("", "evalhost-demo-")
	if err != nil {
		fmt.Fprintln(d.out, "FAILED demo-server:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "bin")
	var g machine
	ok := d.step("build the binaries", func() error { return d.binaries(ctx, bin) }) &&
		d.step("build the guest", func() error { return d.buildGuest(ctx) }) &&
		d.step("bring up the guest", func() (err error) {
			g, err = d.up(ctx, guest.Options{Name: fmt.Sprintf("demo-server-%d", os.Getpid()), Log: d.out})
			return err
		}) &&
		d.step("push the binaries and examples", func() error {
			if err := g.Push(ctx, guestBin, bin); err != nil {
				return err
			}
			return g.Push(ctx, guestExamples, "examples")
		}) &&
		d.step("a server, a Runner, three submissions", func() error { return d.playServer(ctx, g) })
	if g != nil && !d.step("take down the guest", g.Down) {
		ok = false
	}
	d.times()
	if !ok {
		fmt.Fprintln(d.out, "\nFAILED: not every submission got a verdict")
		return 1
	}
	return 0
}

func (d *drive) playServer(ctx context.Context, g machine) error {
	args := []string{path.Join(guestBin, "refserver"), "demo", path.Join(guestBin, "evalhost-runner"), path.Join(guestExamples, "sum")}
	for _, source := range demoServerSources {
		args = append(args, path.Join(guestExamples, "sum", "solutions", source))
	}
	result, err := g.Exec(ctx, guest.Cmd{Args: args, Env: guestEnv(g), Stdout: d.out, Stderr: d.out, Timeout: 30 * time.Minute})
	if err != nil {
		return err
	}
	if !result.OK() {
		return fmt.Errorf("the demo ended with %s", result)
	}
	return nil
}
