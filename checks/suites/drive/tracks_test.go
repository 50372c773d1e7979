package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestTracksRunSideBySideAndTheStaysOfATrackOneAfterAnother(t *testing.T) {
	d, _ := faked(&fakeGuest{})
	d.oneByOne = func() string { return "" }
	stays := []stay{{variant: "a", track: 0}, {variant: "a", track: 1}, {variant: "b", track: 0}, {variant: "c", track: 1}}
	both := map[string]*sync.WaitGroup{"a0": {}, "a1": {}}
	for _, began := range both {
		began.Add(1)
	}
	var mu sync.Mutex
	var ended []string
	d.inTracks(stays, func(s stay) {
		if s.variant == "a" { // neither ends before the other has begun
			both[fmt.Sprint("a", s.track)].Done()
			both[fmt.Sprint("a", 1-s.track)].Wait()
		}
		mu.Lock()
		defer mu.Unlock()
		ended = append(ended, s.variant)
	})
	if len(ended) != 4 || slices.Index(ended, "b") < slices.Index(ended, "a") || slices.Index(ended, "c") < slices.Index(ended, "a") {
		t.Errorf("ended: %q", ended)
	}
}

func TestASmallMachineHasOneGuestAtATimeAndSaysWhy(t *testing.T) {
	d, out := faked(&fakeGuest{})
	var order []string
	d.inTracks([]stay{{variant: "a", track: 1}, {variant: "b", track: 0}}, func(s stay) { order = append(order, s.variant) })
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

func TestEverySuiteHasATrack(t *testing.T) {
	used := map[int]int{}
	for _, s := range suites {
		if s.track < 0 || s.track >= tracks {
			t.Errorf("suite %s would never run: there is no track %d", s.name, s.track)
		}
		used[s.track]++
	}
	if len(used) != tracks {
		t.Errorf("tracks in use: %v of %d", used, tracks)
	}
}
