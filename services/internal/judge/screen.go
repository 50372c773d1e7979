package judge

import (
	"fmt"
	"strings"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// maxSource is the largest submission that is looked at.
const maxSource = 8 * verdict.MiB

// maxFileName is how much of a file's name is shown: as much as a file's name has on most file systems. What is objected to is
// its end.
const maxFileName = 255

// refusal is a verdict that runs nothing (spec/judging.md 4.2). The zero refusal refuses nothing.
type refusal struct {
	// reason is PolicyViolation or CompilationError.
	reason verdict.Reason
	// log says why, for the participant; compiled says that it is a compiler's.
	log      string
	compiled bool
}

func (r refusal) refused() bool { return r.reason != verdict.NoReason }

// screen decides what can be told of a submission before it is built: the list of languages, the file's extension, the
// size, the source rules, in this order; the first that objects decides (4.1 steps 5 to 8).
func (b *Bench) screen(s Submission, toolchain langimages.Toolchain) refusal {
	switch {
	case !toolchain.Allowed(b.problem.Languages):
		return refusal{reason: verdict.PolicyViolation, log: fmt.Sprintf("%s is not accepted for this problem; accepted: %s\n",
			toolchain.Label, strings.Join(b.problem.Languages, ", "))}
	case !toolchain.AcceptsName(s.FileName):
		return refusal{reason: verdict.CompilationError, log: fmt.Sprintf("%s is not a file name for %s; accepted extensions: %s\n",
			shownUpTo(maxFileName, s.FileName), toolchain.Label, strings.Join(toolchain.Extensions, ", "))}
	case verdict.Bytes(len(s.Source)) > maxSource:
		return refusal{reason: verdict.PolicyViolation, log: fmt.Sprintf("the source has %d KiB; the most that is accepted is %d KiB\n",
			verdict.Bytes(len(s.Source))/verdict.KiB, maxSource/verdict.KiB)}
	case s.NoPolicy:
		return refusal{}
	}
	rules := b.Rules.Check(toolchain.Keys(), s.Source)
	if rules.Unchecked {
		b.Log.Warn("there are no source rules for this language, so none were applied", "toolchain", toolchain.ID)
	}
	if rules.Broken() {
		return refusal{reason: verdict.PolicyViolation, log: strings.Join(rules.Lines(), "\n") + "\n"}
	}
	return refusal{}
}
