package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/config"
	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/hostcheck"
	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/sandbox"
)

// host is this machine: locked, found fit and ready to judge.
type host struct {
	// judges is what runs contained steps: the sandbox, or a fake in tests.
	judges judge.Box
	lanes  int
	images map[string]string // the daemon's ids of the proved images, by key
	// versions is what the images' compilers and interpreters call themselves: they were seen to start.
	versions judge.Versions

	log      *slog.Logger
	box      *sandbox.Sandbox // nil in tests
	client   *engine.Client
	unlock   func()
	messages io.Writer
}

// openHost waits until nobody else judges on this machine, asks whether it is fit, and opens the sandbox. Keys are the
// images that will be needed. What is wrong here is wrong with the machine; what is not met is printed on failures with its
// cure, everything else on messages.
func openHost(ctx context.Context, s config.Settings, keys []string, messages, failures io.Writer) (_ *host, err error) {
	if uid := os.Geteuid(); uid != 0 {
		return nil, unfit(fmt.Errorf("running as user id %d; run it as root, for example with sudo: only root can make the "+
			"cgroups that limit and measure a run", uid))
	}
	h := &host{
		messages: messages,
		log:      slog.New(slog.NewTextHandler(messages, &slog.HandlerOptions{Level: s.LogLevel})),
	}
	defer func() {
		if err != nil {
			h.close()
			if ctx.Err() == nil {
				err = unfit(err)
			}
		}
	}()
	if h.unlock, err = lockHost(ctx, sandbox.HostLock, messages); err != nil {
		return nil, err
	}
	if h.images, err = findFit(ctx, s, keys, failures); err != nil {
		return nil, err
	}
	if h.client, err = engine.Connect(ctx, engine.Options{Host: s.DockerHost}); err != nil {
		return nil, err
	}
	h.box, err = sandbox.Open(ctx, h.client, sandbox.Config{
		Instance: newInstance(), Scratch: s.Scratch, Shim: s.Shim, CgroupRoot: s.CgroupRoot, Lanes: []sandbox.Lane{{}},
		BuildWallFactor: s.BuildWallFactor, Log: h.log,
	})
	if err != nil {
		return nil, err
	}
	h.judges, h.lanes = judge.InSandbox(h.box), h.box.Lanes()
	if s.BuildWallFactor != 1 {
		fmt.Fprintf(messages, "evalhost: the wall clock of builds is multiplied by %g (EVALHOST_BUILD_WALL_FACTOR)\n", s.BuildWallFactor)
	}
	h.versions, err = readVersions(ctx, h.judges, langimages.Default(), h.images, versionsDir)
	return h, err
}

// findFit asks the machine everything and returns the images it proved. What is not met is printed with its cure.
func findFit(ctx context.Context, s config.Settings, keys []string, failures io.Writer) (map[string]string, error) {
	machine := hostcheck.Here(checked(s, keys))
	defer machine.Close()
	report := hostcheck.Run(ctx, machine)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !report.Fit {
		if err := report.WriteFailures(failures); err != nil {
			return nil, err
		}
		return nil, errors.New("this machine is not fit to judge; nothing was judged")
	}
	return report.Images, nil
}

// close gives everything back. What could not be cleaned up is said and changes no outcome: the next start sweeps it.
func (h *host) close() {
	var errs []error
	if h.box != nil {
		errs = append(errs, h.box.Close(context.Background()))
	}
	if h.client != nil {
		errs = append(errs, h.client.Close())
	}
	if h.unlock != nil {
		h.unlock()
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintf(h.messages, "evalhost: something was left behind and will be removed by the next command: %s\n", oneLine(err))
	}
}
