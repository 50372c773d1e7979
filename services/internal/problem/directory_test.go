package problem_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evalhost/evalhost/services/internal/problem"
)

func TestADirectoryIsHeldToTheRulesOfAnArchive(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(outside, []byte("secret"), 0o600))
	for name, spoil := range map[string]func(root string) error{
		"a link out":          func(root string) error { return os.Symlink(outside, filepath.Join(root, "l")) },
		"a link within":       func(root string) error { return os.Symlink("config.yml", filepath.Join(root, "l")) },
		"a link to a folder":  func(root string) error { return os.Symlink("/", filepath.Join(root, "l")) },
		"a dangling link":     func(root string) error { return os.Symlink("nowhere", filepath.Join(root, "l")) },
		"a pipe":              func(root string) error { return syscall.Mkfifo(filepath.Join(root, "p"), 0o600) },
		"a space in a name":   func(root string) error { return os.WriteFile(filepath.Join(root, "a b"), nil, 0o600) },
		"a name not in ASCII": func(root string) error { return os.WriteFile(filepath.Join(root, "ä"), nil, 0o600) },
		"names that differ by case": func(root string) error {
			return os.WriteFile(filepath.Join(root, "CONFIG.yml"), nil, 0o600)
		},
		"too large a file": func(root string) error {
			return os.WriteFile(filepath.Join(root, "big"), []byte(strings.Repeat("x", 1025)), 0o600)
		},
		"too many files": func(root string) error {
			for _, c := range "abcdefghijk" {
				if err := os.WriteFile(filepath.Join(root, string(c)), nil, 0o600); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := files{"config.yml": plainConfig}.dir(t)
			must(t, spoil(root))
			to := target(t)
			_, err := problem.Unpack(t.Context(), root, to, small)
			wantCode(t, err, problem.CodeRefused)
			wantGone(t, to)
		})
	}
}

func TestWhatIsNeitherAFileNorADirectoryIsNoPackage(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	_, err := problem.Unpack(t.Context(), pipe, target(t), small)
	wantCode(t, err, problem.CodeArchive, "expected a zip file or a directory")
}

func TestTheAuthorsTreeIsNotNeededOnceAPackageIsOpen(t *testing.T) {
	root := plain().dir(t)
	p, err := problem.Open(t.Context(), root, target(t), problem.Options{})
	must(t, err)
	must(t, os.RemoveAll(root))
	for _, test := range p.Tests {
		file, err := p.TestInput(test)
		must(t, err)
		must(t, file.Close())
	}
}
