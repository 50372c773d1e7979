package guest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/evalhost/evalhost/langimages"
)

// What each image of the suites declares. An image with a volume is refused for the volume before anything else of it could run, so what
// else an image may declare needs one without.
func TestTheImagesOfTheSuitesDeclareWhatTheyAreThereFor(t *testing.T) {
	tree, dir := t.TempDir(), t.TempDir()
	check(t, os.MkdirAll(filepath.Join(tree, "usr/bin"), 0o755))
	check(t, os.WriteFile(filepath.Join(tree, "usr/bin/busybox"), []byte("no program"), 0o755))
	check(t, makeTestImages(tree, dir))
	var layers []string
	for name, want := range map[string]struct {
		reference              string
		volumes, entry, health int
	}{
		"test-busybox": {TestImage, 0, 0, 0},
		"test-hostile": {HostileImage, 1, 2, 2},
		"test-wilful":  {WilfulImage, 0, 2, 2},
	} {
		text, err := os.ReadFile(filepath.Join(dir, name+".json"))
		check(t, err)
		var image langimages.Built
		check(t, json.Unmarshal(text, &image))
		c := image.Config
		if image.Reference != want.reference || len(c.Volumes) != want.volumes || len(c.Entrypoint) != want.entry || len(c.Healthcheck) != want.health {
			t.Errorf("%s: %s", name, text)
		}
		if _, err := os.Stat(filepath.Join(dir, name+".tar")); err != nil {
			t.Error(err)
		}
		layers = append(layers, image.Layers...)
	}
	if slices.Sort(layers); len(layers) != 3 || len(slices.Compact(layers)) != 1 {
		t.Errorf("they are not of one layer: %q", layers)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "layer*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}
