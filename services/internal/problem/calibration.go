package problem

import "math"

// Rule turns a measurement into a proposed limit (spec/judging.md 2.6).
type Rule struct{ Factor, Add, RoundTo float64 }

var (
	// DefaultTimeRule stands where a package has no rule for time, in milliseconds.
	DefaultTimeRule = Rule{Factor: 3, Add: 0, RoundTo: 100}
	// DefaultMemoryRule stands where a package has no rule for memory, in bytes.
	DefaultMemoryRule = Rule{Factor: 1, Add: 16_777_216, RoundTo: 1_048_576}
)

// Limit applies the rule. It rounds up, always, and never leaves the range of a whole number.
func (r Rule) Limit(measured uint64) uint64 {
	x := float64(measured)*r.Factor + r.Add
	if r.RoundTo > 0 {
		x = math.Ceil(x/r.RoundTo) * r.RoundTo
	} else {
		x = math.Ceil(x)
	}
	switch {
	case !(x > 0): // nothing, less than nothing, or not a number
		return 0
	case x >= math.MaxUint64:
		return math.MaxUint64
	}
	return uint64(x)
}
