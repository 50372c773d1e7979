package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// taggedTests names the tests of a suite that exist only with the build tag. They are read out of the sources: asking a test
// binary for them would compile it a second time, without the tag. A suite without one is an error: it would pass by running nothing.
func taggedTests(s suite) ([]string, error) {
	all, err := testsOf(s.pkg, "guest")
	if err != nil {
		return nil, err
	}
	untagged, err := testsOf(s.pkg)
	if err != nil {
		return nil, err
	}
	tests := slices.DeleteFunc(all, func(name string) bool { return slices.Contains(untagged, name) })
	if len(tests) == 0 {
		return nil, fmt.Errorf("suite %s has no test for the guest in %s", s.name, s.pkg)
	}
	return tests, nil
}

// testsOf names the tests in the package of a directory under these build tags, in the order of its files.
func testsOf(dir string, tags ...string) ([]string, error) {
	from := build.Default
	from.BuildTags = tags
	pkg, err := from.ImportDir(dir, 0)
	if err != nil {
		return nil, fmt.Errorf("find the tests in %s: %w", dir, err)
	}
	var tests []string
	for _, name := range slices.Concat(pkg.TestGoFiles, pkg.XTestGoFiles) {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("find the tests in %s: %w", dir, err)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && isTest(f.Name.Name) {
				tests = append(tests, f.Name.Name)
			}
		}
	}
	return tests, nil
}

// behindTag names the packages, as the go command takes them, of those files whose build constraint asks about a tag. That
// there are none is an error: the go command would take no package for the one it stands in.
func behindTag(files []string, tag string) ([]string, error) {
	packages := map[string]bool{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("find what is behind the build tag %s: %w", tag, err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "package ") {
				break
			}
			if !constraint.IsGoBuild(line) {
				continue
			}
			expression, err := constraint.Parse(line)
			if err != nil {
				return nil, fmt.Errorf("find what is behind the build tag %s: %s: %w", tag, name, err)
			}
			expression.Eval(func(asked string) bool { // is asked about every tag, whatever it answers
				if asked == tag {
					packages["./"+filepath.ToSlash(filepath.Dir(name))] = true
				}
				return true
			})
		}
	}
	if len(packages) == 0 {
		return nil, fmt.Errorf("no file of %d is behind the build tag %s", len(files), tag)
	}
	return slices.Sorted(maps.Keys(packages)), nil
}

// isTest says whether the go command takes a function of this name for a test.
func isTest(name string) bool {
	rest, ok := strings.CutPrefix(name, "Test")
	first, _ := utf8.DecodeRuneInString(rest)
	return ok && name != "TestMain" && !unicode.IsLower(first)
}
