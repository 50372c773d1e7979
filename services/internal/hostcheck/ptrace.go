package hostcheck

import "context"

const ptraceScope = "/proc/sys/kernel/yama/ptrace_scope"

var ptrace = requirement{
	id:    "ptrace",
	asked: "kernel.yama.ptrace_scope below 2",
	why:   "the shim inspects a program before its first instruction by tracing it",
	look: func(_ context.Context, m *Machine) finding {
		scope, present, err := m.control(ptraceScope)
		if !present {
			return absent("the kernel has no Yama")
		}
		if err != nil {
			return failed(unreadable(err), "mount /proc")
		}
		switch found := "kernel.yama.ptrace_scope = " + scope; scope {
		case "0", "1":
			return met(found)
		case "3":
			return failed(found,
				"put kernel.yama.ptrace_scope = 1 into /etc/sysctl.d and reboot: 3 cannot be taken back while the system runs")
		default:
			return failed(found, "sysctl kernel.yama.ptrace_scope=1, and put it into /etc/sysctl.d")
		}
	},
}
