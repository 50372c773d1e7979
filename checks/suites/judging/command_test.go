//go:build guest

package judging

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds one command. Under emulation a container takes seconds, and many on a busy machine.
const patience = 20 * time.Minute

// bin is the command under test.
func bin(t *testing.T) string {
	t.Helper()
	path := os.Getenv("EVALHOST_BIN")
	if path == "" {
		t.Fatal("EVALHOST_BIN does not name the command")
	}
	return path
}

// environment is what a command is given: this process's, without what only the tests read.
func environment(more ...string) []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "EVALHOST_BIN=") && !strings.HasPrefix(entry, "EVALHOST_TEST_") {
			env = append(env, entry)
		}
	}
	return append(env, more...)
}

// ran is how a command ended.
type ran struct {
	status         int
	stdout, stderr string
}

// options of a command.
type options struct {
	env []string
	// as is the user it runs as; 0 is root.
	as uint32
	// wrap is put before the command.
	wrap []string
	// started is called once it runs.
	started func(*os.Process)
}

// evalhost runs the command to its end.
func evalhost(t *testing.T, o options, args ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	words := append(append(append([]string{}, o.wrap...), bin(t)), args...)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	// Killing would leave a container behind; asked, it cleans up.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &stdout, &stderr, environment(o.env...)
	if o.as != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: o.as, Gid: o.as}}
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if o.started != nil {
		o.started(cmd.Process)
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%q: %v", words, err)
	}
	if ctx.Err() != nil {
		t.Fatalf("%q did not end within %s; on standard error:\n%s", words, patience, stderr.String())
	}
	t.Logf("%s: status %d after %s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), time.Since(began).Round(100*time.Millisecond))
	return ran{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// wants checks the exit status and that all these words are on standard error.
func (r ran) wants(t *testing.T, status int, says ...string) {
	t.Helper()
	if r.status != status {
		t.Errorf("status %d, want %d", r.status, status)
	}
	for _, words := range says {
		if !strings.Contains(r.stderr, words) {
			t.Errorf("standard error does not say %q", words)
		}
	}
	if t.Failed() {
		t.Logf("standard output:\n%s\nstandard error:\n%s", r.stdout, r.stderr)
	}
}

// verdicts are all words a submission can get.
var verdicts = []string{
	"Accepted", "Partial", "Wrong answer", "Time limit exceeded", "Memory limit exceeded", "Output limit exceeded",
	"Runtime error", "Compilation error", "PolicyViolation",
}

// wantsNoVerdict checks that the command ended with this status, that standard output is empty and that nothing anywhere
// reads as a verdict.
func (r ran) wantsNoVerdict(t *testing.T, status int, says ...string) {
	t.Helper()
	r.wants(t, status, says...)
	if r.stdout != "" {
		t.Errorf("on standard output:\n%s", r.stdout)
	}
	for _, word := range verdicts {
		if strings.Contains(r.stderr, word) {
			t.Errorf("standard error says %q:\n%s", word, r.stderr)
		}
	}
}

// document is the details document, read strictly.
type document struct {
	Type   string `json:"type"`
	Limits struct {
		TimeMs      int64 `json:"timeMs"`
		MemoryBytes int64 `json:"memoryBytes"`
	} `json:"limits"`
	Score       float64 `json:"score"`
	MaxScore    float64 `json:"maxScore"`
	Compilation struct {
		Status string `json:"status"`
		Log    string `json:"log"`
	} `json:"compilation"`
	Groups []struct {
		Group     uint32  `json:"group"`
		Points    float64 `json:"points"`
		MaxPoints float64 `json:"maxPoints"`
		Status    string  `json:"status"`
	} `json:"groups"`
	Tests []test `json:"tests"`
}

// test is one row of the document.
type test struct {
	No          string  `json:"no"`
	Group       uint32  `json:"group"`
	Status      string  `json:"status"`
	TimeMs      *int64  `json:"timeMs"`
	MemoryBytes *int64  `json:"memoryBytes"`
	Score       float64 `json:"score"`
	MaxScore    float64 `json:"maxScore"`
	Note        *string `json:"note"`
	Reason      string  `json:"reason"`
}

// judge judges one source and returns the document; the verdict is not part of it.
func judge(t *testing.T, pkg, name, source string, args ...string) document {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	r := evalhost(t, options{}, append([]string{"judge", pkg, path, "--json"}, args...)...)
	r.wants(t, 0)
	decoder := json.NewDecoder(strings.NewReader(r.stdout))
	decoder.DisallowUnknownFields()
	var d document
	if err := decoder.Decode(&d); err != nil {
		t.Fatalf("the document cannot be read: %v\n%s\n%s", err, r.stdout, r.stderr)
	}
	if decoder.More() {
		t.Errorf("something follows the document:\n%s", r.stdout)
	}
	for _, row := range d.Tests {
		if row.TimeMs == nil || row.Note == nil || (row.Status == "OK") == (row.Reason != "") ||
			row.MemoryBytes != nil && *row.MemoryBytes <= 0 {
			t.Errorf("a row that breaks the contract of the document: %+v", row)
		}
	}
	return d
}
