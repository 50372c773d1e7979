package hostcheck

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

var containerAppArmor = requirement{
	id:    "container.apparmor",
	asked: "AppArmor's profile docker-default, where the kernel has AppArmor",
	why:   "it is a second wall behind the others: it refuses mounting and most of /proc and /sys even if a capability were left",
	needs: []string{"container.probe"},
	look: func(_ context.Context, m *Machine) finding {
		label := strings.Join(m.inside["apparmor"], " ")
		has := slices.ContainsFunc(m.docker.SecurityOptions, func(o string) bool { return strings.Contains(o, "name=apparmor") })
		switch {
		case !has:
			return absent("Docker says that this kernel has no AppArmor")
		case label == "docker-default (enforce)":
			return met(label)
		}
		return failed(fmt.Sprintf("the label inside is %q", label), "systemctl restart apparmor docker; the profile is loaded by the daemon when it starts")
	},
}
