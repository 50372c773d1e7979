package guest

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalhost/evalhost/langimages"
)

// debianImages is langimages/build/images.json: how the language images are made from Debian packages.
type debianImages struct {
	Suite  string                 `json:"suite"`
	Common []string               `json:"common"` // packages of every image
	Images map[string]debianImage `json:"images"` // by the key of langimages/toolchains.json
}

type debianImage struct {
	Packages []string `json:"packages"`
	Versions []string `json:"versions"` // compilers that say their version into /etc/algojudge-toolchain
	Env      []string `json:"env"`
}

func readDebianImages(root string) (debianImages, error) {
	path := filepath.Join(root, "langimages", "build", "images.json")
	data, err := os.ReadFile(path)
	if err != nil {
		return debianImages{}, err
	}
	var d debianImages
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return debianImages{}, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

const imagePath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// imageConfig is the part of an image's configuration that this build sets, in the image format's own spelling.
type imageConfig struct {
	User        string              `json:"User,omitempty"`
	Env         []string            `json:"Env,omitempty"`
	Entrypoint  []string            `json:"Entrypoint,omitempty"`
	Cmd         []string            `json:"Cmd,omitempty"`
	Volumes     map[string]struct{} `json:"Volumes,omitempty"`
	Healthcheck *imageHealth        `json:"Healthcheck,omitempty"`
}

type imageHealth struct {
	Test     []string `json:"Test"`
	Interval int64    `json:"Interval"` // nanoseconds
}

func languageConfig(image debianImage) imageConfig {
	return imageConfig{
		User: "65534:65534",
		Env:  append([]string{imagePath}, image.Env...),
		Cmd:  []string{"/bin/true"},
	}
}

// makeLanguageImage unpacks the packages of a language into one layer and makes an image of it.
func makeLanguageImage(ctx context.Context, root, dir, name, suite string, packages []string, image debianImage) error {
	layer := filepath.Join(dir, "layer.tar")
	if err := script(ctx, root, "langimages/build/rootfs.sh", suite, layer,
		strings.Join(packages, " "), strings.Join(image.Versions, " ")); err != nil {
		return err
	}
	return finishImage(dir, name, layer, "evalhost/lang-"+name+":local", languageConfig(image))
}

// finishImage turns a layer into an archive to load, and notes what the image must look like.
func finishImage(dir, name, layer, reference string, config imageConfig) error {
	image, err := writeImage(filepath.Join(dir, name+".tar"), layer, reference, config)
	if err != nil {
		return err
	}
	if err := os.Remove(layer); err != nil {
		return err
	}
	data, err := json.MarshalIndent(image, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".json"), data, 0o644)
}

// writeImage writes an archive that "docker load" takes, with the one layer that the tar file is, and returns what the
// image must look like once loaded. Nothing in it depends on the time or the machine.
func writeImage(archive, layer, reference string, config imageConfig) (langimages.Built, error) {
	digest, err := fileDigest(layer)
	if err != nil {
		return langimages.Built{}, err
	}
	const epoch = "1970-01-01T00:00:00Z"
	spec, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "created": epoch, "config": config,
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest}},
		"history": []any{map[string]any{"created": epoch, "created_by": "evalhost guest build"}},
	})
	if err != nil {
		return langimages.Built{}, err
	}
	specSum := sha256.Sum256(spec)
	specName := hex.EncodeToString(specSum[:]) + ".json"
	manifest, err := json.Marshal([]any{map[string]any{
		"Config": specName, "RepoTags": []string{reference}, "Layers": []string{digest + "/layer.tar"},
	}})
	if err != nil {
		return langimages.Built{}, err
	}
	if err := writeArchive(archive, layer, digest, map[string][]byte{specName: spec, "manifest.json": manifest}); err != nil {
		return langimages.Built{}, err
	}
	built := langimages.Built{Reference: reference, Identity: langimages.Identity{
		Layers: []string{"sha256:" + digest},
		Config: langimages.IdentityConfig{
			User: config.User, Env: orEmpty(config.Env), Entrypoint: orEmpty(config.Entrypoint), Cmd: orEmpty(config.Cmd),
			Volumes: []string{}, Healthcheck: []string{},
		},
	}}
	for volume := range config.Volumes {
		built.Config.Volumes = append(built.Config.Volumes, volume)
	}
	slices.Sort(built.Config.Volumes)
	if config.Healthcheck != nil {
		built.Config.Healthcheck = config.Healthcheck.Test
	}
	return built, nil
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func writeArchive(archive, layer, digest string, small map[string][]byte) (err error) {
	out, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := out.Close(); err == nil {
			err = cerr
		}
	}()
	tw := tar.NewWriter(out)
	for _, name := range slices.Sorted(maps.Keys(small)) {
		if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(small[name])), Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		if _, err := tw.Write(small[name]); err != nil {
			return err
		}
	}
	in, err := os.Open(layer)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := tw.WriteHeader(&tar.Header{Name: digest + "/layer.tar", Mode: 0o644, Size: info.Size(), Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	if _, err := io.Copy(tw, in); err != nil {
		return err
	}
	return tw.Close()
}

func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
