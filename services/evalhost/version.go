package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set when a release is built.
var version = "development"

var versionCommand = command{
	name: "version", summary: "say which evalhost this is",
	run: func(_ context.Context, args []string, std stdio) error {
		operands, err := arguments(flag.NewFlagSet("version", flag.ContinueOnError), args)
		if err != nil {
			return err
		}
		if len(operands) > 0 {
			return badUse("version takes no operands")
		}
		fmt.Fprintf(std.out, "evalhost %s\n%s %s/%s\nrevision %s\n", version, runtime.Version(), runtime.GOOS,
			runtime.GOARCH, revision())
		return nil
	},
}

// revision is the commit the program was built from, as the go command recorded it.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	commit, modified := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = " with changes"
		}
	}
	return commit + modified
}
