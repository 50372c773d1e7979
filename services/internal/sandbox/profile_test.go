//go:build !guest

package sandbox

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

var update = flag.Bool("update", false, "write the golden files anew")

// profiles are the six, each as it is made for an ordinary step, and the host check's.
func profiles() map[string]engine.Spec {
	s := step{
		run: "abc_r0123456789abcdef", instance: "abc",
		image:  engine.Image{Reference: "lang:local", ID: "sha256:1111"},
		home:   &cgroup.Home{Parent: "evalhost-abc_r0123456789abcdef.slice", Source: "/sys/fs/cgroup/evalhost.slice/evalhost-abc_r0123456789abcdef.slice"},
		cpuset: "2-3",
	}
	run := judged{
		command: []string{"python3", "/program/program.py"}, memory: 256 * verdict.MiB, nonce: "00112233445566778899aabbccddeeff",
		shim: "/scratch/job/shim", program: "/scratch/job/program-a", channels: "/scratch/job/run-a/run",
		nothing: "/scratch/job/run-a/nothing", input: "/scratch/job/run-a/in/1a.in", test: "1a",
	}
	interactive := run
	interactive.input = ""
	judge := judging{
		command: []string{"/program/checker"}, program: "/scratch/job/program-b", tests: "/cache/tests",
		channels: "/scratch/job/run-a/beside", said: "/scratch/job/run-a/said", test: "1a", group: 1,
	}
	build := []string{"/bin/sh", "-c", "mkdir -p /out && gcc -O2 -o /out/program /src/main.c"}
	return map[string]engine.Spec{
		"submission-build": buildProfile(s, build, "/scratch/job/build-a/src", "/scratch/job/build-a/said"),
		"judge-build":      buildProfile(s, build, "/scratch/job/build-b/src", "/scratch/job/build-b/said"),
		"batch-run":        judgedProfile(s, run),
		"interactive-run":  judgedProfile(s, interactive),
		"checker":          checkerProfile(s, judge),
		"interactor":       interactorProfile(s, judge),
		"probe":            probeProfile(s, "/scratch/cli_probe1", "/cache"),
	}
}

func TestTheDaemonIsAskedForExactlyThis(t *testing.T) {
	for name, spec := range profiles() {
		got, err := spec.Describe()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got = append(got, '\n')
		path := filepath.Join("testdata", "profiles", name+".json")
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is asked for as\n%s\nwant what %s says; run the test with -update and read the difference", name, got, path)
		}
	}
}

func TestOnlyAJudgedRunStartsAsRootAndOnlyItHasCapabilities(t *testing.T) {
	for name, spec := range profiles() {
		if judged := strings.HasSuffix(name, "-run"); spec.Shim != judged {
			t.Errorf("%s: shim %v", name, spec.Shim)
		}
	}
}

func TestOnlyTheBuildsHaveAWritableRootAndATmp(t *testing.T) {
	for name, spec := range profiles() {
		build := strings.HasSuffix(name, "-build")
		if spec.WritableRoot != build || (spec.Tmp > 0) != build {
			t.Errorf("%s: writable root %v, /tmp %v", name, spec.WritableRoot, spec.Tmp)
		}
	}
}

func TestTheTwoBuildsDifferInNothing(t *testing.T) {
	p := profiles()
	a, _ := p["submission-build"].Describe()
	b, _ := p["judge-build"].Describe()
	if got := bytes.ReplaceAll(b, []byte("build-b"), []byte("build-a")); !bytes.Equal(a, got) {
		t.Errorf("a submission's build\n%s\na judge's\n%s", a, b)
	}
}

func TestEveryProfileIsPinnedAndSwept(t *testing.T) {
	for name, spec := range profiles() {
		if spec.Cpuset != "2-3" {
			t.Errorf("%s is not pinned to its lane", name)
		}
		if spec.Instance != "abc" || spec.Name != "evalhost-abc_r0123456789abcdef" {
			t.Errorf("%s is called %q of %q", name, spec.Name, spec.Instance)
		}
	}
}

func TestWhatAJudgedRunCanWriteToOnTheHostIsItsHomeAlone(t *testing.T) {
	for name, spec := range profiles() {
		var writable []string
		for _, m := range spec.Mounts {
			if m.Writable {
				writable = append(writable, m.Target)
			}
		}
		want := ""
		switch name {
		case "batch-run", "interactive-run":
			want = "/aj/cgroup"
		case "interactor":
			want = "/answers"
		}
		if strings.Join(writable, " ") != want {
			t.Errorf("%s can write to %q, want %q", name, writable, want)
		}
	}
}

func TestASubmissionSeesNothingOfThePackageButItsOwnInput(t *testing.T) {
	for name, spec := range profiles() {
		if !strings.HasSuffix(name, "-run") {
			continue
		}
		for _, m := range spec.Mounts {
			if strings.HasPrefix(m.Source, "/cache") {
				t.Errorf("%s mounts %s of the package", name, m.Source)
			}
			if strings.HasPrefix(m.Target, "/in") && (name != "batch-run" || m.Target != "/in/1a.in") {
				t.Errorf("%s mounts %s", name, m.Target)
			}
		}
	}
}

func TestTheNonceIsInTheEnvironmentAndNeverInTheCommand(t *testing.T) {
	spec := profiles()["batch-run"]
	if strings.Contains(strings.Join(spec.Argv, " "), "00112233") {
		t.Errorf("the command %q shows the nonce to everybody in the container", spec.Argv)
	}
	if !strings.Contains(strings.Join(spec.Env, " "), "AJ_SHIM_NONCE=00112233445566778899aabbccddeeff") {
		t.Errorf("the environment is %q", spec.Env)
	}
}

func TestC35TheSubmissionsCommandIsPassedOnWordForWord(t *testing.T) {
	got := profiles()["batch-run"].Argv
	want := []string{"/usr/local/bin/aj-shim", "/in/1a.in", "/aj-out/stdout", "python3", "/program/program.py"}
	if strings.Join(got, "\x00") != strings.Join(want, "\x00") {
		t.Errorf("argv %q, want %q", got, want)
	}
}

func TestAShellReadsQuotedWordsAsTheyAre(t *testing.T) {
	for word, want := range map[string]string{
		"plain": `'plain'`, "it's": `'it'\''s'`, "$(x) `y`": "'$(x) `y`'", "": "''", "a b\nc": "'a b\nc'",
	} {
		if got := quote(word); got != want {
			t.Errorf("quote(%q) = %s, want %s", word, got, want)
		}
	}
	if got := quote("a", "b c"); got != "'a' 'b c'" {
		t.Errorf("quote of two words = %s", got)
	}
}

func TestAnAbsurdMemoryLimitSaturates(t *testing.T) {
	s := step{home: &cgroup.Home{Parent: "x"}}
	if got := judgedProfile(s, judged{memory: 1<<63 - 1}).Memory; got != 1<<63-1 {
		t.Errorf("the container's limit is %d", got)
	}
}
