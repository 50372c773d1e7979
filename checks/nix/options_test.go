package nix

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// optionPage is the page of options, below the top of the tree.
const optionPage = "docs/options.md"

// TestTheOptionReferenceIsWhatTheModuleSays renders the page as the flake's package does, from the evaluated options.
func TestTheOptionReferenceIsWhatTheModuleSays(t *testing.T) {
	tools(t)
	var described json.RawMessage
	evaluate(t, copyTree(t), "packages.x86_64-linux.option-reference", "page: page.described", &described)
	render := exec.Command("go", "run", "./reference")
	render.Stdin = bytes.NewReader(described)
	render.Stderr = os.Stderr
	page, err := render.Output()
	if err != nil {
		t.Fatalf("%s: %v", render, err)
	}
	if *update {
		if err := os.WriteFile(root+"/"+optionPage, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(read(t, root, optionPage), string(page)); diff != "" {
		t.Errorf("%s (-committed +rendered; -update writes it anew):\n%s", optionPage, diff)
	}
}
