package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evalhost/evalhost/langimages"
)

// makeStore loads every image into a new Docker data directory, and writes down what the language images must look like.
func makeStore(ctx context.Context, root, dir string, qemu *stage, images []*stage) error {
	all, err := importImages(ctx, root, filepath.Join(qemu.dir, "root"), dir, images)
	if err != nil {
		return err
	}
	manifest := langimages.Manifest{Version: 1, Images: map[string]langimages.Built{}}
	for reference, image := range all {
		if name, ok := strings.CutPrefix(reference, "evalhost/lang-"); ok {
			manifest.Images[strings.TrimSuffix(name, ":local")] = image
		}
	}
	text, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return err
	}
	if _, err := langimages.ParseManifest(text); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "images.json"), append(text, '\n'), 0o644)
}

// makeOldDocker unpacks Docker 20.10 and fills a data directory of its own with a few of the images.
func makeOldDocker(ctx context.Context, root, dir string, images []*stage) error {
	tree := filepath.Join(filepath.Dir(dir), "tree")
	if err := script(ctx, root, "checks/guest/build/tree.sh", oldSuite, tree, strings.Join(oldPackages, ",")); err != nil {
		return err
	}
	if _, err := importImages(ctx, root, tree, dir, images); err != nil {
		return err
	}
	return script(ctx, root, "checks/guest/build/docker20.sh", tree, filepath.Join(dir, "opt"))
}

// importImages loads the images of some stages into dir/docker with the daemon of an unpacked tree, compares what that
// daemon shows with what was built, and returns it by reference.
func importImages(ctx context.Context, root, tree, dir string, images []*stage) (map[string]langimages.Built, error) {
	archives := filepath.Join(filepath.Dir(dir), "archives")
	data := filepath.Join(dir, "docker")
	for _, d := range []string{archives, data} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return nil, err
		}
	}
	all := map[string]langimages.Built{}
	for _, s := range images {
		files, err := filepath.Glob(filepath.Join(s.dir, "*.json"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			var image langimages.Built
			if err := json.Unmarshal(raw, &image); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			all[image.Reference] = image
			name := strings.TrimSuffix(filepath.Base(file), ".json") + ".tar"
			if err := os.Link(filepath.Join(s.dir, name), filepath.Join(archives, name)); err != nil {
				return nil, err
			}
		}
	}
	inspected, err := command{
		args:  []string{"sh", filepath.Join(root, "checks/guest/build/import.sh"), tree, data, archives},
		alone: true,
	}.run(ctx)
	if err != nil {
		return nil, err
	}
	return all, compareStore(inspected, all)
}

// compareStore checks the answer of "docker image inspect" against what was built.
func compareStore(inspected string, want map[string]langimages.Built) error {
	var images []struct {
		RepoTags []string
		RootFS   struct{ Layers []string }
		Config   struct {
			User, WorkingDir     string
			Env, Entrypoint, Cmd []string
			Volumes              map[string]struct{}
			Healthcheck          *struct{ Test []string }
		}
	}
	if err := json.Unmarshal([]byte(inspected), &images); err != nil {
		return fmt.Errorf("docker image inspect: %w", err)
	}
	seen := 0
	for _, image := range images {
		got := langimages.Identity{Layers: image.RootFS.Layers, Config: langimages.IdentityConfig{
			User: image.Config.User, Env: image.Config.Env, Entrypoint: image.Config.Entrypoint, Cmd: image.Config.Cmd,
			WorkingDir: image.Config.WorkingDir, Volumes: slices.Collect(maps.Keys(image.Config.Volumes)),
		}}
		if image.Config.Healthcheck != nil {
			got.Config.Healthcheck = image.Config.Healthcheck.Test
		}
		for _, tag := range image.RepoTags {
			expected, ok := want[tag]
			if !ok {
				return fmt.Errorf("the store holds an image %s that was not built here", tag)
			}
			if diff := expected.Diff(got); len(diff) > 0 {
				return fmt.Errorf("image %s is not the one built: %s", tag, strings.Join(diff, "; "))
			}
			seen++
		}
	}
	if seen != len(want) {
		return fmt.Errorf("the store shows %d of the %d images loaded into it", seen, len(want))
	}
	return nil
}
