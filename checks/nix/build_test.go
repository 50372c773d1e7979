package nix

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The flake's promise of the same bits begins with the compiler: what it is told in nixos/packages.nix must leave no
// trace of where the tree lay.
func TestTwoBuildsOnTwoPathsAreTheSameBytes(t *testing.T) {
	tools(t) // not that it needs them, but it takes as long as what does
	programs := []string{"shim", "services/evalhost", "services/refserver", "services/runner"}
	var first map[string][]byte
	dir := root
	for range 2 {
		dir = copyOf(t, dir) // the second of the first: the tree itself may change meanwhile
		built := map[string][]byte{}
		for _, program := range programs {
			if _, err := os.Stat(filepath.Join(dir, program, "main.go")); err != nil {
				continue
			}
			file := filepath.Join(t.TempDir(), filepath.Base(program))
			build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=0.1.0", "-o", file, "./"+program)
			build.Dir = dir
			build.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", build, err, out)
			}
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			built[program] = content
		}
		if first == nil {
			first = built
			continue
		}
		for program, content := range built {
			if !bytes.Equal(content, first[program]) {
				t.Errorf("two builds of %s on two paths differ", program)
			}
		}
	}
}
