package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// testEvent is one line of `go test -json` or `go tool test2json`.
type testEvent struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64 // seconds
}

// tally counts the tests of one suite. A package that did not build or died outside of a test counts as one failure,
// so that a suite can never pass by not running.
type tally struct {
	name                    string
	passed, failed, skipped int
	took                    time.Duration
	failures                []string // names, in the order they came
	skips                   []string // "name: reason"
	slowest                 []timed
	output                  map[string]*strings.Builder // what an unfinished or failed test printed
	ended                   map[string]bool             // packages that closed with pass or fail
	seen                    map[string]bool
	// aloud prints what every test says when it says it, and not only what a failed one said: a soak's figures are what it is made for.
	aloud bool
}

type timed struct {
	name string
	took time.Duration
}

func newTally(name string) *tally {
	return &tally{name: name, output: map[string]*strings.Builder{}, ended: map[string]bool{}, seen: map[string]bool{}}
}

// read takes the events of one run until the stream ends and copies what failed tests printed to w. A line that is no
// event (a compiler's words, a crash) is copied as it is.
func (t *tally) read(r io.Reader, w io.Writer) error {
	lines := bufio.NewReaderSize(r, 1<<16)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			t.line(line, w)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("read the events of suite %s: %w", t.name, err)
		}
	}
	if t.passed+t.failed == 0 {
		for pkg := range t.seen {
			t.unfinished(pkg, w)
		}
		t.fail("(no test passed or failed)", w)
		return nil
	}
	for pkg := range t.seen {
		if !t.ended[pkg] {
			t.unfinished(pkg, w)
			t.fail(pkg+" (ended without a result)", w)
		}
	}
	return nil
}

// unfinished prints what tests that have no result had said: the last of them is where the suite died.
func (t *tally) unfinished(pkg string, w io.Writer) {
	for _, key := range slices.Sorted(maps.Keys(t.output)) {
		if strings.HasPrefix(key, pkg+".") {
			t.say(key, w)
		}
	}
}

// say prints what a test said, unless that was printed already.
func (t *tally) say(key string, w io.Writer) {
	if b := t.output[key]; b != nil && !t.aloud {
		fmt.Fprint(w, b.String())
	}
}

func (t *tally) line(line string, w io.Writer) {
	var e testEvent
	if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		fmt.Fprint(w, line)
		return
	}
	key := e.Package + "." + e.Test
	switch e.Action {
	case "start":
		t.seen[e.Package] = true
	case "output":
		b := t.output[key]
		if b == nil {
			b = &strings.Builder{}
			t.output[key] = b
		}
		b.WriteString(e.Output)
		if t.aloud {
			fmt.Fprint(w, e.Output)
		}
	case "build-output":
		fmt.Fprint(w, e.Output)
	case "pass", "fail", "skip":
		t.result(e, key, w)
	}
}

func (t *tally) result(e testEvent, key string, w io.Writer) {
	took := time.Duration(e.Elapsed * float64(time.Second))
	if e.Test == "" {
		t.ended[e.Package] = true
		if e.Action == "fail" {
			// A package fails with its tests; alone, it crashed, raced or did not build.
			t.say(key, w)
			if !t.failedIn(e.Package) {
				t.fail(e.Package, w)
			}
		}
		return
	}
	switch e.Action {
	case "pass":
		t.passed++
	case "fail":
		t.say(key, w)
		t.fail(e.Package+" "+e.Test, w)
	case "skip":
		t.skipped++
		t.skips = append(t.skips, e.Test+": "+skipReason(t.output[key]))
	}
	delete(t.output, key)
	if !strings.Contains(e.Test, "/") {
		t.slowest = append(t.slowest, timed{e.Test, took})
	}
}

func (t *tally) failedIn(pkg string) bool {
	return slices.ContainsFunc(t.failures, func(f string) bool { return strings.HasPrefix(f, pkg+" ") })
}

func (t *tally) fail(name string, w io.Writer) {
	t.failed++
	t.failures = append(t.failures, name)
	fmt.Fprintf(w, "FAILED %s: %s\n", t.name, name)
}

// skipReason takes the words a test gave for skipping itself; a test that gave none is told apart.
func skipReason(b *strings.Builder) string {
	if b == nil {
		return "no reason given"
	}
	var words []string
	for l := range strings.Lines(b.String()) {
		l = strings.TrimSpace(l)
		if l != "" && !strings.HasPrefix(l, "=== ") && !strings.HasPrefix(l, "--- ") {
			words = append(words, l)
		}
	}
	if len(words) == 0 {
		return "no reason given"
	}
	return strings.Join(words, " ")
}

// line of the closing table.
func (t *tally) summary(w io.Writer) {
	fmt.Fprintf(w, "%-28s %5d passed %4d failed %4d skipped  %8s\n", t.name, t.passed, t.failed, t.skipped, t.took.Round(time.Second))
	for _, s := range t.skips {
		fmt.Fprintf(w, "    SKIPPED %s\n", s)
	}
	for _, f := range t.failures {
		fmt.Fprintf(w, "    FAILED  %s\n", f)
	}
	slices.SortFunc(t.slowest, func(a, b timed) int { return int(b.took - a.took) })
	for i, s := range t.slowest {
		if i == 3 || s.took < 5*time.Second {
			break
		}
		fmt.Fprintf(w, "    slow    %-60s %8s\n", s.name, s.took.Round(time.Second))
	}
}
