package hostcheck

import (
	"context"
	"fmt"
	"strings"
)

const swaps = "/proc/swaps"

var swap = requirement{
	id:    "swap",
	asked: "no swap",
	why:   "memory that is swapped out is not counted: a program can use more than its limit",
	look: func(_ context.Context, m *Machine) finding {
		content, err := m.read(swaps)
		if err != nil {
			return failed(unreadable(err), "mount /proc")
		}
		header, rest, _ := strings.Cut(content, "\n")
		if !strings.HasPrefix(header, "Filename") {
			return failed(fmt.Sprintf("%s is not the kernel's table of swap", swaps), "mount /proc")
		}
		var areas []string
		for line := range strings.Lines(rest) {
			if fields := strings.Fields(line); len(fields) > 0 {
				areas = append(areas, fields[0])
			}
		}
		if areas != nil {
			return failed("swapping to "+strings.Join(areas, ", "), "swapoff -a, and take the swap areas out of /etc/fstab")
		}
		return met("no swap")
	},
}
