package nix

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The flake's promise of the same bits begins with the compiler: what it is told in nixos/packages.nix must leave no
// trace of where the tree lay. And the version it is told must be one that the program tells.
func TestTwoBuildsOnTwoPathsAreTheSameBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT BUILT: asked to be short, and every program is built twice")
	}
	const version = "0.1.0+a-version-no-program-has-by-itself"
	// The shim tells no version: it is mounted, by a program that does.
	programs := map[string]bool{"shim": false, "services/evalhost": true, "services/refserver": false, "services/runner": true}
	var first map[string][]byte
	dir := root
	for range 2 {
		dir = copyOf(t, dir) // the second of the first: the tree itself may change meanwhile
		built := map[string][]byte{}
		for program := range programs {
			file := filepath.Join(t.TempDir(), filepath.Base(program))
			build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+version, "-o", file, "./"+program)
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
		for program, tellsVersion := range programs {
			if !bytes.Equal(built[program], first[program]) {
				t.Errorf("two builds of %s on two paths differ", program)
			}
			if bytes.Contains(built[program], []byte(dir)) {
				t.Errorf("%s knows that it was built in %s", program, dir)
			}
			if tellsVersion && !bytes.Contains(built[program], []byte(version)) {
				t.Errorf("%s has no main.version, so that nobody can tell which one runs", program)
			}
		}
	}
}

// TestTheSourceOfABuildHasWhatItsTestsRead: what Nix builds from is less than the tree, and the unit tests run there too. Every
// file above its own directory that a test names, and every embedded one, must be among it.
func TestTheSourceOfABuildHasWhatItsTestsRead(t *testing.T) {
	tools(t)
	var source string
	evaluate(t, copyTree(t), "packages.x86_64-linux.evalhost", "program: toString program.recorded.src", &source)
	if _, err := os.Stat(filepath.Join(source, "go.mod")); err != nil {
		t.Fatalf("the source is not where the evaluator says: %v", err)
	}
	above := regexp.MustCompile(`"((?:\.\./)+[\w./-]+)"`)
	found := 0
	for _, top := range []string{"services", "shim", "langimages"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, match := range above.FindAllStringSubmatch(string(content), -1) {
				named, err := filepath.Rel(root, filepath.Join(filepath.Dir(path), match[1]))
				if err != nil {
					return err
				}
				if strings.HasPrefix(named, "..") {
					continue // a path that a test makes up
				}
				if _, err := os.Stat(filepath.Join(root, named)); err != nil {
					continue
				}
				found++
				if _, err := os.Stat(filepath.Join(source, named)); err != nil {
					t.Errorf("%s names %s, which no build with Nix has: add it to src in nixos/packages.nix", path, named)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found == 0 {
		t.Error("no test names a file above its directory: the pattern is wrong")
	}
	list := exec.Command("go", "list", "-e", "-f", `{{with .Error}}{{.}}{{end}}`, "./services/...", "./shim/...", "./langimages/...")
	list.Dir = source
	list.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	if out, err := list.CombinedOutput(); err != nil || len(strings.TrimSpace(string(out))) > 0 {
		t.Errorf("%s in the source of a build: %v\n%s", list, err, out)
	}
}
