//go:build !mutants

package engine

import "github.com/docker/docker/api/types/container"

// weaken does nothing in this build; see the package mutant.
func weaken(*container.Config, *container.HostConfig) {}
