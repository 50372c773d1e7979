package nix

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// snippet is a piece of Nix that a document tells its reader to write.
type snippet struct {
	where, text string
}

// snippets returns the pieces of Nix in a text of Markdown, indented as they may be.
func snippets(name, text string) []snippet {
	var found []snippet
	lines := strings.Split(text, "\n")
	for n := 0; n < len(lines); n++ {
		indent, isNix := strings.CutSuffix(lines[n], "```nix")
		if !isNix || strings.TrimSpace(indent) != "" {
			continue
		}
		s := snippet{where: fmt.Sprintf("%s:%d", name, n+1)}
		for n++; n < len(lines) && strings.TrimSpace(lines[n]) != "```"; n++ {
			s.text += strings.TrimPrefix(lines[n], indent) + "\n"
		}
		found = append(found, s)
	}
	return found
}

// documents returns the Nix of README.md and of docs/. The page of options is rendered, and has values instead.
func documents(t *testing.T) (flakes, modules []snippet) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." && name != "docs" && !strings.HasPrefix(name, "docs"+string(filepath.Separator)) {
			return fs.SkipDir
		}
		if entry.IsDir() || filepath.Ext(name) != ".md" || name == optionPage {
			return nil
		}
		for _, s := range snippets(name, read(t, root, name)) {
			if strings.Contains(s.text, "outputs =") {
				flakes = append(flakes, s)
			} else {
				modules = append(modules, s)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(flakes) == 0 || len(modules) == 0 {
		t.Fatalf("%d flakes and %d modules in the documents: the pattern is wrong", len(flakes), len(modules))
	}
	return flakes, modules
}

// evaluateReader evaluates a flake that somebody else writes with ours as its input.
func evaluateReader(t *testing.T, ours, text, attribute, apply string, into any) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "flake.nix"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	home := os.Getenv("NIXEVAL_HOME")
	if home == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		home = filepath.Join(user, ".cache", "nixeval")
	}
	evaluate(t, dir, attribute, apply, into,
		"--override-input", "evalhost", "path:"+ours, "--override-input", "evalhost/nixpkgs", "path:"+filepath.Join(home, "nixpkgs"))
}

// systemsOf: the stand-in for nixpkgs gives every host its packages. The real one makes them for the platform that the host
// names, and refuses a host that names none; so that is asked for here.
const systemsOf = `builtins.mapAttrs (_: host:
  if !host.options.nixpkgs.hostPlatform.isDefined then "without nixpkgs.hostPlatform"
  else if host.config.nixpkgs.hostPlatform.system != "x86_64-linux" then "for ${host.config.nixpkgs.hostPlatform.system}"
  else host.config.system.build.toplevel.drvPath)`

// TestEveryFlakeOfTheDocumentsEvaluates takes each as a reader would: copied, with this tree as its input.
func TestEveryFlakeOfTheDocumentsEvaluates(t *testing.T) {
	tools(t)
	ours := copyTree(t)
	flakes, _ := documents(t)
	for _, s := range flakes {
		var systems map[string]string
		evaluateReader(t, ours, s.text, "nixosConfigurations", systemsOf, &systems)
		if len(systems) == 0 {
			t.Errorf("%s declares no host", s.where)
		}
		for name, system := range systems {
			if !strings.HasSuffix(system, ".drv") {
				t.Errorf("%s: %s is %q", s.where, name, system)
			}
		}
	}
}

// TestEveryModuleOfTheDocumentsEvaluates adds each to a host that has nothing but what every host needs.
func TestEveryModuleOfTheDocumentsEvaluates(t *testing.T) {
	tools(t)
	ours := copyTree(t)
	_, modules := documents(t)
	var hosts strings.Builder
	where := map[string]string{}
	isFunctionOrSet := regexp.MustCompile(`^(#.*\n|\s)*\{`)
	for n, s := range modules {
		text := s.text
		if !isFunctionOrSet.MatchString(text) {
			text = "{\n" + text + "}"
		}
		name := fmt.Sprintf("s%d", n)
		where[name] = s.where
		kind := "vm"
		if strings.Contains(text, "by-partlabel") || strings.Contains(text, "maintenance") {
			kind = "bare-metal"
		}
		fmt.Fprintf(&hosts, "%s = host evalhost.nixosModules.%s (%s);\n", name, kind, text)
	}
	var systems map[string]string
	evaluateReader(t, ours, `{
	  inputs.evalhost.url = "github:evalhost/evalhost";
	  outputs = { evalhost, ... }:
	    let host = kind: snippet: evalhost.inputs.nixpkgs.lib.nixosSystem { modules = [ kind snippet ({ lib, ... }: {
	      services.evalhost.enable = lib.mkDefault true;
	      services.evalhost.server.url = lib.mkDefault "https://judge.example.org/api/v1";
	      services.evalhost.egress.resolvers = lib.mkOverride 1100 [ "192.0.2.53" ];
	      system.stateVersion = lib.mkDefault "26.05";
	    }) ]; };
	    in { nixosConfigurations = {
	`+hosts.String()+"}; };\n}\n", "nixosConfigurations", systemsOf, &systems)
	for name, place := range where {
		if !strings.HasSuffix(systems[name], ".drv") {
			t.Errorf("%s is %q", place, systems[name])
		}
	}
}

// TestWhatAnotherFlakeTakesIsThere: the modules and the overlay, which nothing else of this tree uses.
func TestWhatAnotherFlakeTakesIsThere(t *testing.T) {
	tools(t)
	var got struct {
		Overlay map[string]string
		Systems map[string]string
	}
	evaluateReader(t, copyTree(t), `{
	  inputs.evalhost.url = "github:evalhost/evalhost";
	  outputs = { evalhost, ... }: let
	    pkgs = evalhost.inputs.nixpkgs.legacyPackages.x86_64-linux;
	    told = { services.evalhost = { enable = true; server.url = "https://judge.example.org/api/v1"; egress.resolvers = [ "192.0.2.53" ]; };
	      networking.hostName = "judge"; system.stateVersion = "26.05"; };
	    host = modules: evalhost.inputs.nixpkgs.lib.nixosSystem { modules = modules ++ [ told ]; };
	    of = evalhost.nixosModules;
	  in { result = {
	    overlay = { inherit ((evalhost.overlays.default pkgs pkgs).evalhost) drvPath; };
	    systems = `+systemsOf+` {
	      twice = host [ of.vm of.default of.vm ];
	      alone = host [ of.default { boot.loader.grub.enable = false; nixpkgs.hostPlatform = "x86_64-linux"; } ];
	      medium = evalhost.inputs.nixpkgs.lib.nixosSystem { modules = [ of.iso ]; };
	    };
	  }; };
	}`, "result", "r: r", &got)
	if !strings.HasSuffix(got.Overlay["drvPath"], ".drv") {
		t.Errorf("the overlay has %q", got.Overlay)
	}
	for _, name := range []string{"twice", "alone", "medium"} {
		if !strings.HasSuffix(got.Systems[name], ".drv") {
			t.Errorf("%s is %q", name, got.Systems[name])
		}
	}
}

// TestWhatAReaderIsToldToRunIsThere: every output that a command of the documents names, and the partitions of a disk.
func TestWhatAReaderIsToldToRunIsThere(t *testing.T) {
	readme := read(t, root, "README.md")
	bare := read(t, root, "nixos/profiles/bare-metal.nix")
	labels := regexp.MustCompile(`by-partlabel/(evalhost-\w+)`)
	for _, match := range labels.FindAllStringSubmatch(bare+readme, -1) {
		if !strings.Contains(readme, "-c ") || !regexp.MustCompile(`-c \d:`+match[1]+`\b`).MatchString(readme) {
			t.Errorf("README.md partitions a disk without %s, which a host mounts", match[1])
		}
	}
	tools(t)
	outputs := map[string]map[string][]string{}
	dir := copyTree(t)
	for _, kind := range []string{"apps", "packages", "checks"} {
		var names map[string][]string
		evaluate(t, dir, kind, "builtins.mapAttrs (_: builtins.attrNames)", &names)
		outputs[kind] = names
	}
	commands := regexp.MustCompile(`nix (run|build) (?:github:evalhost/evalhost|\.)(?:#([\w.-]+))?`)
	found := 0
	for _, name := range []string{"README.md", "docs/operator.md", "nixos/profiles/iso.nix", "checks/default.nix"} {
		for _, match := range commands.FindAllStringSubmatch(read(t, root, name), -1) {
			found++
			kind, attribute := map[string]string{"run": "apps", "build": "packages"}[match[1]], match[2]
			if rest, isCheck := strings.CutPrefix(attribute, "checks.x86_64-linux."); isCheck {
				kind, attribute = "checks", rest
			}
			if attribute == "" {
				attribute = "default"
			}
			if strings.HasPrefix(attribute, "nixosConfigurations.") {
				continue // a reader's own; the flakes of the documents are evaluated
			}
			if !slices.Contains(outputs[kind]["x86_64-linux"], attribute) {
				t.Errorf("%s: %s names nothing: %s has %q", name, match[0], kind, outputs[kind]["x86_64-linux"])
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d commands were found: the pattern is wrong", found)
	}
}
