package nix

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestVendorHashIsTheHashOfWhatGoVendors(t *testing.T) {
	dir := tools(t)
	tree := copyTree(t)
	vendor := exec.Command("go", "mod", "vendor")
	vendor.Dir = tree
	if out, err := vendor.CombinedOutput(); err != nil {
		t.Fatalf("go mod vendor, which a build with Nix begins with, does not work on this tree: %v\n%s"+
			"`go mod tidy` adds what go.mod and go.sum lack", err, out)
	}
	hash := exec.Command(filepath.Join(dir, "nix.sh"), "nix", "hash", "path", filepath.Join(tree, "vendor"))
	out, err := hash.Output()
	if err != nil {
		t.Fatalf("%s: %v", hash, err)
	}
	got := strings.TrimSpace(string(out))
	if *update {
		if err := os.WriteFile(filepath.Join(root, "nixos/vendor-hash.nix"), []byte(`"`+got+"\"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := strings.Trim(strings.TrimSpace(read(t, root, "nixos/vendor-hash.nix")), `"`)
	if got != want {
		t.Errorf("nixos/vendor-hash.nix says %s, and go.mod and go.sum now vendor %s: -update writes that there", want, got)
	}
}
