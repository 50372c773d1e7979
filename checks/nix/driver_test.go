package nix

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// vmScript is the script of a VM check and the machines it may name.
type vmScript struct {
	Text     string
	Machines []string
}

// asTheDriverChecks: a VM check is built by a driver that looks at types with mypy and at names with pyflakes, and whose build
// fails on what they find. Both are of the Python that the driver itself is written in, whose source is among the trees.
func asTheDriverChecks(t *testing.T, scripts map[string]vmScript) {
	needs(t, "mypy", "pyflakes3")
	lib := filepath.Join(os.Getenv("NIXOS_TREE"), "lib")
	hints := read(t, lib, "test-script-prepend.py")
	// The names the driver offers, as it tells its own check of them.
	offered := "start_all,test_script,machines,vlans,driver,log,os,create_machine,subtest,run_tests,join_all,retry,serial_stdout_off," +
		"serial_stdout_on,polling_condition,Machine,vlan1"
	dir := t.TempDir()
	for name, script := range scripts {
		names := offered
		typed := hints
		for _, machine := range script.Machines {
			names += "," + machine
			typed += machine + ": Machine\n"
		}
		if err := os.WriteFile(filepath.Join(dir, "typed.py"), []byte(typed+script.Text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "script.py"), []byte(script.Text), 0o644); err != nil {
			t.Fatal(err)
		}
		types := exec.Command("mypy", "--no-implicit-optional", "--pretty", "--no-color-output", "--follow-imports=silent", "--ignore-missing-imports", "typed.py")
		types.Dir, types.Env = dir, append(os.Environ(), "MYPYPATH="+filepath.Join(lib, "test-driver"))
		if out, err := types.CombinedOutput(); err != nil {
			t.Errorf("%s: types: %v\n%s", name, err, out)
		}
		flakes := exec.Command("pyflakes3", "script.py")
		flakes.Dir, flakes.Env = dir, append(os.Environ(), "PYFLAKES_BUILTINS="+names)
		if out, err := flakes.CombinedOutput(); err != nil {
			t.Errorf("%s: names: %v\n%s", name, err, out)
		}
	}
	if strings.Count(offered, ",") < 10 || len(scripts) == 0 {
		t.Fatal("nothing was looked at")
	}
}
