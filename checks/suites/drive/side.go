package main

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// halves is into how many parts the suites of a variant are divided, and atOnce how many guests may be up at a time. An emulated
// host that starts one container after another keeps little more than one of this machine's processors busy
// (docs/decisions/0002): a second one beside it costs little.
const (
	halves = 2
	atOnce = 2
)

// What a machine must have for two guests at a time: a processor each, and memory for both and for what they are fed by.
const (
	processorsForTwo = 2
	memoryForTwo     = 10 << 30 // bytes, available
)

// stay is what happens between the start of a guest and its end.
type stay struct {
	number     int // from 0, in the order in which they begin
	variant    string
	processors int
	suites     []suite
}

// name of its guest, for people.
func (s stay) name() string {
	return fmt.Sprintf("%s guest of %s%s", s.variant, s.suites[0].name, s.with())
}

// title of a suite in it, for people.
func (s stay) title(one suite) string { return one.name + " on " + s.variant + s.with() }

func (s stay) with() string {
	if s.processors == 1 {
		return ""
	}
	return fmt.Sprintf(" with %d processors", s.processors)
}

// onLanes are the words in the name of a test that needs a host with two processors.
const onLanes = "Lane"

// plan says which guests are brought up for these suites, in the order in which they begin. What two guests at a time cost each other
// is least when each has one processor (docs/decisions/0002), so the tests of lanes have guests of their own, with two.
func plan(variants []string, wanted []suite) []stay {
	var stays []stay
	add := func(variant string, processors int, of func(suite) bool) {
		var here []suite
		for _, s := range wanted {
			if !of(s) || !slices.Contains(s.on, strings.TrimSuffix(variant, "-runc")) {
				continue
			}
			s.tests = slices.DeleteFunc(slices.Clone(s.tests), func(test string) bool {
				return strings.Contains(test, onLanes) != (processors > 1)
			})
			if len(s.tests) > 0 {
				here = append(here, s)
			}
		}
		if len(here) > 0 {
			stays = append(stays, stay{number: len(stays), variant: variant, processors: processors, suites: here})
		}
	}
	for _, variant := range variants {
		for half := range halves {
			add(variant, 1, func(s suite) bool { return s.half == half })
		}
		add(variant, 2, func(suite) bool { return true })
	}
	return stays
}

// twoAtATime carries out stays in their order, the next one whenever fewer than two are under way, or one after another where
// the machine is too small for two. It returns when all have ended.
func (d *drive) twoAtATime(stays []stay, f func(stay)) {
	guests := atOnce
	if why := d.oneByOne(); why != "" {
		fmt.Fprintf(d.out, "one guest at a time: %s\n", why)
		guests = 1
	}
	next := make(chan stay, len(stays))
	for _, s := range stays {
		next <- s
	}
	close(next)
	var all sync.WaitGroup
	for range guests {
		all.Go(func() {
			for s := range next {
				f(s)
			}
		})
	}
	all.Wait()
}

// oneByOne says why this machine has no room for two guests; empty where it has.
func oneByOne() string {
	if n := runtime.NumCPU(); n < processorsForTwo {
		return fmt.Sprintf("this machine has %d processor", n)
	}
	const path = "/proc/meminfo"
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Sprintf("how much memory is available is not known: %v", err)
	}
	return tooSmall(string(content))
}

var available = regexp.MustCompile(`(?m)^MemAvailable: +(\d+) kB$`)

func tooSmall(meminfo string) string {
	found := available.FindStringSubmatch(meminfo)
	if found == nil {
		return "how much memory is available is not known: /proc/meminfo has no MemAvailable"
	}
	kib, err := strconv.ParseUint(found[1], 10, 53)
	if err != nil || kib<<10 < memoryForTwo {
		return fmt.Sprintf("%s KiB of memory are available, and two take %d KiB", found[1], memoryForTwo>>10)
	}
	return ""
}
