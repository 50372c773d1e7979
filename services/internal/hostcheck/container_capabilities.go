package hostcheck

import (
	"context"
	"strings"
)

var containerCapabilities = requirement{
	id:    "container.capabilities",
	asked: "no capability, and none that could be regained",
	why:   "the bounding set is what a program that becomes root would get",
	needs: []string{"container.probe"},
	look: func(_ context.Context, m *Machine) finding {
		const none = "0000000000000000"
		sets := []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}
		want := map[string]string{}
		for _, set := range sets {
			want[set] = none
		}
		if wrong := m.inside.wants(want, sets...); wrong != nil {
			return failed(strings.Join(wrong, "; "), "use the runtime crun or runc as Docker brings it: docker info, Default Runtime")
		}
		return met("all five sets are empty")
	},
}
