package policy

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// reported is how many violations a report lists.
	reported = 100
	// shownScalars is how much of a matched text a line shows. A source can make it as long as the source is.
	shownScalars = 100
)

// Violation is one place at which a source breaks a rule.
type Violation struct {
	Rule    string
	Matched string
	Line    int // from 1
}

// String is the line of the report (spec/judging.md 9.2).
func (v Violation) String() string {
	return fmt.Sprintf("%s — %s (line %d)", v.Rule, v.Matched, v.Line)
}

// Report is what was found in a source. The same source always gives the same report.
type Report struct {
	// Violations are the first hundred, in the order of the rules and, within a rule, of the source.
	Violations []Violation
	// Total is how many there are.
	Total int
	// Unchecked: there are no rules for the language, so nothing was looked for. That is worth a warning to the operator.
	Unchecked bool
}

// Broken reports whether the source breaks a rule.
func (r Report) Broken() bool { return r.Total > 0 }

// Lines returns the report as a participant reads it: a line for every violation listed, and one that says how many more
// there are.
func (r Report) Lines() []string {
	var lines []string
	for _, violation := range r.Violations {
		lines = append(lines, violation.String())
	}
	if more := r.Total - len(r.Violations); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more, which are not listed", more))
	}
	return lines
}

// found collects the violations of one rule. Only as many as a report can list are kept.
type found struct {
	violations []Violation
	total      int
}

// add counts a violation. What it says is worked out only if it is kept.
func (f *found) add(describe func() Violation) {
	f.total++
	if len(f.violations) < reported {
		f.violations = append(f.violations, describe())
	}
}

// take adds what was found for a rule to the report.
func (r *Report) take(f found) {
	r.Total += f.total
	r.Violations = append(r.Violations, f.violations[:min(len(f.violations), reported-len(r.Violations))]...)
}

// shown makes a piece of a source fit into one line of a report: as text, white space as single spaces, nothing that
// could move a terminal's cursor, and not too long.
func shown(matched []byte) string {
	var line strings.Builder
	for i, word := range strings.Fields(strings.ToValidUTF8(string(matched), "\ufffd")) {
		if i > 0 {
			line.WriteByte(' ')
		}
		line.WriteString(strings.Map(func(scalar rune) rune {
			if unicode.IsControl(scalar) || unicode.Is(unicode.Bidi_Control, scalar) {
				return utf8.RuneError
			}
			return scalar
		}, word))
	}
	if text := []rune(line.String()); len(text) > shownScalars {
		return string(text[:shownScalars]) + "…"
	}
	return line.String()
}
