package problem

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// testsDir is the one directory whose name is more than convention.
const testsDir = "tests"

// Test is one test of the census.
type Test struct {
	// Name is digits and then small letters, such as "1a".
	Name string
	// Group is what the digits say.
	Group uint32
	// InPath and OutPath lie below the package's root and use slashes. They are set whether or not the files exist.
	InPath, OutPath string
	// HasIn and HasOut tell whether they do.
	HasIn, HasOut bool
}

// letters is the part of the name after the digits.
func (t Test) letters() string { return strings.TrimLeft(t.Name, "0123456789") }

// parseTestName splits a test's name (spec/judging.md 1.8).
func parseTestName(name string) (group uint32, err error) {
	letters := strings.TrimLeft(name, "0123456789")
	digits := name[:len(name)-len(letters)]
	if digits == "" || letters == "" || strings.Trim(letters, "abcdefghijklmnopqrstuvwxyz") != "" {
		return 0, fmt.Errorf("%s is no name of a test; expected digits and then small letters, such as 1a", shown(name))
	}
	number, err := strconv.ParseUint(digits, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("the group number of %s is too large", shown(name))
	}
	return uint32(number), nil
}

// census lists the tests of a package: those that have files below tests/ and those that a group declares by count
// (spec/judging.md 1.8). It comes back with everything that is wrong with them; a package is refused for the first.
func census(root *os.Root, config *Config) ([]Test, []error) {
	tests := map[string]*Test{}
	at := func(name string, group uint32) *Test {
		t, ok := tests[name]
		if !ok {
			base := testsDir + "/" + name
			t = &Test{Name: name, Group: group, InPath: base + ".in", OutPath: base + ".out"}
			tests[name] = t
		}
		return t
	}
	declared := false
	for _, g := range config.Groups {
		declared = declared || g.Declared > 0
		for i := range g.Declared {
			at(strconv.FormatUint(uint64(g.Number), 10)+string(rune('a'+i)), g.Number)
		}
	}
	files, err := testFiles(root, declared)
	if err != nil {
		return nil, []error{err}
	}
	var faults []error
	for _, file := range files {
		group, err := file.check(config)
		if err != nil {
			faults = append(faults, testsError(file.path, err))
			continue
		}
		t := at(file.stem, group)
		if file.output {
			t.HasOut = true
		} else {
			t.HasIn = true
		}
	}
	list := make([]Test, 0, len(tests))
	for _, t := range tests {
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b Test) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), strings.Compare(a.letters(), b.letters()), strings.Compare(a.Name, b.Name))
	})
	if len(list) == 0 && len(faults) > 0 {
		return nil, faults // no test is left, and that is not the fault
	}
	return list, append(faults, checkCensus(list, config)...)
}

// testFile is a direct child of tests/ that ends in .in or .out.
type testFile struct {
	path, stem string
	output     bool
	kind       fs.FileMode
}

func testFiles(root *os.Root, declared bool) ([]testFile, error) {
	children, err := fs.ReadDir(root.FS(), testsDir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && declared:
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, testsError(testsDir, errors.New("missing; expected a directory with the tests"))
	case errors.Is(err, syscall.ENOTDIR):
		return nil, testsError(testsDir, errors.New("a file; expected a directory with the tests"))
	case err != nil:
		return nil, testsError(testsDir, fmt.Errorf("cannot be read: %w", withoutPath(err)))
	}
	var files []testFile
	for _, child := range children {
		name := child.Name()
		dot := strings.LastIndexByte(name, '.')
		if dot <= 0 || name[dot:] != ".in" && name[dot:] != ".out" {
			continue
		}
		files = append(files, testFile{
			path: testsDir + "/" + name, stem: name[:dot], output: name[dot:] == ".out", kind: child.Type(),
		})
	}
	return files, nil
}

// withoutPath is what the kernel said, without the place of the unpacked tree on this machine, which is nobody's business.
func withoutPath(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// check returns the group of a test file that may be where it is.
func (f testFile) check(config *Config) (uint32, error) {
	if !f.kind.IsRegular() {
		return 0, errors.New("not a regular file")
	}
	number, err := parseTestName(f.stem)
	if err != nil {
		return 0, err
	}
	group, ok := config.Group(number)
	if !ok {
		return 0, fmt.Errorf("group %d is not declared in %s", number, ConfigName)
	}
	if group.Declared == 0 {
		return number, nil
	}
	for i := range group.Declared {
		if f.stem == strconv.FormatUint(uint64(number), 10)+string(rune('a'+i)) {
			return number, nil
		}
	}
	return 0, fmt.Errorf("group %d declares %d tests, and %s is none of them", number, group.Declared, shown(f.stem))
}

// checkCensus asks of every test the files it must have, and of every group that it has a test: points of a group
// without tests would be won by doing nothing.
func checkCensus(tests []Test, config *Config) (faults []error) {
	if len(tests) == 0 {
		return []error{testsError(testsDir, errors.New("no tests; expected at least one in every group"))}
	}
	count := map[uint32]int{}
	for _, t := range tests {
		count[t.Group]++
		needsIn := config.Interactor == nil
		needsOut := needsIn && config.Checker == nil
		switch {
		case needsIn && !t.HasIn:
			faults = append(faults, testsError(t.InPath, fmt.Errorf("missing; test %s has no input", t.Name)))
		case needsOut && !t.HasOut:
			faults = append(faults, testsError(t.OutPath, fmt.Errorf("missing; test %s has no expected output and the package no checker", t.Name)))
		}
	}
	for _, g := range config.Groups {
		if count[g.Number] == 0 {
			faults = append(faults, testsError(testsDir, fmt.Errorf("group %d has no tests", g.Number)))
		}
	}
	return faults
}

func testsError(where string, err error) error {
	return &Error{Code: CodeTests, Where: where, Err: err}
}
