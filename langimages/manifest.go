package langimages

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// Manifest says what each image is: whoever built the images writes it, and whoever judges with them compares. An image
// is recognised by its layers and by the part of its configuration that has a say in a run, never by a name, a tag or the
// id a store gives it, which differs between stores.
type Manifest struct {
	Version int              `json:"version"`
	Images  map[string]Built `json:"images"` // by image key
}

// Built is one image as its builder describes it: where it is to be found, and what must be found there.
type Built struct {
	Reference string `json:"reference"`
	Identity
}

// Identity is what makes two images the same for judging.
type Identity struct {
	Layers []string       `json:"layers"` // uncompressed layers, lowest first, as "sha256:<64 hex digits>"
	Config IdentityConfig `json:"config"`
}

// IdentityConfig is the part of an image's configuration that has a say in a run. An absent list and an empty one are the
// same.
type IdentityConfig struct {
	User        string   `json:"user"`
	Env         []string `json:"env"`
	Entrypoint  []string `json:"entrypoint"`
	Cmd         []string `json:"cmd"`
	WorkingDir  string   `json:"workingDir"`
	Volumes     []string `json:"volumes"` // in any order
	Healthcheck []string `json:"healthcheck"`
}

var layerDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// ParseManifest reads a manifest strictly: unknown members, members given twice, another version, no image, and a digest
// that is none are all refused. Something that says too little about an image must not pass for its description.
func ParseManifest(data []byte) (*Manifest, error) {
	var manifest Manifest
	if err := decodeStrictly(data, &manifest); err != nil {
		return nil, fmt.Errorf("image manifest: %w", err)
	}
	if manifest.Version != 1 {
		return nil, fmt.Errorf("image manifest: version %d, and only version 1 is understood", manifest.Version)
	}
	if len(manifest.Images) == 0 {
		return nil, fmt.Errorf("image manifest: it describes no image")
	}
	for _, key := range slices.Sorted(maps.Keys(manifest.Images)) {
		image := manifest.Images[key]
		if key == "" {
			return nil, fmt.Errorf("image manifest: an image has no key")
		}
		if image.Reference == "" {
			return nil, fmt.Errorf("image manifest: image %q has no reference", key)
		}
		if len(image.Layers) == 0 {
			return nil, fmt.Errorf("image manifest: image %q has no layers, so nothing about it could be checked", key)
		}
		for i, layer := range image.Layers {
			if !layerDigest.MatchString(layer) {
				return nil, fmt.Errorf("image manifest: image %q, layer %d: %q is not \"sha256:\" and 64 hexadecimal digits", key, i+1, layer)
			}
		}
	}
	return &manifest, nil
}

// Diff says in words where another image differs from this one, field by field, this one being what was expected. Nothing
// is said about two images that are the same.
func (i Identity) Diff(other Identity) []string {
	var differences []string
	add := func(format string, arguments ...any) {
		differences = append(differences, fmt.Sprintf(format, arguments...))
	}
	if len(i.Layers) != len(other.Layers) {
		add("number of layers: expected %d, found %d", len(i.Layers), len(other.Layers))
	}
	for n := range min(len(i.Layers), len(other.Layers)) {
		if i.Layers[n] != other.Layers[n] {
			add("layer %d: expected %s, found %s", n+1, i.Layers[n], other.Layers[n])
		}
	}
	text := func(name, expected, found string) {
		if expected != found {
			add("%s: expected %q, found %q", name, expected, found)
		}
	}
	list := func(name string, expected, found []string) {
		if !slices.Equal(expected, found) {
			add("%s: expected %q, found %q", name, expected, found)
		}
	}
	text("user", i.Config.User, other.Config.User)
	list("environment", i.Config.Env, other.Config.Env)
	list("entry point", i.Config.Entrypoint, other.Config.Entrypoint)
	list("command", i.Config.Cmd, other.Config.Cmd)
	text("working directory", i.Config.WorkingDir, other.Config.WorkingDir)
	list("volumes", sorted(i.Config.Volumes), sorted(other.Config.Volumes))
	list("health check", i.Config.Healthcheck, other.Config.Healthcheck)
	return differences
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// Digest is one short name for the whole identity, the same wherever the image is and whichever store holds it: "sha256:"
// and the hash of its JSON, members in the order of their names, volumes sorted, and a line feed. It is for people to
// compare (the host check and the unit that loads images both tell it); programs compare with Diff, which says what differs.
func (i Identity) Digest() string {
	list := func(values []string) []string { return append([]string{}, values...) }
	var canonical bytes.Buffer
	encoder := json.NewEncoder(&canonical)
	encoder.SetEscapeHTML(false)
	// Strings, and lists and maps of them, always have a JSON text.
	_ = encoder.Encode(map[string]any{
		"layers": list(i.Layers),
		"config": map[string]any{
			"user": i.Config.User, "env": list(i.Config.Env), "entrypoint": list(i.Config.Entrypoint),
			"cmd": list(i.Config.Cmd), "workingDir": i.Config.WorkingDir, "volumes": list(sorted(i.Config.Volumes)),
			"healthcheck": list(i.Config.Healthcheck),
		},
	})
	return fmt.Sprintf("sha256:%x", sha256.Sum256(canonical.Bytes()))
}
