package hostcheck

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/evalhost/evalhost/services/internal/sandbox"
)

var containerLimits = requirement{
	id:    "container.limits",
	asked: "memory, swap, processes, processor and files are limited to what was asked for",
	why:   "a limit that is not applied is not an error to the daemon, and a program could take the whole machine",
	needs: []string{"container.probe"},
	look: func(_ context.Context, m *Machine) finding {
		want := []struct{ file, value string }{
			{"memory.max", strconv.FormatInt(int64(sandbox.ProbeMemory), 10)},
			{"memory.swap.max", "0"},
			{"pids.max", strconv.Itoa(sandbox.ProbePids)},
			{"cpu.max", "100000 100000"},
		}
		var wrong []string
		for _, w := range want {
			got := strings.Join(m.inside[w.file], " ")
			if got != w.value && !(w.file == "memory.swap.max" && got == "") { // absent where the kernel cannot swap
				wrong = append(wrong, fmt.Sprintf("%s is %q, not %q", w.file, got, w.value))
			}
		}
		fileSize := strconv.FormatInt(int64(sandbox.ProbeFileSize), 10)
		for name, value := range map[string]string{
			"Max core file size": "0 0 bytes", "Max open files": "256 256 files", "Max file size": fileSize + " " + fileSize + " bytes",
		} {
			got := ""
			for _, line := range m.inside["limits"] {
				if rest, is := strings.CutPrefix(line, name); is {
					got = strings.Join(strings.Fields(rest), " ")
				}
			}
			if got != value {
				wrong = append(wrong, fmt.Sprintf("%s is %q, not %q", name, got, value))
			}
		}
		slices.Sort(wrong)
		if wrong != nil {
			return failed(strings.Join(wrong, "; "), "see that the kernel has the controllers cpu, memory and pids and that Docker's cgroup driver is the one in use")
		}
		return met("as asked for")
	},
}
