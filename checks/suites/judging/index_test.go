package judging

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// numbered is where a case of the specification, or of the list of field cases, is tested.
type numbered struct {
	name  string // of the function, or of the subtest
	file  string
	guest bool // it drives real containers
}

var (
	inFunction = regexp.MustCompile(`[JMC]\d+`)
	inSubtest  = regexp.MustCompile(`^(?:[JMC]\d+ )+`)

	onlyNumbers = regexp.MustCompile(`^(?:[JMC]\d+ *)+$`)

	// standard is a version of C, as the names of toolchains have it.
	standard = regexp.MustCompile(`^C\d+ (?:\(|/)`)
)

// complaints are the methods whose words are said of a test and name none.
var complaints = []string{"Error", "Errorf", "Fatal", "Fatalf", "Log", "Logf", "Skip", "Skipf"}

// readNumbers finds the numbers in the names of tests: those that a function's name begins with, as in TestC43J5Something, and
// those that a text begins with, as in "J5 J6 another extension". A number in a comment is not a test, and neither is one in what a test
// says when it fails. Field cases have two digits: C7 is a line of the specification, and C07 a case.
func readNumbers(t *testing.T, root string) map[string][]numbered {
	t.Helper()
	found := map[string][]numbered{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go") || d.Name() == "index_test.go": // its own examples are no tests
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		add := func(numbers []string, name string) {
			for _, n := range numbers {
				if n[0] != 'C' {
					n = n[:1] + strings.TrimLeft(n[1:], "0")
				}
				found[n] = append(found[n], numbered{name, relative, needsGuest(file)})
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(complaints, f.Sel.Name) {
					return false
				}
			case *ast.FuncDecl:
				if rest, ok := strings.CutPrefix(n.Name.Name, "Test"); ok {
					prefix := regexp.MustCompile(`^(?:[JMC]\d+)+`).FindString(rest)
					add(inFunction.FindAllString(prefix, -1), n.Name.Name)
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					// A list of numbers names no test: it is about tests that are elsewhere.
					if text, err := strconv.Unquote(n.Value); err == nil && !onlyNumbers.MatchString(text) && !standard.MatchString(text) {
						add(strings.Fields(inSubtest.FindString(text)), text)
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// needsGuest says whether a file carries the build tag of the guest.
func needsGuest(file *ast.File) bool {
	for _, group := range file.Comments {
		for _, c := range group.List {
			if expr, err := constraint.Parse(c.Text); err == nil && group.Pos() < file.Package {
				return expr.Eval(func(tag string) bool { return tag == "guest" }) && !expr.Eval(func(string) bool { return false })
			}
		}
	}
	return false
}

// numbers makes names out of a letter and ranges.
func numbers(letter string, ranges ...[2]int) []string {
	var all []string
	for _, r := range ranges {
		for n := r[0]; n <= r[1]; n++ {
			all = append(all, letter+strconv.Itoa(n))
		}
	}
	return all
}

// Every numbered row of the specification of judging (10.1, 10.2) and every field case that a judging host can meet is a test that
// carries its number; docs/decisions/0034 says which field cases it cannot. `go test -v -run EveryNumberedCase` prints where.
func TestEveryNumberedCaseIsATestThatCarriesItsNumber(t *testing.T) {
	found := readNumbers(t, filepath.Join("..", "..", ".."))
	for _, want := range []struct {
		of    string
		names []string
		guest bool // real containers are asked for
	}{
		{"judging through real containers (10.1)", numbers("J", [2]int{1, 47}), true},
		// Answers are compared and nothing is run (2.5): there is no container to go through.
		{"marking of answers (10.2)", numbers("M", [2]int{1, 7}), false},
		{"memory", []string{"C01", "C02", "C04", "C05", "C07", "C08", "C10", "C13", "C14", "C16"}, false},
		{"time", []string{"C20", "C22", "C23", "C25", "C26", "C28"}, false},
		{"output, pipes, interaction", []string{"C29", "C31", "C32", "C34", "C35", "C37", "C38", "C40"}, false},
		{"text and comparison", []string{"C41", "C43", "C44", "C46"}, false},
		{"compilation", []string{"C47", "C49", "C50", "C52"}, false},
		{"isolation, archives and collecting", []string{"C53", "C55", "C56", "C58", "C59", "C61"}, false},
		{"the host", []string{"C62", "C64", "C65", "C67", "C68", "C70"}, false},
		{"life cycle", []string{"C71", "C73", "C74", "C76", "C77", "C79", "C80"}, false},
	} {
		for _, name := range want.names {
			tests := found[name]
			if want.guest {
				tests = slices.DeleteFunc(slices.Clone(tests), func(n numbered) bool { return !n.guest })
			}
			if len(tests) == 0 {
				t.Errorf("%s: no test carries the number %s", want.of, name)
			}
			for _, n := range tests {
				t.Logf("%s  %s (%s)", name, n.name, n.file)
			}
		}
	}
}

// A text of nothing but numbers is a list, as the one in the suite adversarial, and not the name of a test. It once stood for
// 26 of them, so that none could go missing.
func TestAListOfNumbersIsNoTest(t *testing.T) {
	for text, list := range map[string]bool{"C01 C02 C04 ": true, "C56": true, "J5 another extension": false, "C56 %s: %q": false} {
		if onlyNumbers.MatchString(text) != list {
			t.Errorf("%q: a list is %t", text, !list)
		}
	}
}

// What a test says when it fails is no name, a version of C is no case, and a line of the specification has another number than a case:
// C01, C02, C05, C07 and C50 were found in such words alone.
func TestOnlyTheNameOfATestOrOfACaseCarriesANumber(t *testing.T) {
	dir := t.TempDir()
	const source = `package x

func TestC7ACheckersExit(t *testing.T) {
	t.Errorf("C01 a killed child: %v"+x, "C02 an argument")
	for name := range map[string]int{"C03 a case": 1, "C11 (GCC)": 2, "C89 / ANSI C (GCC)": 3, "C04 C05 two": 4} {
		t.Run(name, nil)
	}
}
`
	if err := os.WriteFile(filepath.Join(dir, "x_test.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	found := readNumbers(t, dir)
	if got, want := slices.Sorted(maps.Keys(found)), []string{"C03", "C04", "C05", "C7"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// The reader of the numbers itself: it must not find what is not there.
func TestANumberCountsOnlyAtTheBeginningOfATestsName(t *testing.T) {
	found := readNumbers(t, filepath.Join("..", "..", ".."))
	for _, absent := range []string{"J0", "J48", "M8", "C00", "C11", "C17", "C89"} {
		if tests := found[absent]; len(tests) > 0 {
			t.Errorf("%s: %+v", absent, tests)
		}
	}
}
