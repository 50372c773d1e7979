package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// live starts a guest for a test that needs one. Such tests run with EVALHOST_GUEST_TESTS=1: they build the guest when it
// is not there, which takes minutes.
func live(t *testing.T, o Options) *Guest {
	t.Helper()
	if os.Getenv("EVALHOST_GUEST_TESTS") != "1" {
		t.Skip("needs a guest: set EVALHOST_GUEST_TESTS=1")
	}
	if o.Name == "" {
		o.Name = "selftest"
	}
	g, err := Up(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Down(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func (g *Guest) mustOutput(t *testing.T, args ...string) string {
	t.Helper()
	res, err := g.Exec(t.Context(), Cmd{Args: args, Timeout: 3 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if !res.OK() {
		t.Fatalf("%q: %s", args, res)
	}
	return res.Stdout
}

func TestLiveChannel(t *testing.T) {
	g := live(t, Options{})
	t.Run("streams and status", func(t *testing.T) {
		res, err := g.Exec(t.Context(), Cmd{
			Args: []string{"sh", "-c", "tr a-z A-Z; echo $WORD >&2; exit 7"}, Env: []string{"WORD=error"}, Stdin: strings.NewReader("input"),
		})
		if err != nil || res.Code != 7 || res.Stdout != "INPUT" || res.Stderr != "error\n" {
			t.Errorf("%s %v", res, err)
		}
	})
	t.Run("signal", func(t *testing.T) {
		res, err := g.Exec(t.Context(), Cmd{Args: []string{"sh", "-c", "kill -TERM $$"}})
		if err != nil || res.Signal != 15 || res.OK() {
			t.Errorf("%s %v", res, err)
		}
	})
	t.Run("no such program", func(t *testing.T) {
		if _, err := g.Exec(t.Context(), Cmd{Args: []string{"/nonexistent"}}); !errors.Is(err, ErrNotStarted) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a deadline ends everything", func(t *testing.T) {
		res, err := g.Exec(t.Context(), Cmd{
			Args: []string{"sh", "-c", "setsid sleep 4711 & setsid sleep 4711 & sleep 4711"}, Timeout: 2 * time.Second,
		})
		if err != nil || !res.TimedOut {
			t.Errorf("%s %v", res, err)
		}
		if left := g.mustOutput(t, "sh", "-c", "pgrep -fx 'sleep 4711' || true"); left != "" {
			t.Errorf("still running: %q", left)
		}
	})
	t.Run("a context ends everything", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := g.Exec(ctx, Cmd{Args: []string{"sh", "-c", "setsid sleep 4712 & sleep 4712"}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if left := g.mustOutput(t, "sh", "-c", "pgrep -fx 'sleep 4712' || true"); left != "" {
			t.Errorf("still running: %q", left)
		}
	})
	t.Run("what is left running ends with the command", func(t *testing.T) {
		g.mustOutput(t, "sh", "-c", "setsid sleep 4713 >/dev/null 2>&1 &")
		if left := g.mustOutput(t, "sh", "-c", "pgrep -fx 'sleep 4713' || true"); left != "" {
			t.Errorf("still running: %q", left)
		}
	})
	t.Run("a client that goes away ends its commands", func(t *testing.T) {
		other, err := Attach(t.Context(), g.Name())
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		started := make(chan struct{})
		go func() {
			_, err := other.Exec(t.Context(), Cmd{Args: []string{"sh", "-c", "echo; sleep 4714"}, Stdout: onFirstByte(started)})
			ended <- err
		}()
		<-started
		other.Close()
		if err := <-ended; err == nil {
			t.Error("the command outlived its connection")
		}
		for deadline := time.Now().Add(20 * time.Second); ; {
			if g.mustOutput(t, "sh", "-c", "pgrep -fx 'sleep 4714' || true") == "" {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("still running")
			}
		}
	})
	t.Run("an unread flood does not stop others", func(t *testing.T) {
		r, w := io.Pipe() // nobody reads r
		ctx, cancel := context.WithCancel(t.Context())
		var flood sync.WaitGroup
		flood.Go(func() { _, _ = g.Exec(ctx, Cmd{Args: []string{"cat", "/dev/zero"}, Stdout: w}) })
		for range 3 {
			if out := g.mustOutput(t, "echo", "answer"); out != "answer\n" {
				t.Errorf("%q", out)
			}
		}
		cancel()
		_ = r.Close()
		flood.Wait()
	})
	t.Run("many at once", func(t *testing.T) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				in := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
				res, err := g.Exec(t.Context(), Cmd{Args: []string{"cat"}, Stdin: bytes.NewReader(in)})
				if err != nil || res.Stdout != string(in) {
					t.Errorf("%d bytes came back of %d: %v", len(res.Stdout), len(in), err)
				}
			})
		}
		all.Wait()
	})
	t.Run("files", func(t *testing.T) {
		src := filepath.Join(t.TempDir(), "tree")
		data := bytes.Repeat([]byte("evalhost"), 1<<18)
		write(t, filepath.Join(src, "bin/tool"), string(data), 0o755)
		if err := os.Symlink("bin/tool", filepath.Join(src, "link")); err != nil {
			t.Fatal(err)
		}
		if err := g.Push(t.Context(), "/root/in/", src); err != nil {
			t.Fatal(err)
		}
		if mode := g.mustOutput(t, "stat", "-c", "%a %U %s", "/root/in/tree/bin/tool"); mode != "755 root 2097152\n" {
			t.Errorf("%q", mode)
		}
		back := filepath.Join(t.TempDir(), "back")
		if err := g.Pull(t.Context(), "/root/in/tree", back); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(back, "link"))
		if err != nil || sha256.Sum256(got) != sha256.Sum256(data) {
			t.Errorf("%d bytes came back of %d: %v", len(got), len(data), err)
		}
		if err := g.Pull(t.Context(), "/proc/version", filepath.Join(back, "version")); err != nil {
			t.Error(err)
		}
		if err := g.Pull(t.Context(), "/nonexistent", back); err == nil || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%v", err)
		}
	})
	t.Run("the clock is this machine's", func(t *testing.T) {
		stamp, err := time.Parse(time.RFC3339, strings.TrimSpace(g.mustOutput(t, "date", "-u", "+%Y-%m-%dT%H:%M:%SZ")))
		if off := time.Since(stamp); err != nil || off.Abs() > 30*time.Second {
			t.Errorf("off by %v: %v", off, err)
		}
	})
	t.Run("another instance is another machine", func(t *testing.T) {
		other := live(t, Options{Name: "selftest-2"})
		other.mustOutput(t, "sh", "-c", "echo mine >/root/marker; docker image rm "+HostileImage)
		g.mustOutput(t, "sh", "-c", "! test -e /root/marker")
		g.mustOutput(t, "docker", "image", "inspect", HostileImage)
	})
}

// onFirstByte closes the channel once something is written.
func onFirstByte(c chan struct{}) io.Writer {
	var once sync.Once
	return writerFunc(func(p []byte) (int, error) {
		once.Do(func() { close(c) })
		return len(p), nil
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestLiveHost checks what the suites take for granted of the host.
func TestLiveHost(t *testing.T) {
	for variant, driver := range map[string]string{"systemd": "systemd", "cgroupfs": "cgroupfs"} {
		t.Run(variant, func(t *testing.T) {
			g := live(t, Options{Variant: variant})
			if r := g.Ready(); r.System != "running" || r.Variant != variant || !strings.HasPrefix(r.Docker, "26.") {
				t.Errorf("%+v", r)
			}
			var info struct {
				CgroupDriver, CgroupVersion, DefaultRuntime, Driver, LoggingDriver string
				SecurityOptions                                                    []string
				Runtimes                                                           map[string]any
			}
			if err := json.Unmarshal([]byte(g.mustOutput(t, "docker", "info", "--format", "{{json .}}")), &info); err != nil {
				t.Fatal(err)
			}
			if info.CgroupDriver != driver || info.CgroupVersion != "2" || info.DefaultRuntime != "crun" || info.Driver != "overlay2" || info.LoggingDriver != "local" {
				t.Errorf("%+v", info)
			}
			for _, option := range []string{"name=apparmor", "name=seccomp,profile=builtin"} {
				if !slices.Contains(info.SecurityOptions, option) {
					t.Errorf("no %s in %v", option, info.SecurityOptions)
				}
			}
			for _, runtime := range []string{"crun", "runc"} {
				out := g.mustOutput(t, "docker", "run", "--rm", "--network=none", "--runtime="+runtime, TestImage, "cat", "/proc/self/attr/current")
				if out != "docker-default (enforce)\n" {
					t.Errorf("%s runs a container with the label %q", runtime, out)
				}
			}
			controllers := g.mustOutput(t, "cat", "/sys/fs/cgroup/cgroup.subtree_control")
			for _, c := range []string{"cpu", "cpuset", "io", "memory", "pids"} {
				if !slices.Contains(strings.Fields(controllers), c) {
					t.Errorf("no %s in %q", c, controllers)
				}
			}
			if links := g.mustOutput(t, "ls", "/sys/class/net"); links != "lo\n" {
				t.Errorf("network devices: %q", links)
			}
			checks := map[string]string{
				"cat /proc/sys/kernel/core_pattern":                          "core",
				"cat /proc/sys/kernel/yama/ptrace_scope":                     "1",
				"wc -l </proc/swaps":                                         "1",
				"stat -c '%a %U' /var/lib/evalhost/scratch":                  "700 root",
				"cd /var/lib/evalhost/scratch; cp /bin/true t; ./t; echo $?": "0",
				"test -r /proc/pressure/cpu; echo $?":                        "0",
			}
			for script, want := range checks {
				if got := strings.TrimSpace(g.mustOutput(t, "sh", "-c", script)); got != want {
					t.Errorf("%s: %q, want %q", script, got, want)
				}
			}
		})
	}
}

// TestLiveDeadline checks that a boot that does not finish leaves nothing behind.
func TestLiveDeadline(t *testing.T) {
	if os.Getenv("EVALHOST_GUEST_TESTS") != "1" {
		t.Skip("needs a guest: set EVALHOST_GUEST_TESTS=1")
	}
	if _, err := Build(t.Context(), os.Stderr); err != nil {
		t.Fatal(err)
	}
	const name = "selftest-deadline"
	_, err := Up(t.Context(), Options{Name: name, Boot: true, Timeout: 8 * time.Second})
	if err == nil || !strings.Contains(err.Error(), "did not become ready") || !strings.Contains(err.Error(), "Linux version") {
		t.Errorf("the error does not show the console: %v", err)
	}
	dir, derr := instanceDir(name)
	if derr != nil || exists(dir) {
		t.Errorf("left behind: %s %v", dir, derr)
	}
	if left := processesIn(t, dir); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
	list, lerr := List()
	if lerr != nil || slices.ContainsFunc(list, func(s Status) bool { return s.Name == name }) {
		t.Errorf("%v %v", list, lerr)
	}
}

// TestLiveVariants checks that each broken host is broken in the way it says.
func TestLiveVariants(t *testing.T) {
	for variant, want := range map[string]struct{ script, out string }{
		"systemd-runc":  {"docker info -f '{{.CgroupDriver}} {{.DefaultRuntime}}'", "systemd runc"},
		"cgroupfs-runc": {"docker info -f '{{.CgroupDriver}} {{.DefaultRuntime}}'", "cgroupfs runc"},
		"legacy":        {"docker info -f '{{.CgroupVersion}}'; stat -fc %T /sys/fs/cgroup; ls -d /sys/fs/cgroup/unified 2>&1 | wc -w", "1\ntmpfs\n9"},
		"hybrid":        {"docker info -f '{{.CgroupVersion}}'; ls -d /sys/fs/cgroup/unified", "1\n/sys/fs/cgroup/unified"},
		"unconfined":    {"docker info -f '{{.SecurityOptions}}' | grep -o 'seccomp,profile=[a-z]*'", "seccomp,profile=unconfined"},
		"nopids":        {"grep -c pids /sys/fs/cgroup/cgroup.controllers || true", "0"},
		"docker20": {
			"docker version -f '{{.Server.Version}}' | cut -d. -f1,2; docker run --rm --network none " + TestImage + " /bin/echo works", "20.10\nworks",
		},
	} {
		t.Run(variant, func(t *testing.T) {
			g := live(t, Options{Variant: variant})
			if got := strings.TrimSpace(g.mustOutput(t, "sh", "-c", want.script)); got != want.out {
				t.Errorf("%s: %q, want %q", want.script, got, want.out)
			}
		})
	}
}

// TestLiveReboot checks that a guest can be restarted: its disk stays, its clock is set again.
func TestLiveReboot(t *testing.T) {
	g := live(t, Options{})
	g.mustOutput(t, "sh", "-c", "echo kept >/root/kept; sync")
	before := g.Ready().Boot
	if err := g.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if g.Ready().Boot == before {
		t.Error("it is the same boot")
	}
	if out := g.mustOutput(t, "cat", "/root/kept"); out != "kept\n" {
		t.Errorf("%q", out)
	}
}
