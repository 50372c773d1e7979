package hostcheck

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

const governorFiles = "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"

var governor = requirement{
	id:    "governor",
	asked: "the frequency governor performance on every processor",
	why:   "a processor that changes its speed with the load makes equal runs cost different times",
	look: func(_ context.Context, m *Machine) finding {
		files, err := filepath.Glob(m.path(governorFiles))
		if err != nil || len(files) == 0 {
			return absent("the machine has no control of the frequency")
		}
		var others []string
		for _, file := range files {
			name, err := m.read(strings.TrimPrefix(file, strings.TrimSuffix(m.Root, "/")))
			if err != nil {
				return warning(unreadable(err), "mount /sys")
			}
			if name != "performance" && !slices.Contains(others, name) {
				others = append(others, name)
			}
		}
		if others != nil {
			return warning("governor "+strings.Join(others, ", "), "echo performance to every "+governorFiles)
		}
		return met(fmt.Sprintf("performance on %d processors", len(files)))
	},
}
