//go:build guest

package hosts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds one command; a container takes an emulated machine seconds, and a busy one many.
const patience = 10 * time.Minute

// examples is where the examples of the tree are pushed to.
const examples = "/opt/evalhost/examples"

func variant(t *testing.T) string {
	t.Helper()
	name := os.Getenv("EVALHOST_TEST_VARIANT")
	if name == "" {
		t.Fatal("EVALHOST_TEST_VARIANT does not name the variant")
	}
	return name
}

// What a host that judges, one with the rules of nixos/host, and a broken one are asked.
var (
	judging = []func(*testing.T){aHostThatJudgesIsFoundFit, whatIsBuiltAndJudgedCarriesTheLabelOfAppArmor}
	// In this order: the journal is looked at before a test makes the daemon or the rules speak.
	declared = []func(*testing.T){nothingOfOursComplains, theKernelIsAsTheFileSays, noProgramLoadsAModuleByAsking, thePlacesOfTheHostAreThere, everySettingOfTheDaemonDoesSomething}
	egress   = []func(*testing.T){nothingLeavesButToTheServerAndNothingEnters, noUserOfTheHostGetsOutAndDockerNeither, theHostIsNoWayThrough}
	// The scripts of the units that only NixOS has, under what those restrict.
	confined = []func(*testing.T){theScratchIsFormattedByAUnitThatMayDoNothingElse, theRulesAreFilledInByAUnitThatMayDoNothingElse, imagesAreLoadedByAUnitThatMayDoNothingElse, aVolumeIsReadByAUnitThatMayDoNothingElse}
	broken   = []func(*testing.T){aBrokenHostIsFoundUnfitWithTheCauseAndTheCure, aBrokenHostNeverGivesAVerdict}
)

// tests are what each kind of host is asked. A kind that is not here fails: nothing would be known of it.
var tests = map[string][]func(*testing.T){
	"systemd":    slices.Concat(judging, declared, egress, confined),
	"cgroupfs":   judging,
	"legacy":     broken,
	"hybrid":     broken,
	"unconfined": broken,
	"nopids":     broken,
	"docker20":   {theOldestDockerJudgesWhatItHasAndRefusesWhatItHasNot},
}

func TestThisKindOfHost(t *testing.T) {
	kind := strings.TrimSuffix(variant(t), "-runc")
	if len(tests[kind]) == 0 {
		t.Fatalf("there is no test for a host of the kind %q", kind)
	}
	for _, test := range tests[kind] {
		name := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
		t.Run(name[strings.LastIndexByte(name, '.')+1:], test)
	}
}

// ran is how a command ended.
type ran struct {
	status         int
	stdout, stderr string
}

// command prepares the evalhost command, without what only the tests read.
func command(ctx context.Context, t *testing.T, env []string, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	bin := os.Getenv("EVALHOST_BIN")
	if bin == "" {
		t.Fatal("EVALHOST_BIN does not name the command")
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "EVALHOST_BIN=") || strings.HasPrefix(entry, "EVALHOST_TEST_")
	}), env...)
	// Killed, it would leave a container behind; asked, it cleans up.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	return cmd, &stdout, &stderr
}

// evalhost runs the command to its end.
func evalhost(t *testing.T, env []string, args ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd, stdout, stderr := command(ctx, t, env, args...)
	began := time.Now()
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) || ctx.Err() != nil {
		t.Fatalf("%q: %v\n%s", args, err, stderr)
	}
	t.Logf("%s: status %d after %s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), time.Since(began).Round(100*time.Millisecond))
	return ran{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// result is one row of `evalhost check --json`.
type result struct {
	ID, Status, Asked, Found, Why, Cure, Because string
}

// report reads the answer of `evalhost check --json`.
func (r ran) report(t *testing.T) (fit bool, rows []result) {
	t.Helper()
	var read struct {
		Fit          bool
		Requirements []result
	}
	if err := json.Unmarshal([]byte(r.stdout), &read); err != nil || len(read.Requirements) == 0 {
		t.Fatalf("%v:\n%s%s", err, r.stdout, r.stderr)
	}
	return read.Fit, read.Requirements
}

// verdicts are all words a submission can get.
var verdicts = []string{
	"Accepted", "Partial", "Wrong answer", "Time limit exceeded", "Memory limit exceeded", "Output limit exceeded",
	"Runtime error", "Compilation error", "PolicyViolation",
}

// wantsNoVerdict checks the exit status, that standard output is empty and that nothing anywhere reads as a verdict.
func (r ran) wantsNoVerdict(t *testing.T, status int) {
	t.Helper()
	if r.status != status || r.stdout != "" {
		t.Errorf("status %d, want %d; on standard output %q; on standard error:\n%s", r.status, status, r.stdout, r.stderr)
	}
	for _, word := range verdicts {
		if strings.Contains(r.stdout+r.stderr, word) {
			t.Errorf("it says %q:\n%s%s", word, r.stdout, r.stderr)
		}
	}
}

// writeFile writes a file of the test's own and returns its path.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
