package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/evalhost/evalhost/services/internal/mutant"
)

// Processors is what lanes are made of (spec/sandbox.md 7.5; decisions 12).
type Processors struct {
	// Allowed is the kernel's list of the processors this process may use, as the kernel writes it; Online that of the
	// whole machine. Either is empty when it could not be read.
	Allowed, Online string
	// Runs is the list of the processors that the cgroup of judged runs may use (evalhost.slice, and what is above it): a
	// container gets none outside of it, whatever it is pinned to. Empty when it is not known.
	Runs string
	// Siblings gives for a processor all the hardware threads of its physical core, itself included; nil when unknown.
	Siblings func(cpu int) []int
}

// ThisMachine reads the processors of this machine and process.
func ThisMachine() Processors {
	p := Processors{Siblings: threadsOfCore}
	if text, err := os.ReadFile("/sys/devices/system/cpu/online"); err == nil {
		p.Online = strings.TrimSpace(string(text))
	}
	status, err := os.ReadFile(filepath.Join("/proc/self", "status"))
	if err == nil {
		for line := range strings.Lines(string(status)) {
			if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
				p.Allowed = strings.TrimSpace(list)
			}
		}
	}
	return p
}

// threadsOfCore asks the kernel now: an operator may switch the second threads of all cores off and on while programs run.
func threadsOfCore(cpu int) []int {
	text, err := os.ReadFile("/sys/devices/system/cpu/cpu" + strconv.Itoa(cpu) + "/topology/thread_siblings_list")
	if err != nil {
		return nil
	}
	siblings, err := parseCPUList(string(text))
	if err != nil {
		return nil
	}
	return siblings
}

// PlanLanes divides the processors into n lanes of whole physical cores: those that both this process and the cgroup of
// judged runs may use. Where that is every processor of the machine nothing is pinned, whatever n is: containers pinned by
// several Runners that know nothing of each other end up on the same cores. Otherwise the cores are dealt in the order in
// which the list names them, and the first lanes get one more where they do not divide evenly. warnings name the lanes that
// got a hardware thread whose sibling is somebody else's. More lanes than cores are refused, and so are two sets that have no
// processor in common.
func PlanLanes(n int, p Processors) (lanes []Lane, warnings []string, err error) {
	if n < 1 {
		return nil, nil, fmt.Errorf("sandbox: %d lanes: at least one is needed", n)
	}
	list, allowed, err := p.usable()
	if err != nil {
		return nil, nil, err
	}
	online, onlineErr := parseCPUList(p.Online)
	whole := list == "" || onlineErr != nil || len(without(online, allowed)) == 0
	if whole {
		if onlineErr == nil {
			if cores := p.cores(online); n > len(cores) {
				return nil, nil, tooManyLanes(n, len(cores), p.Online)
			}
		}
		return make([]Lane, n), nil, nil
	}
	cores := p.cores(allowed)
	if n > len(cores) {
		return nil, nil, tooManyLanes(n, len(cores), list)
	}
	least, more := len(cores)/n, len(cores)%n
	for i := range n {
		share := least
		if i < more {
			share++
		}
		var cpus []int
		for _, core := range cores[:share] {
			cpus = append(cpus, core...)
			for _, cpu := range core {
				if outside := without(p.siblings(cpu), allowed); len(outside) > 0 {
					warnings = append(warnings, fmt.Sprintf("lane %d has processor %d and not its sibling %s: what runs there is measured along",
						i, cpu, formatCPUList(outside)))
				}
			}
		}
		cores = cores[share:]
		lane := Lane{Cpuset: formatCPUList(cpus)}
		if n == 1 {
			lane.Cpuset = list // in the operator's own words
		}
		lanes = append(lanes, lane)
	}
	return lanes, warnings, nil
}

func tooManyLanes(lanes, cores int, list string) error {
	return fmt.Errorf("sandbox: %d lanes and %d physical cores (processors %s): two tests on one core would measure each other; use at most %d lanes",
		lanes, cores, list, cores)
}

// usable are the processors that both this process and the cgroup of judged runs may use and that are there, as a list and one
// by one in its order; an empty list when neither is known. A list is in its author's own words where it is one of the two and
// all of it is there: a set may name processors that are switched off, and no container can be pinned to one (C64).
func (p Processors) usable() (list string, cpus []int, err error) {
	list, cpus, err = p.permitted()
	online, onlineErr := parseCPUList(p.Online)
	if err != nil || list == "" || onlineErr != nil {
		return list, cpus, err
	}
	off := without(cpus, online)
	switch {
	case len(off) == 0 || len(without(online, cpus)) == 0:
		return list, cpus, nil
	case len(off) == len(cpus):
		return "", nil, fmt.Errorf("sandbox: what is judged may use the processors %s, and of this machine %s are switched on "+
			"(/sys/devices/system/cpu/online): none is left to judge on; correct the set (AllowedCPUs= of evalhost.slice or of the unit), "+
			"or switch them on", list, p.Online)
	}
	cpus = without(cpus, off)
	words := make([]string, len(cpus))
	for i, cpu := range cpus {
		words[i] = strconv.Itoa(cpu)
	}
	return strings.Join(words, ","), cpus, nil
}

// permitted are the processors that both may use, whether or not they are there.
func (p Processors) permitted() (list string, cpus []int, err error) {
	allowed, allowedErr := parseCPUList(p.Allowed)
	runs, runsErr := parseCPUList(p.Runs)
	switch {
	case allowedErr != nil && runsErr != nil:
		return "", nil, nil
	case allowedErr != nil:
		return p.Runs, runs, nil
	case runsErr != nil, len(without(allowed, runs)) == 0:
		return p.Allowed, allowed, nil
	case len(without(runs, allowed)) == 0:
		return p.Runs, runs, nil
	}
	both := without(allowed, without(allowed, runs))
	if len(both) == 0 {
		return "", nil, fmt.Errorf("sandbox: this process may use the processors %s, and what it judges may use %s (AllowedCPUs= of evalhost.slice): "+
			"they have none in common, so nothing could be judged where it was asked for; give the two the same set", p.Allowed, p.Runs)
	}
	return formatCPUList(both), both, nil
}

// checkHome is asked for every container, and asks the kernel each time: the sets of evalhost.slice can be changed under a
// running process (systemctl set-property), and nothing tells this process of it. What it costs is in docs/decisions/0050.
//
// It refuses a run whose home may not use what its lane promises: the kernel would run it elsewhere without a word, on
// a core of another test. processors is the home's list, cpuset the lane's; either may be empty for unknown and for no pin.
func (p Processors) checkHome(processors, cpuset string, lanes int) error {
	if processors == "" || mutant.Off(mutant.HomeLane) {
		return nil
	}
	may, err := parseCPUList(processors)
	if err != nil {
		return err
	}
	const cure = "the set of evalhost.slice was changed after this process had started: start it again"
	if cpuset == "" {
		if lanes == 1 {
			return nil // there is a core, and nobody to share it with
		}
		if cores := len(p.cores(may)); lanes > cores {
			return fmt.Errorf("sandbox: what is judged may use the processors %s, which are fewer cores (%d) than there are lanes (%d): "+
				"two tests would measure each other, so nothing is judged; %s", processors, cores, lanes, cure)
		}
		return nil
	}
	pinned, err := parseCPUList(cpuset)
	if err != nil {
		return err
	}
	if outside := without(pinned, may); len(outside) > 0 {
		return fmt.Errorf("sandbox: what is judged may use the processors %s, and its lane is %s: the kernel would run it where "+
			"another test is measured, so it is not judged; %s", processors, cpuset, cure)
	}
	return nil
}

// cores groups processors by their physical core, in the order in which the list names the first of each.
func (p Processors) cores(cpus []int) [][]int {
	var cores [][]int
	seen := map[int]bool{}
	for _, cpu := range cpus {
		if seen[cpu] {
			continue
		}
		var core []int
		for _, sibling := range p.siblings(cpu) {
			if slices.Contains(cpus, sibling) && !seen[sibling] {
				seen[sibling] = true
				core = append(core, sibling)
			}
		}
		cores = append(cores, core)
	}
	return cores
}

// siblings are the threads of a processor's core; the processor alone when nothing is known.
func (p Processors) siblings(cpu int) []int {
	if p.Siblings != nil {
		if s := p.Siblings(cpu); slices.Contains(s, cpu) {
			return s
		}
	}
	return []int{cpu}
}

// without gives the elements of a that are not in b.
func without(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(cpu int) bool { return slices.Contains(b, cpu) })
}

// maxCPUs bounds a range, so that a wrong list cannot eat memory.
const maxCPUs = 4096

// parseCPUList reads the kernel's list form, "0-3,8", in the order in which it is written.
func parseCPUList(text string) ([]int, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, errors.New("sandbox: an empty list of processors")
	}
	var cpus []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 31)
		to, err2 := strconv.ParseUint(last, 10, 31)
		if err1 != nil || err2 != nil || to < from || to-from >= maxCPUs || len(cpus) > maxCPUs {
			return nil, fmt.Errorf("sandbox: the list of processors %q: expected numbers and ranges such as 0-3,8, not %q", text, part)
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	return cpus, nil
}

// formatCPUList writes processors comma-separated, in ascending order.
func formatCPUList(cpus []int) string {
	words := make([]string, len(cpus))
	for i, cpu := range slices.Sorted(slices.Values(cpus)) {
		words[i] = strconv.Itoa(cpu)
	}
	return strings.Join(words, ",")
}

// checkLanes refuses lanes that are no lists of processors, or have a processor in common or two threads of one core.
func (p Processors) checkLanes(lanes []Lane) error {
	owner := map[int]int{}
	for i, lane := range lanes {
		if lane.Cpuset == "" || mutant.Off(mutant.SharedLanes) {
			continue
		}
		cpus, err := parseCPUList(lane.Cpuset)
		if err != nil {
			return fmt.Errorf("lane %d: %w", i, err)
		}
		for _, cpu := range cpus {
			for _, thread := range p.siblings(cpu) {
				if other, taken := owner[thread]; taken && other != i {
					return fmt.Errorf("the lanes %d and %d share the core of processor %d, and would measure each other", other, i, cpu)
				}
				owner[thread] = i
			}
		}
	}
	return nil
}
