package hostcheck

import (
	"context"
	"fmt"
	"strings"

	"github.com/evalhost/evalhost/services/internal/sandbox"
)

var lanes = requirement{
	id:    "lanes",
	asked: "whole physical cores for as many tests at once as were asked for",
	why:   "two tests on one core measure each other",
	look: func(_ context.Context, m *Machine) finding {
		planned, warnings, err := sandbox.PlanLanes(max(m.Lanes, 1), m.Processors)
		switch {
		case err != nil:
			return failed(err.Error(), "set AJ_Runner__TestsAtOnce to a smaller number, or give this process and evalhost.slice (AllowedCPUs=) more cores")
		case warnings != nil:
			return warning(strings.Join(warnings, "; "), "give this process both threads of a core, or switch the threads off: nosmt")
		case planned[0].Cpuset == "":
			return met(fmt.Sprintf("%d, not pinned", len(planned)))
		}
		var sets []string
		for _, lane := range planned {
			sets = append(sets, lane.Cpuset)
		}
		return met(fmt.Sprintf("%d, pinned to %s", len(planned), strings.Join(sets, " and ")))
	},
}
