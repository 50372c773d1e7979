//go:build guest

package hosts

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What nixos/host puts on a host, and where.
const (
	rulesFile   = "/etc/nftables.conf"
	refreshFile = "/usr/lib/evalhost/firewall-refresh.sh"
)

// outside is everything else there is: a Server, a stranger, name servers and clocks, behind one cable.
type outside struct {
	*network
	listeners map[string]*listener // by protocol and address
}

const (
	here       = "192.0.2.1"
	server     = "192.0.2.100"
	stranger   = "192.0.2.101"
	helper     = "192.0.2.53" // answers names and tells the time
	server6    = "[2001:db8::100]"
	farAway    = "198.51.100.1" // behind this host, as if it were a router
	inboundTCP = here + ":8000"
)

// newOutside connects this host to another network, with the rules still in place.
func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{newNetwork(t), map[string]*listener{}}
	run(t, "ip", "link", "add", "name", "eh-out", "type", "veth", "peer", "name", "eh-in", "netns", fmt.Sprint(o.tid))
	t.Cleanup(func() { run(t, "ip", "link", "delete", "eh-out") })
	for _, address := range []string{server, stranger, helper} {
		o.run("ip", "address", "add", address+"/24", "dev", "eh-in")
	}
	o.run("ip", "address", "add", "2001:db8::100/64", "dev", "eh-in", "nodad")
	o.run("ip", "link", "set", "eh-in", "up")
	run(t, "ip", "address", "add", here+"/24", "dev", "eh-out")
	run(t, "ip", "address", "add", "2001:db8::1/64", "dev", "eh-out", "nodad")
	run(t, "ip", "link", "set", "eh-out", "up")
	for _, l := range []string{
		"tcp " + server + ":8443", "tcp " + server + ":22", "tcp " + stranger + ":8443", "tcp " + helper + ":53", "udp " + helper + ":53",
		"udp " + helper + ":123", "udp " + stranger + ":53", "udp " + stranger + ":123", "tcp " + server6 + ":8443", "tcp " + server6 + ":22",
	} {
		protocol, address, _ := strings.Cut(l, " ")
		o.listeners[l] = o.listen(protocol, address)
	}
	return o
}

// wants asks for everything outside and compares with those that must answer.
func (o *outside) wants(when string, open ...string) {
	o.t.Helper()
	want := map[string]bool{}
	for _, l := range open {
		if o.listeners[l] == nil {
			o.t.Fatalf("nobody listens at %s", l)
		}
		want[l] = true
	}
	for l := range o.listeners {
		protocol, address, _ := strings.Cut(l, " ")
		if err := reach(protocol, address); (err == nil) != want[l] {
			o.t.Errorf("%s: %s is reached: %v (%v), want %v", when, l, err == nil, err, want[l])
		}
	}
}

func (o *outside) all() []string {
	var all []string
	for l := range o.listeners {
		all = append(all, l)
	}
	return all
}

// The rules are the file of nixos/host that every host loads, and what they let through is asked with packets, in
// both directions, from both sides, with and without them.
func nothingLeavesButToTheServerAndNothingEnters(t *testing.T) {
	if !inGuest() {
		t.Skip("NOT RUN: this host has other places for the rules; its own check of the network shows the same")
	}
	if state := strings.TrimSpace(run(t, "systemctl", "is-active", "nftables.service")); state != "active" {
		t.Errorf("the rules were not loaded at boot: nftables.service is %s", state)
	}
	if tables := strings.TrimSpace(run(t, "nft", "list", "tables")); tables != "table inet evalhost" {
		t.Errorf("the kernel has other tables than ours, and what they accept we cannot know: %q", tables)
	}
	if policies := strings.Count(run(t, "nft", "list", "table", "inet", "evalhost"), "policy drop"); policies != 3 {
		t.Errorf("%d chains drop what they do not know, want 3", policies)
	}
	o := newOutside(t)
	inbound := listen(t, "tcp", "0.0.0.0:8000")
	t.Cleanup(func() { run(t, "nft", "-f", rulesFile) })

	o.wants("as booted")
	if err := reach("tcp", "127.0.0.1:8000"); err != nil {
		t.Errorf("loopback: %v", err)
	}
	before := inbound.count.Load()
	if err := o.reach("tcp", inboundTCP); err == nil || inbound.count.Load() != before {
		t.Errorf("from outside, this host is reached: %v", err)
	}

	// The other half of the proof: without the rules everything answers, so that it was they that refused.
	run(t, "nft", "delete", "table", "inet", "evalhost")
	o.wants("without the rules", o.all()...)
	if err := o.reach("tcp", inboundTCP); err != nil {
		t.Errorf("without the rules, from outside: %v", err)
	}
	run(t, "nft", "-f", rulesFile)
	o.wants("loaded again")

	// What a look-up finds is let out to, and nothing else. What is there already is prolonged.
	found := writeFile(t, "egress", "server "+server+" 8443\nserver 2001:db8::100 8443\nresolver "+helper+" 53\ntime "+helper+" 123\n")
	for range 2 {
		run(t, "sh", refreshFile, found)
	}
	told := []string{"tcp " + server + ":8443", "tcp " + server6 + ":8443", "tcp " + helper + ":53", "udp " + helper + ":53", "udp " + helper + ":123"}
	o.wants("after a look-up", told...)
	if err := o.reach("tcp", inboundTCP); err == nil {
		t.Error("after a look-up, this host is reached from outside")
	}
	run(t, "nft", "-f", rulesFile)
	o.wants("loaded anew")
}

func noUserOfTheHostGetsOutAndDockerNeither(t *testing.T) {
	if !inGuest() {
		t.Skip("NOT RUN: see the test of the rules")
	}
	o := newOutside(t)
	t.Cleanup(func() { run(t, "nft", "-f", rulesFile) })
	// The daemon keeps a mount for the host's own network once a container had it, for as long as the host is up.
	t.Cleanup(func() { run(t, "umount", "/run/docker/netns/default") })
	asked := o.listeners["tcp "+stranger+":8443"]
	ways := map[string]func() error{
		"nobody": func() error {
			cmd := exec.Command("/bin/busybox", "nc", "-w", "3", stranger, "8443")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			return cmd.Run()
		},
		"a container on the host's own network": func() error {
			return exec.Command("docker", "run", "--rm", "--network", "host", "evalhost/test-busybox:local", "nc", "-w", "3", stranger, "8443").Run()
		},
		"the daemon, for an image": func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return exec.CommandContext(ctx, "docker", "pull", stranger+":8443/any/image").Run()
		},
	}
	for name, way := range ways {
		before := asked.count.Load()
		err := way()
		if err == nil || asked.count.Load() != before {
			t.Errorf("with the rules, %s reaches a stranger (%v)", name, err)
		}
	}
	run(t, "nft", "delete", "table", "inet", "evalhost")
	for name, way := range ways {
		before := asked.count.Load()
		_ = way()
		if asked.count.Load() == before {
			t.Errorf("without the rules, %s does not reach a stranger either: this test shows nothing", name)
		}
	}
}

func theHostIsNoWayThrough(t *testing.T) {
	if !inGuest() {
		t.Skip("NOT RUN: see the test of the rules")
	}
	o := newOutside(t)
	t.Cleanup(func() { run(t, "nft", "-f", rulesFile) })
	forwarding := "/proc/sys/net/ipv4/ip_forward"
	was, err := os.ReadFile(forwarding)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(forwarding, was, 0o644); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(forwarding, []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	far := newNetwork(t)
	run(t, "ip", "link", "add", "name", "eh-far", "type", "veth", "peer", "name", "eh-in", "netns", fmt.Sprint(far.tid))
	t.Cleanup(func() { run(t, "ip", "link", "delete", "eh-far") })
	run(t, "ip", "address", "add", "198.51.100.2/24", "dev", "eh-far")
	run(t, "ip", "link", "set", "eh-far", "up")
	far.run("ip", "address", "add", farAway+"/24", "dev", "eh-in")
	far.run("ip", "link", "set", "eh-in", "up")
	far.run("ip", "route", "add", "default", "via", "198.51.100.2")
	o.run("ip", "route", "add", "default", "via", here)
	far.listen("tcp", farAway+":80")
	if err := o.reach("tcp", farAway+":80"); err == nil {
		t.Error("with the rules, this host forwards")
	}
	run(t, "nft", "delete", "table", "inet", "evalhost")
	if err := o.reach("tcp", farAway+":80"); err != nil {
		t.Errorf("without the rules it does not either (%v): this test shows nothing", err)
	}
}
