package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestTwoGuestsAreUpAtATimeAndTheNextOneTakesThePlaceOfWhicheverEnds(t *testing.T) {
	d, _ := faked(&fakeGuest{})
	d.oneByOne = func() string { return "" }
	stays := []stay{{number: 0}, {number: 1}, {number: 2}, {number: 3}, {number: 4}}
	var mu sync.Mutex
	var under, most int
	var began []int
	others := make(chan struct{}, len(stays))
	first := make(chan struct{})
	d.twoAtATime(stays, func(s stay) {
		if s.number > 0 {
			<-first
		}
		mu.Lock()
		began = append(began, s.number)
		under++
		most = max(most, under)
		mu.Unlock()
		if s.number == 0 { // it lasts as long as all the others
			close(first)
			for range len(stays) - 1 {
				<-others
			}
		} else {
			others <- struct{}{}
		}
		mu.Lock()
		under--
		mu.Unlock()
	})
	after := slices.DeleteFunc(slices.Clone(began), func(n int) bool { return n == 0 })
	if most != atOnce || !slices.Equal(after, []int{1, 2, 3, 4}) || len(began) != len(stays) {
		t.Errorf("%d at a time, begun in the order %v", most, began)
	}
}

func TestASmallMachineHasOneGuestAtATimeAndSaysWhy(t *testing.T) {
	d, out := faked(&fakeGuest{})
	var order []string
	d.twoAtATime([]stay{{variant: "a"}, {variant: "b"}}, func(s stay) { order = append(order, s.variant) })
	if !slices.Equal(order, []string{"a", "b"}) || !strings.Contains(out.String(), "one guest at a time: these guests are all one") {
		t.Errorf("%q\n%s", order, out)
	}
	for meminfo, small := range map[string]bool{
		"MemTotal: 1 kB\nMemAvailable:   10485760 kB\n": false, "MemAvailable: 10485759 kB\n": true, "MemFree: 99999999 kB\n": true,
		"MemAvailable: 99999999999999999999 kB\n": true, "": true,
	} {
		if why := tooSmall(meminfo); (why != "") != small {
			t.Errorf("%q: %q", meminfo, why)
		}
	}
}

func TestEverySuiteIsInAHalf(t *testing.T) {
	used := map[int]int{}
	for _, s := range suites {
		if s.half < 0 || s.half >= halves {
			t.Errorf("suite %s would never run: there is no half %d", s.name, s.half)
		}
		used[s.half]++
	}
	if len(used) != halves {
		t.Errorf("halves in use: %v of %d", used, halves)
	}
}

func TestTestsOfLanesHaveTwoProcessorsAndEverythingElseRunsOnceOnOne(t *testing.T) {
	wanted := []suite{
		{name: "a", on: []string{"x", "y"}, half: 0, tests: []string{"TestOne", "TestTwoLanes"}},
		{name: "b", on: []string{"x"}, half: 1, tests: []string{"TestThree"}},
		{name: "c", on: []string{"x"}, half: 1, tests: []string{"TestALaneOnly"}},
	}
	var got []string
	for i, s := range plan([]string{"x", "y-runc"}, wanted) {
		if s.number != i {
			t.Errorf("stay %d has the number %d", i, s.number)
		}
		for _, one := range s.suites {
			got = append(got, fmt.Sprintf("%s: %s", s.title(one), strings.Join(one.tests, " ")))
		}
	}
	want := []string{
		"a on x: TestOne", "b on x: TestThree", "a on x with 2 processors: TestTwoLanes", "c on x with 2 processors: TestALaneOnly",
		"a on y-runc: TestOne", "a on y-runc with 2 processors: TestTwoLanes",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if len(wanted[0].tests) != 2 {
		t.Errorf("the suites themselves were changed: %q", wanted[0].tests)
	}
}
