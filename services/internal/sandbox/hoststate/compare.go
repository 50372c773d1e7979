package hoststate

import (
	"fmt"
	"slices"
	"strings"
)

// Count says how many facts of one kind there were and are.
type Count struct {
	Kind   string `json:"kind"`
	Before int    `json:"before"`
	After  int    `json:"after"`
}

// kinds are what a whole run of suites is counted by, in this order, each with the beginnings of its facts. Whatever begins
// with none of them is counted as "other".
var kinds = []struct {
	name     string
	prefixes []string
}{
	{"containers", []string{"container ", "daemon's container "}},
	{"volumes", []string{"daemon's volume "}},
	{"layers", []string{"daemon's layer "}},
	{"slices and scopes", []string{"unit "}},
	{"cgroups", []string{"cgroup "}},
	{"mounts", []string{"mount "}},
	{"processes", []string{"process "}},
	{"files", []string{"file "}},
	{"other", []string{""}},
}

func kindOf(fact string) int {
	return slices.IndexFunc(kinds, func(k struct {
		name     string
		prefixes []string
	},
	) bool {
		return slices.ContainsFunc(k.prefixes, func(p string) bool { return strings.HasPrefix(fact, p) })
	})
}

// Counts counts both snapshots by kind.
func Counts(before, after Snapshot) []Count {
	counts := make([]Count, len(kinds))
	for i, k := range kinds {
		counts[i].Kind = k.name
	}
	for fact := range before {
		counts[kindOf(fact)].Before++
	}
	for fact := range after {
		counts[kindOf(fact)].After++
	}
	return counts
}

// Left lists, sorted, what a whole run of suites has left behind: every fact that was not there before, except that
// processes are compared by name and number. A suite restarts the daemon, which is another process afterwards and the same one
// to anybody who counts.
func (s Snapshot) Left(before Snapshot) []string {
	was, is := before.processNames(), s.processNames()
	var left []string
	for _, fact := range s.Added(before) {
		if !strings.HasPrefix(fact, "process ") {
			left = append(left, fact)
		}
	}
	for name, n := range is {
		if n > was[name] {
			left = append(left, fmt.Sprintf("process %s: %d, and %d before", name, n, was[name]))
		}
	}
	slices.Sort(left)
	return left
}

func (s Snapshot) processNames() map[string]int {
	names := map[string]int{}
	for fact := range s {
		if rest, ok := strings.CutPrefix(fact, "process "); ok {
			_, name, _ := strings.Cut(rest, " ")
			names[name]++
		}
	}
	return names
}
