//go:build guest

package adversarial

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What is tried here is tried last, as the name of this file has it: whatever root does to the machine, such as loading a
// module, would hide that a submission could do it too.

// Outside of a sandbox, as root, every probe comes to something else. Otherwise it would be refused for a reason that has
// nothing to do with the sandbox.
func TestEveryProbeCanComeToSomethingElse(t *testing.T) {
	if !everything() {
		return // the program and the kernel are the same under either driver
	}
	l := outsideOf(t, groups)
	t.Run("neighbour", func(t *testing.T) {
		marking, end := startOutside(t, "mark", "600")
		defer end()
		if got := <-marking; got != "marks 1111111111\n" {
			t.Fatalf("it said %q", got)
		}
		judged(t, neighbourProbes, results(outside(t, 60*time.Second, "probe", "neighbour")), false)
	})
	outside(t, 60*time.Second, "unmark", "0")
	t.Run("search", func(t *testing.T) {
		if said := outside(t, 60*time.Second, "search", "1"); !strings.Contains(said, l.planted["file"]) {
			t.Errorf("the search does not find what is planted: %q", said)
		}
	})
}

// The same for those that need a second processor for it.
func TestEveryProbeOfLanesCanComeToSomethingElse(t *testing.T) { outsideOf(t, laneGroups(t)) }

// outsideOf tries groups of probes outside of a sandbox.
func outsideOf(t *testing.T, groups []group) *lab {
	l := &lab{planted: map[string]string{}}
	l.plant(t)
	place(t, l.tests)
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			judged(t, g.probes, results(outside(t, 60*time.Second, "probe", g.name)), false)
		})
	}
	return l
}

// place makes the paths of a sandbox on the machine itself, for the length of a test.
func place(t *testing.T, tests string) {
	t.Helper()
	// Asking for a binary format makes systemd mount the file system of them.
	t.Cleanup(func() { _ = exec.Command("systemctl", "stop", "proc-sys-fs-binfmt_misc.mount").Run() })
	must(t, os.Symlink(tests, "/in"))
	t.Cleanup(func() { must(t, os.Remove("/in")) })
	must(t, os.MkdirAll(filepath.Join(scratchDir, "there"), 0o755))
	t.Cleanup(func() { must(t, os.RemoveAll(scratchDir)) })
	must(t, os.WriteFile("/usr/local/bin/aj-shim", []byte("there\n"), 0o600))
	t.Cleanup(func() { must(t, os.Remove("/usr/local/bin/aj-shim")) })
	for _, dir := range []string{"/answers", "/src", "/out", "/work", "/aj-out", "/program", "/aj"} {
		must(t, os.Mkdir(dir, 0o755))
		t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	}
	for _, file := range []string{"/answers/1a.out", "/src/main.c", "/out/program", "/program/attack"} {
		must(t, os.WriteFile(file, []byte("there\n"), 0o644))
	}
	for _, channel := range []string{"/aj-out/report", "/aj-out/stdout"} {
		must(t, exec.Command("mkfifo", channel).Run())
		// Somebody who reads, so that opening for writing is possible.
		end, err := os.OpenFile(channel, os.O_RDWR, 0)
		must(t, err)
		t.Cleanup(func() { end.Close() })
	}
	const group = "/sys/fs/cgroup/adversarial-control"
	must(t, os.Mkdir(group, 0o755))
	must(t, os.Symlink(group, "/aj/cgroup"))
	t.Cleanup(func() {
		_ = os.Remove(filepath.Join(group, "escape"))
		must(t, os.Remove(group))
	})
}

func outsideCommand(t *testing.T, words ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(told("EVALHOST_TEST_PROGRAMS", "/usr/local/lib/evalhost-test"), "attack"), words...)
	// One that may be written, and one descriptor that is inherited. Each group has its input, whatever the one before
	// has done to it.
	must(t, os.WriteFile("/in/1a.in", []byte("the input\n"), 0o644))
	input, err := os.OpenFile("/in/1a.in", os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { input.Close() })
	cmd.Stdin, cmd.ExtraFiles = input, []*os.File{input}
	return cmd
}

// outside runs the attacking program on the machine itself.
func outside(t *testing.T, atMost time.Duration, words ...string) string {
	t.Helper()
	cmd := outsideCommand(t, words...)
	timer := time.AfterFunc(atMost, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%v: %v", words, err)
	}
	return string(out)
}

// startOutside starts it and gives its first words.
func startOutside(t *testing.T, words ...string) (<-chan string, func()) {
	t.Helper()
	cmd := outsideCommand(t, words...)
	pipe, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	first := make(chan string, 1)
	go func() {
		buffer := make([]byte, 4096)
		n, _ := pipe.Read(buffer)
		first <- string(buffer[:n])
	}()
	return first, func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
