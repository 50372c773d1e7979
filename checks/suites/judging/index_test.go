package judging

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
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
)

// readNumbers finds the numbers in the names of tests: those that a function's name begins with, as in TestC43J5Something, and
// those that a text begins with, as in "J5 J6 another extension". A number in a comment is not a test.
func readNumbers(t *testing.T, root string) map[string][]numbered {
	t.Helper()
	found := map[string][]numbered{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
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
				n = n[:1] + strings.TrimLeft(n[1:], "0")
				found[n] = append(found[n], numbered{name, relative, needsGuest(file)})
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if rest, ok := strings.CutPrefix(n.Name.Name, "Test"); ok {
					prefix := regexp.MustCompile(`^(?:[JMC]\d+)+`).FindString(rest)
					add(inFunction.FindAllString(prefix, -1), n.Name.Name)
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					// A list of numbers names no test: it is about tests that are elsewhere.
					if text, err := strconv.Unquote(n.Value); err == nil && !onlyNumbers.MatchString(text) {
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

// Every numbered row of the specification of judging (10.1, 10.2) and every field case on text and comparison, output and
// interaction, compilation, and archives is a test that carries its number. `go test -v -run EveryNumberedCase` prints where.
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
		{"output, pipes, interaction", []string{"C29", "C31", "C32", "C34", "C35", "C37", "C38", "C40"}, false},
		{"text and comparison", []string{"C41", "C43", "C44", "C46"}, false},
		{"compilation", []string{"C47", "C49", "C50", "C52"}, false},
		{"archives and collecting", []string{"C53", "C56", "C61"}, false},
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

// The reader of the numbers itself: it must not find what is not there.
func TestANumberCountsOnlyAtTheBeginningOfATestsName(t *testing.T) {
	found := readNumbers(t, filepath.Join("..", "..", ".."))
	for _, absent := range []string{"J0", "J48", "M8", "C0"} {
		if tests := found[absent]; len(tests) > 0 {
			t.Errorf("%s: %+v", absent, tests)
		}
	}
}
