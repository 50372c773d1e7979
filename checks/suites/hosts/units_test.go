//go:build guest

package hosts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	units "github.com/evalhost/evalhost/checks/nix"
	"github.com/evalhost/evalhost/nixos"
)

// On NixOS four units help the host along, each with a script and with restrictions of its own (docs/decisions/0076). No NixOS
// boots here, but the script does its work, or does not, under exactly those restrictions on any systemd.

// tried is where scripts and what they are given lie. Not below /tmp, which a unit with a private one does not see.
const tried = "/var/lib/evalhost-test/units"

// programPath is where the guest has its programs; on NixOS the store has them.
const programPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// place makes the directory for scripts and what they are given, for one test.
func place(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll(tried, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(tried); err != nil {
			t.Error(err)
		}
	})
}

// put writes a file below tried and returns its path.
func put(t *testing.T, name, content string, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(tried, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), mode)); err != nil {
		t.Fatal(err)
	}
	return file
}

// notRestrictions are the settings of a unit that say what runs and when; all others say under what.
var notRestrictions = []string{"ExecStart=", "ExecStartPost=", "Environment=", "Restart=", "RestartSec=", "StartLimitIntervalSec=", "TimeoutStartSec="}

// restrictions returns the lines of a unit of the module that say under what its script runs.
func restrictions(t *testing.T, unit string) string {
	t.Helper()
	text, err := units.Units.ReadFile("testdata/" + unit)
	if err != nil {
		t.Fatal(err)
	}
	_, service, _ := strings.Cut(string(text), "\n[Service]\n")
	service, _, _ = strings.Cut(service, "\n[")
	var kept strings.Builder
	count := 0
next:
	for line := range strings.Lines(service + "\n") {
		for _, prefix := range notRestrictions {
			if strings.HasPrefix(line, prefix) {
				continue next
			}
		}
		kept.WriteString(line)
		count++
	}
	if count < 18 || !strings.Contains(kept.String(), "ProtectSystem=strict\n") {
		t.Fatalf("%s restricts little: this test would show nothing\n%s", unit, kept.String())
	}
	return kept.String()
}

// starts runs a script under restrictions, as the shell of a NixOS program does, and returns what the journal has of it.
func starts(t *testing.T, name, script, restricted string, also []string, arguments ...string) (string, error) {
	t.Helper()
	unit := "eh-tried-" + name + ".service"
	file := "/run/systemd/system/" + unit
	command := append([]string{"/bin/bash", "-o", "errexit", "-o", "nounset", "-o", "pipefail", script}, arguments...)
	text := fmt.Sprintf("[Unit]\nDescription=A script of the host, tried\n[Service]\nEnvironment=%s\n%s\nExecStart=%s\n%s",
		programPath, strings.Join(also, "\n"), strings.Join(command, " "), restricted)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, "systemctl", "daemon-reload")
	defer func() {
		_ = exec.Command("systemctl", "stop", unit).Run()
		_ = exec.Command("systemctl", "reset-failed", unit).Run()
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
		run(t, "systemctl", "daemon-reload")
	}()
	since := strings.TrimSpace(run(t, "date", "+%s"))
	_, err := exec.Command("systemctl", "start", unit).CombinedOutput()
	run(t, "journalctl", "--sync")
	return run(t, "journalctl", "--quiet", "--unit="+unit, "--output=cat", "--since=@"+since), err
}

// disk is an empty block device of the size, and gone after the test.
func disk(t *testing.T, name string, size int64) (device, file string) {
	t.Helper()
	file = put(t, name, "", 0o600)
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
	// Nothing here asks for one otherwise: the guest has no initial file system that would load it, and no udev at hand.
	run(t, "modprobe", "loop")
	out, err := exec.Command("losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		t.Fatalf("a block device from %s: %v\n%s", file, err, out)
	}
	device = strings.TrimSpace(string(out))
	t.Cleanup(func() {
		run(t, "losetup", "--detach", device)
		// The kernel lets go of a detached device a moment later.
		var out []byte
		var err error
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
			if out, err = exec.Command("modprobe", "--remove", "loop").CombinedOutput(); err == nil {
				return
			}
		}
		t.Errorf("modprobe --remove loop: %v\n%s", err, out)
	})
	return device, file
}

func script(t *testing.T, name string) string {
	t.Helper()
	text, err := nixos.Scripts.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return put(t, filepath.Base(name), string(text), 0o644)
}

// without takes one line of restrictions away, which must be there, and puts another in its place.
func without(t *testing.T, restricted, line, instead string) string {
	t.Helper()
	if !strings.Contains(restricted, line+"\n") {
		t.Fatalf("no line %q in\n%s", line, restricted)
	}
	return strings.Replace(restricted, line+"\n", instead+"\n", 1)
}

func theScratchIsFormattedByAUnitThatMayDoNothingElse(t *testing.T) {
	place(t)
	restricted := restrictions(t, "bare-metal/evalhost-format-scratch.service")
	format := script(t, "format-scratch.sh")
	device, _ := disk(t, "scratch", 64<<20)
	if said, err := starts(t, "blind", format, restricted+"PrivateDevices=yes\n", nil, device); err == nil {
		t.Errorf("with no devices it formats one: this test shows nothing\n%s", said)
	}
	for _, when := range []string{"an empty one", "one of an earlier boot"} {
		if said, err := starts(t, "format", format, restricted, nil, device); err != nil {
			t.Errorf("%s: %v\n%s", when, err, said)
		}
	}
	if label := strings.TrimSpace(run(t, "blkid", "--probe", "--output", "value", "--match-tag", "LABEL", device)); label != "evalhost-scratch" {
		t.Errorf("the device has the label %q", label)
	}
	run(t, "mkfs.ext4", "-q", "-F", "-L", "precious", device)
	if said, err := starts(t, "format", format, restricted, nil, device); err == nil || !strings.Contains(said, "left alone") {
		t.Errorf("a device with something on it: %v\n%s", err, said)
	}
	if label := strings.TrimSpace(run(t, "blkid", "--probe", "--output", "value", "--match-tag", "LABEL", device)); label != "precious" {
		t.Errorf("what was on the device is gone: %q", label)
	}
}

func theRulesAreFilledInByAUnitThatMayDoNothingElse(t *testing.T) {
	place(t)
	t.Cleanup(func() { run(t, "nft", "-f", rulesFile) })
	restricted := without(t, restrictions(t, "bare-metal/evalhost-egress.service"), "RuntimeDirectory=evalhost-egress", "RuntimeDirectory=eh-tried")
	t.Cleanup(func() { _ = os.RemoveAll("/run/eh-tried") })
	names := put(t, "egress", "server "+server+" 8443\ntime "+helper+" 123\n", 0o644)
	base := put(t, "hosts", "127.0.0.1 localhost\n", 0o644)
	arguments := []string{names, "/run/eh-tried/hosts", base}
	powerless := without(t, restricted, "CapabilityBoundingSet=CAP_NET_ADMIN", "CapabilityBoundingSet=")
	if said, err := starts(t, "powerless", refreshFile, powerless, nil, arguments...); err == nil {
		t.Errorf("without its one power it changes the rules: this test shows nothing\n%s", said)
	}
	if said, err := starts(t, "egress", refreshFile, restricted, nil, arguments...); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	for set, element := range map[string]string{"server4": server + " . 8443", "time4": helper} {
		if listed := run(t, "nft", "list", "set", "inet", "evalhost", set); !strings.Contains(listed, element) {
			t.Errorf("%s is not let out to: %s", element, listed)
		}
	}
	if hosts, err := os.ReadFile("/run/eh-tried/hosts"); err != nil || !strings.Contains(string(hosts), "localhost") {
		t.Errorf("what names mean on this host: %v %q", err, hosts)
	}
}

// fakeJQ stands in for jq, which the guest does not have: what it compares is shown with the real one (checks/nix). Here it reads
// what Docker says and finds the image to be the one that was built.
const fakeJQ = `#!/bin/sh
case "$*" in
"-r .images[].reference "*) cat ` + tried + `/references ;;
"-r --arg key "*) echo evalhost/test-busybox:local ;;
*--slurpfile*) sed -n 's/^ *"Id": "\(sha256:[0-9a-f]*\)",*$/\1/p' | head -n 1 ;;
*) echo '{}' ;;
esac
`

func imagesAreLoadedByAUnitThatMayDoNothingElse(t *testing.T) {
	place(t)
	const old, reached = "evalhost/of-before:local", "eh-reached.service"
	restricted := restrictions(t, "bare-metal/evalhost-images.service")
	load := script(t, "load-images.sh")
	put(t, "bin/jq", fakeJQ, 0o755)
	manifest := put(t, "images.json", "{}\n", 0o644)
	// Every image of this host is one of the manifest, so that the suites to come find what they need. But for one.
	put(t, "references", run(t, "docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}"), 0o644)
	archive := filepath.Join(tried, "busybox.tar")
	run(t, "docker", "image", "save", "--output", archive, "evalhost/test-busybox:local")
	run(t, "sh", "-c", "tar -c -C /etc hostname | docker image import - "+old)
	t.Cleanup(func() { _ = exec.Command("docker", "image", "rm", "--force", old).Run() })
	if err := os.WriteFile("/run/systemd/system/"+reached, []byte("[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		run(t, "systemctl", "stop", reached)
		_ = os.Remove("/run/systemd/system/" + reached)
		run(t, "systemctl", "daemon-reload")
	})
	also := []string{
		"Environment=DOCKER_CONFIG=/var/empty", "Environment=PATH=" + tried + "/bin:" + strings.TrimPrefix(programPath, "PATH="),
		"ExecStartPost=/usr/bin/systemctl --no-block start " + reached,
	}
	deaf := without(t, restricted, "RestrictAddressFamilies=AF_UNIX", "RestrictAddressFamilies=none")
	if said, err := starts(t, "deaf", load, deaf, also, manifest, "busybox="+archive); err == nil {
		t.Errorf("without a socket it reaches Docker: this test shows nothing\n%s", said)
	}
	said, err := starts(t, "images", load, restricted, also, manifest, "busybox="+archive)
	if err != nil || !strings.Contains(said, "evalhost/test-busybox:local is what was built") {
		t.Errorf("%v\n%s", err, said)
	}
	if out, err := exec.Command("docker", "image", "inspect", old).CombinedOutput(); err == nil {
		t.Errorf("an image of before is still there: %s", out)
	}
	run(t, "docker", "image", "inspect", "evalhost/test-busybox:local")
	for deadline := time.Now().Add(time.Minute); exec.Command("systemctl", "--quiet", "is-active", reached).Run() != nil; {
		if time.Now().After(deadline) {
			t.Fatal("what did not start because of this unit was not started after it")
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func aVolumeIsReadByAUnitThatMayDoNothingElse(t *testing.T) {
	place(t)
	restricted := restrictions(t, "iso/evalhost-boot-config.service")
	restricted = without(t, restricted, "RuntimeDirectory=evalhost", "RuntimeDirectory=eh-tried")
	restricted = without(t, restricted, "StandardOutput=journal+console", "")
	t.Cleanup(func() { _ = os.RemoveAll("/run/eh-tried") })
	compose := script(t, "profiles/boot-config.sh")
	base := put(t, "base.env", "AJ_Runner__TestsAtOnce=1\n", 0o644)
	commandLine := put(t, "cmdline", "quiet\n", 0o644)
	tree := put(t, "tree/evalhost.env", "AJ_Server__BaseUrl=http://192.0.2.100:8080/api/v1\nresolver=192.0.2.53\n", 0o644)
	device, _ := disk(t, "volume", 8<<20)
	run(t, "mkfs.ext4", "-q", "-F", "-L", "EVALHOST", "-d", filepath.Dir(tree), device)
	arguments := []string{base, commandLine, device, tried + "/no-leases", "/run/eh-tried", os.Getenv("EVALHOST_TEST_RUNNER")}
	powerless := without(t, restricted, "CapabilityBoundingSet=CAP_SYS_ADMIN CAP_DAC_READ_SEARCH", "CapabilityBoundingSet=CAP_DAC_READ_SEARCH")
	if said, err := starts(t, "powerless", compose, powerless, nil, arguments...); err == nil || !strings.Contains(said, "cannot be mounted") {
		t.Errorf("without its power it mounts the volume (%v): this test shows nothing\n%s", err, said)
	}
	said, err := starts(t, "volume", compose, restricted, nil, arguments...)
	if err != nil || !strings.Contains(said, "judging for http://192.0.2.100:8080/api/v1") {
		t.Errorf("%v\n%s", err, said)
	}
	for name, want := range map[string]string{
		"runner.env": `AJ_Server__BaseUrl="http://192.0.2.100:8080/api/v1"`, "egress": "server 192.0.2.100 8080", "resolv.conf": "nameserver 192.0.2.53",
	} {
		if content, err := os.ReadFile("/run/eh-tried/" + name); err != nil || !strings.Contains(string(content), want+"\n") {
			t.Errorf("%s has no line %s: %v\n%s", name, want, err, content)
		}
	}
	if mounts, err := os.ReadFile("/proc/mounts"); err != nil || strings.Contains(string(mounts), device+" ") {
		t.Errorf("the volume is mounted for everybody: %v\n%s", err, mounts)
	}
	// What the daemon would refuse is refused under these restrictions too: they let it be asked.
	put(t, "base.env", "AJ_Runner__TestsAtOnce=many\n", 0o644)
	if said, err := starts(t, "refused", compose, restricted, nil, arguments...); err == nil || !strings.Contains(said, "AJ_Runner__TestsAtOnce") {
		t.Errorf("a setting that the daemon refuses: %v\n%s", err, said)
	}
}
