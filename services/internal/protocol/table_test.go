package protocol_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/decisions/0080 says where each case of the contract is shown. A test that was renamed or removed must not stay named
// there.
func TestEveryTestThatTheTableNamesExists(t *testing.T) {
	table, err := os.ReadFile("../../../docs/decisions/0080-protocol-conformance.md")
	must(t, err)
	there := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	must(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(source, -1) {
			there[string(m[1])] = true
		}
		return err
	}))
	named := regexp.MustCompile("`(Test\\w+)`").FindAllSubmatch(table, -1)
	if len(named) < 80 {
		t.Errorf("the table names %d tests, so this shows little", len(named))
	}
	for _, m := range named {
		if !there[string(m[1])] {
			t.Errorf("the table names %s, which is not in the tree", m[1])
		}
	}
}
