package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// soakVariants are the hosts that only soak runs the suites on, beside those of test.
var soakVariants = []string{"systemd-runc", "cgroupfs-runc", "docker20", "hybrid"}

// fuzzTime is how long each fuzz target runs in a soak.
const fuzzTime = "60s"

// fuzz runs every fuzz target of the tree for a while. What it finds is written below the package's testdata/fuzz and
// belongs into the tree as a test.
func (d *drive) fuzz(ctx context.Context) error {
	packages, err := d.output(ctx, "go", "list", "./...")
	if err != nil {
		return err
	}
	var errs []error
	for _, pkg := range packages {
		names, err := d.output(ctx, "go", "test", "-list", "^Fuzz", pkg)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, name := range names {
			if !strings.HasPrefix(name, "Fuzz") {
				continue
			}
			// Minimising is bounded: by default one interesting input may be worked on for a minute.
			err := d.tests(ctx, "fuzz "+name, "go", "test", "-json", "-run", "^$", "-fuzz", "^"+name+"$",
				"-fuzztime", fuzzTime, "-fuzzminimizetime", "10x", pkg)
			if err != nil {
				errs = append(errs, fmt.Errorf("fuzz %s of %s: %w", name, pkg, err))
			}
		}
	}
	return errors.Join(errs...)
}
