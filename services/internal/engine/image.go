package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/containerd/errdefs"
)

// ErrImageAbsent is wrapped by the error of Image when the daemon has no such image. Nothing here ever pulls one.
var ErrImageAbsent = errors.New("the daemon has no such image")

// Image is what decides about a container made from an image.
type Image struct {
	// Reference the image was asked for by, and the daemon's own id for it. Containers are made from the id: a tag
	// can move between two calls.
	Reference, ID string
	// Layers are the digests of the root file system, the identity of an image whichever store holds it.
	Layers     []string
	User       string
	Env        []string
	Entrypoint []string
	Cmd        []string
	WorkingDir string
	// Volumes are the paths the image declares as volumes, sorted. An image that declares one is refused: it would
	// give a submission a writable directory on the daemon's disk (spec/sandbox.md 9.2 N9).
	Volumes []string
	// Healthcheck is the image's own health check; it never runs here.
	Healthcheck  []string
	Architecture string
	OS           string
}

// Image asks the daemon about an image by reference or id. An absent one gives an error that wraps ErrImageAbsent.
func (c *Client) Image(ctx context.Context, ref string) (Image, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	got, err := c.api.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return Image{}, &Error{
			Op: "looking for the image", Object: ref, Err: ErrImageAbsent,
			Means: "no program of this language can be built or run",
			Do:    "load the image with docker load, or start the service that loads the images of this host; images are never pulled",
		}
	}
	if err != nil {
		return Image{}, c.fail("looking for the image", ref, err)
	}
	img := Image{Reference: ref, ID: got.ID, Layers: got.RootFS.Layers, Architecture: got.Architecture, OS: got.Os}
	if cfg := got.Config; cfg != nil {
		img.User = cfg.User
		img.Env = cfg.Env
		img.Entrypoint = cfg.Entrypoint
		img.Cmd = cfg.Cmd
		img.WorkingDir = cfg.WorkingDir
		for path := range cfg.Volumes {
			img.Volumes = append(img.Volumes, path)
		}
		slices.Sort(img.Volumes)
		if cfg.Healthcheck != nil {
			img.Healthcheck = cfg.Healthcheck.Test
		}
	}
	return img, nil
}
