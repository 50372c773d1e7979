package hostcheck

import (
	"context"
	"strings"
)

const corePatternFile = "/proc/sys/kernel/core_pattern"

var corePattern = requirement{
	id:    "core-pattern",
	asked: "core dumps do not start a program, and are not sent to one",
	why: "with a pipe or a socket in core_pattern every crash is worked on by a program of the host, as root and outside every " +
		"limit, at a moment the submission chooses",
	look: func(_ context.Context, m *Machine) finding {
		pattern, err := m.read(corePatternFile)
		if err != nil {
			return failed(unreadable(err), "mount /proc")
		}
		// A socket, "@/path", since Linux 6.16 (core(5)).
		if strings.HasPrefix(pattern, "|") || strings.HasPrefix(pattern, "@") {
			return failed("kernel.core_pattern = "+pattern,
				"sysctl kernel.core_pattern=core, and put it into /etc/sysctl.d (disable apport or systemd-coredump)")
		}
		return met("kernel.core_pattern = " + pattern)
	},
}
