//go:build guest

package judge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// working uses the processor, or memory, as its input says: seconds of its own clock, and MiB.
const working = `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static char *volatile kept;
int main(void) {
	double seconds;
	int mib, i;
	if (scanf("%lf %d", &seconds, &mib) != 2) return 2;
	kept = malloc((mib << 20) + 1);
	for (i = 0; i < mib; i++) memset(kept + (i << 20), 1, 1 << 20);
	while (clock() < seconds * CLOCKS_PER_SEC) {}
	puts("done");
	return 0;
}
`

// inLanes is a package of so many tests of one group, with these inputs.
func inLanes(inputs ...string) map[string]string {
	p := map[string]string{
		"config.yml":  "type: standard-io@1\nlimits: { timeMs: 20000, memoryBytes: 134217728 }\ngroups: [ { group: 1, points: 100 } ]\n",
		"tests/0a.in": "", "tests/0a.out": "", "tests/2a.in": "", "tests/2a.out": "",
	}
	for i, input := range inputs {
		name := fmt.Sprintf("tests/1%c", 'a'+i)
		p[name+".in"], p[name+".out"] = input+"\n", "done\n"
	}
	return p
}

// J45 with two lanes (decisions 12): the same verdict, score and order of rows, and intervals that overlap. What it saves is a
// matter of the machine and is logged.
func TestJ45TwoLanesChangeNothingButTheTime(t *testing.T) {
	g := onAHost(t)
	p := open(t, inLanes("1 0", "1 0", "1 0", "1 0", "1 0", "1 0"))
	var rows [2][]string
	for i, lanes := range []int{1, 2} {
		j := g.judge(g.bench(p, lanes), inC("work.c", working))
		if j.Verdict != verdict.Accepted || j.Document.Score != 100 {
			t.Errorf("%d lanes: %s, %v points", lanes, j.Verdict, j.Document.Score)
		}
		for _, test := range j.Document.Tests {
			rows[i] = append(rows[i], fmt.Sprint(test.Name, " ", test.Status, " ", test.Score))
		}
		for _, tested := range j.Tests {
			// A second of its own clock, in whichever lane, beside whomever.
			if tested.Time < time.Second || tested.Time > 1300*time.Millisecond {
				t.Errorf("%d lanes: %s is charged %v for a second of its own clock", lanes, tested.Name, tested.Time)
			}
		}
		overlaps, most := 0, 0
		all := g.spans.take()
		for n, a := range all {
			for _, b := range all[n+1:] {
				if a.from.Before(b.to) && b.from.Before(a.to) {
					overlaps++
					if a.lane == b.lane {
						t.Errorf("%s and %s went at once in lane %d", a.test, b.test, a.lane)
					}
				}
			}
			most = max(most, a.lane)
		}
		if len(all) != 6 || most != lanes-1 || (overlaps > 0) != (lanes > 1) {
			t.Errorf("%d lanes: %d runs, the highest lane %d, %d pairs of overlapping runs", lanes, len(all), most, overlaps)
		}
	}
	if diff := cmp.Diff(rows[0], rows[1]); diff != "" {
		t.Errorf("two lanes change the table (-one +two):\n%s", diff)
	}
}

func TestJ46ALaneIsNotChargedForItsNeighboursMemory(t *testing.T) {
	g := onAHost(t)
	j := g.judge(g.bench(open(t, inLanes("1 64", "1 0")), 2), inC("work.c", working))
	if all := g.spans.take(); len(all) != 2 || !all[0].from.Before(all[1].to) || !all[1].from.Before(all[0].to) {
		t.Errorf("the two did not run at once: %+v", all)
	}
	if full, empty := j.Tests[0].Memory, j.Tests[1].Memory; full == nil || *full <= 60*verdict.MiB || empty == nil || *empty >= 32*verdict.MiB {
		t.Errorf("peaks of %v and %v, want more than 60 MiB and less than 32 MiB", full, empty)
	}
}

func TestJ47AnInputThatDisappearsFailsTheJobAndLeavesNothing(t *testing.T) {
	g := onAHost(t)
	p := open(t, inLanes("0.1 0", "0.1 0", "0.1 0"))
	b := g.bench(p, 2)
	if err := os.Remove(filepath.Join(p.Dir, "tests", "1b.in")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	j, err := b.Judge(ctx, inC("work.c", working), nil)
	fails(t, j, err, "judging test 1b")
	if left, err := g.eng.Sandboxes(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("containers left: %+v, %v", left, err)
	}
}

// J15: nothing depends on where the channels are.
func TestJ15TheChannelsMayBeAnywhere(t *testing.T) {
	dir := filepath.Join("/var/tmp", "evalhost elsewhere, with 'a name'")
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	g := onAHost(t, func(c *sandbox.Config) { c.Scratch = dir })
	j := g.judge(g.bench(open(t), 1), inC("add.c", addC))
	if j.Verdict != verdict.Accepted || j.Document.Score != 100 {
		t.Errorf("%s, %v points", j.Verdict, j.Document.Score)
	}
}

// orphaned burns a second in a grandchild that nobody waits for, and goes on sleeping so that there is time to look.
const orphaned = `#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(void) {
	if (fork() == 0) {
		if (fork() == 0) {
			setsid();
			while (clock() < CLOCKS_PER_SEC) {}
			for (;;) pause();
		}
		_exit(0);
	}
	sleep(5); /* less than the window without progress, which is 6 s */
	puts("3");
	return 0;
}
`

// A must 3: the kernel's own count of the box is the measure.
func TestASecondInAnOrphanIsChargedAsTheBoxCountsIt(t *testing.T) {
	g := onAHost(t)
	b := g.bench(open(t, single(500, 64<<20)), 1)
	looking, stop := context.WithCancel(t.Context())
	counted := make(chan time.Duration, 1)
	go func() { counted <- largestBox(looking) }()
	j, err := b.Judge(t.Context(), inC("orphan.c", orphaned), nil)
	stop()
	box := <-counted
	if err != nil {
		t.Fatal(err)
	}
	tested := j.Tests[0]
	t.Logf("%s; the box counted %v", row(tested), box)
	if j.Verdict != verdict.TimeLimitExceeded || tested.Reason != verdict.TimeLimit {
		t.Errorf("%s", j.Verdict)
	}
	if box < time.Second || tested.Time < box*9/10 || tested.Time > box*11/10 {
		t.Errorf("charged %v, and the box counted %v", tested.Time, box)
	}
}

// largestBox looks at the boxes of this machine until it is told to stop, and returns the most processor time one had used.
func largestBox(ctx context.Context) time.Duration {
	most := time.Duration(0)
	for ctx.Err() == nil {
		_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
			if err != nil || filepath.Base(path) != "cpu.stat" || filepath.Base(filepath.Dir(path)) != "box" {
				return nil // what went away meanwhile is not there
			}
			text, err := os.ReadFile(path)
			var micros int64
			if _, serr := fmt.Sscanf(string(text), "usage_usec %d", &micros); errors.Join(err, serr) == nil {
				most = max(most, time.Duration(micros)*time.Microsecond)
			}
			return nil
		})
		time.Sleep(200 * time.Millisecond)
	}
	return most
}
