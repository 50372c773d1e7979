// Package score turns the outcomes of tests into points and one word (spec/judging.md section 7). It is pure arithmetic:
// nothing is read, started or remembered.
//
// What it is given must be complete and meant. A status that is none, a reason that is none, a lost outcome, no outcome at
// all: each is an error and never a score, because points made out of a mistake would look like any other points.
package score

import (
	"fmt"
	"math"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Group is a group of the package. The order of groups is the order of config.yml, which decides the order of the table
// and with it which failed test gives the verdict.
type Group struct {
	Number uint32
	Points uint32
	// Tests is how many tests the census counts in the group: what its points are divided by.
	Tests int
}

// Test is the outcome of one test.
type Test struct {
	Name   string
	Group  uint32
	Status verdict.Status
	Reason verdict.Reason
	// Percentage of the test's share that was won, 0 to 100. It counts only if the test passed.
	Percentage int
}

func (t Test) passed() bool { return t.Status == verdict.OK || t.Status == verdict.Warning }

// Sheet is a scored submission.
type Sheet struct {
	Score   float64
	Max     float64
	Verdict verdict.Verdict
	Groups  []GroupScore // in the order of the groups given
	Tests   []TestScore  // group by group, within a group in the order given
}

// GroupScore is what one group won.
type GroupScore struct {
	Number uint32
	Points float64
	Max    float64
	Status verdict.Status
}

// TestScore is what one test won, as it is shown: rounded, and nothing if its group does not pay.
type TestScore struct {
	Test
	// Index is where the test stands in the list that was given.
	Index int
	Score float64
	Max   float64
}

// Compute scores a submission. Groups come in the order of config.yml, tests in the order of the census.
func Compute(groups []Group, tests []Test) (Sheet, error) {
	for _, test := range tests {
		if err := check(test); err != nil {
			return Sheet{}, err
		}
	}
	members, err := assign(groups, tests)
	if err != nil {
		return Sheet{}, err
	}

	var sheet Sheet
	var points uint64
	complete := true // every group was judged and passed
	for g, group := range groups {
		share := float64(group.Points) / float64(group.Tests)
		pays := len(members[g]) > 0
		for _, at := range members[g] {
			pays = pays && tests[at].passed()
		}
		var won float64
		for _, at := range members[g] {
			row := TestScore{Test: tests[at], Index: at, Max: round(share)}
			if pays {
				exact := share * float64(tests[at].Percentage) / 100
				won += exact
				row.Score = round(exact)
			}
			sheet.Tests = append(sheet.Tests, row)
		}
		line := GroupScore{Number: group.Number, Points: round(won), Max: float64(group.Points), Status: verdict.Error}
		if pays {
			line.Status = verdict.OK
		}
		complete = complete && pays
		sheet.Groups = append(sheet.Groups, line)
		sheet.Score += line.Points
		points += uint64(group.Points)
	}
	sheet.Score = round(sheet.Score)
	sheet.Max = float64(points)
	if sheet.Verdict, err = word(sheet, complete); err != nil {
		return Sheet{}, err
	}
	return sheet, nil
}

// Refused scores a submission that was never run: it broke a rule or did not build (4.2). Every test failed for that
// reason and the verdict is its word, even where all groups are worth nothing. Status, reason and percentage of the tests
// given are not looked at.
func Refused(groups []Group, tests []Test, reason verdict.Reason) (Sheet, error) {
	if reason != verdict.PolicyViolation && reason != verdict.CompilationError {
		return Sheet{}, fmt.Errorf("score: %q is not a reason to run nothing", reason)
	}
	failed := make([]Test, len(tests))
	for i, test := range tests {
		failed[i] = Test{Name: test.Name, Group: test.Group, Status: verdict.Error, Reason: reason}
	}
	return Compute(groups, failed)
}

// check refuses an outcome that nobody can have meant.
func check(test Test) error {
	switch {
	case test.passed() && test.Reason != verdict.NoReason:
		return fmt.Errorf("score: test %s has status %s and yet the reason %q for having failed", test.Name, test.Status, test.Reason)
	case !test.passed() && test.Status != verdict.Error:
		return fmt.Errorf("score: test %s has the status %q, which is none", test.Name, test.Status)
	case test.Percentage < 0 || test.Percentage > 100:
		return fmt.Errorf("score: test %s won %d percent of its share", test.Name, test.Percentage)
	case test.Status == verdict.Error && test.Reason != verdict.NoReason:
		if _, err := test.Reason.Verdict(); err != nil {
			return fmt.Errorf("score: test %s: %w", test.Name, err)
		}
	}
	return nil
}

// assign finds the tests of each group and makes sure that every test has a group and no outcome is missing or repeated.
func assign(groups []Group, tests []Test) ([][]int, error) {
	if len(tests) == 0 {
		return nil, fmt.Errorf("score: no test was judged, so there is nothing to score")
	}
	place := make(map[uint32]int, len(groups))
	for g, group := range groups {
		if _, twice := place[group.Number]; twice {
			return nil, fmt.Errorf("score: group %d is declared twice", group.Number)
		}
		place[group.Number] = g
	}
	members := make([][]int, len(groups))
	seen := make(map[string]bool, len(tests))
	for at, test := range tests {
		g, declared := place[test.Group]
		if !declared {
			return nil, fmt.Errorf("score: test %s belongs to group %d, which is not declared", test.Name, test.Group)
		}
		if seen[test.Name] {
			return nil, fmt.Errorf("score: test %s has two outcomes", test.Name)
		}
		seen[test.Name] = true
		members[g] = append(members[g], at)
	}
	for g, group := range groups {
		if len(members[g]) != group.Tests {
			return nil, fmt.Errorf("score: group %d has %d tests and %d outcomes", group.Number, group.Tests, len(members[g]))
		}
	}
	return members, nil
}

// word finds the verdict (7.3). A group without outcomes leaves nothing to accept: it cannot be full, whatever it is worth.
func word(sheet Sheet, complete bool) (verdict.Verdict, error) {
	for _, row := range sheet.Tests {
		if row.passed() {
			continue
		}
		if row.Reason == verdict.NoReason {
			return verdict.AnswerWrong, nil
		}
		return row.Reason.Verdict()
	}
	if complete && sheet.Score >= sheet.Max {
		return verdict.Accepted, nil
	}
	return verdict.Partial, nil
}

// round rounds to hundredths, halves away from zero, the multiplication being done in floating point (7.1).
func round(x float64) float64 { return math.Round(x*100) / 100 }
