package hostcheck

import (
	"context"
	"fmt"
	"strings"
)

var containerNetwork = requirement{
	id:    "container.network",
	asked: "no network but the loopback, and no route",
	why:   "a submission with a network can ask for the answer, and attack what is near",
	needs: []string{"container.probe"},
	look: func(_ context.Context, m *Machine) finding {
		var wrong []string
		// Both tables of links and IPv4 routes begin with headings, the first with two lines of them.
		for _, line := range after(m.inside["links"], 2) {
			if name, _, _ := strings.Cut(strings.TrimSpace(line), ":"); name != "lo" {
				wrong = append(wrong, "there is a link "+name)
			}
		}
		for _, line := range after(m.inside["routes"], 1) {
			wrong = append(wrong, fmt.Sprintf("there is a route %q", strings.Join(strings.Fields(line), " ")))
		}
		for _, line := range m.inside["routes6"] {
			if fields := strings.Fields(line); len(fields) > 0 && fields[len(fields)-1] != "lo" {
				wrong = append(wrong, fmt.Sprintf("there is a route %q", strings.Join(fields, " ")))
			}
		}
		if wrong != nil {
			return failed(strings.Join(wrong, "; "), "see that no plugin or wrapper of the daemon attaches networks to containers that ask for none")
		}
		return met("loopback only")
	},
}
