package hostcheck

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

const describesGcc = `{"version":1,"images":{"gcc":{"reference":"evalhost/gcc:x","layers":["sha256:` +
	`0123456789012345678901234567890123456789012345678901234567890123"],"config":{"user":"65534:65534"}}}}`

func writeManifest(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "images.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheManifestSaysWhichImagesAreNeeded(t *testing.T) {
	for _, c := range []struct {
		name     string
		manifest string
		keys     []string
		refs     map[string]string
		want     string
		err      string
	}{
		{"all it describes", describesGcc, nil, nil, "gcc=evalhost/gcc:x", ""},
		{"one of them", describesGcc, []string{"gcc"}, nil, "gcc=evalhost/gcc:x", ""},
		{"under another name", describesGcc, nil, map[string]string{"gcc": "mine:1"}, "gcc=mine:1", ""},
		{"one it does not describe", describesGcc, []string{"gcc", "clang"}, nil, "gcc=evalhost/gcc:x", "no image called clang"},
		{"none that is known", strings.Replace(describesGcc, `"gcc"`, `"ada"`, 1), nil, nil, "", "no image called"},
		{"no manifest", "{}", nil, nil, "", "version"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Here(Options{Manifest: writeManifest(t, c.manifest), Keys: c.keys, References: c.refs})
			var got []string
			for _, image := range m.Images {
				got = append(got, image.Key+"="+image.Ref)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("images %q, want %q", got, c.want)
			}
			if c.err == "" && m.ImagesErr != nil || c.err != "" && (m.ImagesErr == nil || !strings.Contains(m.ImagesErr.Error(), c.err)) {
				t.Errorf("error %v, want %q", m.ImagesErr, c.err)
			}
		})
	}
}

func TestAMissingManifestIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.json")
	m := Here(Options{Manifest: path})
	if m.ImagesErr == nil || !strings.Contains(m.ImagesErr.Error(), path) {
		t.Errorf("error %v", m.ImagesErr)
	}
}

func TestAnImageIsNotLookedForWithoutADaemon(t *testing.T) {
	m := Here(Options{Manifest: writeManifest(t, describesGcc)})
	if _, _, err := m.Images[0].Look(context.Background()); err == nil {
		t.Error("an image was found without a daemon")
	}
}

func TestExecutingTellsNoexecFromExec(t *testing.T) {
	dir := t.TempDir()
	if err := execute(t.Context(), dir); err != nil {
		t.Errorf("a directory that allows it: %v", err)
	}
	if err := execute(t.Context(), filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that is not there")
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := execute(t.Context(), "/proc"); err == nil {
		t.Error("a file system that refuses it")
	}
}

func TestFreeSpaceIsAskedOfTheFileSystem(t *testing.T) {
	if got, err := free(t.TempDir()); err != nil || got <= 0 || got > 1<<60*verdict.Bytes(1) {
		t.Errorf("free = %v, %v", got, err)
	}
	if _, err := free("/nonexistent"); err == nil {
		t.Error("a path that is not there")
	}
}
