package score

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/internal/verdict"
	"github.com/google/go-cmp/cmp"
)

func passed(name string, group uint32, percentage int) Test {
	return Test{Name: name, Group: group, Status: verdict.OK, Percentage: percentage}
}

func failed(name string, group uint32, reason verdict.Reason) Test {
	return Test{Name: name, Group: group, Status: verdict.Error, Reason: reason}
}

// many makes n passed tests of a group, one percentage each; what is not given is 100.
func many(group uint32, n int, percentages ...int) []Test {
	var tests []Test
	for i := range n {
		percentage := 100
		if i < len(percentages) {
			percentage = percentages[i]
		}
		tests = append(tests, passed(fmt.Sprintf("%d-%d", group, i), group, percentage))
	}
	return tests
}

func compute(t *testing.T, groups []Group, tests []Test) Sheet {
	t.Helper()
	sheet, err := Compute(groups, tests)
	if err != nil {
		t.Fatal(err)
	}
	return sheet
}

// describe writes a sheet as one line: group points, score, maximum, verdict, and each row with its score.
func describe(sheet Sheet) string {
	var points, rows []string
	for _, group := range sheet.Groups {
		points = append(points, fmt.Sprintf("%v %s", group.Points, group.Status))
	}
	for _, row := range sheet.Tests {
		rows = append(rows, fmt.Sprintf("%s %v/%v", row.Name, row.Score, row.Max))
	}
	return fmt.Sprintf("%s | %v of %v, %s | %s", strings.Join(points, ", "), sheet.Score, sheet.Max, sheet.Verdict, strings.Join(rows, ", "))
}

// The first table of 7.4: groups 0 (0 points, 0a), 1 (30 points, 1a 1b) and 2 (70 points, 2a).
func TestThePackageOfThreeGroupsScoresAsWorkedOut(t *testing.T) {
	ascending := []Group{{0, 0, 1}, {1, 30, 2}, {2, 70, 1}}
	descending := []Group{{2, 70, 1}, {1, 30, 2}, {0, 0, 1}}
	all := func(changes ...Test) []Test {
		tests := []Test{passed("0a", 0, 100), passed("1a", 1, 100), passed("1b", 1, 100), passed("2a", 2, 100)}
		for _, change := range changes {
			for i := range tests {
				if tests[i].Name == change.Name {
					tests[i] = change
				}
			}
		}
		return tests
	}
	for _, c := range []struct {
		name   string
		groups []Group
		tests  []Test
		want   string
	}{
		{"all pass", ascending, all(), "0 OK, 30 OK, 70 OK | 100 of 100, Accepted | 0a 0/0, 1a 15/15, 1b 15/15, 2a 70/70"},
		{"0a wrong", ascending, all(failed("0a", 0, verdict.WrongAnswer)), "0 ERROR, 30 OK, 70 OK | 100 of 100, Wrong answer | 0a 0/0, 1a 15/15, 1b 15/15, 2a 70/70"},
		{"1b wrong", ascending, all(failed("1b", 1, verdict.WrongAnswer)), "0 OK, 0 ERROR, 70 OK | 70 of 100, Wrong answer | 0a 0/0, 1a 0/15, 1b 0/15, 2a 70/70"},
		{"1a accepted at half", ascending, all(passed("1a", 1, 50)), "0 OK, 22.5 OK, 70 OK | 92.5 of 100, Partial | 0a 0/0, 1a 7.5/15, 1b 15/15, 2a 70/70"},
		{"2a over its time", ascending, all(failed("2a", 2, verdict.TimeLimit)), "0 OK, 30 OK, 0 ERROR | 30 of 100, Time limit exceeded | 0a 0/0, 1a 15/15, 1b 15/15, 2a 0/70"},
		{"1b wrong and 2a over its time", ascending, all(failed("1b", 1, verdict.WrongAnswer), failed("2a", 2, verdict.TimeLimit)), "0 OK, 0 ERROR, 0 ERROR | 0 of 100, Wrong answer | 0a 0/0, 1a 0/15, 1b 0/15, 2a 0/70"},
		{"the same, groups listed 2, 1, 0", descending, all(failed("1b", 1, verdict.WrongAnswer), failed("2a", 2, verdict.TimeLimit)), "0 ERROR, 0 ERROR, 0 OK | 0 of 100, Time limit exceeded | 2a 0/70, 1a 0/15, 1b 0/15, 0a 0/0"},
		{"all crash", ascending, []Test{
			failed("0a", 0, verdict.RuntimeError), failed("1a", 1, verdict.RuntimeError), failed("1b", 1, verdict.RuntimeError), failed("2a", 2, verdict.RuntimeError),
		}, "0 ERROR, 0 ERROR, 0 ERROR | 0 of 100, Runtime error | 0a 0/0, 1a 0/15, 1b 0/15, 2a 0/70"},
	} {
		if got := describe(compute(t, c.groups, c.tests)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// The second table of 7.4.
func TestOtherPackagesScoreAsWorkedOut(t *testing.T) {
	for _, c := range []struct {
		name   string
		groups []Group
		tests  []Test
		want   string
	}{
		{"thirds make a whole", []Group{{1, 100, 3}}, many(1, 3), "100 OK | 100 of 100, Accepted | 1-0 33.33/33.33, 1-1 33.33/33.33, 1-2 33.33/33.33"},
		{"half of a third", []Group{{1, 100, 3}}, many(1, 3, 100, 50), "83.33 OK | 83.33 of 100, Partial | 1-0 33.33/33.33, 1-1 16.67/33.33, 1-2 33.33/33.33"},
		{"sevenths make a whole", []Group{{1, 10, 7}}, many(1, 7), "10 OK | 10 of 10, Accepted | " +
			"1-0 1.43/1.43, 1-1 1.43/1.43, 1-2 1.43/1.43, 1-3 1.43/1.43, 1-4 1.43/1.43, 1-5 1.43/1.43, 1-6 1.43/1.43"},
		{"accepted at nothing", []Group{{1, 40, 1}, {2, 60, 1}}, append(many(1, 1, 0), many(2, 1)...), "0 OK, 60 OK | 60 of 100, Partial | 1-0 0/40, 2-0 60/60"},
		{"eight hundredths of an eighth", []Group{{1, 1, 8}}, many(1, 8, 1, 1, 1, 1, 1, 1, 1, 1), "0.01 OK | 0.01 of 1, Partial | " +
			"1-0 0/0.13, 1-1 0/0.13, 1-2 0/0.13, 1-3 0/0.13, 1-4 0/0.13, 1-5 0/0.13, 1-6 0/0.13, 1-7 0/0.13"},
		{"thirds of thirds", []Group{{1, 1, 3}, {2, 1, 3}}, append(many(1, 3, 33, 33, 34), many(2, 3)...), "0.33 OK, 1 OK | 1.33 of 2, Partial | " +
			"1-0 0.11/0.33, 1-1 0.11/0.33, 1-2 0.11/0.33, 2-0 0.33/0.33, 2-1 0.33/0.33, 2-2 0.33/0.33"},
		{
			"points of groups are rounded before they are added",
			[]Group{{1, 1, 3}, {2, 1, 3}, {3, 1, 3}},
			append(append(many(1, 3, 33, 33, 34), many(2, 3, 33, 33, 34)...), many(3, 3, 33, 33, 34)...),
			"0.33 OK, 0.33 OK, 0.33 OK | 0.99 of 3, Partial | 1-0 0.11/0.33, 1-1 0.11/0.33, 1-2 0.11/0.33, " +
				"2-0 0.11/0.33, 2-1 0.11/0.33, 2-2 0.11/0.33, 3-0 0.11/0.33, 3-1 0.11/0.33, 3-2 0.11/0.33",
		},
		{
			"the sum is rounded as well",
			[]Group{{1, 1, 1}, {2, 1, 1}},
			append(many(1, 1, 10), many(2, 1, 20)...),
			"0.1 OK, 0.2 OK | 0.3 of 2, Partial | 1-0 0.1/1, 2-0 0.2/1",
		},
		{"a share is multiplied before it is divided", []Group{{1, 3, 2}}, many(1, 2, 15, 0), "0.23 OK | 0.23 of 3, Partial | 1-0 0.23/1.5, 1-1 0/1.5"},
		{"worth nothing", []Group{{1, 0, 1}}, many(1, 1), "0 OK | 0 of 0, Accepted | 1-0 0/0"},
		{"a missing answer", []Group{{1, 40, 1}, {2, 60, 1}}, append(many(1, 1), failed("2a", 2, verdict.WrongAnswer)), "40 OK, 0 ERROR | 40 of 100, Wrong answer | 1-0 40/40, 2a 0/60"},
		{"a test worth a warning", []Group{{1, 5, 1}}, []Test{{Name: "1a", Group: 1, Status: verdict.Warning, Percentage: 100}}, "5 OK | 5 of 5, Accepted | 1a 5/5"},
	} {
		if got := describe(compute(t, c.groups, c.tests)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestLessThanHalfAHundredthOfAPointIsLostInRounding(t *testing.T) {
	sheet := compute(t, []Group{{1, 1, 300}}, many(1, 300, 99))
	if sheet.Score != 1 || sheet.Verdict != verdict.Accepted {
		t.Errorf("scored %v, %s; want 1, Accepted", sheet.Score, sheet.Verdict)
	}
	sheet = compute(t, []Group{{1, 1, 100}}, many(1, 100, 0))
	if sheet.Score != 0.99 || sheet.Verdict != verdict.Partial {
		t.Errorf("scored %v, %s; want 0.99, Partial", sheet.Score, sheet.Verdict)
	}
}

func TestRoundingIsThatOfDoubles(t *testing.T) {
	for x, want := range map[float64]float64{1.005: 1.00, 0.125: 0.13, 2.675: 2.68, 0: 0, 33.333333: 33.33, 16.666666: 16.67} {
		if got := round(x); got != want {
			t.Errorf("%v rounds to %v, want %v", x, got, want)
		}
	}
}

func TestTheFirstFailedTestInTheOrderOfTheTableGivesTheWord(t *testing.T) {
	words := map[verdict.Reason]verdict.Verdict{
		verdict.WrongAnswer:      verdict.AnswerWrong,
		verdict.NoReason:         verdict.AnswerWrong,
		verdict.TimeLimit:        verdict.TimeLimitExceeded,
		verdict.MemoryLimit:      verdict.MemoryLimitExceeded,
		verdict.OutputLimit:      verdict.OutputLimitExceeded,
		verdict.RuntimeError:     verdict.RunFailed,
		verdict.PolicyViolation:  verdict.PolicyViolated,
		verdict.CompilationError: verdict.CompilationFailed,
	}
	for first, want := range words {
		for second := range words {
			sheet := compute(t, []Group{{7, 10, 3}, {3, 5, 1}}, []Test{
				failed("3a", 3, second), passed("7a", 7, 100), failed("7b", 7, first), failed("7c", 7, second),
			})
			if sheet.Verdict != want {
				t.Errorf("first %q, then %q: %s, want %s", first, second, sheet.Verdict, want)
			}
		}
	}
}

func TestASubmissionThatWasRefusedFailsEveryTestForThatReason(t *testing.T) {
	for reason, want := range map[verdict.Reason]verdict.Verdict{
		verdict.PolicyViolation: verdict.PolicyViolated, verdict.CompilationError: verdict.CompilationFailed,
	} {
		for _, groups := range [][]Group{{{0, 0, 1}, {1, 60, 2}}, {{0, 0, 1}, {1, 0, 2}}} {
			sheet, err := Refused(groups, []Test{{Name: "0a"}, {Name: "1a", Group: 1}, passed("1b", 1, 100)}, reason)
			if err != nil {
				t.Fatal(err)
			}
			if sheet.Verdict != want || sheet.Score != 0 || sheet.Max != float64(groups[1].Points) {
				t.Errorf("%s: %v of %v, %s", reason, sheet.Score, sheet.Max, sheet.Verdict)
			}
			for _, row := range sheet.Tests {
				if row.Status != verdict.Error || row.Reason != reason || row.Score != 0 {
					t.Errorf("%s: row %+v", reason, row)
				}
			}
			for _, group := range sheet.Groups {
				if group.Status != verdict.Error || group.Points != 0 {
					t.Errorf("%s: group %+v", reason, group)
				}
			}
		}
	}
}

func TestNothingButARefusalRunsNothing(t *testing.T) {
	for _, reason := range []verdict.Reason{verdict.NoReason, verdict.WrongAnswer, verdict.TimeLimit, "gone"} {
		if _, err := Refused([]Group{{1, 1, 1}}, []Test{{Name: "1a", Group: 1}}, reason); err == nil {
			t.Errorf("%q was accepted as a reason", reason)
		}
	}
}

func TestWhatNobodyCanHaveMeantIsAnErrorAndNeverAScore(t *testing.T) {
	one := []Group{{1, 10, 1}}
	for _, c := range []struct {
		name   string
		groups []Group
		tests  []Test
		want   string
	}{
		{"the zero status", one, []Test{{Name: "1a", Group: 1, Percentage: 100}}, "status"},
		{"an unknown status", one, []Test{{Name: "1a", Group: 1, Status: "ok", Percentage: 100}}, `"ok"`},
		{"an unknown reason", one, []Test{failed("1a", 1, "tooLate")}, "tooLate"},
		{"a passed test with a reason", one, []Test{{Name: "1a", Group: 1, Status: verdict.OK, Reason: verdict.TimeLimit, Percentage: 100}}, "timeLimit"},
		{"more than everything", one, []Test{passed("1a", 1, 101)}, "101"},
		{"less than nothing", one, []Test{passed("1a", 1, -1)}, "-1"},
		{"no outcome at all", one, nil, "no test"},
		{"nothing at all", nil, nil, "no test"},
		{"a lost outcome", []Group{{1, 10, 2}}, []Test{passed("1a", 1, 100)}, "2 tests and 1 outcomes"},
		{"a group whose outcomes are all lost", []Group{{1, 10, 1}, {2, 0, 1}}, []Test{passed("1a", 1, 100)}, "group 2"},
		{"an outcome too many", one, []Test{passed("1a", 1, 100), passed("1b", 1, 100)}, "1 tests and 2 outcomes"},
		{"an outcome twice", []Group{{1, 10, 2}}, []Test{passed("1a", 1, 100), passed("1a", 1, 100)}, "two outcomes"},
		{"a test of no group", one, []Test{passed("1a", 1, 100), passed("2a", 2, 100)}, "group 2"},
		{"a group twice", []Group{{1, 10, 1}, {1, 10, 1}}, []Test{passed("1a", 1, 100)}, "twice"},
	} {
		sheet, err := Compute(c.groups, c.tests)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
		if diff := cmp.Diff(Sheet{}, sheet); diff != "" {
			t.Errorf("%s: an error and yet a sheet:\n%s", c.name, diff)
		}
	}
}

func TestAGroupWithoutOutcomesNeverPaysAndLeavesNothingToAccept(t *testing.T) {
	for _, points := range []uint32{0, 50} {
		sheet := compute(t, []Group{{1, 10, 1}, {2, points, 0}}, []Test{passed("1a", 1, 100)})
		if got := sheet.Groups[1]; got.Points != 0 || got.Status != verdict.Error {
			t.Errorf("a group of %d points without outcomes: %+v", points, got)
		}
		if sheet.Verdict != verdict.Partial || sheet.Score != 10 {
			t.Errorf("with a group of %d points without outcomes: %v, %s", points, sheet.Score, sheet.Verdict)
		}
	}
}

func TestRowsSayWhichOutcomeTheyCameFrom(t *testing.T) {
	tests := []Test{passed("0a", 0, 100), passed("1a", 1, 30), failed("2a", 2, verdict.OutputLimit)}
	sheet := compute(t, []Group{{2, 1, 1}, {0, 1, 1}, {1, 1, 1}}, tests)
	for _, row := range sheet.Tests {
		if row.Test != tests[row.Index] {
			t.Errorf("row %+v points at %+v", row, tests[row.Index])
		}
	}
	if sheet.Tests[0].Index != 2 || sheet.Tests[1].Index != 0 || sheet.Tests[2].Index != 1 {
		t.Errorf("rows are not in the order of the groups: %+v", sheet.Tests)
	}
}

func TestTheLargestPackageThatCanBeWrittenDownAddsUp(t *testing.T) {
	sheet := compute(t, []Group{{1, math.MaxUint32, 1}, {2, math.MaxUint32, 1}}, []Test{passed("1a", 1, 100), passed("2a", 2, 100)})
	if want := 2 * float64(math.MaxUint32); sheet.Score != want || sheet.Max != want || sheet.Verdict != verdict.Accepted {
		t.Errorf("%v of %v, %s", sheet.Score, sheet.Max, sheet.Verdict)
	}
}
