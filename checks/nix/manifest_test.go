package nix

import (
	"archive/tar"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalhost/evalhost/langimages"
)

// archive writes what docker save writes, as far as a manifest is read out of it.
func archive(t *testing.T, layers []string, config string) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	writer := tar.NewWriter(file)
	for _, entry := range [][2]string{
		{"0000/layer.tar", "no archive at all"},
		{"abcd.json", fmt.Sprintf(`{"architecture": "amd64", "config": %s, "os": "linux", "rootfs": {"diff_ids": ["%s"], "type": "layers"}}`,
			config, strings.Join(layers, `", "`))},
		{"manifest.json", `[{"Config": "abcd.json", "Layers": ["0000/layer.tar"], "RepoTags": ["evalhost-lang:local"]}]`},
	} {
		if err := writer.WriteHeader(&tar.Header{Name: entry[0], Mode: 0o444, Size: int64(len(entry[1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(entry[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Name()
}

// TestTheManifestIsWhatTheProgramsRead runs the very commands of the derivation, on archives of the test's own.
func TestTheManifestIsWhatTheProgramsRead(t *testing.T) {
	tools(t)
	needs(t, "bash", "jq", "tar")
	var commands string
	evaluate(t, copyTree(t), "packages.x86_64-linux.image-manifest", "manifest: manifest.buildCommand", &commands)

	layers := []string{strings.Replace(layer, "aa", "01", 1), strings.Replace(layer, "aa", "02", 1)}
	file := archive(t, layers, `{"Env": ["PATH=/bin"], "WorkingDir": "/", "Volumes": {"/b": {}, "/a": {}}}`)
	call := regexp.MustCompile(`(?m)^(describe \S+ \S+) \S+$`)
	if found := len(call.FindAllString(commands, -1)); found != len(langimages.Default().Images()) {
		t.Fatalf("%d images are described:\n%s", found, commands)
	}
	dir := t.TempDir()
	build := exec.Command("bash", "-euo", "pipefail", "-c", call.ReplaceAllString(commands, "$1 "+file))
	build.Dir = dir
	build.Env = append(os.Environ(), "out="+filepath.Join(dir, "images.json"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	content, err := os.ReadFile(filepath.Join(dir, "images.json"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := langimages.ParseManifest(content)
	if err != nil {
		t.Fatalf("%v\n%s", err, content)
	}
	want := &langimages.Manifest{Version: 1, Images: map[string]langimages.Built{}}
	for _, image := range langimages.Default().Images() {
		want.Images[image.Key] = langimages.Built{Reference: image.Reference, Identity: langimages.Identity{
			Layers: layers,
			Config: langimages.IdentityConfig{
				Env: []string{"PATH=/bin"}, WorkingDir: "/", Volumes: []string{"/a", "/b"},
				Entrypoint: []string{}, Cmd: []string{}, Healthcheck: []string{},
			},
		}}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
}
