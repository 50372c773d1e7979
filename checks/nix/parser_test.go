package nix

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// parser returns the command that parses Nix: the machine's own, that of the evaluation tools, or one unpacked from Debian's
// package into the cache, nothing installed (150 MB, once). Without any of them nothing is parsed, and the test says so.
func parser(t *testing.T) []string {
	t.Helper()
	const name = "nix-instantiate"
	if path, err := exec.LookPath(name); err == nil {
		return []string{path}
	}
	if dir := os.Getenv("EVALHOST_NIXEVAL"); dir != "" {
		return []string{filepath.Join(tools(t), "nix.sh"), name}
	}
	cache := os.Getenv("EVALHOST_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(user, "evalhost")
	}
	tree := filepath.Join(cache, "nix")
	if _, err := os.Stat(filepath.Join(tree, "usr/bin", name)); err != nil {
		needs(t, "mmdebstrap")
		if err := os.MkdirAll(cache, 0o755); err != nil {
			t.Fatal(err)
		}
		fresh, err := os.MkdirTemp(cache, "nix-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(fresh)
		unpack := exec.Command("mmdebstrap", "--quiet", "--variant=extract", "--include=nix-bin", "trixie", filepath.Join(fresh, "root"))
		if out, err := unpack.CombinedOutput(); err != nil {
			t.Skipf("NOT PARSED: no Nix here, and none could be had with %s: %v\n%s", unpack, err, out)
		}
		// Whoever was quicker has the same tree.
		if err := os.Rename(filepath.Join(fresh, "root"), tree); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	library := filepath.Join(tree, "usr/lib/x86_64-linux-gnu")
	return []string{
		filepath.Join(library, "ld-linux-x86-64.so.2"), "--library-path", library + ":" + filepath.Join(tree, "usr/lib"),
		filepath.Join(tree, "usr/bin", name),
	}
}

func TestEveryNixFileParses(t *testing.T) {
	command := append(parser(t), "--parse")
	state := t.TempDir() // asked for even where nothing is stored
	run := func(files ...string) (string, error) {
		cmd := exec.Command(command[0], append(command[1:len(command):len(command)], files...)...)
		for _, kind := range []string{"STORE", "STATE", "LOG", "CONF"} {
			cmd.Env = append(cmd.Environ(), "NIX_"+kind+"_DIR="+filepath.Join(state, strings.ToLower(kind)))
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(nixFiles(t)...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := run(write(t, "{ broken = ; }")); err == nil {
		t.Error("a file that is no Nix was taken for one: nothing was parsed")
	}
}
