package judge

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/sandbox"
)

// six is a package with six tests in one group.
func six(t *testing.T) *problem.Problem {
	files := map[string]string{
		"config.yml": "type: standard-io@1\nlimits: { timeMs: 2000, memoryBytes: 1048576 }\ngroups: [ { group: 1, points: 60 } ]\n",
	}
	for name := range maps.Keys(adder) {
		if name != "config.yml" {
			files[name] = ""
		}
	}
	for i := range 6 {
		name := "tests/1" + string(rune('a'+i))
		files[name+".in"], files[name+".out"] = fmt.Sprintf("%d 1\n", i), fmt.Sprintf("%d\n", i+1)
	}
	return open(t, files)
}

// Later tests take less time, so that they overtake earlier ones where there is more than one lane.
func overtaking(r sandbox.Run) (sandbox.RunOutcome, error) {
	time.Sleep(time.Duration('g'-r.Test[1]) * time.Second)
	return adds(r, map[bool]int{true: 1}[r.Test == "1c"]), nil
}

func TestMoreLanesChangeNothingButTheTime(t *testing.T) {
	p := six(t)
	var want string
	var serial time.Duration
	for lanes := 1; lanes <= 8; lanes++ {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			f.run = overtaking
			b, err := bench(t, f, p, lanes)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			j, err := b.Judge(t.Context(), program, nil)
			if err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			if lanes == 1 {
				want, serial = statuses(j), took
			}
			if got := statuses(j); got != want {
				t.Errorf("%d lanes: %s, want %s", lanes, got, want)
			}
			if f.most != min(lanes, 6) || lanes > 1 && took >= serial {
				t.Errorf("%d lanes: at most %d at once, %s", lanes, f.most, took)
			}
			for _, r := range f.runs {
				if r.Lane < 0 || r.Lane >= lanes {
					t.Errorf("%d lanes: %s ran in lane %d", lanes, r.Test, r.Lane)
				}
			}
			for _, r := range f.runs {
				if first := int(r.Test[1] - 'a'); first < lanes && r.Lane != first {
					t.Errorf("%d lanes: %s began in lane %d and not in the lowest free one", lanes, r.Test, r.Lane)
				}
			}
		})
	}
}

func TestATestThatCouldNotBeJudgedStopsTheScheduling(t *testing.T) {
	p := six(t)
	broken := errors.New("broken")
	for lanes, begun := range map[int]int{1: 3, 2: 4, 3: 5} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			ended := map[string]bool{}
			f.run = func(r sandbox.Run) (sandbox.RunOutcome, error) {
				time.Sleep(time.Second + time.Duration(r.Test[1])*time.Millisecond)
				f.mu.Lock()
				defer f.mu.Unlock()
				ended[r.Test] = true
				if r.Test >= "1c" {
					return sandbox.RunOutcome{}, broken
				}
				return adds(r, 0), nil
			}
			b, err := bench(t, f, p, lanes)
			if err != nil {
				t.Fatal(err)
			}
			j, err := b.Judge(t.Context(), program, nil)
			// Of several, the first in the order of the census is told.
			fails(t, j, err, "judging test 1c: broken")
			if len(f.runs) != begun || len(ended) != begun {
				t.Errorf("%d lanes: %d tests began and %d ended, want %d", lanes, len(f.runs), len(ended), begun)
			}
		})
	}
}
