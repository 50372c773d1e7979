package hostcheck

import (
	"context"
	"strings"
)

var containerPrivileges = requirement{
	id:    "container.privileges",
	asked: "no new privileges",
	why:   "a file with the setuid bit in an image would otherwise make a program root in its container",
	needs: []string{"container.probe"},
	look: func(_ context.Context, m *Machine) finding {
		if wrong := m.inside.wants(map[string]string{"NoNewPrivs": "1"}, "NoNewPrivs"); wrong != nil {
			return failed(strings.Join(wrong, "; "), "use the runtime crun or runc as Docker brings it: docker info, Default Runtime")
		}
		return met("NoNewPrivs 1")
	},
}
