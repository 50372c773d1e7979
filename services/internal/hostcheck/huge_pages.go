package hostcheck

import (
	"context"
	"fmt"
	"strings"
)

const hugePagesFile = "/sys/kernel/mm/transparent_hugepage/enabled"

var hugePages = requirement{
	id:    "huge-pages",
	asked: "transparent huge pages only where a program asks for them",
	why:   "huge pages given unasked make the memory and the time of equal runs differ",
	look: func(_ context.Context, m *Machine) finding {
		content, present, err := m.control(hugePagesFile)
		if !present {
			return absent("the kernel has no transparent huge pages")
		}
		if err != nil {
			return warning(unreadable(err), "mount /sys")
		}
		switch chosen := bracketed(content); chosen {
		case "madvise", "never":
			return met(chosen)
		}
		return warning(fmt.Sprintf("%s says %q", hugePagesFile, content), "echo madvise > "+hugePagesFile)
	},
}

// bracketed returns the chosen word of a line like "always [madvise] never"; empty when none is chosen.
func bracketed(line string) string {
	_, rest, _ := strings.Cut(line, "[")
	word, _, closed := strings.Cut(rest, "]")
	if !closed {
		return ""
	}
	return word
}
