package nix

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// refusals are configurations that would not judge right. Each must fail with a message that names the option and the
// cure; says are pieces of it.
var refusals = map[string]struct {
	module string
	says   []string
}{
	"another machine": {
		`{ _module.args.pkgs = lib.mkForce (pkgs // { stdenv = pkgs.stdenv // { hostPlatform = pkgs.stdenv.hostPlatform // { system = "aarch64-linux"; }; }; }); }`,
		[]string{"aarch64-linux", `nixpkgs.hostPlatform = "x86_64-linux"`},
	},
	"no Server": {
		`{ services.evalhost.server.url = lib.mkForce null; }`,
		[]string{"services.evalhost.server.url", "https://judge.example.org/api/v1"},
	},
	"a Server without an interface": {
		`{ services.evalhost.server.url = lib.mkForce "https://judge.example.org/"; }`,
		[]string{"services.evalhost.server.url", "/api/"},
	},
	"a proxy that is none": {
		`{ services.evalhost.server.proxy = "proxy.example.org"; }`,
		[]string{"services.evalhost.server.proxy", "http://proxy.example.org:3128"},
	},
	"the old cgroup hierarchy": {
		`{ boot.kernelParams = [ "systemd.unified_cgroup_hierarchy=0" ]; }`,
		[]string{"boot.kernelParams", "systemd.unified_cgroup_hierarchy=0", "Take it out"},
	},
	"a controller turned off": {
		`{ boot.kernelParams = [ "cgroup_disable=memory" ]; }`,
		[]string{"boot.kernelParams", "cgroup_disable=memory", "Take it out"},
	},
	"everything else a kernel can be told wrong": {
		`{ boot.kernelParams = [ "systemd.legacy_systemd_cgroup_controller" "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1" "psi=0" "seccomp=0" "zswap.enabled=1" ]; }`,
		[]string{"systemd.legacy_systemd_cgroup_controller", "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1", "psi=0", "seccomp=0", "zswap.enabled=1", "Take it out"},
	},
	"another setting of Docker": {
		`{ virtualisation.docker.daemon.settings.seccomp-profile = "unconfined"; }`,
		[]string{"virtualisation.docker.daemon.settings", "seccomp-profile", "Take it out"},
	},
	"another value of a setting of Docker": {
		`{ virtualisation.docker.daemon.settings.live-restore = lib.mkForce true; }`,
		[]string{"virtualisation.docker.daemon.settings", "live-restore", "Take it out"},
	},
	"an option on Docker's command line": {
		`{ virtualisation.docker.extraOptions = "--iptables=true"; }`,
		[]string{"virtualisation.docker.extraOptions", "--iptables=true", `Set it to ""`},
	},
	"Docker on a port": {
		`{ virtualisation.docker.listenOptions = [ "/run/docker.sock" "0.0.0.0:2375" ]; }`,
		[]string{"virtualisation.docker.listenOptions", "0.0.0.0:2375", "Name paths only"},
	},
	"somebody with a home": {
		`{ users.users.bob.isNormalUser = true; }`,
		[]string{"users.users", "bob", "Take them out"},
	},
	"a root file system that stays": {
		`{ fileSystems."/" = { device = lib.mkForce "/dev/sda1"; fsType = lib.mkForce "ext4"; options = lib.mkForce [ ]; }; }`,
		[]string{`fileSystems`, "ext4", `Leave "/" to the module`},
	},
	"swap": {
		`{ swapDevices = [ { device = "/dev/sda2"; } ]; }`,
		[]string{"swapDevices", "Set it to [ ]"},
	},
	"compressed swap": {
		`{ zramSwap.enable = true; }`,
		[]string{"zramSwap.enable", "Set it to false"},
	},
	"a program for every crash": {
		`{ systemd.coredump.enable = true; }`,
		[]string{"systemd.coredump.enable", "Set it to false"},
	},
	"an old kernel": {
		`{ boot.kernelPackages = pkgs.linuxPackages; }`,
		[]string{"boot.kernelPackages", "6.12"},
	},
	"more lanes than processors": {
		`{ services.evalhost = { lanes = 3; processors = "2-3"; }; }`,
		[]string{"services.evalhost.lanes", "services.evalhost.processors", "fewer lanes"},
	},
	"a key beside the device meant for it": {
		`{ services.evalhost.identity = { device = "/dev/vdz"; keyFile = "/var/lib/evalhost/identity.key"; }; }`,
		[]string{"services.evalhost.identity.keyFile", "at its default"},
	},
	"somebody in Docker's group": {
		`{ users.users.alice = { isNormalUser = true; extraGroups = [ "docker" ]; }; }`,
		[]string{"alice", "users.groups", "docker"},
	},
	"a way in": {
		`{ services.openssh.enable = true; }`,
		[]string{"services.openssh.enable", "services.evalhost.allowSsh"},
	},
	"a name nobody can look up": {
		`{ services.evalhost.egress.resolvers = lib.mkForce [ ]; }`,
		[]string{"services.evalhost.egress.resolvers", "judge.example.org", "services.evalhost.server.addresses"},
	},
	"a setting that has an option": {
		`{ services.evalhost.settings.AJ_Server__BaseUrl = "https://elsewhere.example.org/api/v1"; }`,
		[]string{"services.evalhost.settings", "AJ_Server__BaseUrl", "Use that option"},
	},
	"a setting of something else": {
		`{ services.evalhost.settings.LD_PRELOAD = "/x"; }`,
		[]string{"services.evalhost.settings", "LD_PRELOAD", "Take the others out"},
	},
}

func TestABadConfigurationIsRefusedWithItsCure(t *testing.T) {
	tools(t)
	var modules strings.Builder
	names := slices.Sorted(maps.Keys(refusals))
	for _, name := range names {
		fmt.Fprintf(&modules, "%q = { lib, pkgs, ... }: %s;\n", name, refusals[name].module)
	}
	apply := `configurations: let good = configurations.example-vm;
	  failing = module: map (a: a.message) (builtins.filter (a: !a.assertion)
	    (good.extendModules { modules = [ module ]; }).config.assertions);
	in builtins.mapAttrs (_: failing) { good = { }; ` + modules.String() + "}"
	// "another machine" replaces pkgs by itself, which must not ask for itself.
	apply = strings.ReplaceAll(apply, "pkgs // { stdenv = pkgs.stdenv // { hostPlatform = pkgs.stdenv.hostPlatform //",
		"good.pkgs // { stdenv = good.pkgs.stdenv // { hostPlatform = good.pkgs.stdenv.hostPlatform //")
	dir := copyTree(t)
	var messages map[string][]string
	evaluate(t, dir, "nixosConfigurations", apply, &messages)
	if len(messages["good"]) > 0 {
		t.Errorf("a good configuration is refused: %q", messages["good"])
	}
	var fired strings.Builder
	for _, name := range names {
		for _, message := range messages[name] {
			fired.WriteString(strings.Join(strings.Fields(message), " ") + "\n")
		}
		t.Run(name, func(t *testing.T) {
			if len(messages[name]) == 0 {
				t.Fatal("accepted")
			}
			if !slices.ContainsFunc(messages[name], func(message string) bool {
				joined := strings.Join(strings.Fields(message), " ")
				return !slices.ContainsFunc(refusals[name].says, func(piece string) bool { return !strings.Contains(joined, piece) })
			}) {
				t.Errorf("no message has all of %q: %q", refusals[name].says, messages[name])
			}
		})
	}
	everyAssertionWasFired(t, fired.String())
}

// longestWords is the longest part of a message that does not depend on the configuration.
func longestWords(message string) string {
	depth, words, longest := 0, "", ""
	for _, part := range regexp.MustCompile(`\$\{|[{}]|[^${}]+|\$`).FindAllString(message, -1) {
		switch {
		case part == "${" || part == "{":
			depth++
			words = ""
		case part == "}":
			depth--
		case depth == 0:
			words = strings.Join(strings.Fields(part), " ")
			if len(words) > len(longest) {
				longest = words
			}
		}
	}
	return longest
}

// everyAssertionWasFired looks up each message of the module's source among those that bad configurations got.
func everyAssertionWasFired(t *testing.T, fired string) {
	t.Helper()
	found := 0
	for _, file := range nixFiles(t) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?s)assertion = .*?message = ''(.*?)'';`).FindAllStringSubmatch(string(content), -1) {
			found++
			if words := longestWords(match[1]); !strings.Contains(fired, words) {
				t.Errorf("%s: no bad configuration of this test is refused with %q", file, words)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d assertions were found: the pattern is wrong", found)
	}
}

// keyFileOf is a function that gives a host this key file, and returns what the host makes of it.
func keyFileOf(value string) string {
	return `configurations: (configurations.example-vm.extendModules {
	  modules = [ { services.evalhost.identity.keyFile = ` + value + `; } ]; }).config.services.evalhost.environment.AJ_Runner__KeyPath`
}

// A key in the store is refused by the type of the option, whose words are the evaluator's own.
func TestAKeyInTheStoreIsRefused(t *testing.T) {
	tools(t)
	dir := copyTree(t)
	for name, value := range map[string]string{
		"a path of the store": `"${builtins.storeDir}/abc-key"`,
		"a path of the tree":  `./key`,
		"a detour":            `"/run/..${builtins.storeDir}/abc-key"`,
		"two slashes":         `"/${builtins.storeDir}/abc-key"`,
		"a link to the store": `"/etc/evalhost/identity.key"`,
		"the system's":        `"/run/current-system/key"`,
	} {
		_, err := tryEvaluate(t, dir, "nixosConfigurations", `configurations: (configurations.example-vm.extendModules {
		  modules = [ { services.evalhost.identity.keyFile = `+strings.ReplaceAll(value, "./key", "/. + \"/key\"")+`; } ]; }).config.services.evalhost.environment`)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		words := strings.Join(strings.Fields(err.Error()), " ")
		for _, piece := range []string{"services.evalhost.identity.keyFile", "outside the Nix store", "/var/lib/evalhost/identity.key"} {
			if !strings.Contains(words, piece) {
				t.Errorf("%s: the refusal does not say %q: %s", name, piece, words)
			}
		}
	} // What only resembles one of these is somebody's own place.
	var taken string
	const own = "/etcetera/nix/store/identity.key"
	if evaluate(t, dir, "nixosConfigurations", keyFileOf(`"`+own+`"`), &taken); taken != own {
		t.Errorf("the key file %s became %s", own, taken)
	}
}
