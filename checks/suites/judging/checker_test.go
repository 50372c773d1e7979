//go:build guest

package judging

import (
	"os"
	"path/filepath"
	"testing"
)

// What the package does wrong is an infrastructure failure, for every submission alike, and the command says so. Every other way
// to break the contract is in the suite judge, where it does not take a command each.
func TestABrokenCheckerIsNoVerdict(t *testing.T) {
	unchanged(t)
	source := filepath.Join(t.TempDir(), "add.c")
	if err := os.WriteFile(source, []byte(add), 0o644); err != nil {
		t.Fatal(err)
	}
	pkg := single(5000, 64<<20).config("checker: { source: check.c, language: c11-gcc }").with(files{"check.c": "this is no C\n"}).dir(t)
	r := evalhost(t, options{}, "judge", pkg, source, "--json")
	r.wantsNoVerdict(t, 3, "infrastructure failure", "building the judging program check.c")
}
