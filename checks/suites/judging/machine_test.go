//go:build guest

package judging

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const manifest = "/etc/evalhost/images.json"

// images reads the manifest loosely.
func images(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	var m struct{ Images map[string]any }
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m.Images
}

// edited writes a copy of the manifest with the gcc image changed, and returns the setting that names it.
func edited(t *testing.T, change func(gcc map[string]any)) string {
	t.Helper()
	all := images(t)
	change(all["gcc"].(map[string]any))
	text, err := json.Marshal(map[string]any{"version": 1, "images": all})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "images.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return "EVALHOST_MANIFEST=" + path
}

// sum is a package and a correct source, ready on disk.
func sum(t *testing.T) (pkg, source string) {
	t.Helper()
	pkg = single(10000, 64<<20).dir(t)
	source = filepath.Join(t.TempDir(), "add.c")
	if err := os.WriteFile(source, []byte(add), 0o644); err != nil {
		t.Fatal(err)
	}
	return pkg, source
}

func sh(t *testing.T, line string) {
	t.Helper()
	if out, err := exec.Command("/bin/sh", "-c", line).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

func TestThisHostIsFit(t *testing.T) {
	unchanged(t)
	r := evalhost(t, options{}, "check", "--json")
	r.wants(t, 0)
	var report struct {
		Fit          bool
		Requirements []struct{ ID, Status, Asked, Found, Why string }
	}
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil || !report.Fit {
		t.Fatalf("fit %t, %v:\n%s", report.Fit, err, r.stdout)
	}
	asked := map[string]string{}
	for _, req := range report.Requirements {
		asked[req.ID] = req.Status
		if req.Asked == "" || req.Found == "" || req.Why == "" {
			t.Errorf("%+v", req)
		}
	}
	for _, id := range []string{"docker.reachable", "docker.seccomp", "cgroup.controllers", "cgroup.probe", "cgroup.bus", "swap", "scratch", "image.gcc"} {
		if asked[id] != "ok" {
			t.Errorf("%s is %q", id, asked[id])
		}
	}
}

// Nothing here may give a verdict: the machine cannot judge, and says why and what to do.
func TestAMachineThatCannotJudgeGivesNoVerdict(t *testing.T) {
	unchanged(t)
	absent := func(t *testing.T) options {
		return options{env: []string{edited(t, func(gcc map[string]any) { gcc["reference"] = "evalhost/lang-absent:local" })}}
	}
	for _, c := range []struct {
		name  string
		setup func(*testing.T) options
		says  []string
	}{
		{"an image is absent", absent, []string{"image.gcc", "no image evalhost/lang-absent:local", "docker load"}},
		{"an image is another one", func(t *testing.T) options {
			return options{env: []string{edited(t, func(gcc map[string]any) {
				layers := gcc["layers"].([]any)
				layers[0] = "sha256:" + strings.Repeat("0", 64)
				gcc["config"].(map[string]any)["user"] = "0:0"
			})}}
		}, []string{"is another image", "layer 1", "user", "docker load"}},
		{"the manifest is missing", func(*testing.T) options {
			return options{env: []string{"EVALHOST_MANIFEST=/nonexistent/images.json"}}
		}, []string{"/nonexistent/images.json", "EVALHOST_MANIFEST"}},
		{"the socket is missing", func(*testing.T) options {
			return options{env: []string{"DOCKER_HOST=unix:///nonexistent/docker.sock"}}
		}, []string{"no socket", "systemctl start docker"}},
		{"the socket may not be opened", func(t *testing.T) options {
			// Root may open everything, unless it has given that right away.
			sh(t, "chmod 0 /run/docker.sock")
			t.Cleanup(func() { sh(t, "chmod 660 /run/docker.sock") })
			return options{wrap: []string{"setpriv", "--bounding-set", "-dac_override,-dac_read_search"}}
		}, []string{"docker.reachable", "may not be opened"}},
		{"not root", func(*testing.T) options { return options{as: 65534} }, []string{"root", "sudo"}},
		{"the shim is missing", func(*testing.T) options {
			return options{env: []string{"EVALHOST_SHIM_PATH=/nonexistent/aj-shim"}}
		}, []string{"/nonexistent/aj-shim", "EVALHOST_SHIM_PATH"}},
		{"scratch does not allow executables", func(t *testing.T) options {
			dir := "/var/lib/evalhost-noexec"
			sh(t, "mkdir -p "+dir+" && mount -t tmpfs -o noexec none "+dir)
			t.Cleanup(func() { sh(t, "umount "+dir+" && rmdir "+dir) })
			return options{env: []string{"EVALHOST_SCRATCH=" + dir + "/scratch"}}
		}, []string{"cannot be started", "noexec"}},
		{"the service manager cannot be reached", func(*testing.T) options {
			return options{wrap: []string{
				"unshare", "--mount", "/bin/sh", "-c",
				`mount -t tmpfs none /run/dbus && mount -t tmpfs none /run/systemd && exec "$0" "$@"`,
			}}
		}, []string{"cgroup.bus", "system bus"}},
		{"swap is on", func(t *testing.T) options {
			file := "/var/lib/evalhost/swap" // a file system on a disk: on the declared host all around it is in memory
			sh(t, "dd if=/dev/zero of="+file+" bs=1M count=8 2>/dev/null && chmod 600 "+file+" && mkswap "+file+" >/dev/null && swapon "+file)
			t.Cleanup(func() { sh(t, "swapoff "+file+" && rm "+file) })
			return options{}
		}, []string{"swapping to", "swapoff -a"}},
		{"core dumps start a program", func(t *testing.T) options {
			before, err := os.ReadFile("/proc/sys/kernel/core_pattern")
			if err != nil {
				t.Fatal(err)
			}
			sh(t, "echo '|/bin/true %p' > /proc/sys/kernel/core_pattern")
			t.Cleanup(func() {
				if err := os.WriteFile("/proc/sys/kernel/core_pattern", before, 0o644); err != nil {
					t.Error(err)
				}
			})
			return options{}
		}, []string{"core-pattern", "sysctl kernel.core_pattern=core"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pkg, source := sum(t)
			if strings.HasPrefix(c.name, "not root") {
				readable(t, pkg, source)
			}
			evalhost(t, c.setup(t), "judge", pkg, source).wantsNoVerdict(t, 4, c.says...)
		})
	}
}

// readable lets everybody into the directories above files of a test.
func readable(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		for dir := path; dir != "/"; dir = filepath.Dir(dir) {
			info, err := os.Stat(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, info.Mode().Perm()|0o555); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// dockerDown stops the daemon. The returned function starts it again and waits until it answers; so does the end of the
// test, should it come first.
func dockerDown(t *testing.T) (up func()) {
	t.Helper()
	var once sync.Once
	up = func() {
		once.Do(func() {
			sh(t, "systemctl reset-failed docker.service docker.socket || true; systemctl start docker.socket docker.service")
			for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) {
				if evalhostChecks(t) {
					return
				}
				if time.Now().After(deadline) {
					t.Fatal("Docker did not come back")
				}
			}
		})
	}
	t.Cleanup(up)
	sh(t, "systemctl stop docker.socket docker.service")
	return up
}

// One stop serves both: what was being judged, and what is asked for while there is no Docker.
func TestDockerStoppingInTheMiddleIsNoVerdictAndWithoutItNothingIsJudged(t *testing.T) {
	unchanged(t)
	pkg, source := waiting(t)
	var up func()
	r := evalhost(t, options{started: func(*os.Process) {
		awaitProgram(t)
		up = dockerDown(t)
	}}, "judge", pkg, source)
	r.wantsNoVerdict(t, 3, "infrastructure failure", "test 1a", "systemctl status docker")
	good, correct := sum(t)
	for _, args := range [][]string{{"judge", good, correct}, {"judge", good, correct, "--json"}, {"judge", "--no-policy", good, correct, "--keep"}} {
		evalhost(t, options{}, args...).wantsNoVerdict(t, 4, "docker.reachable", "systemctl start docker")
	}
	r = evalhost(t, options{}, "check")
	if r.status != 4 || !strings.Contains(r.stdout, "systemctl start docker") {
		t.Errorf("check: status %d\n%s", r.status, r.stdout)
	}
	up()
	// What the daemon could not remove while it was down, the next command does.
	if r := evalhost(t, options{}, "judge", good, correct); r.status != 0 || !strings.Contains(r.stdout, "verdict Accepted") {
		t.Errorf("afterwards: status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
}

// awaitProgram waits until a submission runs.
func awaitProgram(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		for _, name := range processes() {
			if strings.HasPrefix(name, "program") {
				return
			}
		}
	}
	t.Fatal("no submission was started")
}

// evalhostChecks asks whether the host is fit, also when the test is over.
func evalhostChecks(t *testing.T) bool {
	cmd := exec.Command(bin(t), "check")
	cmd.Env = environment()
	return cmd.Run() == nil
}
