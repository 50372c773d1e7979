package hostcheck

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/evalhost/evalhost/services/internal/engine"
)

var manifest = requirement{
	id:    "images",
	asked: "a manifest of the language images",
	why:   "an image is used only when it is exactly the one that was built for judging; evalhost never pulls any",
	look: func(_ context.Context, m *Machine) finding {
		if m.ImagesErr != nil {
			return failed(m.ImagesErr.Error(), "install the manifest that was written when the images were built, "+
				"or set EVALHOST_MANIFEST to it")
		}
		return met(fmt.Sprintf("%d declared", len(m.Images)))
	},
}

// imageRequirements makes one requirement for each image of the machine, and notes the ids of those that are met.
func imageRequirements(m *Machine, proved map[string]string) []requirement {
	var all []requirement
	for _, image := range m.Images {
		all = append(all, requirement{
			id:    "image." + image.Key,
			asked: "the image " + image.Ref + " as it was built",
			why:   "in any other image the same source could get another verdict",
			needs: []string{"docker.reachable"},
			look: func(ctx context.Context, m *Machine) finding {
				id, differences, err := image.Look(ctx)
				cure := "load the image that belongs to the manifest: docker load -i <image>.tar"
				switch {
				case errors.Is(err, engine.ErrImageAbsent):
					return failed("Docker has no image "+image.Ref, cure)
				case err != nil:
					return failed("Docker could not be asked for "+image.Ref+": "+err.Error(), "look at journalctl -u docker")
				case len(differences) > 0:
					return failed(image.Ref+" is another image: "+strings.Join(differences, "; "), cure)
				}
				proved[image.Key] = id
				if m.proved == "" {
					m.proved = id
				}
				return met(strings.TrimRight(image.Ref+" "+image.Digest, " "))
			},
		})
	}
	return all
}
