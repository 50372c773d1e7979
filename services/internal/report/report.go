// Package report writes down what became of a submission: the details document (spec/judging.md 8), the text of the log
// attachment, and a table for terminals. It is pure, and the only place where the words of a hostile program are made fit
// for JSON, for a text file and for a terminal. Until they get here they are carried as they are.
package report

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Document is everything the details document says. Groups are in the order of config.yml; tests are by group in that
// order, and within a group in the order of the census (spec/judging.md 7.3).
type Document struct {
	// Type is the problem type, such as "standard-io@1".
	Type string
	// Limits are the package's with the language's overrides and without any group's own.
	Limits          Limits
	Score, MaxScore float64
	Compilation     Compilation
	Groups          []Group
	Tests           []Test
}

// Limits is the pair shown above the table.
type Limits struct {
	Time   time.Duration
	Memory verdict.Bytes
}

// Compilation says whether there was a program to run. Its status is OK if it was built, ERROR if it could not be, and
// WARNING if nothing was offered to a compiler.
type Compilation struct {
	Status verdict.Status
	// Log is the compiler's words if it failed, else what was decided instead of compiling.
	Log string
}

// Group is one scoring group.
type Group struct {
	Number            uint32
	Points, MaxPoints float64
	Status            verdict.Status
}

// Test is one row of the table.
type Test struct {
	Name   string
	Group  uint32
	Status verdict.Status
	// Time is processor time, 0 if nothing ran.
	Time time.Duration
	// Memory is the peak, 0 if it was not measured or nothing ran; then the document leaves it out.
	Memory          verdict.Bytes
	Score, MaxScore float64
	// Note may hold anything a program printed.
	Note string
	// Reason is NoReason exactly if the test passed.
	Reason verdict.Reason
}

// Millis is a time in the unit of the document: whole milliseconds, rounded up, so that a program that took any time at
// all took at least one, and that what passes its limit by a microsecond shows it (spec/judging.md 4.7).
func Millis(t time.Duration) int64 {
	whole := t / time.Millisecond
	if t > whole*time.Millisecond {
		whole++
	}
	return int64(whole)
}

// Validate refuses a document that says something no judging can have come to. Above all, a status or reason that
// nobody has set is an error here and never reads as passed.
func (d *Document) Validate() error {
	switch {
	case d.Type == "":
		return fmt.Errorf("report: the document has no problem type")
	case d.Limits.Time <= 0 || d.Limits.Memory <= 0:
		return fmt.Errorf("report: the limits %v and %v are not positive", d.Limits.Time, d.Limits.Memory)
	case !slices.Contains([]verdict.Status{verdict.OK, verdict.Error, verdict.Warning}, d.Compilation.Status):
		return fmt.Errorf("report: the compilation has the status %q", string(d.Compilation.Status))
	case len(d.Groups) == 0 || len(d.Tests) == 0:
		return fmt.Errorf("report: a document with %d groups and %d tests", len(d.Groups), len(d.Tests))
	}
	if err := points("the document", d.Score, d.MaxScore); err != nil {
		return err
	}
	known := make(map[uint32]bool, len(d.Groups))
	for _, g := range d.Groups {
		what := fmt.Sprintf("group %d", g.Number)
		if known[g.Number] {
			return fmt.Errorf("report: %s is listed twice", what)
		}
		known[g.Number] = true
		if g.Status != verdict.OK && g.Status != verdict.Error {
			return fmt.Errorf("report: %s has the status %q", what, string(g.Status))
		}
		if err := points(what, g.Points, g.MaxPoints); err != nil {
			return err
		}
	}
	for i := range d.Tests {
		if err := d.Tests[i].validate(known); err != nil {
			return err
		}
	}
	return nil
}

func (t *Test) validate(groups map[uint32]bool) error {
	what := fmt.Sprintf("test %q", t.Name)
	switch {
	case t.Name == "":
		return fmt.Errorf("report: a test without a name")
	case !groups[t.Group]:
		return fmt.Errorf("report: %s is of group %d, which is not listed", what, t.Group)
	case t.Time < 0 || t.Memory < 0:
		return fmt.Errorf("report: %s has the time %v and the memory %d", what, t.Time, int64(t.Memory))
	}
	switch t.Status {
	case verdict.OK:
		if t.Reason != verdict.NoReason {
			return fmt.Errorf("report: %s passed and has the reason %q", what, string(t.Reason))
		}
	case verdict.Error:
		if _, err := t.Reason.Verdict(); err != nil {
			return fmt.Errorf("report: %s failed: %w", what, err)
		}
	default:
		return fmt.Errorf("report: %s has the status %q", what, string(t.Status))
	}
	return points(what, t.Score, t.MaxScore)
}

func points(what string, values ...float64) error {
	for _, v := range values {
		if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("report: %s has %v points", what, v)
		}
	}
	return nil
}
