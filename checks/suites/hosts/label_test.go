//go:build guest

package hosts

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// label is what AppArmor says of a process that it confines with Docker's own profile.
const label = "docker-default (enforce)"

// AppArmor is asked about every process of a judged submission and of its build, by the name of the program: the
// container's first process, the compiler, and the submission itself (decisions 29).
func whatIsBuiltAndJudgedCarriesTheLabelOfAppArmor(t *testing.T) {
	if on, err := os.ReadFile("/sys/module/apparmor/parameters/enabled"); err != nil || strings.TrimSpace(string(on)) != "Y" {
		if inGuest() {
			t.Fatalf("the guest's kernel confines nothing: %q, %v", on, err)
		}
		t.Skipf("NOT RUN: this kernel has no AppArmor (%q, %v)", on, err)
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"config.yml":   "type: standard-io@1\nlimits: { timeMs: 60000, memoryBytes: 67108864 }\ngroups: [ { group: 1, points: 100 } ]\n",
		"tests/1a.in":  "1 2\n",
		"tests/1a.out": "3\n",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	source := writeFile(t, "wait.c", "#include <time.h>\nint nanosleep(const struct timespec *, struct timespec *);\n"+
		"int main(void) { struct timespec t = { 600, 0 }; nanosleep(&t, 0); return 0; }\n")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd, stdout, stderr := command(ctx, t, nil, "judge", dir, source)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	seen := map[string]map[string]bool{}
	over := false
	for !over && len(seen["program"]) == 0 {
		for name, labels := range labels(t) {
			if seen[name] == nil {
				seen[name] = map[string]bool{}
			}
			for l := range labels {
				seen[name][l] = true
			}
		}
		select {
		case err := <-ended:
			over = true
			t.Errorf("it ended before the submission was seen: %v\n%s%s", err, stdout, stderr)
		case <-time.After(50 * time.Millisecond):
		}
	}
	if !over {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		var exit *exec.ExitError
		if err := <-ended; err != nil && !errors.As(err, &exit) {
			t.Error(err)
		}
	}
	for _, name := range []string{"aj-shim", "program", "cc1"} {
		if len(seen[name]) == 0 {
			t.Errorf("no process %s was seen", name)
		}
	}
	for name, labels := range seen {
		for l := range labels {
			if l != label {
				t.Errorf("%s runs with the label %q, want %q", name, l, label)
			}
		}
	}
}

// labels asks for the labels of every process that only a container runs here, by the beginning of its name.
func labels(t *testing.T) map[string]map[string]bool {
	t.Helper()
	found := map[string]map[string]bool{}
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range names {
		name, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		for _, wanted := range []string{"aj-shim", "program", "cc1", "collect2"} {
			if !strings.HasPrefix(string(name), wanted) {
				continue
			}
			l, err := os.ReadFile(filepath.Join(filepath.Dir(path), "attr/current"))
			if err != nil || len(l) == 0 {
				continue
			}
			if found[wanted] == nil {
				found[wanted] = map[string]bool{}
			}
			found[wanted][strings.TrimSpace(string(l))] = true
		}
	}
	return found
}

// inGuest says whether this is the guest and not another host that the suite was brought to.
func inGuest() bool {
	line, err := os.ReadFile("/proc/cmdline")
	return err == nil && strings.Contains(string(line), "evalhost.variant=")
}
