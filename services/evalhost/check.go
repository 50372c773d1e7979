package main

import (
	"context"
	"flag"

	"github.com/evalhost/evalhost/services/internal/config"
	"github.com/evalhost/evalhost/services/internal/hostcheck"
)

var checkCommand = command{
	name: "check", operands: "[--json]", summary: "ask whether this machine can judge",
	help: `Every requirement is asked and printed, with the reason and the cure of what is not met. All images that the
manifest describes must be there. Exits with 0 when nothing failed; warnings do not count.

  --json  print {"fit": ..., "requirements": [...]} instead
`,
	run: check,
}

func check(ctx context.Context, args []string, std stdio) (err error) {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "")
	operands, err := arguments(flags, args)
	if err != nil {
		return err
	}
	if len(operands) > 0 {
		return badUse("check takes no operands")
	}
	s, err := hereSettings(std)
	if err != nil {
		return err
	}
	machine := hostcheck.Here(checked(s, nil))
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

// checked says what the host check looks at; keys are the images needed, nil for all of the manifest.
func checked(s config.Settings, keys []string) hostcheck.Options {
	return hostcheck.Options{
		CgroupRoot: s.CgroupRoot, Scratch: s.Scratch, Shim: s.Shim, Manifest: s.Manifest, DockerHost: s.DockerHost,
		References: s.References, Keys: keys,
	}
}
