package nix

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNixFilesAreInOneStyle(t *testing.T) {
	for _, file := range nixFiles(t) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(content), "\n")
		limit := 499
		if dir := filepath.Base(filepath.Dir(file)); dir == "nixos" || dir == "profiles" {
			limit = 199 // a reader of the module finds each concern in one short file
		}
		if len(lines)-1 > limit {
			t.Errorf("%s has %d lines, more than %d", file, len(lines)-1, limit)
		}
		if !strings.HasSuffix(string(content), "\n") || strings.HasSuffix(string(content), "\n\n") {
			t.Errorf("%s does not end with exactly one line feed", file)
		}
		for n, line := range lines {
			if strings.Contains(line, "\t") || strings.TrimRight(line, " ") != line {
				t.Errorf("%s:%d: a tab, or a blank at the end", file, n+1)
			}
			if strings.Contains(line, "builtins.currentSystem") || strings.Contains(line, "<nixpkgs>") {
				t.Errorf("%s:%d: depends on the machine that evaluates", file, n+1)
			}
		}
	}
}

func TestEveryOptionHasDescriptionDefaultAndExample(t *testing.T) {
	// mkEnableOption brings its own default and example.
	opening := regexp.MustCompile(`^( *)(\w+) = mkOption \{$`)
	found := 0
	for _, file := range nixFiles(t) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(content), "\n")
		for n, line := range lines {
			match := opening.FindStringSubmatch(line)
			if match == nil {
				continue
			}
			found++
			indent, members := match[1], map[string]bool{}
			for _, inside := range lines[n+1:] {
				if inside == indent+"};" {
					break
				}
				if name, _, ok := strings.Cut(strings.TrimPrefix(inside, indent+"  "), " ="); ok {
					members[name] = true
				}
			}
			for _, member := range []string{"type", "default", "example", "description"} {
				if !members[member] {
					t.Errorf("%s: option %s has no %s", file, match[2], member)
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d options were found: the pattern is wrong", found)
	}
}

func TestTheLockIsThePublishedPin(t *testing.T) {
	var lock struct {
		Nodes map[string]struct {
			Inputs map[string]string
			Locked struct {
				LastModified       int64
				NarHash, Rev, Type string
				URL                string `json:"url"`
			}
			Original map[string]string
		}
		Root    string
		Version int
	}
	if err := json.Unmarshal([]byte(read(t, root, "flake.lock")), &lock); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"nixpkgs": "nixpkgs"}, lock.Nodes[lock.Root].Inputs); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
	if len(lock.Nodes) != 2 {
		t.Errorf("%d nodes; the flake has one input and nothing else", len(lock.Nodes))
	}
	pin := lock.Nodes["nixpkgs"]
	got := []any{pin.Locked.Type, pin.Locked.Rev, pin.Locked.NarHash, pin.Locked.LastModified}
	want := []any{
		"tarball", "78e9c786dc08cd4f3420c2395cd977206a9b1da2",
		"sha256-neiwVQVB0ONcopw7wbiinq1vYtMOTjTLuEueGF9Ex1Y=", int64(1790750587),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the pin (-want +got):\n%s", diff)
	}
	// The part of the URL that says which release it is says so of the same commit.
	if !strings.Contains(pin.Locked.URL, "."+pin.Locked.Rev[:12]+"/") {
		t.Errorf("%s is not the archive of %s", pin.Locked.URL, pin.Locked.Rev)
	}
	if !strings.Contains(read(t, root, "flake.nix"), `"`+pin.Original["url"]+`"`) {
		t.Errorf("flake.nix does not ask for %s", pin.Original["url"])
	}
}

// brokenGuests are suites about hosts on which judging must not happen; the declared host is none of them. What "hosts" asks of a host
// that judges, the checks of the contract and of egress ask of the declared one.
var brokenGuests = []string{"hosts"}

// The suites of the VM checks are those of the guest: name, directory and drivers.
func TestTheSuitesAreThoseOfTheGuest(t *testing.T) {
	guest := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^\t\{"([\w-]+)", "([\w/]+)", \[\]string\{([^}]*)\}`).FindAllStringSubmatch(read(t, root, "checks/suites/drive/suites.go"), -1) {
		if slices.Contains(brokenGuests, match[1]) {
			continue
		}
		drivers := "systemd"
		if strings.Contains(match[3], `"cgroupfs"`) {
			drivers = "both"
		}
		guest[match[1]] = match[2] + " " + drivers
	}
	declared := map[string]string{}
	_, table, _ := strings.Cut(read(t, root, "nixos/suites.nix"), "\n  table = {")
	for _, match := range regexp.MustCompile(`(?m)^    ([\w-]+) = \{\n +directory = "([\w/]+)";\n +drivers = (\w+);\n    \};$`).FindAllStringSubmatch(table, -1) {
		declared[match[1]] = match[2] + " " + match[3]
	}
	if len(guest) == 0 {
		t.Fatal("checks/suites/drive/suites.go has no table of suites where it had one")
	}
	if diff := cmp.Diff(guest, declared); diff != "" {
		t.Errorf("suites (-guest +nixos/suites.nix):\n%s", diff)
	}
}
