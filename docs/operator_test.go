// Package docs holds the tests that keep the pages true.
package docs

import (
	"go/ast"
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

// section is the part of a page below a heading, as far as the next heading of its level or a higher one.
func section(t *testing.T, content, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut("\n"+content, "\n"+heading+"\n")
	if !found {
		t.Fatalf("there is no heading %q", heading)
	}
	level := strings.Count(strings.Fields(heading)[0], "#")
	end := regexp.MustCompile(`(?m)^#{1,` + strconv.Itoa(level) + `} `).FindStringIndex(rest)
	if end == nil {
		return rest
	}
	return rest[:end[0]]
}

// firstCells are the first cells of every table's rows, without the rows that head a table.
func firstCells(text string) []string {
	var cells []string
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "| ") || i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|---") {
			continue
		}
		cell, _, _ := strings.Cut(line[len("| "):], " |")
		cells = append(cells, cell)
	}
	return cells
}

// same fails for what only one of two has.
func same(t *testing.T, what string, documented, real []string) {
	t.Helper()
	for _, r := range real {
		if !slices.Contains(documented, r) {
			t.Errorf("docs/operator.md does not explain the %s %q", what, r)
		}
	}
	for i, d := range documented {
		if !slices.Contains(real, d) {
			t.Errorf("docs/operator.md explains the %s %q, and there is none", what, d)
		}
		if slices.Contains(documented[:i], d) {
			t.Errorf("docs/operator.md explains the %s %q twice", what, d)
		}
	}
}

func TestTheOperatorsPageExplainsEveryLineAtWarnAndErrorAndNoOther(t *testing.T) {
	same(t, "line", firstCells(section(t, page(t), "## Log lines at WARN and ERROR")), slices.Collect(maps.Keys(severe(t))))
}

// statuses are the values of the constants of a command that are called exit and something.
func statuses(t *testing.T, directory string) []string {
	t.Helper()
	var values []string
	name := regexp.MustCompile(`^exit[A-Z]`)
	sources(t, func(path string, file *ast.File) {
		if filepath.Dir(path) != directory {
			return
		}
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 || !name.MatchString(spec.Names[0].Name) {
				return true
			}
			if value, ok := spec.Values[0].(*ast.BasicLit); ok {
				values = append(values, value.Value)
			}
			return true
		})
	})
	if len(values) < 3 {
		t.Fatalf("only the statuses %v of %s were found: the search is wrong", values, directory)
	}
	return values
}

func TestTheOperatorsPageExplainsEveryExitStatusAndNoOther(t *testing.T) {
	content := page(t)
	// What the Go runtime ends a process with that the watchdog sent SIGABRT to.
	aborted := "134 or SIGABRT"
	same(t, "status", firstCells(section(t, content, "### The Runner")), append(statuses(t, "../services/runner"), aborted))
	local := statuses(t, "../services/evalhost")
	local[slices.Index(local, "128")] = "128 and a signal's number"
	same(t, "status of evalhost", firstCells(section(t, content, "### The local command")), local)
}

func TestWhatIsSaidBeforeThereIsALogIsSaidSo(t *testing.T) {
	lines := firstCells(section(t, page(t), "## What is said before there is a log"))
	source, err := os.ReadFile("../services/runner/main.go")
	if err != nil {
		t.Fatal(err)
	}
	printed := regexp.MustCompile(`"(evalhost-runner: [a-z]+:) %s\\n"`).FindAllStringSubmatch(string(source), -1)
	var real []string
	for _, p := range printed {
		real = append(real, "`"+p[1]+" …`")
	}
	if len(real) < 2 {
		t.Fatalf("only %q were found: the search is wrong", real)
	}
	same(t, "line", lines, real)
}

func TestEveryTargetOfMakeIsThereAndInItsHelp(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	phony := regexp.MustCompile(`(?m)^\.PHONY: (.*)$`).FindStringSubmatch(string(makefile))
	rules := regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(string(makefile), -1)
	if phony == nil || len(rules) < 5 {
		t.Fatal("the Makefile is not read right")
	}
	targets := strings.Fields(phony[1])
	for _, r := range rules {
		if !slices.Contains(targets, r[1]) {
			t.Errorf("make %s is not in .PHONY", r[1])
		}
	}
	for _, target := range targets {
		if !strings.Contains(string(makefile), "\n"+target+":\n") {
			t.Errorf("there is no rule for make %s", target)
		}
		if target != "help" && !strings.Contains(string(makefile), `@echo "make `+target+" ") {
			t.Errorf("make help does not speak of make %s", target)
		}
	}
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, "../README.md", "../examples/README.md", "../checks/guest/README.md")
	spoken := 0
	for _, name := range pages {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("(?m)(?:`|^)make ([a-z-]+(?: [a-z-]+)*)").FindAllStringSubmatch(string(content), -1) {
			for _, target := range strings.Fields(m[1]) {
				spoken++
				if !slices.Contains(targets, target) {
					t.Errorf("%s speaks of make %s, which is not there", name, target)
				}
			}
		}
	}
	if spoken < 10 {
		t.Errorf("the pages speak of make %d times only: the search is wrong", spoken)
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
