package judge

import (
	"fmt"
	"time"
)

// The notes of the limits. Screens and tests rely on their words (spec/judging.md 4.8).
const (
	noteTimeLimit   = "Time limit exceeded"
	noteOverall     = "Time limit exceeded: the program kept running without finishing"
	noteMemoryLimit = "Memory limit exceeded"
	noteOutputLimit = "Output limit exceeded"

	notePolicyViolation  = "Policy violation"
	noteCompilationError = "Compilation error"
)

// noteNoProgress tells the span without processor time after which the program was stopped.
func noteNoProgress(window time.Duration) string {
	return fmt.Sprintf("Time limit exceeded: no processor time for %.1f s", window.Seconds())
}

// signals names what a program died of, by the exit code a container gives it: 128 and the signal's number.
var signals = map[int]string{
	132: "illegal instruction",
	134: "aborted",
	135: "bus error",
	136: "arithmetic error, such as division by zero",
	137: "killed",
	139: "segmentation fault",
	141: "wrote to a closed stream",
	143: "terminated",
}

// noteRuntimeError tells how a program failed (spec/judging.md 4.9).
func noteRuntimeError(exitCode int) string {
	if name, ok := signals[exitCode]; ok {
		return fmt.Sprintf("Runtime error: %s (exit code %d)", name, exitCode)
	}
	return fmt.Sprintf("Runtime error, exit code %d", exitCode)
}
