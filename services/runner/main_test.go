package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"github.com/evalhost/evalhost/services/internal/config"
	"github.com/evalhost/evalhost/services/internal/runner"
)

var enough = []string{"AJ_Server__BaseUrl=http://127.0.0.1:1/api/v1"}

// asRunner makes this test binary the program itself.
const asRunner = "RUN_AS_EVALHOST_RUNNER"

func TestMain(m *testing.M) {
	if os.Getenv(asRunner) != "" {
		main()
	}
	os.Exit(m.Run())
}

// The journal may go away while a daemon writes to it: the daemon goes on, and its jobs with it.
func TestALogThatNobodyReadsAnyMoreEndsNothing(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	reader.Close()
	command := exec.CommandContext(t.Context(), os.Args[0], "--nothing") // which is told on standard error
	command.Env, command.Stderr = append(os.Environ(), asRunner+"=1"), writer
	var exit *exec.ExitError
	if err := command.Run(); !errors.As(err, &exit) || exit.ExitCode() != exitUsage {
		t.Errorf("%v, want exit status %d", err, exitUsage)
	}
}

// ran is how the command ended.
func ran(t *testing.T, env []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = run(t.Context(), args, env, &out, &err)
	return status, out.String(), err.String()
}

func TestTheCommandLine(t *testing.T) {
	for _, c := range []struct {
		args   []string
		env    []string
		status int
		says   string
	}{
		{[]string{"--check-config"}, enough, 0, "accepted"},
		{[]string{"--check-config"}, nil, 78, "refused: AJ_Server__BaseUrl"},
		{[]string{"--check-config"}, append([]string{"AJ_Poll__WaitSeconds=301"}, enough...), 78, `AJ_Poll__WaitSeconds is "301"`},
		{[]string{"--check-config"}, append([]string{"EVALHOST_NOTHING=1"}, enough...), 78, "EVALHOST_NOTHING"},
		{[]string{"--print-config"}, enough, 0, "http://127.0.0.1:1/api/v1"},
		{[]string{"--version"}, nil, 0, "evalhost-runner development"},
		{[]string{"--help"}, nil, 0, "AJ_Runner__KeyPath"},
		{[]string{"--nothing"}, enough, 2, "no argument"},
		{[]string{"--check-config", "more"}, enough, 2, "too many"},
		{nil, nil, 78, "refused: AJ_Server__BaseUrl"}, // without a word, and nothing is started
	} {
		status, stdout, stderr := ran(t, c.env, c.args...)
		if status != c.status || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("%v: status %d, %s%s", c.args, status, stdout, stderr)
		}
	}
}

// A script that asks whether settings are accepted must not take a full disk's silence for a yes.
func TestWhatCannotBePrintedIsNoSuccess(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, arg := range []string{"--check-config", "--print-config", "--version", "--help"} {
		if status := run(t.Context(), []string{arg}, enough, full, t.Output()); status != exitFailed {
			t.Errorf("%s: status %d", arg, status)
		}
	}
}

// within is a configuration whose every path is below dir.
func within(dir string) []string {
	return append([]string{"AJ_Runner__KeyPath=" + dir + "/identity.key", "AJ_Cache__Path=" + dir + "/cache", "AJ_Work__Path=" + dir + "/work"}, enough...)
}

func TestADaemonWithMoreLanesThanItsMachineHasCoresIsNotStartedAgain(t *testing.T) {
	const tree = "/sys/devices/system/cpu"
	if _, err := os.Stat(tree); err != nil {
		t.Skipf("NOT ASKED: this machine does not say what cores it has: %v", err)
	}
	status, _, stderr := ran(t, append([]string{"AJ_Runner__TestsAtOnce=1000"}, within(t.TempDir())...))
	if status != exitHopeless || !strings.Contains(stderr, "AJ_Runner__TestsAtOnce is 1000") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// A daemon that cannot even begin says why, and a restart may help; one that must not begin is not restarted.
func TestADaemonThatCannotBeginSaysWhy(t *testing.T) {
	dir := t.TempDir()
	env := within(dir)
	status, _, stderr := ran(t, append([]string{"DOCKER_HOST=unix://" + dir + "/nothing.sock"}, env...))
	if status != exitFailed || !strings.Contains(stderr, "this machine is not fit to judge") || !strings.Contains(stderr, "docker.reachable") {
		t.Errorf("status %d: %s", status, stderr)
	}
	// A key file that no restart makes better is left to a person, and is not touched; one that cannot be reached may be there later.
	for what, c := range map[string]struct {
		make   func(path string) error
		status int
	}{
		"is 31 bytes long": {func(path string) error { return os.WriteFile(path, make([]byte, 31), 0o600) }, exitHopeless},
		"its mode is 0644": {func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte{7}, 32), 0o644) }, exitHopeless},
		"all zero":         {func(path string) error { return os.WriteFile(path, make([]byte, 32), 0o600) }, exitHopeless},
		"no regular file":  {func(path string) error { return os.Mkdir(path, 0o700) }, exitHopeless},
		"not a directory":  {func(path string) error { return os.WriteFile(filepath.Dir(path), nil, 0o600) }, exitFailed},
	} {
		key := filepath.Join(t.TempDir(), "below", "identity.key")
		if c.status == exitHopeless {
			if err := os.Mkdir(filepath.Dir(key), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.make(key); err != nil {
			t.Fatal(err)
		}
		status, _, stderr = ran(t, append(env[1:], "AJ_Runner__KeyPath="+key))
		if status != c.status || !strings.Contains(stderr, what) || !strings.Contains(stderr, key) {
			t.Errorf("%s: status %d: %s", what, status, stderr)
		}
	}
	t.Setenv("WATCHDOG_USEC", "5000000")
	t.Setenv("WATCHDOG_PID", "")
	status, _, stderr = ran(t, env)
	if status != exitHopeless || !strings.Contains(stderr, "WatchdogSec") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

func TestTheExitStatusSaysWhetherARestartHelps(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("anything"), 1},
		{fmt.Errorf("%w (409)", runner.ErrRevoked), 78},
		{errors.Join(hopeless{errors.New("lanes")}), 78},
	} {
		if got := status(c.err); got != c.want {
			t.Errorf("%v: status %d, want %d", c.err, got, c.want)
		}
	}
}

func TestTheServiceManagerIsToldInItsOwnWords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	m := manager{slog.New(slog.DiscardHandler)}
	m.Status("waiting\nREADY=1")
	m.Status("not claiming: \x1b]0;mine\a\xff")
	m.Status(strings.Repeat("\xc3", 10<<10))
	m.Status(strings.Repeat("\u00e9", 501))
	m.Alive()
	m.needs(90 * time.Second)
	m.ready()
	m.stopping()
	for _, want := range []string{
		"STATUS=waiting READY=1", `STATUS=not claiming: \x1b]0;mine\a\xff`,
		"STATUS=" + strings.Repeat(`\xc3`, 250) + "…", "STATUS=" + strings.Repeat("\u00e9", 500) + "…", "WATCHDOG=1", "EXTEND_TIMEOUT_USEC=90000000", "READY=1", "STOPPING=1\nSTATUS=stopping",
	} {
		buffer := make([]byte, 4096)
		n, err := socket.Read(buffer)
		if err != nil || string(buffer[:n]) != want {
			t.Errorf("%q, %v; want %q", buffer[:n], err, want)
		}
	}
}

func TestTheJournalGetsFields(t *testing.T) {
	var message string
	var priority journal.Priority
	var fields map[string]string
	h := &journalHandler{level: slog.LevelInfo, send: func(m string, p journal.Priority, f map[string]string) error {
		message, priority, fields = m, p, f
		return nil
	}}
	log := slog.New(h).With("job", "7", "attempt", 2).WithGroup("run")
	log.ErrorContext(context.Background(), "it failed", "container", "evalhost_1", "error", errors.New("no\nspace"))
	if message != "it failed job=7 attempt=2 run.container=evalhost_1 run.error=\"no\\nspace\"" || priority != journal.PriErr {
		t.Errorf("%q at %d", message, priority)
	}
	log.Warn("odd", "submission", "\x1b[2J\u202e")
	if message != `odd job=7 attempt=2 run.submission="\x1b[2J\u202e"` || fields["RUN_SUBMISSION"] != "\x1b[2J\u202e" {
		t.Errorf("%q and %q", message, fields["RUN_SUBMISSION"])
	}
	log.ErrorContext(context.Background(), "it failed", "container", "evalhost_1", "error", errors.New("no\nspace"))
	for key, want := range map[string]string{
		"JOB": "7", "ATTEMPT": "2", "RUN_CONTAINER": "evalhost_1", "RUN_ERROR": "no\nspace", "EVALHOST_MESSAGE": "it failed",
		"SYSLOG_IDENTIFIER": "evalhost-runner",
	} {
		if fields[key] != want {
			t.Errorf("%s is %q, want %q", key, fields[key], want)
		}
	}
	if h.Enabled(context.Background(), slog.LevelDebug) || fieldName("message") != "" || fieldName("_pid") != "PID" {
		t.Error("a debug line is kept, or a name of the journal's own is taken")
	}
}

// Whatever the daemon will use is asked for: its lanes, and the cache that judges mount. A field that nobody fills in asks
// about less than the machine will do.
func TestTheHostCheckIsToldEverythingThatTheDaemonWillUse(t *testing.T) {
	s, _, err := config.Read(config.Daemon, append([]string{
		"AJ_Runner__TestsAtOnce=3", "AJ_Cache__Path=/somewhere/cache", "EVALHOST_LANGUAGES=cpp",
	}, enough...), config.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	s.References["gcc"] = "other"
	o := checked(s)
	if o.Lanes != 3 || o.Cache != "/somewhere/cache" || !slices.Equal(o.Keys, []string{"gcc", "clang"}) {
		t.Errorf("%+v", o)
	}
	for v, i := reflect.ValueOf(o), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("the host check is not told %s", v.Type().Field(i).Name)
		}
	}
}
