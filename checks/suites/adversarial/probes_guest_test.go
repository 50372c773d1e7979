//go:build guest

package adversarial

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/sandboxlab"
)

// results reads what the attacking program said of its probes.
func results(output string) map[string]string {
	said := map[string]string{}
	for line := range strings.Lines(output) {
		if name, result, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			said[name] = result
		}
	}
	return said
}

// judged compares what was said of a group of probes with what is expected of each. A probe of which nothing was said
// fails, and so does one that nobody asked for.
func judged(t *testing.T, probes []probe, said map[string]string, inside bool) {
	t.Helper()
	for _, p := range probes {
		want := p.want
		if !inside {
			if p.nowhere != "" {
				continue
			}
			if want = p.control; want == "" {
				want = "ok"
			}
		}
		t.Run(p.name, func(t *testing.T) {
			got, isThere := said[p.name]
			switch {
			case !isThere:
				t.Error("the attacking program said nothing of it")
			case !oneOf(got, want):
				t.Errorf("it came to %s, want %s", got, want)
			}
		})
	}
	for name := range said {
		if !slices.ContainsFunc(probes, func(p probe) bool { return p.name == name }) {
			t.Errorf("the attacking program tried %q, of which the table says nothing", name)
		}
	}
}

var groups = []struct {
	name   string
	probes []probe
}{
	{"files", fileProbes},
	{"kernel", kernelProbes},
	{"others", otherProbes},
	{"exhaust", exhaustProbes},
}

func (l *lab) probes(t *testing.T) {
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			r := l.run("probe", g.name)
			r.Limits.Memory = 256 << 20
			o, err := l.go1(t, r)
			if err != nil {
				t.Fatal(err)
			}
			if o.Stop.String() != "on its own" || o.ExitCode != 0 {
				t.Errorf("the container: %s", shown(o.Outcome))
			}
			judged(t, g.probes, results(r.Output.(*sink).String()), true)
			l.host.unchanged(t, nil)
		})
	}
}

// Outside of a sandbox, as root, every probe comes to something else. Otherwise it would be refused for a reason that has
// nothing to do with the sandbox.
func TestEveryProbeCanComeToSomethingElse(t *testing.T) {
	if !everything() {
		return // the program and the kernel are the same under either driver
	}
	l := &lab{planted: map[string]string{}}
	l.plant(t)
	place(t, l.tests)
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			judged(t, g.probes, results(outside(t, 60*time.Second, "probe", g.name)), false)
		})
	}
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

// place makes the paths of a sandbox on the machine itself, for the length of a test.
func place(t *testing.T, tests string) {
	t.Helper()
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

// Two submissions at once, and one after the other in the same lane: neither finds anything of the other's.
func (l *lab) neighbours(t *testing.T) {
	marks := l.run("mark", "600")
	marks.Lane = 1
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	p, err := l.job.Prepare(t.Context(), marks)
	must(t, err)
	marked := make(chan error, 1)
	go func() {
		_, err := p.Go(ctx)
		marked <- err
	}()
	looks := l.run("probe", "neighbour")
	select {
	case <-marks.Output.(*sink).came:
	case err := <-marked:
		t.Fatalf("the first one ended before it had marked anything: %q, %v", marks.Output.(*sink), err)
	}
	t.Run("beside it", func(t *testing.T) {
		o, err := l.go1(t, looks)
		must(t, err)
		if o.Stop.String() != "on its own" || o.ExitCode != 0 {
			t.Errorf("the container: %s", shown(o.Outcome))
		}
		judged(t, neighbourProbes, results(looks.Output.(*sink).String()), true)
		select {
		case <-marked:
			t.Error("the other one was not there any more, so that nothing was shown")
		default:
		}
	})
	giveUp()
	if err := <-marked; err == nil {
		t.Error("a run that was given up has an outcome")
	}
	must(t, p.Close())
	if got := marks.Output.(*sink).String(); !strings.HasPrefix(got, "marks 1111111111\n") {
		t.Errorf("the first one said %q; what it did not leave cannot be found", got)
	}
	t.Run("after it in its lane", func(t *testing.T) {
		looks := l.run("probe", "neighbour")
		looks.Lane = 1
		_, err := l.go1(t, looks)
		must(t, err)
		judged(t, neighbourProbes, results(looks.Output.(*sink).String()), true)
	})
	l.host.unchanged(t, nil)
}

// While a checker beside it has the answers mounted, a submission reads everything that it can open.
func (l *lab) secrets(t *testing.T) {
	r := l.run("search", "0", "everywhere", "0", "forge", "0")
	o, err := l.go1(t, r)
	must(t, err)
	said := r.Output.(*sink).String()
	if o.Stop.String() != "on its own" || o.ExitCode != 0 || !strings.Contains(said, "read much\n") || !strings.HasSuffix(said, "done\n") {
		t.Errorf("the container: %s; it said %.2000q", shown(o.Outcome), said)
	}
	// What the daemon sets for everybody, and the image. The devices are those that every container has; all of them lead
	// nowhere.
	environment := []string{
		"environment PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n", "environment HOSTNAME=evalhost\n", "environment HOME=/root\n",
	}
	allowed := []string{"writable /dev/shm\n", "writable /dev/mqueue\n"}
	for _, device := range []string{"full", "null", "random", "urandom", "zero", "tty", "pts/ptmx"} {
		allowed = append(allowed, "writable /dev/"+device+"\n")
	}
	for line := range strings.Lines(said) {
		switch {
		case strings.HasPrefix(line, "secret in "), strings.HasPrefix(line, "opened "):
			t.Errorf("it said %q", line)
		case strings.HasPrefix(line, "writable ") && !slices.Contains(allowed, line):
			t.Errorf("it could write to %q", line)
		case strings.HasPrefix(line, "environment ") && !slices.Contains(environment, line):
			t.Errorf("its environment has %q", line)
		}
	}
	t.Logf("it said:\n%.6000s", said)
	l.host.unchanged(t, nil)

	// The same beside a checker, whose container has the whole package mounted. What the submission says goes to it. The
	// checker's program is copied into the job's scratch, where it stays.
	beside := watch(t, l.eng, sandboxlab.DefaultLocks)
	r = l.run("search", "0")
	r.Output = nil
	r.Judge = &sandboxlab.Judge{Kind: sandboxlab.Checker, Image: testImage, Command: []string{"/program/attack", "check"}, Program: l.program, Tests: l.tests, Group: 1}
	o, err = l.go1(t, r)
	must(t, err)
	if o.Stop.String() != "on its own" || o.ExitCode != 0 || o.Judge == nil || !strings.HasPrefix(string(o.Judge.Answer), "OK\nno secret of ") || o.OutputBytes < 10 {
		t.Errorf("beside a checker: %s; it was told %+v", shown(o.Outcome), o.Judge)
	}
	beside.unchanged(t, nil)
	l.host = watch(t, l.eng, scratchDir, sandboxlab.DefaultLocks)
}
