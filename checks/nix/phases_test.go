package nix

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// phases is what a program of the flake tells buildGoModule, as far as it is shell.
type phases struct {
	Package, Program string
	Phases           map[string]string // by name, without those that are left to buildGoModule
}

const lookAtPhases = `packages: builtins.mapAttrs (_: p: {
  Package = baseNameOf (builtins.head p.recorded.subPackages);
  Program = p.recorded.meta.mainProgram;
  Phases = builtins.listToAttrs (builtins.map (name: { inherit name; value = p.recorded.${name}; })
    (builtins.filter (name: p.recorded ? ${name}) [ "buildPhase" "checkPhase" "installPhase" "installCheckPhase" "postInstall" ]));
}) { inherit (packages) evalhost shim runner refserver reference suites; }`

// installing is what buildGoModule does to install, and what it calls in between, for a program that was built as $built.
const installing = `set -euo pipefail
runHook() { eval "${!1-}"; }
if [ -n "${installPhase-}" ]; then
  mkdir -p built/suites built/programs/judge
  : > built/suites/judge.test
  eval "$installPhase"
else
  mkdir -p go/bin
  : > "go/bin/$built"
  mkdir -p "$out"
  cp -r go/bin "$out"
  runHook postInstall
fi`

// TestWhatABuildInstallsIsThere runs the steps of a build that nothing here can build: each is shell, and what it moves must be
// there by then.
func TestWhatABuildInstallsIsThere(t *testing.T) {
	tools(t)
	needs(t, "bash")
	var programs map[string]phases
	evaluate(t, copyTree(t), "packages.x86_64-linux", lookAtPhases, &programs)
	if len(programs) != 6 {
		t.Fatalf("programs: %q", slices.Sorted(maps.Keys(programs)))
	}
	for name, program := range programs {
		dir := t.TempDir()
		out := filepath.Join(dir, "out")
		install := exec.Command("bash", "-c", installing)
		install.Dir = dir
		install.Env = append(os.Environ(), "out="+out, "built="+program.Package)
		for phase, text := range program.Phases {
			parses(t, name+"."+phase, text)
			install.Env = append(install.Env, phase+"="+text)
		}
		if said, err := install.CombinedOutput(); err != nil {
			t.Errorf("%s is not installed: %v\n%s", name, err, said)
		}
		// The suites are tests: of each there is a program, and none has a name of its own.
		want := "bin/" + program.Program
		if name == "suites" {
			want = "suites/judge.test"
		}
		if _, err := os.Lstat(filepath.Join(out, want)); err != nil {
			t.Errorf("%s has no %s: %v", name, want, err)
		}
		// What was copied out of the store can be written to by nobody, not even by who takes the directory away.
		if said, err := exec.Command("chmod", "-R", "u+w", dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, said)
		}
	}
}

// TestTheCommandsOfEveryDerivationParse: what a derivation is made by is shell that only a build would read. What runs a machine is
// NixOS's own; its scripts are looked at in TestEveryOutputEvaluates.
func TestTheCommandsOfEveryDerivationParse(t *testing.T) {
	tools(t)
	needs(t, "bash")
	dir := copyTree(t)
	found := 0
	for _, outputs := range []string{"packages.x86_64-linux", "checks.x86_64-linux"} {
		var commands map[string]string
		evaluate(t, dir, outputs, `outputs: builtins.listToAttrs (builtins.filter ({ value, ... }: value != null)
		  (builtins.map (name: { inherit name; value = outputs.${name}.buildCommand or null; })
		    (builtins.filter (name: builtins.substring 0 3 name != "vm-") (builtins.attrNames outputs))))`, &commands)
		for name, text := range commands {
			found++
			parses(t, name, text)
		}
	}
	if found < 4 {
		t.Errorf("only %d derivations have commands", found)
	}
}

func parses(t *testing.T, name, text string) {
	t.Helper()
	if said, err := exec.Command("bash", "-n", "-c", text).CombinedOutput(); err != nil {
		t.Errorf("%s is no shell: %v\n%s\n%s", name, err, said, text)
	}
}
