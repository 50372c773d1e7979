package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"evalhost": main})
}

// What needs no Docker: use, help and bad input.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("EVALHOST_SCRATCH", env.WorkDir+"/scratch")
			// No script may reach a daemon, even where one runs.
			env.Setenv("DOCKER_HOST", "unix://"+env.WorkDir+"/no-docker.sock")
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("there is no condition %q", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status},
	})
}

// status runs a command and wants this exit status: status 2 evalhost judge ...
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status NUMBER COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	var exit interface{ ExitCode() int }
	got := "0"
	if errors.As(err, &exit) {
		got = fmt.Sprint(exit.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}

func TestFlagsMayStandAnywhere(t *testing.T) {
	for _, c := range []struct{ args, operands, toolchain string }{
		{"a b", "a b", ""},
		{"--toolchain x a b", "a b", "x"},
		{"a --toolchain x b", "a b", "x"},
		{"a b --toolchain=x", "a b", "x"},
		{"a -- --toolchain x", "a --toolchain x", ""},
		{"-- a --toolchain", "a --toolchain", ""},
		{"--toolchain -- a", "a", "--"},
		{"- a", "- a", ""},
		{"", "", ""},
	} {
		flags := flag.NewFlagSet("judge", flag.ContinueOnError)
		toolchain := flags.String("toolchain", "", "")
		operands, err := arguments(flags, strings.Fields(c.args))
		if err != nil || strings.Join(operands, " ") != c.operands || *toolchain != c.toolchain {
			t.Errorf("%q: operands %q, toolchain %q, %v", c.args, operands, *toolchain, err)
		}
	}
}

func TestAnErrorThatNobodyClassifiedIsAnInfrastructureFailure(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		says   string
	}{
		{nil, 0, ""},
		{errors.New("the daemon\nis gone"), exitInfrastructure, "infrastructure failure, no verdict: the daemon is gone\n"},
		{badUse("no %s", "package"), exitUsage, "evalhost: no package\n"},
		{unfit(errors.New("no cgroups")), exitUnfit, "evalhost: no cgroups\n"},
		{fmt.Errorf("reading: %w", badUse("no package")), exitUsage, "evalhost: no package\n"},
		{statusError{status: exitUnexpected}, exitUnexpected, ""},
		{errors.New("a compiler said \x1b[2J"), exitInfrastructure, "a compiler said \\x1b[2J\n"},
	} {
		var stderr bytes.Buffer
		if got := conclude(t.Context(), c.err, &stderr); got != c.status || !strings.HasSuffix(stderr.String(), c.says) {
			t.Errorf("%v: status %d, said %q", c.err, got, stderr.String())
		}
	}
}

func TestBeingAskedToStopHasAStatusOfItsOwn(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interrupted{syscall.SIGTERM})
	var stderr bytes.Buffer
	if got := conclude(ctx, context.Canceled, &stderr); got != 128+15 || !strings.Contains(stderr.String(), "terminated") {
		t.Errorf("status %d, said %q", got, stderr.String())
	}
	// What was finished before the signal came stays finished.
	if got := conclude(ctx, nil, &stderr); got != 0 {
		t.Errorf("status %d", got)
	}
}

func TestProgressIsForTerminalsAlone(t *testing.T) {
	var w bytes.Buffer
	p := newProgress(&w)
	p.say("compiling")
	p.clear()
	if w.Len() > 0 {
		t.Errorf("wrote %q to what is no terminal", w.String())
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if isTerminal(null) {
		t.Error("/dev/null is no terminal")
	}
	p.terminal = true
	p.say("test %s, %d of %d", "1a", 1, 3)
	p.clear()
	p.clear()
	if got := w.String(); got != "\r\x1b[Ktest 1a, 1 of 3\r\x1b[K" {
		t.Errorf("wrote %q", got)
	}
}
