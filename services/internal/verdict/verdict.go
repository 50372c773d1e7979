// Package verdict is the vocabulary of judging: what can be said about a test and about a submission
// (spec/judging.md 7.3, 8.1 and Appendix B). It imports nothing of this project.
//
// None of its types has a useful zero value: the zero Status, Reason and Verdict are invalid on purpose, so that a
// forgotten assignment can never read as a passed test.
package verdict

import "fmt"

// Status is how a test, a group or a compilation ended in the details document.
type Status string

const (
	// OK: the test passed, the group paid, the source was built.
	OK Status = "OK"
	// Error: it did not.
	Error Status = "ERROR"
	// Warning: for a compilation, nothing was offered to a compiler. No test ever carries it.
	Warning Status = "WARNING"
)

// Reason says why a test did not pass. A passed test has none (the empty Reason).
type Reason string

const (
	NoReason         Reason = ""
	WrongAnswer      Reason = "wrongAnswer"
	TimeLimit        Reason = "timeLimit"
	MemoryLimit      Reason = "memoryLimit"
	OutputLimit      Reason = "outputLimit"
	RuntimeError     Reason = "runtimeError"
	PolicyViolation  Reason = "policyViolation"
	CompilationError Reason = "compilationError"
)

// Verdict is the one word a participant gets for a submission. The text is part of the contract.
type Verdict string

const (
	Accepted            Verdict = "Accepted"
	Partial             Verdict = "Partial"
	AnswerWrong         Verdict = "Wrong answer"
	TimeLimitExceeded   Verdict = "Time limit exceeded"
	MemoryLimitExceeded Verdict = "Memory limit exceeded"
	OutputLimitExceeded Verdict = "Output limit exceeded"
	RunFailed           Verdict = "Runtime error"
	CompilationFailed   Verdict = "Compilation error"
	PolicyViolated      Verdict = "PolicyViolation"
)

// Verdict returns the word for a submission whose first failed test failed for this reason. It fails on a reason that
// is none of the seven: an unknown reason is our own mistake and must not be guessed into a verdict.
func (r Reason) Verdict() (Verdict, error) {
	switch r {
	case WrongAnswer:
		return AnswerWrong, nil
	case TimeLimit:
		return TimeLimitExceeded, nil
	case MemoryLimit:
		return MemoryLimitExceeded, nil
	case OutputLimit:
		return OutputLimitExceeded, nil
	case RuntimeError:
		return RunFailed, nil
	case PolicyViolation:
		return PolicyViolated, nil
	case CompilationError:
		return CompilationFailed, nil
	}
	return "", fmt.Errorf("verdict: no verdict belongs to the reason %q", string(r))
}

// Bytes is a size in bytes. A plain integer never stands for a size anywhere in this project.
type Bytes int64

const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
)

// MiB returns the size in mebibytes, for people to read.
func (b Bytes) MiB() float64 { return float64(b) / float64(MiB) }

// String prints the size in the largest unit that keeps it at least one: "512 B", "1.5 KiB", "64 MiB".
func (b Bytes) String() string {
	for _, unit := range []struct {
		size Bytes
		name string
	}{{GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}} {
		if b >= unit.size || b <= -unit.size {
			if b%unit.size == 0 {
				return fmt.Sprintf("%d %s", b/unit.size, unit.name)
			}
			return fmt.Sprintf("%.1f %s", float64(b)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d B", int64(b))
}
