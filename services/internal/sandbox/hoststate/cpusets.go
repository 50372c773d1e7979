package hoststate

import "runtime"

// Cpusets are the sets of processors for the lanes of a test: one processor each where this process has two, and otherwise one lane
// with what there is. More lanes than cores are refused, so a test that needs a second one needs a host with two processors.
func Cpusets() []string {
	if runtime.NumCPU() < 2 {
		return []string{""}
	}
	return []string{"0", "1"}
}
