package nix

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// commands are what a build step finds on its PATH beside Go, as far as this machine has them: those of nixpkgs' stdenv.
const commands = `awk bash basename bzip2 cat chmod chown cmp comm cp cut date dd df diff dirname du echo env expr false file find gawk gcc grep
	groups gzip gunzip head hostname id install join ld ar as ln ls make mkdir mkfifo mktemp mv nice nl nproc nohup od paste patch printenv
	printf pwd readelf readlink realpath rm rmdir sed seq sha256sum sha512sum sleep sort split stat strip sync tac tail tar tee test timeout
	touch tr true truncate tty uname uniq wc whoami xargs xz yes`

// atABuilder gives a command what a builder of Nix gives it: a user who is not root and whose home does not exist, one directory to
// write to, a network of its own that leads nowhere, /proc and a small /dev, /bin/sh and no other program but those on the PATH; no
// /sys, no /run, no /var. The libraries of this machine's programs are there as well.
func atABuilder(ctx context.Context, t *testing.T, build string, env []string, argv ...string) *exec.Cmd {
	t.Helper()
	goRoot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("go env GOROOT: %v", err)
	}
	goDir := strings.TrimSpace(string(goRoot))
	etc := t.TempDir()
	for name, content := range map[string]string{
		"passwd": "root:x:0:0:Nix build user:/build:/noshell\nnixbld:x:1000:100:Nix build user:/build:/noshell\n",
		"group":  "root:x:0:\nnixbld:!:100:\n", "hosts": "127.0.0.1 localhost\n::1 localhost\n",
	} {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	bind := func(from, to string) []string { return []string{"--ro-bind", from, to} }
	args := []string{"--unshare-all", "--uid", "1000", "--gid", "100", "--hostname", "localhost", "--die-with-parent", "--tmpfs", "/", "--proc", "/proc", "--dev", "/dev"}
	args = append(args, bind("/usr/lib", "/usr/lib")...)
	args = append(args, "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64")
	args = append(args, bind("/usr/lib64", "/usr/lib64")...)
	args = append(args, bind(goDir, goDir)...)
	args = append(args, bind(etc, "/etc")...)
	for _, name := range append(strings.Fields(commands), "sh") {
		at, err := exec.LookPath(name)
		if err == nil {
			at, err = filepath.EvalSymlinks(at)
		}
		switch {
		case name == "sh":
			args = append(args, bind(at, "/bin/sh")...)
		case err == nil:
			args = append(args, bind(at, "/stdenv/"+name)...)
		}
	}
	args = append(args, "--bind", build, "/build", "--perms", "1777", "--dir", "/tmp", "--remount-ro", "/", "--clearenv")
	for _, setting := range append([]string{
		"PATH=/stdenv:" + goDir + "/bin", "HOME=/homeless-shelter", "TMPDIR=/build", "TMP=/build", "TEMPDIR=/build", "TEMP=/build", "NIX_BUILD_TOP=/build",
		"NIX_STORE=/nix/store", "TERM=xterm-256color", "GOCACHE=/build/go-cache", "GOPATH=/build/go", "GOFLAGS=-mod=vendor -trimpath", "GOPROXY=off",
		"GOSUMDB=off", "GOTOOLCHAIN=local", "CGO_ENABLED=0",
	}, env...) {
		name, value, _ := strings.Cut(setting, "=")
		args = append(args, "--setenv", name, value)
	}
	args = append(args, "--chdir", "/build/source")
	cmd := exec.CommandContext(ctx, "bwrap", append(args, argv...)...)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// TestTheUnitTestsOfABuildPassAtABuilder runs the check of the build with Nix where a builder would run it, on the source it would have:
// a test that wants root, a home, a network or a program of the machine fails every host's first build.
func TestTheUnitTestsOfABuildPassAtABuilder(t *testing.T) {
	tools(t)
	needs(t, "bwrap", "bash")
	if testing.Short() {
		t.Skip("NOT RUN: asked to be short, and this compiles and runs every unit test anew")
	}
	dir := copyTree(t)
	var source string
	evaluate(t, dir, "packages.x86_64-linux.evalhost", "program: toString program.recorded.src", &source)
	var programs map[string]phases
	evaluate(t, dir, "packages.x86_64-linux", lookAtPhases, &programs)
	check := programs["evalhost"].Phases["checkPhase"]
	if !strings.Contains(check, "go test") {
		t.Fatalf("the build of evalhost runs no test:\n%s", check)
	}
	build := t.TempDir()
	for _, step := range [][]string{
		{"cp", "-r", "--no-preserve=mode,ownership", source, filepath.Join(build, "source")}, {"go", "-C", filepath.Join(build, "source"), "mod", "vendor"},
	} {
		if out, err := exec.Command(step[0], step[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", step, err, out)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	cmd := atABuilder(ctx, t, build, []string{"checkPhase=" + check}, "bash", "-c", `set -euo pipefail
runHook() { eval "${!1-}"; }
id -u | grep -qx 1000
for gone in /sys /run /var /usr/bin "$HOME"; do ! ls "$gone" 2>/dev/null; done
eval "$checkPhase"`)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, want := range []string{"services/internal/sandbox", "services/internal/judge", "services/runner", "shim/wire"} {
		if !strings.Contains(string(out), "ok  \tgithub.com/evalhost/evalhost/"+want) {
			t.Errorf("nothing is said of the tests of %s", want)
		}
	}
}
