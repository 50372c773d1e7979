package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/evalhost/evalhost/checks/guest"
)

// machine is a guest as the drive uses it.
type machine interface {
	Exec(ctx context.Context, c guest.Cmd) (guest.Result, error)
	Push(ctx context.Context, dst string, src ...string) error
	Down() error
	Emulated() bool
}

// shop is what the drive needs from elsewhere: compilers, guests, and the product on this machine.
type shop struct {
	// tools installs what is missing of the compilers.
	tools func(ctx context.Context) error
	// binaries builds what is shipped, static, into dir.
	binaries func(ctx context.Context, dir string) error
	// compile builds the suites and the programs under attack below dir, and fills in the names of their tests.
	compile func(ctx context.Context, dir string, wanted []suite) error
	// converter prepares test2json.
	converter func(ctx context.Context, args ...string) *exec.Cmd
	// buildGuest makes the guest's disk.
	buildGuest func(ctx context.Context) error
	// up starts a pristine guest.
	up func(ctx context.Context, o guest.Options) (machine, error)
	// oneByOne says why there is no room for two guests at a time; empty where there is.
	oneByOne func() string
	// here runs the product of dir on this machine and returns its exit status.
	here func(ctx context.Context, dir string, stdout, stderr io.Writer, args ...string) (int, error)
}

func (d *drive) real() shop {
	return shop{
		tools:    d.needTools,
		binaries: d.buildBinaries,
		compile:  d.compileSuites,
		converter: func(ctx context.Context, args ...string) *exec.Cmd {
			return d.prepare(ctx, nil, "go", append([]string{"tool", "test2json"}, args...)...)
		},
		buildGuest: func(ctx context.Context) error {
			made, err := guest.Build(ctx, d.out)
			for _, m := range made {
				d.part(m.Stage, m.Took)
			}
			return err
		},
		up: func(ctx context.Context, o guest.Options) (machine, error) {
			g, err := guest.Up(ctx, o)
			if err != nil {
				return nil, err // and not a nil *guest.Guest in an interface
			}
			return g, nil
		},
		oneByOne: oneByOne,
		here:     d.productHere,
	}
}

// needTools installs the compilers that the programs under attack are built with, where they are missing.
func (d *drive) needTools(ctx context.Context) error {
	missing := false
	for _, tool := range []string{"gcc", "g++"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = true
		}
	}
	if !missing {
		return nil
	}
	env := []string{"DEBIAN_FRONTEND=noninteractive"}
	return errors.Join(
		d.command(ctx, env, "apt-get", "update", "--quiet"),
		d.command(ctx, env, "apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "gcc", "g++", "libc6-dev"))
}

// buildBinaries builds what is shipped, and what looks at a guest before and after.
func (d *drive) buildBinaries(ctx context.Context, dir string) error {
	static := []string{"CGO_ENABLED=0"}
	var errs []error
	for name, pkg := range map[string]string{
		"evalhost": "./services/evalhost", "evalhost-runner": "./services/runner", "refserver": "./services/refserver", "aj-shim": "./shim",
		lookName: "./services/internal/sandbox/hoststate/look",
	} {
		errs = append(errs, d.command(ctx, static, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, name), pkg))
	}
	return errors.Join(errs...)
}

// productHere runs the command on this machine, without the settings of the checks, which it does not know.
func (d *drive) productHere(ctx context.Context, dir string, stdout, stderr io.Writer, args ...string) (int, error) {
	cmd := d.prepare(ctx, nil, filepath.Join(dir, "evalhost"), args...)
	cmd.Env = withoutSettingsOfTheChecks(os.Environ())
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && (!errors.As(err, &ended) || !ended.Exited()) {
		return 0, fmt.Errorf("%s: %w", cmd, err)
	}
	return cmd.ProcessState.ExitCode(), nil
}
