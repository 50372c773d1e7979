//go:build !guest

package sandbox

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/internal/cgroup"
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

func TestC26HowLanesAreDealt(t *testing.T) {
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
			p := Processors{Siblings: test.siblings}
			if err == nil && p.checkLanes(lanes) != nil {
				t.Errorf("its own lanes are refused: %v", p.checkLanes(lanes))
			}
		})
	}
}

// What is judged runs in evalhost.slice, whose set the kernel enforces; this process need not be in it.
func TestLanesAreDealtFromWhatTheSliceAndThisProcessMayUse(t *testing.T) {
	for name, test := range map[string]struct {
		n                     int
		allowed, runs, online string
		siblings              func(int) []int
		lanes                 string // cpusets, "/" between them; "none" for no pin
		refused               string // words of the refusal
	}{
		"the slice has a set, this process has not": {2, "0-7", "2-5", "0-7", nil, "2,3/4,5", ""},
		"in the slice's own words":                  {1, "0-7", "2-5", "0-7", nil, "2-5", ""},
		"this process has one, the slice has not":   {2, "4,2,3,5", "0-7", "0-7", nil, "2,4/3,5", ""},
		"both have":                                   {1, "0-4", "3-7", "0-7", nil, "3,4", ""},
		"neither has":                                 {2, "0-7", "0-7", "0-7", nil, "none/none", ""},
		"the affinity cannot be read":                 {1, "", "2-5", "0-7", nil, "2-5", ""},
		"they have nothing in common":                 {1, "0-1", "2-7", "0-7", nil, "", "none in common"},
		"more lanes than the slice has cores":         {3, "0-7", "2-3", "0-7", nil, "", "processors 2-3"},
		"more lanes than it has whole cores":          {2, "0-7", "1,5", "0-7", pairs(8), "", "processors 1,5"},
		"more lanes than both have in common":         {3, "0-4", "3-7", "0-7", nil, "", "processors 3,4"},
		"the slice's list cannot be read as a list":   {2, "0-7", "?", "0-7", nil, "none/none", ""},
		"the slice is as wide as the machine":         {1, "2-3", "0-7", "0-7", nil, "2-3", ""},
		"a core's threads stay together in a slice":   {2, "0-7", "1,2,5,6", "0-7", pairs(8), "1,5/2,6", ""},
		"the slice names what the machine lost since": {1, "0-3", "0-7", "0-3", nil, "none", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dealt(t, test.n, Processors{Allowed: test.allowed, Runs: test.runs, Online: test.online, Siblings: test.siblings}, test.lanes, test.refused)
		})
	}
}

// The kernel gives a container that is pinned outside of its parent's set other processors and says nothing.
func TestARunWhoseHomeMayNotUseItsLaneIsRefused(t *testing.T) {
	for _, test := range []struct {
		home, cpuset string
		lanes        int
		ok           bool
	}{
		{"2-5", "2,3", 2, true},
		{"2-5", "4,5,2,3", 2, true},
		{"0-7", "2-3", 1, true},
		{"2-5", "5,6", 2, false},
		{"2", "0-1", 1, false},
		{"", "0-1", 1, true}, // not known: a test's home, or a kernel without the controller, which the host check refuses
		{"0-1", "", 2, true},
		{"0", "", 2, false},
		{"0", "", 1, true},
		{"?", "0", 1, false},
	} {
		err := Processors{}.checkHome(test.home, test.cpuset, test.lanes)
		if (err == nil) != test.ok {
			t.Errorf("home %q, lane %q of %d: %v", test.home, test.cpuset, test.lanes, err)
		}
	}
}

// A judging program outside of its test's lane would take its processor from the submission of another (spec/sandbox.md 9.1 #24).
func TestEveryContainerIsAskedForInItsOwnLane(t *testing.T) {
	pins := make(chan string, 4)
	pinned := func(what string, do program) program {
		return func(ctx context.Context, c *box) int {
			pins <- what + " on " + c.spec.Cpuset
			return do(ctx, c)
		}
	}
	for _, kind := range []JudgeKind{Checker, Interactor} {
		for lane, cpu := range []string{"0", "1"} {
			l := newLab(t, &fakeDaemon{
				judged: pinned("submission", underShim(says(""))),
				other:  pinned("judge", func(context.Context, *box) int { return 0 }),
			})
			r := l.judgedBy(kind)
			r.Lane = lane
			if _, err := l.judge(r); err != nil {
				t.Fatal(err)
			}
			got := []string{<-pins, <-pins}
			slices.Sort(got)
			if want := []string{"judge on " + cpu, "submission on " + cpu}; !slices.Equal(got, want) {
				t.Errorf("lane %d: %q, want %q", lane, got, want)
			}
		}
	}
	l := newLab(t, &fakeDaemon{other: pinned("build", func(context.Context, *box) int { return 1 })})
	if _, err := l.job.Build(t.Context(), Build{Kind: SubmissionBuild, Image: "i", Command: []string{"c"}, SourceName: "s", Artifact: "a"}); err != nil {
		t.Fatal(err)
	}
	if got := <-pins; got != "build on 0,1" {
		t.Errorf("%q, want all lanes together", got)
	}
}

// narrowed makes homes that may use these processors only.
type narrowed struct {
	fakeDriver
	processors string
}

func (d narrowed) Open(ctx context.Context, run cgroup.Name) (*cgroup.Home, error) {
	home, err := d.fakeDriver.Open(ctx, run)
	if err == nil {
		setFile(home.Dir, "cgroup.controllers", "cpuset cpu memory pids\n")
		setFile(home.Dir, "cpuset.cpus.effective", d.processors+"\n")
	}
	return home, err
}

func TestARunIsNotMadeInAHomeThatMayNotUseItsLane(t *testing.T) {
	l := newLab(t, &fakeDaemon{judged: underShim(says("")), other: func(context.Context, *box) int { return 1 }})
	homes := l.box.driver.(fakeDriver)
	for lane, processors := range map[int]string{0: "0", 1: "0-1"} {
		l.box.driver = narrowed{homes, processors}
		r := l.plain(&sink{})
		r.Lane = lane
		if _, err := l.judge(r); err != nil {
			t.Errorf("lane %d of %s: %v", lane, processors, err)
		}
	}
	l.box.driver = narrowed{homes, "0"}
	r := l.plain(&sink{})
	r.Lane = 1
	if o, err := l.judge(r); err == nil || !strings.Contains(err.Error(), "its lane is 1") {
		t.Errorf("outcome %v, %v", o.Stop, err)
	}
	if _, err := l.job.Build(t.Context(), Build{Kind: SubmissionBuild, Image: "i", Command: []string{"c"}, SourceName: "s", Artifact: "a"}); err == nil {
		t.Error("a build was made where the lanes are not")
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
	for _, test := range []struct {
		lanes    string
		siblings func(int) []int
		ok       bool
	}{
		{"0/1", nil, true},
		{"0-1/1-2", nil, false},
		{"/", nil, true},
		{"0/", nil, true},
		{"x/1", nil, false},
		{"0,0/1", nil, true},
		{"0/4", pairs(8), false}, // two threads of one core
		{"0,4/1,5", pairs(8), true},
		{"0,4/1,2/5", pairs(8), false},
		{"0/1", pairs(8), true}, // whose other threads nobody here has
	} {
		var list []Lane
		for set := range strings.SplitSeq(test.lanes, "/") {
			list = append(list, Lane{set})
		}
		if err := (Processors{Siblings: test.siblings}).checkLanes(list); (err == nil) != test.ok {
			t.Errorf("lanes %q: %v, want accepted %v", test.lanes, err, test.ok)
		} else if err != nil && test.siblings != nil && !strings.Contains(err.Error(), "share the core") {
			t.Errorf("lanes %q: %v does not say what they share", test.lanes, err)
		}
	}
}

// A set may name processors that are switched off or were taken away: a container pinned to one is refused by the daemon, with
// words that read as if a disk were full.
func TestC64AProcessorThatIsSwitchedOffIsInNoLane(t *testing.T) {
	for name, test := range map[string]struct {
		n                     int
		allowed, runs, online string
		lanes, refused        string
	}{
		"of this process's set":               {2, "6,2-5", "", "0-3", "2/3", ""},
		"the order stays":                     {1, "7,3,2", "", "0-3", "3,2", ""},
		"of the slice's set":                  {1, "0-7", "2-5", "0-3", "2,3", ""},
		"of both":                             {1, "1-5", "2-7", "0-3", "2,3", ""},
		"none is left":                        {1, "4-5", "", "0-3", "", "none is left"},
		"none is left of what both may use":   {1, "0-5", "4-7", "0-3", "", "none is left"},
		"no more lanes than are switched on":  {3, "2-5", "", "0-3", "", "3 lanes and 2 physical cores"},
		"a set with the whole machine in it":  {1, "0-127", "", "0-3", "none", ""},
		"what is switched on cannot be known": {1, "2-5", "", "", "none", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dealt(t, test.n, Processors{Allowed: test.allowed, Runs: test.runs, Online: test.online}, test.lanes, test.refused)
		})
	}
}

// dealt wants these lanes, cpusets with "/" between them and "none" for no pin, or a refusal with these words.
func dealt(t *testing.T, n int, p Processors, want, refused string) {
	t.Helper()
	lanes, _, err := PlanLanes(n, p)
	if refused != "" {
		if err == nil || !strings.Contains(err.Error(), refused) {
			t.Errorf("lanes %v, refused with %v, want %q", lanes, err, refused)
		}
		return
	}
	var got []string
	for _, l := range lanes {
		got = append(got, cmp.Or(l.Cpuset, "none"))
	}
	if err != nil || strings.Join(got, "/") != want {
		t.Errorf("lanes %q, %v; want %q", got, err, want)
	}
}

// What is asked of the kernel before each container: one lane asks nothing of the cores, several that are not pinned ask for
// every processor.
func BenchmarkWhatAContainersHomeMayUse(b *testing.B) {
	home := ThisMachine().Online
	for name, lanes := range map[string]int{"one lane": 1, "two lanes": 2} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := (Processors{Siblings: threadsOfCore}).checkHome(home, "", lanes); err != nil && lanes == 1 {
					b.Fatal(err)
				}
			}
		})
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
