package hostcheck

import "context"

// boostControls are the places where a kernel offers the switch, and what each says when boost is off.
var boostControls = []struct{ path, off string }{
	{"/sys/devices/system/cpu/intel_pstate/no_turbo", "1"},
	{"/sys/devices/system/cpu/cpufreq/boost", "0"},
}

var boost = requirement{
	id:    "boost",
	asked: "frequency boost off",
	why:   "how far a processor boosts depends on its temperature and its neighbours: equal runs cost different times",
	look: func(_ context.Context, m *Machine) finding {
		for _, control := range boostControls {
			value, present, err := m.control(control.path)
			switch {
			case !present:
				continue
			case err != nil:
				return warning(unreadable(err), "mount /sys")
			case value != control.off:
				return warning("on ("+control.path+" = "+value+")", "echo "+control.off+" > "+control.path)
			}
			return met("off (" + control.path + " = " + value + ")")
		}
		return absent("the machine has no control of boost")
	},
}
