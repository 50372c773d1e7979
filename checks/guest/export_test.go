package guest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/langimages"
)

// imageResult is what a stage that made a language image left, of a layer that is no real one.
func imageResult(t *testing.T, name string, config imageConfig) *stage {
	t.Helper()
	dir := t.TempDir()
	layer := filepath.Join(dir, "layer.tar")
	var content bytes.Buffer
	tw := tar.NewWriter(&content)
	if err := errors.Join(tw.WriteHeader(&tar.Header{Name: "etc/" + name, Mode: 0o644, Format: tar.FormatUSTAR}), tw.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(layer, content.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := finishImage(dir, name, layer, "evalhost/lang-"+name+":local", config); err != nil {
		t.Fatal(err)
	}
	return &stage{name: "image-" + name, dir: dir}
}

func everyFile(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

func TestTheManifestIsWhatTheArchivesAreOnceLoaded(t *testing.T) {
	stages := []*stage{
		imageResult(t, "gcc", languageConfig(debianImage{Env: []string{"A=b"}})),
		imageResult(t, "clang", imageConfig{
			User: "1:1", Entrypoint: []string{"/x"}, Volumes: map[string]struct{}{"/b": {}, "/a": {}},
			Healthcheck: &imageHealth{Test: []string{"CMD", "y"}, Interval: int64(time.Second)},
		}),
	}
	out := filepath.Join(t.TempDir(), "new", "images")
	exports, err := exportImages(t.Context(), stages, out)
	if err != nil {
		t.Fatal(err)
	}
	files := everyFile(t, out)
	var names []string // as they are told
	for _, e := range exports {
		names = append(names, filepath.Base(e.Path))
		if int64(len(files[filepath.Base(e.Path)])) != e.Size || e.Size == 0 {
			t.Errorf("%s is said to have %d bytes, and has %d", e.Path, e.Size, len(files[filepath.Base(e.Path)]))
		}
	}
	if want := []string{"clang.tar", "gcc.tar", "images.json"}; !slices.Equal(names, want) || len(files) != len(want) {
		t.Fatalf("written were %v, the directory has %d files, want %v", names, len(files), want)
	}
	manifest, err := langimages.ParseManifest([]byte(files["images.json"]))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"clang", "gcc"} {
		loaded, err := identifyArchive(strings.NewReader(files[name+".tar"]))
		if err != nil {
			t.Fatal(err)
		}
		said := manifest.Images[name]
		if diff := said.Diff(loaded.Identity); len(diff) > 0 || said.Reference != loaded.Reference || said.Reference != "evalhost/lang-"+name+":local" {
			t.Errorf("%s: the manifest and the archive (%s) differ: %v", name, loaded.Reference, diff)
		}
	}
	// Once more, over what is there: the same bytes.
	if _, err := exportImages(t.Context(), stages, out); err != nil {
		t.Fatal(err)
	}
	for name, content := range everyFile(t, out) {
		if files[name] != content {
			t.Errorf("%s is another one the second time", name)
		}
	}
}

func TestTheManifestIsTheOneThatTheGuestInstalls(t *testing.T) {
	// Everything the programs read of a manifest is compared in Go; this holds the spelling: a host and the guest can be
	// compared with cmp.
	stages := []*stage{imageResult(t, "pypy", languageConfig(debianImage{}))}
	out := t.TempDir()
	if _, err := exportImages(t.Context(), stages, out); err != nil {
		t.Fatal(err)
	}
	text := everyFile(t, out)["images.json"]
	if !strings.HasPrefix(text, "{\n  \"version\": 1,\n  \"images\": {\n    \"pypy\": {\n      \"reference\": \"evalhost/lang-pypy:local\",\n") ||
		!strings.HasSuffix(text, "\n}\n") {
		t.Errorf("the manifest is spelled in another way than makeStore does:\n%s", text)
	}
}

func TestAnArchiveThatIsNotTheImageIsNotExportedAndNoManifestStays(t *testing.T) {
	replace := func(old, new string) func(*testing.T, *stage) {
		return func(t *testing.T, s *stage) {
			path := filepath.Join(s.dir, "gcc.tar")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(data, []byte(old)) || len(old) != len(new) {
				t.Fatalf("%q cannot be replaced with %q", old, new)
			}
			if err := os.WriteFile(path, bytes.ReplaceAll(data, []byte(old), []byte(new)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		damage func(*testing.T, *stage)
		says   string
	}{
		"another layer":   {replace("etc/gcc\x00", "etc/gcd\x00"), ""}, // the tar's own sum, or the layer's digest
		"another config":  {replace(`"sha256:`, `"sha512:`), "names"},  // what it says of its own layers
		"another user":    {replace(`"65534:65534"`, `"00000:00000"`), "user"},
		"another name":    {replace(`lang-gcc:local`, `lang-gdc:local`), "lang-gdc:local"},
		"a half":          {func(t *testing.T, s *stage) { check(t, os.Truncate(filepath.Join(s.dir, "gcc.tar"), 1024)) }, "gcc.tar"},
		"nothing":         {func(t *testing.T, s *stage) { check(t, os.Remove(filepath.Join(s.dir, "gcc.tar"))) }, "damaged"},
		"no description":  {func(t *testing.T, s *stage) { check(t, os.Remove(filepath.Join(s.dir, "gcc.json"))) }, "damaged"},
		"half a sentence": {func(t *testing.T, s *stage) { check(t, os.Truncate(filepath.Join(s.dir, "gcc.json"), 20)) }, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			s := imageResult(t, "gcc", languageConfig(debianImage{}))
			out := t.TempDir()
			if _, err := exportImages(t.Context(), []*stage{s}, out); err != nil {
				t.Fatal(err)
			}
			c.damage(t, s)
			_, err := exportImages(t.Context(), []*stage{s}, out)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), s.dir) {
				t.Errorf("the error is %v, and has to name %q and %s", err, c.says, s.dir)
			}
			for file := range everyFile(t, out) {
				if file != "gcc.tar" {
					t.Errorf("%s stays", file)
				}
			}
		})
	}
}

func TestAnExportThatIsStoppedSaysWhyAndLeavesNoPart(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("somebody asked for it")
	cancel(why)
	out := t.TempDir()
	if _, err := exportImages(ctx, []*stage{imageResult(t, "gcc", languageConfig(debianImage{}))}, out); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	if files := everyFile(t, out); len(files) > 0 {
		t.Errorf("%d files stay", len(files))
	}
}

func TestOnlyTheLanguageImagesAreExported(t *testing.T) {
	root, err := treeRoot()
	if err != nil {
		t.Fatal(err)
	}
	_, stages, err := plan(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range stages {
		if isLanguageImage(s) {
			names = append(names, s.name)
		}
	}
	slices.Sort(names)
	if want := []string{"image-clang", "image-cpython", "image-gcc", "image-pypy"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

func TestImagesOfTheSuitesAreExportedAndNoManifestSpeaksOfThem(t *testing.T) {
	tests := imageResult(t, "test-busybox", imageConfig{})
	tests.name = testImagesStage
	out := t.TempDir()
	if _, err := exportImages(t.Context(), []*stage{tests, imageResult(t, "gcc", languageConfig(debianImage{}))}, out); err != nil {
		t.Fatal(err)
	}
	files := everyFile(t, out)
	manifest, err := langimages.ParseManifest([]byte(files["images.json"]))
	if err != nil {
		t.Fatal(err)
	}
	if _, there := files["test-busybox.tar"]; !there || len(manifest.Images) != 1 || manifest.Images["gcc"].Reference == "" {
		t.Errorf("%v, and the manifest speaks of %v", slices.Sorted(maps.Keys(files)), slices.Sorted(maps.Keys(manifest.Images)))
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
