package hostcheck

import "context"

const smtActive = "/sys/devices/system/cpu/smt/active"

var smt = requirement{
	id:    "smt",
	asked: "one hardware thread a core",
	why:   "two programs on one core slow each other down and are charged for it",
	look: func(_ context.Context, m *Machine) finding {
		active, present, err := m.control(smtActive)
		switch {
		case !present:
			return absent("the machine has no control of hardware threads")
		case err != nil:
			return warning(unreadable(err), "mount /sys")
		case active != "0":
			return warning("cores are shared by hardware threads ("+smtActive+" = "+active+")",
				"echo off > /sys/devices/system/cpu/smt/control, or boot with nosmt")
		}
		return met("one thread a core")
	},
}
