package nix

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// helper names what a copy of this test binary does in a network namespace instead of testing.
const helper = "EVALHOST_NIX_TEST_HELPER"

func TestMain(m *testing.M) {
	switch job, arguments, _ := strings.Cut(os.Getenv(helper), " "); job {
	case "":
		os.Exit(m.Run())
	case "listen":
		os.Exit(listen(strings.Fields(arguments)))
	case "reach":
		os.Exit(reach(strings.Fields(arguments)))
	default:
		os.Exit(2)
	}
}

// listen answers on addresses for as long as standard input is open, after saying that it does.
func listen(addresses []string) int {
	for _, address := range addresses {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				conn.Close()
			}
		}()
	}
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return 0
}

// reach says of each address whether it could be connected to.
func reach(addresses []string) int {
	for _, address := range addresses {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			conn.Close()
		}
		fmt.Printf("%s %v\n", address, err == nil)
	}
	return 0
}

// namespaces are two machines in one: the host, with the rules, and all others.
type namespaces struct {
	t            *testing.T
	host, others string
}

func (n namespaces) in(namespace string, env []string, command ...string) *exec.Cmd {
	cmd := exec.Command("ip", append([]string{"netns", "exec", namespace}, command...)...)
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

func (n namespaces) run(namespace string, command ...string) string {
	n.t.Helper()
	out, err := n.in(namespace, nil, command...).CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s in %s: %v\n%s", command, namespace, err, out)
	}
	return string(out)
}

// listen answers on addresses of a namespace until the test ends.
func (n namespaces) listen(namespace string, addresses ...string) {
	n.t.Helper()
	cmd := n.in(namespace, []string{helper + "=listen " + strings.Join(addresses, " ")}, "/proc/self/exe")
	self, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	cmd.Args[len(cmd.Args)-1] = self
	stdin, err := cmd.StdinPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		stdin.Close()
		var ended *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &ended) {
			n.t.Error(err)
		}
	})
	said := make([]byte, 200)
	length, err := stdout.Read(said)
	if text := string(said[:length]); err != nil || text != "ready\n" {
		n.t.Fatalf("listen on %s: %v %s", addresses, err, text)
	}
}

// reached asks from a namespace for addresses and compares with what is wanted of each.
func (n namespaces) reached(when, namespace string, want map[string]bool) {
	n.t.Helper()
	self, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	var addresses []string
	for address := range want {
		addresses = append(addresses, address)
	}
	out, err := n.in(namespace, []string{helper + "=reach " + strings.Join(addresses, " ")}, self).CombinedOutput()
	if err != nil {
		n.t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		address, answer, _ := strings.Cut(strings.TrimSpace(line), " ")
		if got := answer == "true"; got != want[address] {
			n.t.Errorf("%s: %s reached from %s: %v, want %v", when, address, namespace, got, want[address])
		}
	}
}

func twoMachines(t *testing.T) namespaces {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("NOT RUN: network namespaces need root")
	}
	needs(t, "ip", "nft")
	n := namespaces{t, fmt.Sprintf("evalhost-h%d", os.Getpid()), fmt.Sprintf("evalhost-o%d", os.Getpid())}
	for _, name := range []string{n.host, n.others} {
		if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
			t.Skipf("NOT RUN: this machine makes no network namespaces: %v %s", err, out)
		}
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", name).Run() })
	}
	n.run(n.host, "ip", "link", "add", "name", "out", "type", "veth", "peer", "name", "in", "netns", n.others)
	for _, side := range []struct{ namespace, link, addresses string }{
		{n.host, "out", "192.0.2.1/24 2001:db8::1/64"},
		{n.others, "in", "192.0.2.100/24 192.0.2.101/24 2001:db8::100/64"},
	} {
		n.run(side.namespace, "ip", "link", "set", "lo", "up")
		for _, address := range strings.Fields(side.addresses) {
			command := []string{"ip", "address", "add", address, "dev", side.link}
			if strings.Contains(address, ":") {
				command = append(command, "nodad")
			}
			n.run(side.namespace, command...)
		}
		n.run(side.namespace, "ip", "link", "set", side.link, "up")
	}
	return n
}

// TestNothingLeavesButToTheServerAndNothingEnters loads the host's own rules into the kernel.
func TestNothingLeavesButToTheServerAndNothingEnters(t *testing.T) {
	n := twoMachines(t)
	n.listen(n.others, "192.0.2.100:8080", "192.0.2.100:9090", "192.0.2.101:8080", "[2001:db8::100]:8443")
	n.listen(n.host, "0.0.0.0:8000")
	n.reached("without rules", n.host, map[string]bool{
		"192.0.2.100:8080": true, "192.0.2.100:9090": true, "192.0.2.101:8080": true, "[2001:db8::100]:8443": true,
	})
	n.reached("without rules", n.others, map[string]bool{"192.0.2.1:8000": true})

	text := read(t, root, "nixos/host/firewall.nft.in")
	text = strings.ReplaceAll(text, "\n@INBOUND@\n", "\n")
	text = strings.ReplaceAll(text, "\n@ELEMENTS@\n", "\nadd element inet evalhost server4 { 192.0.2.100 . 8080 }\n")
	rules := write(t, text)
	first := map[string]bool{
		"192.0.2.100:8080": true, "192.0.2.100:9090": false, "192.0.2.101:8080": false, "[2001:db8::100]:8443": false,
		"127.0.0.1:8000": true,
	}
	n.run(n.host, "nft", "-f", rules)
	n.reached("with the rules", n.host, first)
	n.reached("with the rules", n.others, map[string]bool{"192.0.2.1:8000": false})

	refresh, err := filepath.Abs(filepath.Join(root, "nixos/host/firewall-refresh.sh"))
	if err != nil {
		t.Fatal(err)
	}
	found := write(t, "server 192.0.2.101 8080\nserver 2001:db8::100 8443\n")
	for range 2 { // what is there already is prolonged
		n.run(n.host, "sh", refresh, found)
	}
	n.reached("after a look-up", n.host, map[string]bool{
		"192.0.2.100:8080": true, "192.0.2.100:9090": false, "192.0.2.101:8080": true, "[2001:db8::100]:8443": true,
	})

	n.run(n.host, "nft", "-f", rules)
	n.reached("loaded anew", n.host, first)
}
