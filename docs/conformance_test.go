package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// tests holds, by the name of a test, the directories it is in, and for each directory every text that stands in its tests.
type tests struct {
	in    map[string][]string
	texts map[string]map[string]bool
}

// everyTest reads all tests of the tree, whatever their build tags say.
func everyTest(t *testing.T) tests {
	t.Helper()
	all := tests{map[string][]string{}, map[string]map[string]bool{}}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != "..":
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		if all.texts[dir] == nil {
			all.texts[dir] = map[string]bool{}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil {
					all.in[n.Name.Name] = append(all.in[n.Name.Name], dir)
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
					all.texts[dir][text] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var namedTest = regexp.MustCompile("`((?:Test|Fuzz)[^`]*)`")

// elsewhere is how a row says why it names no test: there is none, the tests carry the number or the name that the row gives, or
// another row has them.
var elsewhere = regexp.MustCompile(`^(?:none: \S.{4,}|by number\b|by their names\b|as \S|nothing to do\b.{4,})`)

// wrong says what is wrong with a page that says which test shows what: every row of its tables names, in its last column,
// tests that there are, or says why it does not. A test is a function, or a function and one of its cases, as in
// `TestX/a case`; the case must stand as a text in the tests of that directory.
func (all tests) wrong(page string) (rows int, complaints []string) {
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|--") || strings.HasPrefix(line, "|:-") {
			continue
		}
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|-") {
			continue // the heads of the columns
		}
		rows++
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		last := strings.TrimSpace(cells[len(cells)-1])
		named := namedTest.FindAllStringSubmatch(line, -1)
		if namedTest.FindString(last) == "" && !elsewhere.MatchString(last) {
			complaints = append(complaints, "line "+strconv.Itoa(i+1)+" names no test, and does not say why there is none")
		}
		for _, name := range named {
			function, sub, isCase := strings.Cut(name[1], "/")
			found := false
			for _, dir := range all.in[function] {
				found = found || !isCase || all.texts[dir][sub]
			}
			if !found {
				complaints = append(complaints, "line "+strconv.Itoa(i+1)+" names "+name[1]+", and there is no such test")
			}
		}
	}
	return rows, complaints
}

func TestEveryTestThatIsSaidToShowConformanceExists(t *testing.T) {
	pages, err := filepath.Glob("decisions/*-conformance.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%v, %v", pages, err)
	}
	all := everyTest(t)
	for _, path := range pages {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		rows, complaints := all.wrong(string(page))
		if rows < 20 {
			t.Errorf("%s: %d rows are no table of conformance", path, rows)
		}
		for _, c := range complaints {
			t.Errorf("%s: %s", path, c)
		}
		t.Logf("%s: %d rows", path, rows)
	}
}

func TestARowWithoutATestThatExistsIsFound(t *testing.T) {
	all := tests{
		map[string][]string{"TestThere": {"x", "y"}, "TestOther": {"y"}},
		map[string]map[string]bool{"x": {"a case": true}, "y": {}},
	}
	for line, want := range map[string]string{
		"| 1 | `TestThere` |":                         "",
		"| 1 | `TestThere`, `TestOther` (guest) |":    "",
		"| 1 | `TestThere/a case` |":                  "",
		"| 1 | none: another program's |":             "",
		"| 1 | by number |":                           "",
		"| 1 | as 9.5 |":                              "",
		"no row of a table":                           "",
		"| 1 | `TestOther/a case` |":                  "names TestOther/a case, and there is no such test",
		"| 1 | `TestThere/another` |":                 "names TestThere/another, and there is no such test",
		"| 1 | `TestThere`, `TestGone` |":             "names TestGone, and there is no such test",
		"| `TestGone` | `TestThere` |":                "names TestGone, and there is no such test",
		"| `TestThere` | shown |":                     "names no test",
		"| 1 | none: |":                               "names no test",
		"| 1 |  |":                                    "names no test",
		"| 1 | TestThere |":                           "names no test",
		"| 1 | none |\n|---|---|\n| 2 | `FuzzGone` |": "names FuzzGone",
	} {
		_, complaints := all.wrong(line)
		if got := strings.Join(complaints, "; "); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
