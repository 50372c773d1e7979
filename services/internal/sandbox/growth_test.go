package sandbox

import (
	"slices"
	"strings"
	"testing"
)

// Removed cgroups that the kernel still holds are noise and no leak as long as they reach a level: a page of a daemon's own file, or
// of the kernel's, that was first touched in a run's cgroup keeps it until the page goes. What may not happen is that more runs
// leave more of them. A run makes four cgroups.

// dyingSlack is how many more dying cgroups than before are no growth after so many runs: one of a hundred that were made.
func dyingSlack(runs int) int { return max(4, runs/25) }

// dying begins the names of the counts of removed cgroups that the kernel still holds.
const dying = "nr_dying_descendants of "

// allowance is how far a count may be above what it was before so many runs, and be no growth. The threads of this process are
// Go's: it keeps one for each call that ever blocked beside others, which has nothing to do with the number of runs. Without a run nothing may grow.
func allowance(name string, runs int) int {
	switch {
	case runs == 0:
		return 0
	case strings.HasPrefix(name, dying):
		return dyingSlack(runs)
	case name == "threads":
		return 4
	}
	return 0
}

// rises says whether what was counted at equal distances goes on growing: the middle of each third of the counts is at least two
// above that of the third before. One step, or noise around a level, never does that; a leak of one in forty runs does, in
// the 25 counts of 500 runs. Fewer than nine counts say nothing.
func rises(trail []int) bool {
	if len(trail) < 9 {
		return false
	}
	third := len(trail) / 3
	middle := func(counts []int) int {
		sorted := slices.Sorted(slices.Values(counts))
		return sorted[len(sorted)/2]
	}
	first, second, last := middle(trail[:third]), middle(trail[third:len(trail)-third]), middle(trail[len(trail)-third:])
	return second >= first+2 && last >= second+2
}

func TestGrowthIsToldFromALevelThatIsReached(t *testing.T) {
	every20 := func(count func(runs int) int) (trail []int) {
		for runs := 0; runs < 500; runs += 20 {
			trail = append(trail, count(runs))
		}
		return trail
	}
	for name, c := range map[string]struct {
		count func(runs int) int
		want  bool
	}{
		"nothing":                             {func(int) int { return 0 }, false},
		"a level with noise":                  {func(n int) int { return 8 + n/20*7%4 }, false},
		"a level that is reached":             {func(n int) int { return min(n/10, 12) }, false},
		"one step":                            {func(n int) int { return 8 + n/260*30 }, false},
		"one high count":                      {func(n int) int { return 8 + 50*(n/480) }, false},
		"it goes down":                        {func(n int) int { return 60 - n/10 }, false},
		"one in forty runs":                   {func(n int) int { return 8 + n/40 }, true},
		"one in forty runs, with noise":       {func(n int) int { return 8 + n/40 + n/20%2 }, true},
		"one in ten runs after the first 100": {func(n int) int { return max(8, 8+(n-100)/10) }, true},
		"one a run":                           {func(n int) int { return n }, true},
	} {
		if got := rises(every20(c.count)); got != c.want {
			t.Errorf("%s: %v, want %v: %v", name, got, c.want, every20(c.count))
		}
	}
	if rises([]int{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Error("eight counts were believed")
	}
	for name, want := range map[string]int{dying + "/sys/fs/cgroup": 20, "threads": 4, "descriptors": 0, "goroutines": 0, "kind mount": 0} {
		if got := allowance(name, 500); got != want || allowance(name, 0) != 0 {
			t.Errorf("%s may be %d above what it was, want %d, and without a run nothing", name, got, want)
		}
	}
	// A leak of one cgroup a run is found however few runs there were, and one in two hundred made is not called a leak.
	if dyingSlack(6) >= 6 || dyingSlack(500) >= 500 || dyingSlack(104) < 2 {
		t.Errorf("slack of 6 runs %d, of 104 %d, of 500 %d", dyingSlack(6), dyingSlack(104), dyingSlack(500))
	}
}
