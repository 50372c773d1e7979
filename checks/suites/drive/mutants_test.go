package main

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the directory of the tree.
const root = "../../.."

// controls finds every control there is: the constants of the package mutant and the words of the shim's switch.
func controls(t *testing.T) []string {
	t.Helper()
	var found []string
	parse := func(file string) *ast.File {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	word := func(n ast.Node) {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return
		}
		if value, _ := strconv.Unquote(lit.Value); strings.HasPrefix(value, "mutant.") && !strings.HasSuffix(value, ".") {
			found = append(found, value)
		}
	}
	ast.Inspect(parse(filepath.Join(root, "services/internal/mutant/mutant.go")), func(n ast.Node) bool { word(n); return true })
	if len(found) < 50 {
		t.Fatalf("only %d controls were found in the package mutant", len(found))
	}
	files, err := filepath.Glob(filepath.Join(root, "shim", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			ast.Inspect(parse(file), func(n ast.Node) bool { word(n); return true })
		}
	}
	// The box's limits are switched off by their file's name.
	for _, limit := range []string{"memory.max", "pids.max", "memory.swap.max", "memory.oom.group"} {
		found = append(found, "mutant.shim."+limit)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func TestEveryControlHasATestThatNoticesItsLoss(t *testing.T) {
	var listed []string
	for _, m := range mutations {
		if slices.Contains(listed, m.control) {
			t.Errorf("%s is listed twice", m.control)
		}
		listed = append(listed, m.control)
		if m.removed == "" || m.pkg == "" || m.test == "" {
			t.Errorf("%s does not say what is missing and who notices", m.control)
		}
		if m.inGuest != "" && !isDeclared(t, inSandbox, m.inGuest, true) {
			t.Errorf("%s names %s, which the sandbox's guest suite does not have", m.control, m.inGuest)
		}
		if !isDeclared(t, m.pkg, m.test, false) {
			t.Errorf("%s names %s, which %s does not have", m.control, m.test, m.pkg)
		}
	}
	for _, c := range controls(t) {
		if !slices.Contains(listed, c) {
			t.Errorf("the control %s has no row: nobody is known to notice its loss", c)
		}
	}
	for _, l := range listed {
		if !slices.Contains(controls(t), l) {
			t.Errorf("the row %s names no control", l)
		}
	}
}

// isDeclared says whether a package's tests, for the guest or not, have a test of this name.
func isDeclared(t *testing.T, pkg, test string, inGuest bool) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("//go:build guest")) == inGuest && bytes.Contains(text, []byte("func "+test+"(t ")) {
			return true
		}
	}
	return false
}

// What is shipped can switch nothing off: its files hold none of the words that would be needed.
func TestAReleaseHoldsNoMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT BUILT: asked to be short, and every program is built")
	}
	dir := t.TempDir()
	words := append(controls(t), mutantVariable)
	for _, pkg := range []string{"services/evalhost", "services/runner", "services/refserver", "shim"} {
		if mains, _ := filepath.Glob(filepath.Join(root, pkg, "*.go")); len(mains) == 0 {
			if pkg == "services/evalhost" || pkg == "shim" {
				t.Fatalf("%s is not there", pkg)
			}
			t.Logf("%s does not exist in this tree", pkg)
			continue
		}
		sandboxed := pkg == "services/evalhost" || pkg == "shim"
		for _, tags := range []string{"", "mutants"} {
			if tags != "" && !sandboxed {
				continue // two programs are enough to show that the search can find something
			}
			out := filepath.Join(dir, strings.ReplaceAll(pkg, "/", "-")+tags)
			cmd := exec.Command("go", "build", "-trimpath", "-tags", tags, "-o", out, "./"+pkg)
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
			if said, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", pkg, err, said)
			}
			program, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			var held []string
			for _, w := range words {
				if bytes.Contains(program, []byte(w)) {
					held = append(held, w)
				}
			}
			if tags == "" && held != nil {
				t.Errorf("the release of %s holds %q", pkg, held)
			}
			if tags != "" && len(held) < 10 {
				t.Errorf("%s with mutants holds %q only; this test would find nothing", pkg, held)
			}
		}
	}
}

func TestATestThatEndedInAnotherWayHasNoticedNothing(t *testing.T) {
	failed := errors.New("exit status 1")
	for name, c := range map[string]struct {
		said  string
		ended error
		how   string
		ok    bool
	}{
		"it passes":            {"--- PASS: TestA (0.0s)\nPASS\n", nil, "", false},
		"it fails":             {"--- FAIL: TestA (0.0s)\nFAIL\n", failed, "fails", true},
		"it hangs":             {"panic: test timed out after 1s\n\trunning tests:\n\t\tTestA (1s)\n", failed, "hangs", true},
		"another fails":        {"--- FAIL: TestB (0.0s)\nFAIL\n", failed, "", false},
		"it cannot be started": {"exec format error", failed, "", false},
		"there is no such":     {"testing: warning: no tests to run\nPASS\n", nil, "", false},
	} {
		how, err := noticed("TestA", c.said, c.ended)
		if how != c.how || (err == nil) != c.ok {
			t.Errorf("%s: %q, %v", name, how, err)
		}
	}
}

func TestTheSecurityPageNamesEveryControlAndWhoNoticesItsLoss(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, securityPage))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begins := strings.Cut(string(text), tableBegins)
	table, _, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		t.Fatalf("%s has no place for the table of mutants", securityPage)
	}
	for _, m := range mutations {
		row := ""
		for line := range strings.Lines(table) {
			if strings.HasPrefix(line, "| `"+strings.TrimPrefix(m.control, "mutant.")+"` |") {
				row = line
			}
		}
		if !strings.Contains(row, "`"+m.test+"` (unit)") || strings.Contains(row, "**nobody**") {
			t.Errorf("%s says of %s: %q; make mutants writes it anew", securityPage, m.control, row)
		}
	}
}

func TestTheTableIsPutWhereItBelongsAndNothingElseIsTouched(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	for range 2 { // the second time replaces the first
		if _, err := os.Stat(page); err != nil {
			if err := os.WriteFile(page, []byte("before\n"+tableBegins+tableEnds+"after\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		table, err := mutantTable([]caught{
			{mutation: mutations[0], where: "unit", test: "TestA"},
			{mutation: mutations[1], where: "unit", test: "TestB", err: errors.New("it passes")},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := writeTable(page, table); err != nil {
			t.Fatal(err)
		}
		got, _ := os.ReadFile(page)
		if want := "before\n" + tableBegins + "\n" + table + "\n" + tableEnds + "after\n"; string(got) != want {
			t.Errorf("the page is %q, want %q", got, want)
		}
		if strings.Count(table, "`TestA` (unit)") != 1 || strings.Count(table, "**nobody**") != 1 || !strings.Contains(table, "not noticed: 1") {
			t.Errorf("the table is %q", table)
		}
	}
	if err := os.WriteFile(page, []byte("no place\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeTable(page, "x"); err == nil {
		t.Error("a page without a place was written to")
	}
	if _, err := mutantTable(nil); err == nil {
		t.Error("nothing switched off made a table")
	}
}
