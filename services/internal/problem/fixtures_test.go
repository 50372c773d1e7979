package problem_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/internal/problem"
)

// plainConfig is a package without a judging program: tests 0a, 1a and 1b, worth 0 and 100.
const plainConfig = `type: "standard-io@1"
limits: { timeMs: 1000, memoryBytes: 67108864 }
groups:
  - { group: 0, points: 0, examples: true }
  - { group: 1, points: 100 }
`

// files maps the names in a package to their contents; a name that ends in a slash is a directory.
type files map[string]string

func plain() files {
	return files{
		"config.yml":  plainConfig,
		"tests/0a.in": "1 2\n", "tests/0a.out": "3\n",
		"tests/1a.in": "3 4\n", "tests/1a.out": "7\n",
		"tests/1b.in": "5 6\n", "tests/1b.out": "11\n",
	}
}

// with returns a copy with some files exchanged; an empty content removes a file.
func (f files) with(pairs ...string) files {
	result := files{}
	for name, content := range f {
		result[name] = content
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			delete(result, pairs[i])
			continue
		}
		result[pairs[i]] = pairs[i+1]
	}
	return result
}

// dir writes the files below a new directory.
func (f files) dir(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range f {
		path := filepath.Join(root, filepath.FromSlash(name))
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(path, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return root
}

// zip writes the files into a new archive.
func (f files) zip(t *testing.T) string {
	t.Helper()
	var entries []zipped
	for name, content := range f {
		entries = append(entries, zipped{name: name, content: content})
	}
	return zipOf(t, entries...)
}

// zipped is one entry of a handmade archive.
type zipped struct {
	name, content string
	// mode is the whole Unix mode, 0 to set none; creator the system that claims to have written the entry.
	mode    uint32
	creator uint16
	stored  bool
}

func zipOf(t testing.TB, entries ...zipped) string {
	t.Helper()
	var buffer bytes.Buffer
	w := zip.NewWriter(&buffer)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		if e.stored {
			header.Method = zip.Store
		}
		if e.mode != 0 {
			header.CreatorVersion = 3 << 8
			header.ExternalAttrs = e.mode << 16
		}
		if e.creator != 0 {
			header.CreatorVersion = (e.creator - 1) << 8
		}
		entry, err := w.CreateHeader(header)
		must(t, err)
		if !strings.HasSuffix(e.name, "/") {
			_, err = entry.Write([]byte(e.content))
			must(t, err)
		}
	}
	must(t, w.Close())
	return write(t, buffer.Bytes())
}

func write(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "package.zip")
	must(t, os.WriteFile(path, content, 0o644))
	return path
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// target is a place that does not exist yet.
func target(t *testing.T) string { return filepath.Join(t.TempDir(), "target") }

// open opens a package from both its forms, which must agree, and returns one of the two.
func open(t *testing.T, f files, options problem.Options) (*problem.Problem, error) {
	t.Helper()
	fromZip, zipErr := problem.Open(t.Context(), f.zip(t), target(t), options)
	fromDir, dirErr := problem.Open(t.Context(), f.dir(t), target(t), options)
	if problem.CodeOf(zipErr) != problem.CodeOf(dirErr) {
		t.Fatalf("a zip gives %v and the same directory gives %v", zipErr, dirErr)
	}
	if zipErr == nil && len(fromZip.Tests) != len(fromDir.Tests) {
		t.Fatalf("a zip gives %v and the same directory gives %v", fromZip.Tests, fromDir.Tests)
	}
	return fromZip, zipErr
}

// wantCode fails the test unless the error carries the code, and text mentions every part.
func wantCode(t *testing.T, err error, code problem.Code, mentions ...string) {
	t.Helper()
	var fault *problem.Error
	if !errors.As(err, &fault) || fault.Code != code {
		t.Fatalf("got %v, want an error with code %s", err, code)
	}
	for _, part := range mentions {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not mention %q", err, part)
		}
	}
}

// wantGone fails the test if anything is at the path.
func wantGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s was left behind (%v)", path, err)
	}
}
