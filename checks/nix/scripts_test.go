package nix

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalhost/evalhost/langimages"
)

// script runs one of the host's shell scripts with stand-ins for the programs it calls, each a piece of POSIX shell. They
// may use $T, a directory of the test's own, and what they append to $T/calls is returned.
func script(t *testing.T, name string, stubs map[string]string, stdin string, arguments ...string) (calls, output string, err error) {
	t.Helper()
	dir := t.TempDir()
	for program, body := range stubs {
		text := "#!/bin/sh\nT=" + dir + "\n" + body + "\n"
		if err := os.WriteFile(filepath.Join(dir, program), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path, err := filepath.Abs(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", append([]string{path}, arguments...)...)
	cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "LC_ALL=C", "TMPDIR=" + t.TempDir()}
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	recorded, readErr := os.ReadFile(filepath.Join(dir, "calls"))
	if readErr != nil && !os.IsNotExist(readErr) {
		t.Fatal(readErr)
	}
	return string(recorded), string(out), err
}

func write(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("NOT RUN: this machine has no %s", program)
		}
	}
}

const layer = "sha256:00000000000000000000000000000000000000000000000000000000000000aa"

var manifest = fmt.Sprintf(`{"version": 1, "images": {"gcc": {"reference": "evalhost/lang-gcc:local", "layers": [%q],
  "config": {"user": "", "env": ["PATH=/bin"], "entrypoint": [], "cmd": [], "workingDir": "/", "volumes": [], "healthcheck": []}}}}`, layer)

// docker is a stand-in with one image and, in $T/images, the ids of everything it holds.
func docker(loadedAs, inspect string) string {
	return fmt.Sprintf(`echo "$*" >> $T/calls
case "$1 $2" in
"image load") echo "Loaded image: %s" ;;
"image inspect") printf '%%s' '%s' ;;
"image ls") echo sha256:old; echo sha256:ours; echo sha256:ours ;;
esac`, loadedAs, inspect)
}

func inspected(layers, config string) string {
	return fmt.Sprintf(`[{"Id": "sha256:ours", "RootFS": {"Layers": [%q]}, "Config": %s}]`, layers, config)
}

func TestLoadingImagesKeepsOnlyThoseOfTheManifest(t *testing.T) {
	needs(t, "jq")
	// A daemon leaves out what is empty, or says null.
	const config = `{"Env": ["PATH=/bin"], "WorkingDir": "/", "Cmd": null, "Volumes": {}, "Labels": {"x": "y"}}`
	calls, output, err := script(t, "nixos/load-images.sh", map[string]string{
		"docker": docker("evalhost-lang-gcc:local", inspected(layer, config)),
	}, "", write(t, manifest), "gcc=/store/gcc.tar")
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	want := `image load --quiet --input /store/gcc.tar
image tag evalhost-lang-gcc:local evalhost/lang-gcc:local
image rm evalhost-lang-gcc:local
image inspect evalhost/lang-gcc:local
image ls --all --quiet --no-trunc
image rm --force sha256:old
`
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("calls of docker (-want +got):\n%s", diff)
	}
	// The journal has the digest that `evalhost check` tells.
	parsed, err := langimages.ParseManifest([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	if digest := parsed.Images["gcc"].Digest(); !strings.Contains(output, "evalhost/lang-gcc:local is what was built, "+digest+"\n") {
		t.Errorf("nothing is said of %s: %s", digest, output)
	}
}

func TestAnImageThatIsAnotherIsRefusedAndTakenAway(t *testing.T) {
	needs(t, "jq")
	for name, inspect := range map[string]string{
		"another layer":     inspected(strings.Replace(layer, "aa", "bb", 1), `{"Env": ["PATH=/bin"], "WorkingDir": "/"}`),
		"an entry point":    inspected(layer, `{"Env": ["PATH=/bin"], "WorkingDir": "/", "Entrypoint": ["/x"]}`),
		"a health check":    inspected(layer, `{"Env": ["PATH=/bin"], "WorkingDir": "/", "Healthcheck": {"Test": ["CMD", "x"]}}`),
		"no list of images": `[]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls, output, err := script(t, "nixos/load-images.sh", map[string]string{
				"docker": docker("evalhost/lang-gcc:local", inspect),
			}, "", write(t, manifest), "gcc=/store/gcc.tar")
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(output, "evalhost/lang-gcc:local is another image") {
				t.Errorf("output: %s", output)
			}
			if !strings.Contains(calls, "image rm --force evalhost/lang-gcc:local\n") {
				t.Errorf("it was left in place:\n%s", calls)
			}
		})
	}
}

func TestLoadingImagesFailsClosed(t *testing.T) {
	needs(t, "jq")
	present := docker("evalhost/lang-gcc:local", inspected(layer, `{"Env": ["PATH=/bin"], "WorkingDir": "/"}`))
	for name, c := range map[string]struct{ docker, manifest, argument, says string }{
		"no manifest":              {present, "", "gcc=/x", "without it no image"},
		"an empty manifest":        {present, `{"version": 1, "images": {}}`, "gcc=/x", "describes no image"},
		"an archive of no image":   {present, manifest, "pypy=/x", "says nothing"},
		"a daemon that is down":    {"exit 1", manifest, "gcc=/x", "would not load"},
		"an image that is missing": {`[ "$2" != inspect ] && echo "Loaded image: evalhost/lang-gcc:local"`, manifest, "gcc=/x", "never pulls"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := "/nowhere/images.json"
			if c.manifest != "" {
				file = write(t, c.manifest)
			}
			_, output, err := script(t, "nixos/load-images.sh", map[string]string{"docker": c.docker}, "", file, c.argument)
			if err == nil || !strings.Contains(output, c.says) {
				t.Errorf("%v: %s", err, output)
			}
		})
	}
}

const getent = `[ "$1 $2" = "-s hosts:dns" ] || exit 3 # never from the file that the last answer was written to
case "$3 $4" in
"ahostsv4 judge.example.org") printf '203.0.113.7 STREAM judge.example.org\n203.0.113.7 DGRAM \n203.0.113.7 RAW \n203.0.113.8 STREAM\n' ;;
"ahostsv6 judge.example.org") printf '2001:db8::7 STREAM judge.example.org\n::ffff:203.0.113.7 STREAM\n' ;;
*) exit 2 ;;
esac`

func TestTheFirewallLetsOutToWhatWasFound(t *testing.T) {
	hosts := write(t, "127.0.0.1 localhost\n192.0.2.9 judge.example.org\n")
	calls, output, err := script(t, "nixos/host/firewall-refresh.sh", map[string]string{"getent": getent, "nft": "cat >> $T/calls"},
		"", write(t, "# whom\n\nserver judge.example.org 443\ntime 192.0.2.123 123\n"), hosts, write(t, "127.0.0.1 localhost\n"))
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	var want strings.Builder
	for _, element := range [][2]string{
		{"server6", "2001:db8::7 . 443"},
		{"server4", "203.0.113.7 . 443"},
		{"server4", "203.0.113.8 . 443"},
		{"time4", "192.0.2.123"},
	} {
		fmt.Fprintf(&want, "add element inet evalhost %[1]s { %[2]s timeout 1h }\ndelete element inet evalhost %[1]s { %[2]s }\n"+
			"add element inet evalhost %[1]s { %[2]s timeout 1h }\n", element[0], element[1])
	}
	if diff := cmp.Diff(want.String(), calls); diff != "" {
		t.Errorf("what nft was told (-want +got):\n%s", diff)
	}
	// Whoever asks on the host gets the addresses that are let out to, and none of before.
	const pinned = "127.0.0.1 localhost\n2001:db8::7 judge.example.org\n203.0.113.7 judge.example.org\n203.0.113.8 judge.example.org\n"
	if content, err := os.ReadFile(hosts); err != nil || string(content) != pinned {
		t.Errorf("hosts: %v\n%s", err, content)
	}
}

func TestANameThatIsNotFoundHidesNoOther(t *testing.T) {
	hosts := write(t, "127.0.0.1 localhost\n192.0.2.5 nowhere.example\n")
	calls, output, err := script(t, "nixos/host/firewall-refresh.sh", map[string]string{"getent": getent, "nft": "cat >> $T/calls"},
		"", write(t, "time nowhere.example 123\nserver judge.example.org 443\n"), hosts, "/dev/null")
	if err == nil || !strings.Contains(output, "no address of nowhere.example (time)") {
		t.Errorf("%v: %s", err, output)
	}
	if !strings.Contains(calls, "203.0.113.7 . 443") {
		t.Errorf("the Server was not let out to:\n%s", calls)
	}
	if content, err := os.ReadFile(hosts); err != nil || !strings.HasPrefix(string(content), "192.0.2.5 nowhere.example\n2001:db8::7 ") {
		t.Errorf("what the name had is gone: %v\n%s", err, content)
	}
	if _, output, err = script(t, "nixos/host/firewall-refresh.sh", nil, "", write(t, "everybody 0.0.0.0/0 1\n")); err == nil {
		t.Errorf("an unknown set was accepted: %s", output)
	}
}

func TestOnlyAScratchFileSystemIsFormattedAgain(t *testing.T) {
	needs(t, "blkid", "mkfs.ext4")
	device := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(device, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(device, 16<<20); err != nil {
		t.Fatal(err)
	}
	for range 2 { // an empty device, then an earlier scratch file system
		if _, output, err := script(t, "nixos/format-scratch.sh", nil, "", device); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
	}
	label, err := exec.Command("blkid", "--probe", "--output", "value", "--match-tag", "LABEL", device).Output()
	if err != nil || strings.TrimSpace(string(label)) != "evalhost-scratch" {
		t.Errorf("the label is %q (%v)", label, err)
	}

	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-L", "precious", device).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	before, err := os.ReadFile(device)
	if err != nil {
		t.Fatal(err)
	}
	_, output, err := script(t, "nixos/format-scratch.sh", nil, "", device)
	if err == nil || !strings.Contains(output, "left alone") {
		t.Errorf("%v: %s", err, output)
	}
	after, err := os.ReadFile(device)
	if err != nil || string(before) != string(after) {
		t.Errorf("it was written to (%v)", err)
	}
	if _, output, err = script(t, "nixos/format-scratch.sh", nil, "", device+"-not"); err == nil {
		t.Errorf("a missing device was accepted: %s", output)
	}
}

// A script becomes a program of the host through a builder that refuses what shellcheck finds, at any severity.
func TestScriptsAreWhatShellcheckAccepts(t *testing.T) {
	needs(t, "shellcheck")
	var files []string
	for _, pattern := range []string{"nixos/*.sh", "nixos/host/*.sh", "nixos/profiles/*.sh", "checks/*.sh"} {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, matches...)
	}
	for _, shell := range []string{"sh", "bash"} {
		if out, err := exec.Command("shellcheck", append([]string{"--shell=" + shell}, files...)...).CombinedOutput(); err != nil {
			t.Errorf("as %s: %v\n%s", shell, err, out)
		}
	}
}

// TestAMachineIsLaidOutAsTheSuitesKnowMachines: on NixOS programs are in one directory, and what stands in /bin, /usr/bin and most of /etc
// are links into a store that takes no writes.
func TestAMachineIsLaidOutAsTheSuitesKnowMachines(t *testing.T) {
	machine := t.TempDir()
	stored := filepath.Join(machine, "nix/store/x")
	link := func(from, to string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(from), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(stored, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sh", "true", "printf", "env", "hostname", "hosts", "resolv.conf"} {
		if err := os.WriteFile(filepath.Join(stored, name), []byte("the store's "+name), 0o555); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sh", "true", "printf"} {
		link(filepath.Join(machine, "run/current-system/sw/bin", name), filepath.Join(stored, name))
	}
	link(filepath.Join(machine, "bin/sh"), filepath.Join(stored, "sh"))
	link(filepath.Join(machine, "usr/bin/env"), filepath.Join(stored, "env"))
	for _, name := range []string{"hostname", "hosts", "resolv.conf"} {
		link(filepath.Join(machine, "etc/static", name), filepath.Join(stored, name))
		link(filepath.Join(machine, "etc", name), filepath.Join(machine, "etc/static", name))
	}
	if _, output, err := script(t, "checks/lay-out.sh", nil, "", machine); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, program := range []string{"bin/true", "usr/bin/printf", "usr/bin/sh", "usr/bin/env", "bin/sh"} {
		if content := read(t, machine, program); content != "the store's "+filepath.Base(program) {
			t.Errorf("/%s is %q", program, content)
		}
	}
	for _, file := range []string{"bin/sh", "etc/hostname", "etc/hosts", "etc/resolv.conf"} {
		if info, err := os.Lstat(filepath.Join(machine, file)); err != nil || !info.Mode().IsRegular() {
			t.Errorf("/%s is no file of its own: %v, %v", file, info, err)
		}
	}
	if info, err := os.Stat(filepath.Join(machine, "setuid")); err != nil || info.Mode()&os.ModeSetuid == 0 {
		t.Errorf("no setuid program: %v, %v", info, err)
	}
	if info, err := os.Stat(filepath.Join(machine, "usr/local/bin")); err != nil || !info.IsDir() {
		t.Errorf("no /usr/local/bin: %v", err)
	}
	// Nothing of the store was changed.
	if content := read(t, stored, "sh"); content != "the store's sh" {
		t.Errorf("the store has %q", content)
	}
}
