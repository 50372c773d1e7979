package problem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Problem is a package that can be judged: its configuration and its tests, over an unpacked tree.
type Problem struct {
	Config
	// Dir is the root of the unpacked tree on this machine.
	Dir string
	// Tests is the census, by group number and then by letters. It is never empty, and no group is without a test.
	Tests []Test
}

// Options is what a job adds to a package.
type Options struct {
	// Type is the problem type of the job. Empty takes what the package declares, for work that has no job.
	Type Type
	// Overlay is the assignment's JSON configuration; nil, and anything of 1.7 that changes nothing, is none.
	Overlay []byte
}

// Open unpacks the zip or directory at src into target, which must not exist, and loads it. If anything is refused,
// nothing stays behind at target. The author's own tree is read, once, and never used again.
func Open(ctx context.Context, src, target string, options Options) (*Problem, error) {
	if _, err := UnpackPackage(ctx, src, target); err != nil {
		return nil, err
	}
	p, err := Load(target, options)
	if err != nil {
		if gone := os.RemoveAll(target); gone != nil {
			err = errors.Join(err, fmt.Errorf("and the unpacked package could not be removed: %w", gone))
		}
		return nil, err
	}
	return p, nil
}

// UnpackPackage is Unpack for packages: under their limits, and with a directory for the tests even if the package has none, so
// that it can be mounted (spec/judging.md 1.4). It is what a cache of packages keeps; Load reads it.
func UnpackPackage(ctx context.Context, src, target string) (files int, err error) {
	if files, err = Unpack(ctx, src, target, PackageLimits); err != nil {
		return 0, err
	}
	dir := filepath.Join(target, testsDir)
	err = os.Mkdir(dir, 0o755)
	switch {
	case errors.Is(err, fs.ErrExist): // a directory in every honest package; the census looks
		return files, nil
	case err == nil:
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		return 0, errors.Join(targetError(testsDir, err), os.RemoveAll(target))
	}
	return files, nil
}

// Load reads a package that UnpackPackage has unpacked at dir: rows 2 to 15 of spec/judging.md 1.6.
func Load(dir string, options Options) (*Problem, error) {
	p, faults, err := load(dir, options)
	if err == nil && len(faults) > 0 {
		err = faults[0]
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// load is Load with everything that is wrong with the tests; err is what else is wrong.
func load(dir string, options Options) (p *Problem, faults []error, err error) {
	if options.Type != "" && !options.Type.Known() {
		return nil, nil, &Error{Code: CodeTypeUnknown, Where: "job", Msg: "problems of type " + shown(string(options.Type)) + " are not judged here"}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, &Error{Code: CodeFile, Where: dir, Msg: "the unpacked package cannot be opened", Err: err}
	}
	defer func() { _ = root.Close() }()
	text, err := readConfigFile(root)
	if err != nil {
		return nil, nil, err
	}
	config, err := ParseConfig(text, options.Type)
	if err != nil {
		return nil, nil, err
	}
	if config, err = ApplyOverlay(config, options.Overlay); err != nil {
		return nil, nil, err
	}
	tests, faults := census(root, config)
	return &Problem{Config: *config, Dir: dir, Tests: tests}, faults, nil
}

func readConfigFile(root *os.Root) ([]byte, error) {
	file, err := openRegular(root, ConfigName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Code: CodeConfigMissing, Where: ConfigName, Msg: "missing; expected at the root of the package, without a folder around it"}
	}
	if err != nil {
		return nil, &Error{Code: CodeConfigMissing, Where: ConfigName, Msg: "cannot be read", Err: err}
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, int64(maxConfigBytes)+1)) // one more, so that too long is noticed
	if err != nil {
		return nil, &Error{Code: CodeConfigMissing, Where: ConfigName, Msg: "cannot be read", Err: err}
	}
	return text, nil
}

// TestsIn is the number of tests of a group, the divisor of its points.
func (p *Problem) TestsIn(group uint32) int {
	count := 0
	for _, t := range p.Tests {
		if t.Group == group {
			count++
		}
	}
	return count
}

// TestInput opens the input of a test. It is an error if there is none: an input that is missing is never read as an
// empty one.
func (p *Problem) TestInput(t Test) (*os.File, error) { return p.OpenFile(t.InPath) }

// TestExpected opens the expected output of a test. It is an error if there is none: a missing expectation is never
// read as an empty one, which would accept a program that prints nothing.
func (p *Problem) TestExpected(t Test) (*os.File, error) { return p.OpenFile(t.OutPath) }

// OpenFile opens a regular file of the package by its path below the root, and never leaves the root.
func (p *Problem) OpenFile(name string) (*os.File, error) {
	clean, err := cleanName(name)
	if err != nil {
		return nil, &Error{Code: CodeFile, Where: place(name), Err: err}
	}
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return nil, &Error{Code: CodeFile, Where: clean, Msg: "the unpacked package cannot be opened", Err: err}
	}
	defer func() { _ = root.Close() }()
	file, err := openRegular(root, clean)
	if err != nil {
		return nil, &Error{Code: CodeFile, Where: clean, Msg: "a file of the package cannot be read", Err: err}
	}
	return file, nil
}

// MaxSourceBytes is the longest source that ReadSource reads: twice the largest submission, so that one that is too
// large to be judged can still be read and told from one that fits.
const MaxSourceBytes = 16 * verdict.MiB

// ReadSource reads a program of the package, such as a checker or a model solution.
func (p *Problem) ReadSource(name string) ([]byte, error) {
	file, err := p.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, int64(MaxSourceBytes)+1))
	switch {
	case err != nil:
		return nil, &Error{Code: CodeFile, Where: name, Msg: "a file of the package cannot be read", Err: err}
	case len(text) > int(MaxSourceBytes):
		return nil, &Error{Code: CodeFile, Where: name, Msg: fmt.Sprintf("a source of more than %s", MaxSourceBytes)}
	}
	return text, nil
}
