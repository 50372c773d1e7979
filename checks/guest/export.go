package guest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalhost/evalhost/langimages"
)

// Export is one file that ExportImages wrote.
type Export struct {
	Path string
	Size int64 // bytes
}

// manifestFile is what the manifest is called beside the archives.
const manifestFile = "images.json"

// ExportImages makes the language images unless they are in the cache already, and puts them into a directory for a host
// that is not NixOS: <name>.tar for each, which "docker load -i" takes, and images.json, which says what the loaded images
// must be. With tests, the images of the suites are put beside them; the manifest does not speak of those. Nothing
// else of the guest is built that they do not need. The same images give the same bytes.
//
// Every archive is read as it is copied and must describe the image that was built: one that does not is an error, and then
// no images.json is there. What the directory holds beside these files stays.
func ExportImages(ctx context.Context, out string, tests bool, log io.Writer) ([]Export, error) {
	stages, unlock, err := makeStages(ctx, log, func(s *stage) bool { return isLanguageImage(s) || tests && s.name == testImagesStage })
	if err != nil {
		return nil, err
	}
	defer unlock() // what is copied must not be pruned meanwhile
	return exportImages(ctx, stages, out)
}

const languageImagePrefix, testImagesStage = "image-", "image-tests"

func isLanguageImage(s *stage) bool {
	return strings.HasPrefix(s.name, languageImagePrefix) && s.name != testImagesStage
}

func exportImages(ctx context.Context, stages []*stage, out string) ([]Export, error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("the images have no place to go: %w", err)
	}
	// A manifest of earlier images must not stand beside new ones, whatever goes wrong below.
	if err := os.Remove(filepath.Join(out, manifestFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var exports []Export
	manifest := langimages.Manifest{Version: 1, Images: map[string]langimages.Built{}}
	for _, s := range slices.SortedFunc(slices.Values(stages), func(a, b *stage) int { return strings.Compare(a.name, b.name) }) {
		said, err := filepath.Glob(filepath.Join(s.dir, "*.json"))
		if err != nil {
			return nil, err
		}
		if len(said) == 0 {
			return nil, fmt.Errorf("the guest's cache is damaged, delete %s: it holds no description of an image", s.dir)
		}
		for _, description := range said {
			name := strings.TrimSuffix(filepath.Base(description), ".json")
			built, err := readBuilt(description)
			if err != nil {
				return nil, err
			}
			to := filepath.Join(out, name+".tar")
			size, err := putFile(ctx, to, func(w io.Writer) error { return copyImage(ctx, w, filepath.Join(s.dir, name+".tar"), built) })
			if err != nil {
				return nil, fmt.Errorf("image %s: %w", name, err)
			}
			exports = append(exports, Export{to, size})
			if isLanguageImage(s) {
				manifest.Images[name] = built
			}
		}
	}
	text, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return nil, err
	}
	if _, err := langimages.ParseManifest(text); err != nil {
		return nil, err
	}
	to := filepath.Join(out, manifestFile)
	size, err := putFile(ctx, to, func(w io.Writer) error { _, err := w.Write(append(text, '\n')); return err })
	if err != nil {
		return nil, err
	}
	return append(exports, Export{to, size}), nil
}

func readBuilt(path string) (langimages.Built, error) {
	var built langimages.Built
	raw, err := os.ReadFile(path)
	if err != nil {
		return built, fmt.Errorf("the guest's cache is damaged, delete %s: %w", filepath.Dir(path), err)
	}
	if err := json.Unmarshal(raw, &built); err != nil {
		return built, fmt.Errorf("the guest's cache is damaged, delete %s: %s: %w", filepath.Dir(path), path, err)
	}
	return built, nil
}

// putFile puts a file in place whole, readable by everybody, and returns its size.
func putFile(ctx context.Context, path string, write func(io.Writer) error) (size int64, err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	err = write(tmp)
	if err == nil {
		err = tmp.Chmod(0o644)
	}
	if err == nil {
		size, err = tmp.Seek(0, io.SeekEnd)
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return 0, err
	}
	return size, os.Rename(tmp.Name(), path)
}

// copyImage copies an archive and fails unless it describes exactly the image that was built.
func copyImage(ctx context.Context, w io.Writer, archive string, built langimages.Built) error {
	in, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("the guest's cache is damaged, delete %s: %w", filepath.Dir(archive), err)
	}
	defer in.Close()
	tee := io.TeeReader(&heard{ctx, in}, w)
	found, err := identifyArchive(tee)
	if err == nil {
		_, err = io.Copy(io.Discard, tee) // the padding behind the end
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	if found.Reference != built.Reference {
		return fmt.Errorf("%s would be loaded as %q, and %q was built: delete %s", archive, found.Reference, built.Reference, filepath.Dir(archive))
	}
	if diff := built.Diff(found.Identity); len(diff) > 0 {
		return fmt.Errorf("%s is not the image that was built (%s): delete %s", archive, strings.Join(diff, "; "), filepath.Dir(archive))
	}
	return nil
}

// heard is a reader that ends with its context.
type heard struct {
	ctx context.Context
	r   io.Reader
}

func (h *heard) Read(p []byte) (int, error) {
	if err := h.ctx.Err(); err != nil {
		return 0, err
	}
	return h.r.Read(p)
}

// smallFile bounds what an archive says about its image, in bytes.
const smallFile = 1 << 20

// identifyArchive reads an archive of one image as "docker load" does: what it would be called, and what would identify it
// once it is loaded. The digests of the layers are taken from their bytes and must be those that the configuration names.
func identifyArchive(archive io.Reader) (langimages.Built, error) {
	var none langimages.Built
	small, layers := map[string][]byte{}, map[string]string{}
	for tr := tar.NewReader(archive); ; {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return none, err
		}
		if !strings.HasSuffix(header.Name, ".json") {
			h := sha256.New()
			if _, err := io.Copy(h, tr); err != nil {
				return none, err
			}
			layers[header.Name] = "sha256:" + hex.EncodeToString(h.Sum(nil))
			continue
		}
		if header.Size > smallFile {
			return none, fmt.Errorf("%s is larger than %d bytes", header.Name, smallFile)
		}
		if small[header.Name], err = io.ReadAll(tr); err != nil {
			return none, err
		}
	}
	var list []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(small["manifest.json"], &list); err != nil {
		return none, fmt.Errorf("manifest.json: %w", err)
	}
	if len(list) != 1 || len(list[0].RepoTags) != 1 {
		return none, fmt.Errorf("manifest.json is not about one image with one name: %s", bytes.TrimSpace(small["manifest.json"]))
	}
	var spec struct {
		Config struct {
			User, WorkingDir     string
			Env, Entrypoint, Cmd []string
			Volumes              map[string]struct{}
			Healthcheck          *struct{ Test []string }
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(small[list[0].Config], &spec); err != nil {
		return none, fmt.Errorf("%s: %w", list[0].Config, err)
	}
	found := make([]string, len(list[0].Layers))
	for i, layer := range list[0].Layers {
		found[i] = layers[layer]
	}
	if !slices.Equal(found, spec.RootFS.DiffIDs) {
		return none, fmt.Errorf("its layers are %q and its configuration names %q", found, spec.RootFS.DiffIDs)
	}
	built := langimages.Built{Reference: list[0].RepoTags[0], Identity: langimages.Identity{
		Layers: found,
		Config: langimages.IdentityConfig{
			User: spec.Config.User, Env: spec.Config.Env, Entrypoint: spec.Config.Entrypoint, Cmd: spec.Config.Cmd,
			WorkingDir: spec.Config.WorkingDir, Volumes: slices.Collect(maps.Keys(spec.Config.Volumes)),
		},
	}}
	if spec.Config.Healthcheck != nil {
		built.Config.Healthcheck = spec.Config.Healthcheck.Test
	}
	return built, nil
}
