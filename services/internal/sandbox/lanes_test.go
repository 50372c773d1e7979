//go:build !guest

package sandbox

import (
	"strings"
	"testing"
)

// pairs are machines with two threads a core: 0 and n/2, 1 and n/2+1, and so on.
func pairs(n int) func(int) []int {
	return func(cpu int) []int {
		if cpu < n/2 {
			return []int{cpu, cpu + n/2}
		}
		return []int{cpu - n/2, cpu}
	}
}

func TestHowLanesAreDealt(t *testing.T) {
	single := func(cpu int) []int { return []int{cpu} }
	for name, test := range map[string]struct {
		n               int
		allowed, online string
		siblings        func(int) []int
		lanes           string // cpusets, "/" between them; "none" for no pin
		warns           int
		refused         bool
	}{
		"the whole machine is not pinned":              {1, "0-7", "0-7", single, "none", 0, false},
		"nor with several lanes":                       {3, "0-7", "0-7", single, "none/none/none", 0, false},
		"compared as sets":                             {1, "0-3,4-7", "0-7", single, "none", 0, false},
		"more than is online":                          {1, "0-15", "0-7", single, "none", 0, false},
		"unreadable":                                   {2, "", "", nil, "none/none", 0, false},
		"a set is passed on in its own words":          {1, "2-3,6", "0-7", single, "2-3,6", 0, false},
		"a set is cut in the order written":            {2, "6,2-4", "0-7", single, "2,6/3,4", 0, false},
		"the first get one more":                       {3, "1-7", "0-7", single, "1,2,3/4,5/6,7", 0, false},
		"threads of one core stay together":            {2, "0,1,4,5", "0-7", pairs(8), "0,4/1,5", 0, false},
		"however the list names them":                  {2, "5,0,1,4", "0-7", pairs(8), "1,5/0,4", 0, false},
		"half a core is warned about":                  {2, "0,1", "0-7", pairs(8), "0/1", 2, false},
		"more lanes than cores of a set":               {3, "0,1,4,5", "0-7", pairs(8), "", 0, true},
		"more lanes than cores of the machine":         {5, "0-7", "0-7", pairs(8), "", 0, true},
		"as many lanes as cores":                       {4, "0-7", "0-7", pairs(8), "none/none/none/none", 0, false},
		"no lanes":                                     {0, "0-7", "0-7", single, "", 0, true},
		"unknown topology makes every thread its core": {2, "0,1", "0-7", func(int) []int { return nil }, "0/1", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			lanes, warnings, err := PlanLanes(test.n, Processors{Allowed: test.allowed, Online: test.online, Siblings: test.siblings})
			if (err != nil) != test.refused {
				t.Fatalf("refused: %v, want %v", err, test.refused)
			}
			var got []string
			for _, l := range lanes {
				if l.Cpuset == "" {
					l.Cpuset = "none"
				}
				got = append(got, l.Cpuset)
			}
			if strings.Join(got, "/") != test.lanes || len(warnings) != test.warns {
				t.Errorf("lanes %q with %q, want %q with %d warnings", got, warnings, test.lanes, test.warns)
			}
			if err == nil && checkLanes(lanes) != nil {
				t.Errorf("its own lanes are refused: %v", checkLanes(lanes))
			}
		})
	}
}

func TestListsOfProcessors(t *testing.T) {
	for text, want := range map[string]string{"0": "0", "0-3": "0,1,2,3", "8,0-1": "0,1,8", " 5\n": "5"} {
		got, err := parseCPUList(text)
		if err != nil || formatCPUList(got) != want {
			t.Errorf("%q reads as %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", " ", "3-1", "a", "1-", "-1", "0-4096", "1,,2", "0x1", "99999999999"} {
		if got, err := parseCPUList(text); err == nil {
			t.Errorf("%q was read as %d processors", text, len(got))
		}
	}
}

func TestLanesThatShareAProcessorAreRefused(t *testing.T) {
	for lanes, ok := range map[string]bool{"0/1": true, "0-1/1-2": false, "/": true, "0/": true, "x/1": false, "0,0/1": true} {
		var list []Lane
		for set := range strings.SplitSeq(lanes, "/") {
			list = append(list, Lane{set})
		}
		if err := checkLanes(list); (err == nil) != ok {
			t.Errorf("lanes %q: %v, want accepted %v", lanes, err, ok)
		}
	}
}

func TestThisMachineHasProcessors(t *testing.T) {
	p := ThisMachine()
	if _, err := parseCPUList(p.Allowed); err != nil {
		t.Errorf("allowed %q: %v", p.Allowed, err)
	}
	if lanes, _, err := PlanLanes(1, p); err != nil || len(lanes) != 1 {
		t.Errorf("one lane: %v, %v", lanes, err)
	}
}
