//go:build guest

package hosts

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const daemonFile = "/etc/docker/daemon.json"

// asked is one container that was asked for nothing but a command, and one that publishes a port on a network of its own.
// Everything about them that was not asked for is the daemon's doing.
type asked struct {
	plain, published seen
	root             string // where the daemon keeps its data
	began            time.Time
}

// seen is a running container, and what the kernel says of its first process.
type seen struct {
	ID, Name string
	State    struct {
		Pid    int
		Status string
	}
	HostConfig struct{ Runtime, IpcMode, CgroupnsMode string }
}

func (s seen) proc(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", itoa(s.State.Pid), name))
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// has fails the test unless a file of the first process has a line.
func (s seen) has(t *testing.T, name, line string) {
	t.Helper()
	for got := range strings.Lines(s.proc(t, name)) {
		if strings.Join(strings.Fields(got), " ") == line {
			return
		}
	}
	t.Errorf("/proc/PID/%s has no line %q:\n%s", name, line, s.proc(t, name))
}

func namespace(t *testing.T, pid, kind string) string {
	t.Helper()
	link, err := os.Readlink(filepath.Join("/proc", pid, "ns", kind))
	if err != nil {
		t.Error(err)
	}
	return link
}

// effects are, for every setting of nixos/host/daemon.json, what it does, looked for while two containers run. A setting that
// is not here fails the test: nobody would notice if it did nothing. Where the effect is also the daemon's default, or cannot
// be had without another setting, the words say so.
var effects = map[string]func(*testing.T, *asked){
	"exec-opts": func(t *testing.T, a *asked) {
		// The service manager has a unit for the container; the other driver makes directories of its own, below /docker.
		want := "/system.slice/docker-" + a.plain.ID + ".scope"
		if strings.HasPrefix(variant(t), "cgroupfs") {
			want = "/docker/" + a.plain.ID
		}
		if got := a.plain.proc(t, "cgroup"); !strings.HasPrefix(got, "0::"+want) {
			t.Errorf("the container is in %q, want it in %s", got, want)
		}
	},
	"default-runtime": func(t *testing.T, a *asked) {
		want := "crun"
		if strings.HasSuffix(variant(t), "-runc") {
			want = "runc"
		}
		if got := a.plain.HostConfig.Runtime; got != want {
			t.Errorf("a container that asks for no runtime gets %s, want %s", got, want)
		}
		// What a runtime remembers of a container is its own: crun writes "status", runc "state.json".
		memory := map[string]string{"crun": "status", "runc": "state.json"}[want]
		found, _ := filepath.Glob("/run/docker/runtime-*/moby/" + a.plain.ID + "/" + memory)
		if len(found) == 0 {
			t.Errorf("no runtime remembers the container as %s does, in a file %s", want, memory)
		}
	},
	"runtimes": func(*testing.T, *asked) {
		// Without it the default runtime has no program, and the daemon does not start.
	},
	"storage-driver": func(t *testing.T, a *asked) {
		if text := a.plain.proc(t, "mountinfo"); !strings.Contains(text, " / / ") || !strings.Contains(text, " - overlay overlay ") || !strings.Contains(text, "upperdir="+a.root+"/overlay2/") {
			t.Errorf("the container's root is no overlay of %s:\n%s", a.root, text)
		}
	},
	"bridge": func(t *testing.T, a *asked) {
		if _, err := os.Stat("/sys/class/net/docker0"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("there is a bridge docker0 (%v)", err)
		}
		// With nothing to be connected to, containers cannot meet, whatever "icc" would say: it cannot be said beside "iptables".
		if interfaces := strings.Count(a.plain.proc(t, "net/dev"), ":"); interfaces != 1 {
			t.Errorf("a container that asks for no network has %d interfaces, want the loopback alone:\n%s", interfaces, a.plain.proc(t, "net/dev"))
		}
		if routes := strings.Count(a.plain.proc(t, "net/route"), "\n"); routes > 1 {
			t.Errorf("it has routes:\n%s", a.plain.proc(t, "net/route"))
		}
	},
	"iptables":  onlyOurRules,
	"ip6tables": onlyOurRules,
	"ip-masq":   onlyOurRules, // follows from "iptables": there is no rule that could do it
	"ip-forward": func(t *testing.T, _ *asked) {
		for _, name := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
			if text, err := os.ReadFile("/proc/sys/" + name); err != nil || strings.TrimSpace(string(text)) != "0" {
				t.Errorf("%s is %q (%v): the daemon has made a router of this host", name, text, err)
			}
		}
	},
	"userland-proxy": func(t *testing.T, _ *asked) {
		if found := named(t, "docker-proxy"); len(found) > 0 {
			t.Errorf("a published port has a process of its own: %v", found)
		}
	},
	"no-new-privileges": func(t *testing.T, a *asked) {
		a.plain.has(t, "status", "NoNewPrivs: 1")
	},
	"default-cgroupns-mode": func(t *testing.T, a *asked) { // the default with unified cgroups too
		if namespace(t, itoa(a.plain.State.Pid), "cgroup") == namespace(t, "self", "cgroup") || a.plain.HostConfig.CgroupnsMode != "private" {
			t.Errorf("the container sees the host's cgroups (%s)", a.plain.HostConfig.CgroupnsMode)
		}
	},
	"default-ipc-mode": func(t *testing.T, a *asked) { // the default too
		out, err := exec.Command("docker", "run", "--rm", "--network", "none", "--ipc", "container:"+a.plain.ID, "evalhost/test-busybox:local", "true").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "non-shareable IPC") || a.plain.HostConfig.IpcMode != "private" {
			t.Errorf("another container may share its memory (%s): %v %s", a.plain.HostConfig.IpcMode, err, out)
		}
	},
	"log-driver": func(t *testing.T, a *asked) {
		if kept := logs(t, a); kept == 0 {
			t.Error("nothing is kept by the driver \"local\"")
		}
	},
	"log-opts": func(t *testing.T, a *asked) {
		// 4 MB were printed. Two files of 1 MB, and what does not fit a file's last record.
		if kept := logs(t, a); kept > 2.5*1e6 {
			t.Errorf("%d bytes of the container's output are kept", kept)
		}
		packed, _ := filepath.Glob(filepath.Join(a.root, "containers", a.plain.ID, "local-logs", "*.gz"))
		if len(packed) > 0 {
			t.Errorf("old output is compressed, with processor time that judged programs lack: %q", packed)
		}
	},
	"live-restore": func(*testing.T, *asked) {
		// Seen when the daemon is restarted, below.
	},
	"log-level": func(*testing.T, *asked) {
		// The same.
	},
	"shutdown-timeout": func(*testing.T, *asked) {
		// It bounds only what no container's own patience bounds, and no container of ours outlasts its patience: a floor.
	},
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// onlyOurRules: two containers, a network and a published port have been asked for, and nobody but us filters or rewrites.
func onlyOurRules(t *testing.T, _ *asked) {
	if tables := strings.TrimSpace(run(t, "nft", "list", "tables")); tables != "table inet evalhost" {
		t.Errorf("the daemon has rules of its own: %q", tables)
	}
	for _, name := range []string{"/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"} {
		if text, err := os.ReadFile(name); err == nil && len(text) > 0 {
			t.Errorf("the daemon has rules of its own, of the old kind: %q", text)
		}
	}
}

// logs says how much of the container's output the driver keeps.
func logs(t *testing.T, a *asked) (kept int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(a.root, "containers", a.plain.ID, "local-logs", "container.log*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			kept += info.Size()
		}
	}
	return kept
}

// named returns the processes of a name.
func named(t *testing.T, name string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(text)) == name {
			found = append(found, filepath.Dir(file))
		}
	}
	return found
}

func inspect(t *testing.T, name string) (s seen) {
	t.Helper()
	out, err := exec.Command("docker", "inspect", "--type", "container", "--format", "{{json .}}", name).CombinedOutput()
	if err == nil {
		err = json.Unmarshal(out, &s)
	}
	if err != nil {
		t.Fatalf("inspect %s: %v\n%s", name, err, out)
	}
	return s
}

// everySettingOfTheDaemonDoesSomething is asked of what the daemon does and not of its file.
func everySettingOfTheDaemonDoesSomething(t *testing.T) {
	text, err := os.ReadFile(daemonFile)
	if err != nil {
		t.Fatal(err)
	}
	var settings map[string]any
	if err := json.Unmarshal(text, &settings); err != nil {
		t.Fatalf("%s: %v", daemonFile, err)
	}
	for key := range settings {
		if effects[key] == nil {
			t.Errorf("nobody knows what %s does here: say how it is seen", key)
		}
	}
	a := twoContainers(t)
	for _, key := range slices.Sorted(maps.Keys(effects)) {
		t.Run(key, func(t *testing.T) { effects[key](t, a) })
	}
	t.Run("seccomp", func(t *testing.T) {
		a.plain.has(t, "status", "Seccomp: 2")
		if said := a.plain.proc(t, "root/tmp/said"); !strings.Contains(said, "Operation not permitted") {
			t.Errorf("a user namespace can be had inside, which Docker's own profile refuses: %q", said)
		}
	})
	t.Run("restart", func(t *testing.T) { whatARestartShows(t, a) })
}

func twoContainers(t *testing.T) *asked {
	t.Helper()
	a := &asked{began: time.Now()}
	a.root = strings.TrimSpace(run(t, "docker", "info", "--format", "{{.DockerRootDir}}"))
	const plain, published, network = "eh-plain", "eh-published", "eh-own"
	t.Cleanup(func() {
		run(t, "docker", "rm", "--force", "--volumes", plain, published)
		run(t, "docker", "network", "rm", network)
	})
	run(t, "docker", "run", "--detach", "--name", plain, "evalhost/test-busybox:local",
		"sh", "-c", `/bin/busybox unshare -U true 2>/tmp/said; head -c 4000000 /dev/zero | tr '\0' x; echo; touch /tmp/printed; exec sleep 3600`)
	run(t, "docker", "network", "create", network)
	run(t, "docker", "run", "--detach", "--name", published, "--network", network, "--publish", "127.0.0.1:7999:7999", "evalhost/test-busybox:local", "sleep", "3600")
	a.plain, a.published = inspect(t, plain), inspect(t, published)
	if a.plain.State.Status != "running" || a.published.State.Status != "running" {
		t.Fatalf("the containers do not run: %+v %+v", a.plain, a.published)
	}
	printed := filepath.Join("/proc", itoa(a.plain.State.Pid), "root/tmp/printed")
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if _, err := os.Stat(printed); err == nil {
			return a
		}
		if time.Since(began) > patience {
			t.Fatal("the container has not printed what it should")
		}
	}
}

// whatARestartShows: containers end with the daemon, and the daemon speaks only when something is wrong.
func whatARestartShows(t *testing.T, a *asked) {
	since := run(t, "date", "+%s")
	run(t, "systemctl", "restart", "docker.service")
	for _, s := range []seen{a.plain, a.published} {
		if err := syscall.Kill(s.State.Pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("the first process of %s outlived the daemon (%v)", s.Name, err)
		}
		if now := inspect(t, s.ID); now.State.Status != "exited" {
			t.Errorf("after the restart %s is %s", s.Name, now.State.Status)
		}
	}
	said := run(t, "journalctl", "--quiet", "--unit=docker.service", "--output=cat", "--since=@"+strings.TrimSpace(since), "--identifier=dockerd")
	if strings.Contains(said, "level=info") || strings.Contains(said, "level=debug") {
		t.Errorf("the daemon tells what is no warning:\n%s", said)
	}
	t.Run("ip-forward", func(t *testing.T) { effects["ip-forward"](t, a) })
	t.Run("iptables", func(t *testing.T) { onlyOurRules(t, a) })
	if len(settled(t)) > 0 {
		t.Errorf("the daemon is not what it was before the restart")
	}
}

// settled waits until the daemon answers again and says what runs, which is nothing.
func settled(t *testing.T) []string {
	t.Helper()
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		out, err := exec.Command("docker", "ps", "--quiet").CombinedOutput()
		if err == nil {
			return strings.Fields(string(out))
		}
		if time.Since(began) > patience {
			t.Fatalf("the daemon does not answer after a restart: %v\n%s", err, out)
		}
	}
}
