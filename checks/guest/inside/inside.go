// Package inside tells whether a process runs in a guest. The suites ask it before they stop Docker, fill disks and start
// fork bombs: what a guest is there for would ruin anybody's machine.
package inside

import (
	"fmt"
	"os"
	"strings"
)

// Override is the variable that lets the suites run on the machine itself, whatever becomes of it. "1" is the only value
// that counts.
const Override = "EVALHOST_DESTRUCTIVE_HERE"

// marker is the word on the kernel's command line that every guest is booted with.
const marker = "evalhost.variant="

// Demand ends the process with a message and status 2 unless it runs in a guest, or Override says that the machine may be
// ruined. It is called when a suite's test binary starts. A binary that only lists its tests ruins nothing.
func Demand() {
	for _, arg := range os.Args[1:] {
		if strings.HasPrefix(arg, "-test.list=") {
			return
		}
	}
	if err := check(os.ReadFile, os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func check(readFile func(string) ([]byte, error), getenv func(string) string) error {
	if getenv(Override) == "1" {
		return nil
	}
	line, err := readFile("/proc/cmdline")
	if err != nil {
		return fmt.Errorf("this suite restarts Docker, fills disks and forks without end, and whether this machine is a guest "+
			"cannot be told: %w", err)
	}
	for word := range strings.FieldsSeq(string(line)) {
		if strings.HasPrefix(word, marker) {
			return nil
		}
	}
	return fmt.Errorf("this suite restarts Docker, fills disks and forks without end: it runs in the guest (make test), and on "+
		"the machine itself only with %s=1", Override)
}
