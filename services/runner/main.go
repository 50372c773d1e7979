// Command evalhost-runner is the daemon of a judging host: it joins a Server, judges what it is handed and answers, for years.
// Its settings come from its environment; .env.example lists them and docs/operator.md says what everything it says means.
//
//	evalhost-runner                 work, as a service of type notify
//	evalhost-runner --check-config  say whether the settings are accepted; touches neither disk nor network
//	evalhost-runner --print-config  say what took effect and where it came from
//	evalhost-runner --version
//
// Exit status: 0 after an ordered stop; 1 when it cannot work now, and a restart may help; 2 for a wrong command line; 78 when
// a restart cannot help: the settings are refused, or the Server has revoked this Runner.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/evalhost/evalhost/services/internal/config"
	"github.com/evalhost/evalhost/services/internal/runner"
)

// The exit statuses.
const (
	exitStopped = 0
	exitFailed  = 1
	exitUsage   = 2
	// exitHopeless is EX_CONFIG of sysexits.h; the unit does not restart after it.
	exitHopeless = 78
)

// version is set when a release is built.
var version = "development"

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		signal.Stop(signals) // a second signal ends the process at once
		cancel()
	}()
	// Unheard, this signal would end the process where it writes its log to a journal that went away, with jobs under way; that a
	// unit has it ignored does not help, Go's runtime takes it back.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run is the command: it returns the exit status.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	var action func(config.Settings) int
	switch {
	case len(args) == 0:
		action = func(s config.Settings) int { return serve(ctx, s, stderr) }
	case len(args) > 1:
		return usage(stderr, fmt.Sprintf("there is an argument too many: %q", args[1]))
	default:
		switch args[0] {
		case "--check-config", "-check-config":
			action = func(config.Settings) int {
				return said(fmt.Fprintln(stdout, "evalhost-runner: the settings are accepted"))
			}
		case "--print-config", "-print-config":
			action = func(s config.Settings) int {
				if err := s.WriteEffective(stdout); err != nil {
					fmt.Fprintln(stderr, "evalhost-runner:", err)
					return exitFailed
				}
				return exitStopped
			}
		case "--version", "-version":
			return said(fmt.Fprintf(stdout, "evalhost-runner %s\n%s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH))
		case "--help", "-help", "-h":
			usage(stdout, "")
			fmt.Fprint(stdout, "\nSettings, from the environment:\n\n")
			if err := config.WriteHelp(stdout, config.Daemon); err != nil {
				return exitFailed
			}
			return exitStopped
		default:
			return usage(stderr, fmt.Sprintf("there is no argument %q", args[0]))
		}
	}
	s, warnings, err := config.Read(config.Daemon, env, facts())
	for _, w := range warnings {
		fmt.Fprintf(stderr, "evalhost-runner: warning: %s\n", w)
	}
	if err != nil {
		var refusals config.Refusals
		if !errors.As(err, &refusals) {
			refusals = config.Refusals{{Key: "the environment", Why: err.Error()}}
		}
		for _, refusal := range refusals {
			fmt.Fprintf(stderr, "evalhost-runner: refused: %s\n", refusal)
		}
		return exitHopeless
	}
	return action(s)
}

// said is the exit status after printing what was asked for: only what arrived is a success.
func said(_ int, err error) int {
	if err != nil {
		return exitFailed
	}
	return exitStopped
}

func usage(w io.Writer, wrong string) int {
	if wrong != "" {
		fmt.Fprintln(w, "evalhost-runner:", wrong)
	}
	fmt.Fprintln(w, "usage: evalhost-runner [--check-config | --print-config | --version | --help]")
	return exitUsage
}

// facts is what this process knows about itself and its host.
func facts() config.Facts {
	var f config.Facts
	f.Hostname, _ = os.Hostname()
	if executable, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(executable), "aj-shim")
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			f.ShimBeside = beside
		}
	}
	return f
}

// status is the exit status that belongs to how the work ended.
func status(err error) int {
	var refused hopeless
	switch {
	case err == nil:
		return exitStopped
	case errors.Is(err, runner.ErrRevoked), errors.As(err, &refused):
		return exitHopeless
	}
	return exitFailed
}

// hopeless is a failure that no restart cures.
type hopeless struct{ error }

func (h hopeless) Unwrap() error { return h.error }
