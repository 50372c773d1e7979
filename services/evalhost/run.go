package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/evalhost/evalhost/services/internal/config"
	"github.com/evalhost/evalhost/services/internal/report"
)

// The exit statuses, one meaning each. A verdict of any kind is a success of judging.
const (
	exitOK = 0
	// exitUnexpected: an author's tool did its work and the package is not as it should be: a solution got another verdict than
	// its label says, a model solution is not accepted, lint found something.
	exitUnexpected = 1
	// exitUsage: the command line, the environment, the package or the source is at fault. Nothing was started.
	exitUsage = 2
	// exitInfrastructure: the machinery or a program of the package failed while judging. No verdict.
	exitInfrastructure = 3
	// exitUnfit: the machine does not meet a requirement. Nothing was judged.
	exitUnfit = 4
	// exitSignal and the signal's number: asked to stop. No verdict.
	exitSignal = 128
)

// command is one row of the table of subcommands.
type command struct {
	name, operands, summary string
	// help is shown by `evalhost help NAME`, below the summary.
	help string
	run  func(ctx context.Context, args []string, std stdio) error
}

// stdio is what a subcommand has of the world besides its arguments.
type stdio struct {
	env      []string
	out, err io.Writer
	// host opens this machine for judging: openHost, or a fake in tests.
	host func(ctx context.Context, s config.Settings, keys []string, messages, failures io.Writer) (*host, error)
}

func commands() []command {
	return []command{
		judgeCommand, verifyCommand, trialCommand, lintCommand, initCommand, checkCommand, toolchainsCommand, versionCommand,
	}
}

// run runs one subcommand and returns the exit status.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	return runOn(ctx, args, stdio{env, stdout, stderr, openHost})
}

// runOn runs one subcommand on a host that may be a fake. Whatever the subcommand makes of its own writes, it succeeds only if
// all it printed arrived.
func runOn(ctx context.Context, args []string, std stdio) int {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := &printed{w: std.out, stop: cancel}
	std.out = out
	err := dispatch(ctx, args, std)
	if out.err != nil {
		err = out.err
	}
	return conclude(ctx, err, std.err)
}

// conclude says what went wrong, in one line, and turns it into the exit status.
func conclude(ctx context.Context, err error, stderr io.Writer) int {
	if i, ok := asInterrupted(ctx); ok && err != nil {
		if i.signal == syscall.SIGPIPE {
			return exitSignal + int(i.signal) // as quietly as any program whose reader has enough
		}
		fmt.Fprintf(stderr, "evalhost: %v; there is no verdict\n", i)
		return exitSignal + int(i.signal)
	}
	var status statusError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		if text := status.Error(); text != "" {
			fmt.Fprintf(stderr, "evalhost: %s\n", text)
		}
		return status.status
	}
	fmt.Fprintf(stderr, "evalhost: infrastructure failure, no verdict: %s\n", oneLine(err))
	return exitInfrastructure
}

func dispatch(ctx context.Context, args []string, std stdio) error {
	if len(args) == 0 {
		usage(std.err)
		return statusError{status: exitUsage}
	}
	name, rest := args[0], args[1:]
	switch name {
	case "help", "-h", "-help", "--help":
		return help(rest, std)
	}
	for _, c := range commands() {
		if c.name == name {
			err := c.run(ctx, rest, std)
			if errors.Is(err, flag.ErrHelp) {
				return help([]string{name}, std)
			}
			return err
		}
	}
	return badUse("there is no command %q; `evalhost help` lists them", name)
}

// statusError carries its own exit status. Every other error is an infrastructure failure: what nobody classified must
// not read as the user's mistake.
type statusError struct {
	status int
	err    error
}

func (s statusError) Error() string {
	if s.err == nil {
		return ""
	}
	return oneLine(s.err)
}
func (s statusError) Unwrap() error { return s.err }

// badUse is a mistake in the command line, the environment or the input.
func badUse(format string, arguments ...any) error {
	return statusError{exitUsage, fmt.Errorf(format, arguments...)}
}

// unfit is a requirement that the machine does not meet.
func unfit(err error) error { return statusError{exitUnfit, err} }

// oneLine keeps an error in one line, and what strangers wrote into it from acting on a terminal.
func oneLine(err error) string {
	return report.Printable(strings.Join(strings.Fields(err.Error()), " "))
}

func usage(w io.Writer) {
	fmt.Fprint(w, "usage: evalhost COMMAND [ARGUMENTS]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-40s %s\n", strings.TrimSpace(c.name+" "+c.operands), c.summary)
	}
	fmt.Fprintf(w, "  %-40s %s\n", "help [COMMAND]", "say more about a command")
}

func help(args []string, std stdio) error {
	if len(args) == 0 {
		usage(std.out)
		fmt.Fprint(std.out, helpStatus, helpEnvironment())
		return nil
	}
	if len(args) > 1 {
		return badUse("help takes at most one command, not %d operands", len(args))
	}
	for _, c := range commands() {
		if c.name == args[0] {
			fmt.Fprintf(std.out, "usage: evalhost %s\n\n%s.\n\n%s", strings.TrimSpace(c.name+" "+c.operands), capital(c.summary), c.help)
			return nil
		}
	}
	return badUse("there is no command %q; `evalhost help` lists them", args[0])
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

const helpStatus = `
Exit status:
  0  done; for judge: judged, whatever the verdict
  1  verify: a solution got another verdict than its label says; trial: a model solution was not accepted;
     lint: something was found
  2  bad use or bad input: nothing was judged
  3  infrastructure failure while judging: no verdict
  4  this machine is not fit to judge: nothing was judged
  128 and the signal's number: asked to stop; no verdict
`

// given tells whether a flag stands on the command line, be it with an empty value.
func given(flags *flag.FlagSet, name string) (found bool) {
	flags.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// arguments reads flags before, between and after the operands, as people type them; "--" ends the flags.
func arguments(flags *flag.FlagSet, args []string) (operands []string, err error) {
	flags.SetOutput(io.Discard)
	for {
		if err := flags.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, err
			}
			return nil, badUse("%s: %v", flags.Name(), err)
		}
		rest := flags.Args()
		// Parse stops at an operand and behind "--"; only behind "--" is everything an operand.
		if stopped := len(args) - len(rest); stopped > 0 && args[stopped-1] == "--" {
			return append(operands, rest...), nil
		}
		if len(rest) == 0 {
			return operands, nil
		}
		operands, args = append(operands, rest[0]), rest[1:]
	}
}
