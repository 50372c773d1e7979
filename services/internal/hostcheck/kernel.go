package hostcheck

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
)

const osrelease = "/proc/sys/kernel/osrelease"

// The oldest kernel whose cgroups tell the peak of memory (memory.peak).
const kernelMajor, kernelMinor = 5, 19

var releaseNumber = regexp.MustCompile(`^(\d+)\.(\d+)`)

var kernel = requirement{
	id:    "kernel",
	asked: fmt.Sprintf("Linux %d.%d or newer", kernelMajor, kernelMinor),
	why:   "older kernels do not tell how much memory a run used at its peak (memory.peak)",
	look: func(_ context.Context, m *Machine) finding {
		release, err := m.read(osrelease)
		if err != nil {
			return failed(unreadable(err), "mount /proc")
		}
		numbers := releaseNumber.FindStringSubmatch(release)
		if numbers == nil {
			return failed(fmt.Sprintf("%s says %q, which is no kernel release", osrelease, release), "boot a Linux kernel")
		}
		if !atLeast(numbers[1], numbers[2], kernelMajor, kernelMinor) {
			return failed("Linux "+release, fmt.Sprintf("boot a kernel of %d.%d or newer", kernelMajor, kernelMinor))
		}
		return met("Linux " + release)
	},
}

// atLeast compares a version given as decimal digits with major.minor. Digits that do not fit an int are not at least
// anything.
func atLeast(gotMajor, gotMinor string, major, minor int) bool {
	ma, err := strconv.Atoi(gotMajor)
	if err != nil {
		return false
	}
	mi, err := strconv.Atoi(gotMinor)
	if err != nil {
		return false
	}
	return ma > major || ma == major && mi >= minor
}

// unreadable is the finding for a file that had to be there. The error already names the path.
func unreadable(err error) string { return "could not be read: " + err.Error() }
