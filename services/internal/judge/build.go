package judge

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/sandbox"
)

// compiled is the outcome of building a submission: a program, or the log of a compilation error.
type compiled struct {
	// program is nil after a compilation error.
	program *sandbox.Program
	// log is what the compiler said, warnings included.
	log string
}

// compile builds a submission. Whatever the source made the compiler do is an outcome; an error is the machinery's.
func compile(ctx context.Context, job Job, image string, toolchain langimages.Toolchain, source []byte) (compiled, error) {
	built, err := job.Build(ctx, sandbox.Build{
		Kind: sandbox.SubmissionBuild, Image: image, Command: toolchain.Build,
		SourceName: toolchain.Source, Source: source, Artifact: toolchain.Artifact,
	})
	if err != nil {
		return compiled{}, err
	}
	return readBuilt(built)
}

// readBuilt tells a program from a compilation error and from a build that says nothing about the source.
func readBuilt(built sandbox.Built) (compiled, error) {
	log := string(built.Stdout) + string(built.Stderr)
	switch built.Stop {
	case sandbox.OnItsOwn:
	case sandbox.WallClock, sandbox.Overall, sandbox.TimeLimit, sandbox.Memory, sandbox.Output:
		return compiled{log: withLine(log, stoppedLine(built.Outcome))}, nil
	case sandbox.NeverStarted:
		return compiled{}, errors.New("the compiler never started to run")
	default:
		return compiled{}, fmt.Errorf("the sandbox gave no word on how the build ended (%d)", built.Stop)
	}
	switch {
	case built.TooLarge:
		return compiled{log: withLine(log, "the program that was built is too large")}, nil
	case built.Odd != "":
		return compiled{log: withLine(log, "the build left "+built.Odd+" in the place of a program")}, nil
	case !saysSomething(built.ExitCode):
		return compiled{}, fmt.Errorf("the build ended with exit code %d, which no source brings about: the compiler could not be "+
			"started, or somebody else ended its container; it said %s", built.ExitCode, shown(log))
	case built.ExitCode != 0:
		if strings.TrimSpace(log) == "" {
			log = fmt.Sprintf("the compiler said nothing and ended with exit code %d\n", built.ExitCode)
		}
		return compiled{log: log}, nil
	case built.Program == nil:
		return compiled{}, errors.New("the compiler reported success and left no program")
	}
	return compiled{program: built.Program, log: log}, nil
}

// saysSomething tells the exit codes that a compiler can end with because of its source from those of the machinery: 126 and
// 127 are a shell's words for a compiler that is not there, 137 and 143 are a kill or a stop from outside (a kill for memory
// is told apart before). No source is executed during a build, so a source cannot cause them.
func saysSomething(exitCode int) bool {
	switch exitCode {
	case 126, 127, 137, 143:
		return false
	}
	return true
}

// stoppedLine says what stopped a build, after how long, and with which exit code.
func stoppedLine(o sandbox.Outcome) string {
	what := map[sandbox.Stop]string{
		sandbox.WallClock: "it took too long", sandbox.Overall: "it took too long", sandbox.TimeLimit: "it took too long",
		sandbox.Memory: "it used too much memory", sandbox.Output: "it wrote too much",
	}[o.Stop]
	if what == "" {
		what = o.Stop.String()
	}
	return fmt.Sprintf("the build was stopped after %.1f s: %s (exit code %d)", o.Wall.Seconds(), what, o.ExitCode)
}

// withLine appends a line of our own to what a compiler said.
func withLine(log, line string) string {
	if log != "" && !strings.HasSuffix(log, "\n") {
		log += "\n"
	}
	return log + line + "\n"
}
