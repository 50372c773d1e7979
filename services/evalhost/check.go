package main

import (
	"context"
	"flag"

	"github.com/evalhost/evalhost/services/internal/config"
	"github.com/evalhost/evalhost/services/internal/hostcheck"
)

var checkCommand = command{
	name: "check", operands: "[--env FILE] [--json]", summary: "ask whether this machine can judge",
	help: `Every requirement is asked and printed, with the reason and the cure of what is not met. All images that the
manifest describes must be there. Exits with 0 when nothing failed; warnings do not count.

With --env it asks as a Runner with these settings would: the images of the languages it offers, its lanes, its cache, its
scratch. Nothing is taken from the environment of this command then, and a file that the Runner would refuse is refused.

  --env FILE  the settings of the Runner, as its unit reads them: /etc/evalhost/runner.env
  --json      print {"fit": ..., "requirements": [...]} instead
`,
	run: check,
}

func check(ctx context.Context, args []string, std stdio) (err error) {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	env := flags.String("env", "", "")
	asJSON := flags.Bool("json", false, "")
	operands, err := arguments(flags, args)
	if err != nil {
		return err
	}
	if len(operands) > 0 {
		return badUse("check takes no operands")
	}
	var s config.Settings
	var keys []string
	// A file that was asked for and not named, as an unset variable makes it, is refused: the answer would be about other settings.
	if given(flags, "env") {
		if s, err = runnerSettings(*env, std); err == nil {
			keys = s.NeededImages()
		}
	} else {
		s, err = hereSettings(std)
	}
	if err != nil {
		return err
	}
	machine := hostcheck.Here(checked(s, keys))
	defer machine.Close()
	report := hostcheck.Run(ctx, machine)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if *asJSON {
		err = writeJSON(std.out, report)
	} else {
		err = report.WriteText(std.out)
	}
	if err == nil && !report.Fit {
		return statusError{status: exitUnfit}
	}
	return err
}

// checked says what the host check looks at; keys are the images needed, nil for all of the manifest. The command judges in
// one lane and keeps no cache, so those of its own settings are zero.
func checked(s config.Settings, keys []string) hostcheck.Options {
	return hostcheck.Options{
		CgroupRoot: s.CgroupRoot, Scratch: s.Scratch, Shim: s.Shim, Manifest: s.Manifest, DockerHost: s.DockerHost,
		References: s.References, Keys: keys, Cache: s.CachePath, Lanes: s.Lanes,
	}
}
