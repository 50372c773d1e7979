package hostcheck

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/evalhost/evalhost/shim/wire"
)

// The rows of this file and of its neighbours ask from inside: the daemon's word about its profile, its drivers and its
// limits is only a word (field case C70). One container is run for all of them.

// containerLook bounds the probe. An emulated processor takes ten seconds to start a container and as long to end one.
const containerLook = 150 * time.Second

var containerProbe = requirement{
	id:     "container.probe",
	asked:  "a container is made, started, read and removed as every run's is",
	why:    "what really holds inside can only be seen from inside; an error here is one that every run would have",
	needs:  []string{"cgroup.probe"},
	within: containerLook,
	look: func(ctx context.Context, m *Machine) finding {
		if m.proved == "" {
			return failed("no image was found to be the expected one, so there is nothing to start",
				"load the images that belong to the manifest: docker load -i <image>.tar")
		}
		said, err := m.Container(ctx, m.docker.CgroupDriver, m.proved)
		if err != nil {
			return failed(err.Error(), "look at journalctl -u docker, and see that the daemon runs in the same mount namespace as this process, "+
				"where AJ_Work__Path and AJ_Cache__Path are the same directories")
		}
		if m.inside = readInside(said); !m.inside.whole() {
			return failed(fmt.Sprintf("the container in image %s did not say everything; it said %q", m.proved, clip(said)),
				"see that the image has a /bin/sh and that /proc is mounted in containers")
		}
		if m.Cache == "" {
			return met("done with one")
		}
		if err := m.inside.mounted(wire.InputDir, m.Cache, m.path(mountinfo)); err != nil {
			return failed(err.Error(), "let the daemon and this process see the same directory at AJ_Cache__Path")
		}
		return met("done with one, which had the cache mounted")
	},
}

// inside is what the probe container printed: the lines of each part.
type inside map[string][]string

// readInside takes the probe's output apart.
func readInside(said string) inside {
	parts := inside{}
	part := ""
	for line := range strings.Lines(said) {
		line = strings.TrimSuffix(line, "\n")
		if name, begins := strings.CutPrefix(line, "== "); begins {
			part = name
			parts[part] = []string{}
			continue
		}
		if part != "" {
			parts[part] = append(parts[part], line)
		}
	}
	return parts
}

// whole says whether the probe came to its end and could read what every kernel has.
func (i inside) whole() bool {
	_, ended := i["end"]
	return ended && len(i["status"]) > 0 && len(i["mounts"]) > 0 && len(i["links"]) > 0 && len(i["limits"]) > 0
}

// status is a field of /proc/self/status, its words separated by single spaces; empty when it is not there.
func (i inside) status(field string) (string, bool) {
	for _, line := range i["status"] {
		if value, is := strings.CutPrefix(line, field+":"); is {
			return strings.Join(strings.Fields(value), " "), true
		}
	}
	return "", false
}

// wants compares fields of the status; it lists those that differ or are missing.
func (i inside) wants(want map[string]string, order ...string) []string {
	var wrong []string
	for _, field := range order {
		got, there := i.status(field)
		switch {
		case !there:
			wrong = append(wrong, field+" is not told")
		case got != want[field]:
			wrong = append(wrong, fmt.Sprintf("%s is %q, not %q", field, got, want[field]))
		}
	}
	return wrong
}

// clip keeps an error readable.
func clip(text string) string {
	const most = 400
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
