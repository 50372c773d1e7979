package hostcheck

import (
	"context"
	"slices"
)

const clockSource = "/sys/devices/system/clocksource/clocksource0/current_clocksource"

// quickClocks are read without leaving the processor, or nearly so.
var quickClocks = []string{"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "xen"}

var clock = requirement{
	id:    "clock",
	asked: "a quick clock source",
	why:   "a program that asks for the time pays for a slow clock with its own processor time",
	look: func(_ context.Context, m *Machine) finding {
		source, present, err := m.control(clockSource)
		switch {
		case !present:
			return absent("the kernel does not tell its clock source")
		case err != nil:
			return warning(unreadable(err), "mount /sys")
		case !slices.Contains(quickClocks, source):
			return warning(source, "see in the kernel's log why tsc was rejected; boot with tsc=reliable only where that is true")
		}
		return met(source)
	},
}
