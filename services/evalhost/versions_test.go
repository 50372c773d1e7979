package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/judge"
)

func TestVersionsThatWereReadAreRememberedByTheImageAndNothingLessIs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "versions")
	images := map[string]string{"cpython": "sha256:0123"}
	want := judge.Versions{"python3": "Python 3.13.5"}
	path := filepath.Join(dir, "cpython-sha256_0123.json")
	rememberVersions(path, want)
	// Without a box, asking would fail: what is remembered is not asked for.
	got, err := readVersions(t.Context(), nil, langimages.Default(), images, dir)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, content := range []string{"", "{", `{}`, `{"python3":""}`, `{"pypy3":"x"}`, `[]`, `null`} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if known, ok := rememberedVersions(path, langimages.Default(), "cpython"); ok {
			t.Errorf("%q passes for %q", content, known)
		}
	}
	if _, ok := rememberedVersions(filepath.Join(dir, "cpython-sha256_other.json"), langimages.Default(), "cpython"); ok {
		t.Error("another image has these versions")
	}
	rememberVersions("/proc/nonexistent/x.json", want) // is not fatal
}
