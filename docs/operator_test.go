// Package docs holds the tests that keep the pages true.
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

// sources calls visit for every Go file of the programs that is no test.
func sources(t *testing.T, visit func(path string, file *ast.File)) {
	t.Helper()
	n := 0
	for _, root := range []string{"../services", "../shim"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			n++
			visit(path, file)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 100 {
		t.Fatalf("only %d files were found", n)
	}
}

// text is the constant string of an expression, parts joined by +.
func text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, e.Kind == token.STRING && err == nil
	case *ast.BinaryExpr:
		left, ok := text(e.X)
		right, also := text(e.Y)
		return left + right, ok && also && e.Op == token.ADD
	}
	return "", false
}

// severe finds the lines that are logged at WARN or ERROR.
func severe(t *testing.T) map[string]string {
	t.Helper()
	lines := map[string]string{}
	sources(t, func(path string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			selector, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			at, found := map[string]int{"Warn": 0, "Error": 0, "WarnContext": 1, "ErrorContext": 1, "Log": 2}[selector.Sel.Name]
			if !found || len(call.Args) <= at {
				return true
			}
			// A level that is no constant may be a severe one.
			if level, ok := call.Args[max(at-1, 0)].(*ast.SelectorExpr); ok && at == 2 && (level.Sel.Name == "LevelDebug" || level.Sel.Name == "LevelInfo") {
				return true
			}
			if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Name == "http" { // http.Error answers a request
				return true
			}
			line, constant := text(call.Args[at])
			if !constant {
				t.Errorf("%s logs a line that is put together: nobody could look it up", path)
				return true
			}
			lines[line] = path
			return true
		})
	})
	if len(lines) < 30 {
		t.Fatalf("only %d lines were found: the search is wrong", len(lines))
	}
	return lines
}

func page(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("operator.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestTheOperatorsPageExplainsEveryLineAtWarnAndError(t *testing.T) {
	content := page(t)
	for line, path := range severe(t) {
		if !strings.Contains(content, "\n| "+line) {
			t.Errorf("docs/operator.md does not explain %q of %s", line, path)
		}
	}
}

func TestTheOperatorsPageExplainsEveryExitStatus(t *testing.T) {
	content := page(t)
	name := regexp.MustCompile(`^exit[A-Z]`)
	n := 0
	sources(t, func(path string, file *ast.File) {
		if filepath.Dir(path) != "../services/runner" {
			return
		}
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 || !name.MatchString(spec.Names[0].Name) {
				return true
			}
			value, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				return true
			}
			n++
			if !strings.Contains(content, "\n| "+value.Value+" | ") {
				t.Errorf("docs/operator.md does not explain the status %s (%s)", value.Value, spec.Names[0].Name)
			}
			return true
		})
	})
	if _, err := os.Stat("../services/runner/main.go"); err == nil && n < 3 {
		t.Errorf("only %d statuses of the daemon were found: the search is wrong", n)
	}
}

func TestTheUnitAndThePageAgree(t *testing.T) {
	unit, err := os.ReadFile("../nixos/host/evalhost-runner.service")
	if err != nil {
		t.Fatal(err)
	}
	content := page(t)
	for directive, said := range map[string]string{
		"RestartPreventExitStatus=78":      "does not restart after status 78",
		"TimeoutStopSec=60":                "stops within 60 s",
		"RestartMaxDelaySec=5min":          "1 s to 5 min",
		"RestartSec=1s":                    "1 s to 5 min",
		"RuntimeDirectory=evalhost-runner": "/run/evalhost-runner/health.json",
	} {
		if !strings.Contains(string(unit), "\n"+directive+"\n") || !strings.Contains(strings.Join(strings.Fields(content), " "), said) {
			t.Errorf("the unit says %q: %v; the page says %q: %v", directive, strings.Contains(string(unit), directive), said, strings.Contains(content, said))
		}
	}
}
