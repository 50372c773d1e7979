package nix

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// treeVariables name the source trees that eval.sh evaluates against.
var treeVariables = []string{"NIXPKGS_LIB", "NIXOS_TREE", "NIXPKGS_OLD"}

// tools returns the directory with eval.sh and nix.sh. Where it is not named the test is skipped; where it is named and
// something of it is missing, it fails: somebody meant it to run.
func tools(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("EVALHOST_NIXEVAL")
	if dir == "" {
		t.Skip("NOT EVALUATED: EVALHOST_NIXEVAL names no directory with eval.sh, so nothing of the flake was evaluated")
	}
	for _, name := range []string{"eval.sh", "nix.sh"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Fatalf("EVALHOST_NIXEVAL is %s: %v", dir, err)
		}
	}
	for _, name := range treeVariables {
		if os.Getenv(name) == "" {
			t.Fatalf("EVALHOST_NIXEVAL is set and %s is not: it names a source tree to evaluate against", name)
		}
	}
	return dir
}

// root is the top of the tree.
const root = "../.."

// copyTree copies the tree as it stands, committed or not, to a place where a test may add to it: nix takes a directory
// in a repository to be what is committed there.
func copyTree(t *testing.T) string {
	t.Helper()
	return copyOf(t, root)
}

func copyOf(t *testing.T, tree string) string {
	t.Helper()
	dir := t.TempDir()
	err := filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(tree, path)
		if err != nil {
			return err
		}
		switch base := entry.Name(); {
		case name == ".":
			return nil
		case entry.IsDir() && (strings.HasPrefix(base, ".") || base == "bin" || base == "vendor" || base == "result"):
			return fs.SkipDir
		case entry.IsDir():
			return os.Mkdir(filepath.Join(dir, name), 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // somebody's temporary file
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name), content, 0o644)
	})
	if err != nil {
		t.Fatalf("copy the tree: %v", err)
	}
	return dir
}

// oneAtATime: eval.sh keeps one file for the words of the last error.
var oneAtATime sync.Mutex

// tryEvaluate applies a Nix function to an attribute of the flake in dir and returns the result as JSON, or what the
// evaluator said. Options are those of nix eval.
func tryEvaluate(t *testing.T, dir, attribute, apply string, options ...string) ([]byte, error) {
	t.Helper()
	oneAtATime.Lock()
	defer oneAtATime.Unlock()
	arguments := append([]string{"path:" + dir, attribute, "--json", "--apply", apply}, options...)
	cmd := exec.Command(filepath.Join(tools(t), "eval.sh"), arguments...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("evaluate %s: %w\n%s", attribute, err, stderr.String())
	}
	return stdout.Bytes(), nil
}

// evaluate is tryEvaluate into a value, for what must evaluate.
func evaluate(t *testing.T, dir, attribute, apply string, into any, options ...string) {
	t.Helper()
	out, err := tryEvaluate(t, dir, attribute, apply, options...)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("evaluate %s: not what was asked for: %v\n%s", attribute, err, out)
	}
}

// nixFiles returns every Nix file of the tree.
func nixFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.nix", "nixos/*.nix", "nixos/*/*.nix", "langimages/*.nix", "checks/*.nix"} {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, matches...)
	}
	if len(files) < 20 {
		t.Fatalf("only %d Nix files were found: the patterns are wrong", len(files))
	}
	return files
}

// read returns a file of the tree, or of a copy of it.
func read(t *testing.T, dir, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
