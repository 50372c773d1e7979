package nix

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// host is what is looked at of an evaluated configuration.
type host struct {
	Toplevel      string
	Platform      string // the machine it is for, as the configuration itself says
	Daemon        map[string]any
	Environment   map[string]string
	Rules, Names  string
	Units         map[string]string
	Files         map[string]string // below /etc, by name: the store path of the content
	Wanted        []string
	KernelParams  []string
	Packages      []string // what units come from, by name
	Root          string
	FileSystems   map[string][]string // type and options, by where they are mounted
	Shm, Run      string              // how large the host's own file systems in memory may grow
	Installed     map[string]string   // the commands that install a plain file, by package
	Nix, Switch   bool
	BeforeSystemd string // what the machine does before its first service
	Wrappers      []string
	Ssh, Resolved bool
	Firewall      bool
	Logins        map[string]bool
	Warnings      []string
}

const look = `configurations: builtins.mapAttrs (name: host: let c = host.config; in {
  Toplevel = c.system.build.toplevel.drvPath;
  Platform = if host.options.nixpkgs.hostPlatform.isDefined then c.nixpkgs.hostPlatform.system else "none";
  Daemon = c.virtualisation.docker.daemon.settings;
  Environment = c.services.evalhost.environment;
  Rules = c.networking.nftables.ruleset;
  Names = c.services.evalhost.egress.names;
  Units = builtins.mapAttrs (_: unit: unit.text) (host.lib.filterAttrs (name: unit:
    host.lib.hasPrefix "evalhost" name || host.lib.hasPrefix "var-lib-evalhost" name) c.systemd.units);
  Files = builtins.mapAttrs (_: file: toString file.source) (host.lib.filterAttrs (name: _:
    host.lib.hasPrefix "evalhost/" name || name == "sysctl.d/90-evalhost.conf" || name == "modprobe.d/90-evalhost.conf" || name == "resolv.conf") c.environment.etc);
  Wanted = c.systemd.targets.multi-user.wants;
  KernelParams = c.boot.kernelParams;
  Packages = map (package: package.name) (c.systemd.packages ++ c.systemd.tmpfiles.packages);
  Root = c.fileSystems."/".fsType;
  FileSystems = builtins.mapAttrs (_: fs: [ fs.fsType ] ++ fs.options) c.fileSystems;
  Shm = c.boot.devShmSize;
  Run = c.boot.runSize;
  Installed = builtins.listToAttrs (map (package: { inherit (package) name; value = package.buildCommand; })
    (builtins.filter (package: host.lib.hasPrefix "evalhost-" package.name) (c.systemd.packages ++ c.systemd.tmpfiles.packages)));
  Nix = c.nix.enable;
  BeforeSystemd = c.boot.postBootCommands;
  Switch = c.system.switch.enable;
  Wrappers = builtins.attrNames c.security.wrappers;
  Ssh = c.services.openssh.enable;
  Resolved = c.services.resolved.enable;
  Firewall = c.networking.firewall.enable;
  Logins = host.lib.genAttrs [ "getty@" "serial-getty@" "autovt@" ] (name: c.systemd.services.${name}.enable);
  Warnings = c.warnings;
}) configurations`

var storeHash = regexp.MustCompile(`/[^\s"]*/store/[0-9a-z]{32}-`)

// golden compares a text with a file of testdata. Where things lie in the store depends on everything; that is left out.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got = storeHash.ReplaceAllString(got, "/nix/store/")
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update writes it anew):\n%s", file, diff)
	}
}

func TestEveryConfigurationEvaluates(t *testing.T) {
	tools(t)
	dir := copyTree(t)
	var hosts map[string]host
	evaluate(t, dir, "nixosConfigurations", look, &hosts)
	if diff := cmp.Diff([]string{"example-bare-metal", "example-vm", "iso"}, slices.Sorted(maps.Keys(hosts))); diff != "" {
		t.Fatalf("configurations (-want +got):\n%s", diff)
	}

	for name, host := range hosts {
		t.Run(name, func(t *testing.T) {
			if !strings.HasSuffix(host.Toplevel, ".drv") {
				t.Errorf("no system: %q", host.Toplevel)
			}
			// The stand-in gives every host its packages; nixpkgs makes them for what the host names, and refuses one that names nothing.
			if host.Platform != "x86_64-linux" {
				t.Errorf("nixpkgs.hostPlatform is %s", host.Platform)
			}
			if len(host.Warnings) > 0 {
				t.Errorf("warnings: %s", host.Warnings)
			}
			// Nothing survives, nobody gets in.
			// A machine with a disk is installed, and changed from its maintenance entry, with a program of the new system.
			if host.Switch != (name == "example-bare-metal") {
				t.Errorf("switching to another configuration: %v", host.Switch)
			}
			if host.Root != "tmpfs" || host.Nix || host.Ssh || host.Resolved || host.Firewall || len(host.Wrappers) > 0 {
				t.Errorf("not immutable: %+v", host)
			}
			// A module that expects Nix to be there says so here.
			if host.BeforeSystemd != "" {
				t.Errorf("before its first service the machine does: %s", host.BeforeSystemd)
			}
			for login, on := range host.Logins {
				if on {
					t.Errorf("%s is on", login)
				}
			}
			if host.Shm != "64m" || host.Run != "10%" {
				t.Errorf("/dev/shm may take %s of the memory and /run %s", host.Shm, host.Run)
			}
			for _, parameter := range []string{"psi=1", "nosmt", "systemd.swap=0", "transparent_hugepage=madvise"} {
				if !slices.Contains(host.KernelParams, parameter) {
					t.Errorf("the kernel is not told %s: %s", parameter, host.KernelParams)
				}
			}
			mounts, err := json.MarshalIndent(host.FileSystems, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimPrefix(name, "example-")+"/filesystems.json", string(mounts)+"\n")
			checkInstalled(t, dir, host.Installed)
			checkDaemon(t, dir, host.Daemon)
			checkFiles(t, dir, host.Files)
			checkDaemonIs(t, daemonPresent(t, dir), host)
		})
	}

	for unit, text := range hosts["example-bare-metal"].Units {
		golden(t, "bare-metal/"+strings.ReplaceAll(unit, `\x2d`, "-"), text)
	}
	golden(t, "iso/evalhost-boot-config.service", hosts["iso"].Units["evalhost-boot-config.service"])
	golden(t, "bare-metal/egress.nft", hosts["example-bare-metal"].Rules)
	golden(t, "vm/egress.nft", hosts["example-vm"].Rules)
	golden(t, "vm/egress", hosts["example-vm"].Names)
	if hosts["example-bare-metal"].Names != "" {
		t.Errorf("names to look up, although every address is given: %s", hosts["example-bare-metal"].Names)
	}
	environment, err := json.MarshalIndent(hosts["example-bare-metal"].Environment, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "bare-metal/environment.json", string(environment)+"\n")
	if slice := hosts["example-bare-metal"].Units["evalhost.slice"]; !strings.Contains(slice, "AllowedCPUs=2-9") {
		t.Errorf("the slice does not have the processors that were named: %s", slice)
	}
	if _, named := hosts["iso"].Environment["AJ_Server__BaseUrl"]; named {
		t.Error("the ISO is built for one Server")
	}
}

// A host in memory has its root from its profile, from the module or, on a medium, from NixOS's own: the bound is the option's in each.
func TestTheRootInMemoryIsAsLargeAsTheOptionSays(t *testing.T) {
	tools(t)
	var options map[string][]string
	evaluate(t, copyTree(t), "nixosConfigurations", `builtins.mapAttrs (_: host: (host.extendModules {
	  modules = [ { services.evalhost.scratch.memory = "7G"; } ];
	}).config.fileSystems."/".options)`, &options)
	for name, got := range options {
		if diff := cmp.Diff([]string{"x-initrd.mount", "mode=0755", "size=7G"}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if len(options) < 3 {
		t.Errorf("only %d configurations", len(options))
	}
}

// The entry that a host is changed from may write to its store and to its boot partition, which the ordinary one may not.
func TestTheMaintenanceEntryMayWriteWhereTheOtherMayNot(t *testing.T) {
	tools(t)
	var options map[string][]string
	evaluate(t, copyTree(t), "nixosConfigurations.example-bare-metal",
		`host: builtins.mapAttrs (_: fs: fs.options) host.config.specialisation.maintenance.configuration.fileSystems`, &options)
	if diff := cmp.Diff(map[string][]string{
		"/":     {"x-initrd.mount", "mode=0755", "size=50%"},
		"/boot": {"umask=0077"},
		"/nix":  {"x-initrd.mount", "noatime"},
	}, options); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestEveryOptionReachesTheDaemon: what the module writes when everything is set. The daemon's reader of settings is held
// against both environments (services/internal/config), since the programs cannot be run while nothing is built.
func TestEveryOptionReachesTheDaemon(t *testing.T) {
	tools(t)
	var environment map[string]string
	evaluate(t, copyTree(t), "nixosConfigurations.example-bare-metal", `host: (host.extendModules { modules = [ ({ lib, ... }: {
	  services.evalhost = {
	    name = "hall 2, \"left\"";
	    server.caFile = "/etc/evalhost/ca.pem";
	    server.proxy = "http://proxy.example.org:3128";
	    languages = [ "cpp" "python3" ];
	    metrics.enable = true;
	    logLevel = "debug";
	    cache.path = "/var/lib/evalhost/packages";
	    cache.maxBytes = 2 * 1024 * 1024 * 1024;
	    settings = { AJ_Poll__WaitSeconds = 50; AJ_Sandbox__AllowUnmeasured = false; };
	  };
	}) ]; }).config.services.evalhost.environment`, &environment)
	text, err := json.MarshalIndent(environment, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "everything/environment.json", string(text)+"\n")
}

// TestAFileOfWhoeverDeclaresTheHostComesAlong: a path in a declaration is one of the machine that evaluates it. The host has the
// file only if what names it depends on it.
func TestAFileOfWhoeverDeclaresTheHostComesAlong(t *testing.T) {
	tools(t)
	dir := copyTree(t)
	for name, content := range map[string]string{"judge-ca.pem": "certificates\n", "judge-images.json": "{}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var got struct {
		Authority, Manifest, Etc string
		Needs, Loads             []string
	}
	evaluate(t, dir, "nixosConfigurations.example-vm", `host: let
	  c = (host.extendModules { modules = [ { services.evalhost = {
	    server.caFile = /. + "`+dir+`/judge-ca.pem";
	    images.manifest = /. + "`+dir+`/judge-images.json";
	  }; } ]; }).config;
	  needs = text: builtins.attrNames (builtins.getContext text);
	in {
	  Authority = c.services.evalhost.environment.EVALHOST_CA_FILE;
	  Needs = needs c.services.evalhost.environment.EVALHOST_CA_FILE;
	  Manifest = c.systemd.services.evalhost-images.serviceConfig.ExecStart;
	  Loads = needs c.systemd.services.evalhost-images.serviceConfig.ExecStart;
	  Etc = toString c.environment.etc."evalhost/images.json".source;
	}`, &got)
	if len(got.Needs) != 1 || !strings.HasSuffix(got.Authority, "-judge-ca.pem") || got.Needs[0] != got.Authority {
		t.Errorf("the host is told %s, and needs %q", got.Authority, got.Needs)
	}
	if !slices.ContainsFunc(got.Loads, func(path string) bool { return strings.HasSuffix(path, "-judge-images.json") }) ||
		!strings.Contains(got.Manifest, "-judge-images.json") {
		t.Errorf("the images are compared with %s, of which the host needs %q", got.Manifest, got.Loads)
	}
	if !strings.HasSuffix(got.Etc, "judge-images.json") {
		t.Errorf("/etc/evalhost/images.json is %s", got.Etc)
	}
}

// checkDaemon compares with the file that every other host uses, after the three additions NixOS and the module make.
func checkDaemon(t *testing.T, dir string, got map[string]any) {
	t.Helper()
	var want map[string]any
	if err := json.Unmarshal([]byte(read(t, dir, "nixos/host/daemon.json")), &want); err != nil {
		t.Fatal(err)
	}
	want["group"] = "docker"
	want["hosts"] = []any{"fd://"}
	want["data-root"] = "/var/lib/evalhost/docker"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("daemon.json (-file +NixOS):\n%s", diff)
	}
}

// checkInstalled: what comes to systemd in a package is a file of nixos/host, byte for byte, under its own name.
func checkInstalled(t *testing.T, dir string, commands map[string]string) {
	t.Helper()
	for name, file := range map[string][2]string{
		"evalhost-slice":       {"evalhost.slice", "lib/systemd/system/evalhost.slice"},
		"evalhost-tmpfiles":    {"tmpfiles.conf", "lib/tmpfiles.d/evalhost.conf"},
		"evalhost-runner-unit": {"evalhost-runner.service", "lib/systemd/system/evalhost-runner.service"},
	} {
		if name == "evalhost-runner-unit" && !daemonPresent(t, dir) {
			continue
		}
		match := regexp.MustCompile(`^install -D -m 0444 (\S+) "\$out/(\S+)"\n$`).FindStringSubmatch(commands[name])
		if match == nil {
			t.Errorf("%s is made by %q", name, commands[name])
			continue
		}
		content, err := os.ReadFile(match[1])
		if err != nil {
			t.Errorf("%s installs a file that cannot be read: %v", name, err)
		}
		if string(content) != read(t, dir, "nixos/host/"+file[0]) || match[2] != file[1] {
			t.Errorf("%s installs another file than nixos/host/%s, or installs it as %s", name, file[0], match[2])
		}
	}
}

// checkFiles: what lies below /etc as a file of nixos/host is that file.
func checkFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for etc, file := range map[string]string{"sysctl.d/90-evalhost.conf": "sysctl.conf", "modprobe.d/90-evalhost.conf": "modprobe.conf"} {
		if source := files[etc]; !strings.HasSuffix(source, "nixos/host/"+file) && !strings.HasSuffix(source, "-"+file) {
			t.Errorf("%s is %q", etc, source)
		} else if content, err := os.ReadFile(source); err == nil && string(content) != read(t, dir, "nixos/host/"+file) {
			t.Errorf("%s is not nixos/host/%s", source, file)
		}
	}
	if !strings.HasSuffix(files["evalhost/images.json"], "-evalhost-images.json") {
		t.Errorf("the manifest is %s", files["evalhost/images.json"])
	}
	for _, name := range []string{"evalhost/runner.env", "evalhost/egress", "resolv.conf"} {
		if files[name] == "" {
			t.Errorf("/etc/%s is missing", name)
		}
	}
}

// TestTheDaemonJoinsWhenItsUnitAndItsProgramAreThere evaluates the tree the other way round than it stands: without the
// daemon where it has one, with a daemon where it has none. The way it stands is evaluated above.
func TestTheDaemonJoinsWhenItsUnitAndItsProgramAreThere(t *testing.T) {
	tools(t)
	dir := copyTree(t)
	stands := daemonPresent(t, dir)
	for name, content := range map[string]string{
		daemonUnit:    "[Service]\nExecStart=/usr/lib/evalhost/evalhost-runner\n",
		daemonProgram: "package main\n\nfunc main() {}\n",
	} {
		file := filepath.Join(dir, name)
		if stands {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var hosts map[string]host
	evaluate(t, dir, "nixosConfigurations",
		"configurations: ("+look+") { inherit (configurations) example-vm; }", &hosts)
	checkDaemonIs(t, !stands, hosts["example-vm"])
}

const daemonUnit, daemonProgram = "nixos/host/evalhost-runner.service", "services/runner/main.go"

// daemonPresent says whether a tree has both the unit and the program; one alone is not enough to run it.
func daemonPresent(t *testing.T, dir string) bool {
	t.Helper()
	for _, name := range []string{daemonUnit, daemonProgram} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

func checkDaemonIs(t *testing.T, present bool, got host) {
	t.Helper()
	if slices.Contains(got.Packages, "evalhost-runner-unit") != present || slices.Contains(got.Wanted, "evalhost-runner.service") != present {
		t.Errorf("present %v: units from %s, wanted at boot %s", present, got.Packages, got.Wanted)
	}
	if !strings.Contains(got.Units["evalhost-images.service"], "Before=evalhost-runner.service") {
		t.Error("the daemon does not wait for the images")
	}
	if _, dropIn := got.Units["evalhost-runner.service"]; dropIn {
		t.Error("NixOS adds to the unit, so it is not the file any more")
	}
}

func TestEveryOutputEvaluates(t *testing.T) {
	tools(t)
	dir := copyTree(t)
	for attribute, atLeast := range map[string][]string{
		"packages.x86_64-linux": {
			"evalhost", "shim", "runner", "refserver", "suites", "option-reference", "image-gcc", "image-clang", "image-cpython", "image-pypy", "image-manifest", "host-image", "iso", "default",
		},
		"checks.x86_64-linux": {
			"vm-host-contract", "vm-host-contract-cgroupfs", "vm-immutable", "vm-egress", "vm-images", "vm-lanes-1", "vm-lanes-2",
			"vm-scratch", "vm-suite-shim", "vm-suite-shim-cgroupfs", "vm-suite-judging", "vm-suite-adversarial", "vm-suite-protocol", "vm-iso-bios", "vm-iso-uefi", "vm-host-image",
			"vm-end-to-end", "vm-end-to-end-lanes-2",
			"formatted", "option-reference", "evaluates-iso", "evaluates-example-vm", "evaluates-example-bare-metal",
		},
		"devShells.x86_64-linux": {"default"},
		"formatter":              {"x86_64-linux"},
	} {
		var derivations map[string]string
		evaluate(t, dir, attribute, "builtins.mapAttrs (_: d: d.drvPath)", &derivations)
		for _, name := range atLeast {
			if !strings.HasSuffix(derivations[name], ".drv") {
				t.Errorf("%s.%s is %q", attribute, name, derivations[name])
			}
		}
	}
	// The driver of a VM check refuses a script that is no Python, and that is known here already.
	t.Run("scripts", func(t *testing.T) {
		needs(t, "python3")
		var scripts map[string]vmScript
		evaluate(t, dir, "checks.x86_64-linux", `checks: builtins.mapAttrs (_: check: { text = check.driver.testScript; machines = builtins.attrNames check.nodes; })
		  (builtins.listToAttrs (builtins.filter ({ value, ... }: value ? driver)
		    (builtins.map (name: { inherit name; value = checks.${name}; }) (builtins.attrNames checks))))`, &scripts)
		if len(scripts) < 10 {
			t.Fatalf("only %d scripts: %v", len(scripts), slices.Sorted(maps.Keys(scripts)))
		}
		for name, script := range scripts {
			parse := exec.Command("python3", "-c", "import ast, sys; ast.parse(sys.stdin.read())")
			parse.Stdin = strings.NewReader(script.Text)
			if out, err := parse.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s\n%s", name, err, out, script.Text)
			}
		}
		t.Run("types and names", func(t *testing.T) { asTheDriverChecks(t, scripts) })
	})
	var apps map[string]struct{ Type, Program string }
	evaluate(t, dir, "apps.x86_64-linux", "builtins.mapAttrs (_: a: { inherit (a) type program; })", &apps)
	for name, program := range map[string]string{
		"default": "/bin/evalhost", "demo": "/bin/evalhost-demo", "load-images": "/bin/evalhost-load", "refserver": "/bin/refserver",
	} {
		if app := apps[name]; app.Type != "app" || !strings.HasSuffix(app.Program, program) {
			t.Errorf("the app %s is %+v, and starts no %s", name, app, program)
		}
	}
}

// TestImagesAreMadeOfTheTable: names and tags come from toolchains.json, dates are fixed, and no image says what it runs.
func TestImagesAreMadeOfTheTable(t *testing.T) {
	tools(t)
	var table struct {
		Images []struct{ Key, Reference string }
	}
	if err := json.Unmarshal([]byte(read(t, root, "langimages/toolchains.json")), &table); err != nil {
		t.Fatal(err)
	}
	type recorded struct {
		Name, Tag, Created, Compressor string
		FakeRootCommands               string
		Files                          []string // small ones, by their content
		Config                         map[string]any
	}
	var got map[string]recorded
	evaluate(t, copyTree(t), "packages.x86_64-linux", `packages: builtins.mapAttrs (_: image:
	  { inherit (image.recorded) name tag created compressor fakeRootCommands config;
	    Files = builtins.filter (text: text != null) (map (c: c.text or null) image.recorded.contents); }) {
	    inherit (packages) image-gcc image-clang image-cpython image-pypy; }`, &got)
	// A program must not be able to tell one host from another, and Python buffers what it prints unless it is told (judging 3.6).
	environments := map[string][]any{
		"gcc": {"PATH=/bin"}, "clang": {"PATH=/bin"},
		"cpython": {"PATH=/bin", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"},
		"pypy":    {"PATH=/bin", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"},
	}
	// Whose home is where is told by HOME: as in the images made of Debian packages.
	names := []string{
		"root:x:0:0:root:/root:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"root:x:0:\nnogroup:x:65534:\n",
	}
	for _, text := range names {
		if !strings.Contains(read(t, root, "langimages/build/rootfs.sh"), "<<EOF\n"+text+"EOF\n") {
			t.Errorf("langimages/build/rootfs.sh writes no file that is %q", text)
		}
	}
	want := map[string]recorded{}
	for _, image := range table.Images {
		name, tag, _ := strings.Cut(image.Reference, ":")
		want["image-"+image.Key] = recorded{
			Name: strings.ReplaceAll(name, "/", "-"), Tag: tag, Created: "1970-01-01T00:00:01Z", Compressor: "none",
			// Builds run as nobody, without a power, and leave what they build there.
			FakeRootCommands: "chown 65534:65534 out\n",
			Files:            names,
			Config:           map[string]any{"Env": environments[image.Key], "WorkingDir": "/"},
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}
