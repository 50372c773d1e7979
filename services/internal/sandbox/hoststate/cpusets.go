package hoststate

import "runtime"

// TwoCpusets are the sets of processors for two lanes: one processor each where this process has two, and no set otherwise, so that
// the lanes share what there is.
func TwoCpusets() [2]string {
	if runtime.NumCPU() < 2 {
		return [2]string{}
	}
	return [2]string{"0", "1"}
}
