package problem

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Severity says what becomes of a package with a finding.
type Severity string

const (
	// Refused: judging or verifying refuses the package.
	Refused Severity = "error"
	// Surprising: it is judged, and hardly ever as its author meant.
	Surprising Severity = "warning"
)

// Finding is something in a package that its author should look at.
type Finding struct {
	Severity Severity `json:"severity"`
	// Where is a path below the package's root, with line and column where there are any.
	Where string `json:"where"`
	Msg   string `json:"message"`
}

// maxOutput is the most that a program may write (spec/judging.md 4.5); nothing longer can be matched.
const maxOutput = 64 * verdict.MiB

// FindingOf makes a finding of an error of this package; false for any other error, and for one that the machine is to
// blame for.
func FindingOf(err error) (Finding, bool) {
	var bad *Error
	if !errors.As(err, &bad) || bad.Code == CodeTarget {
		return Finding{}, false
	}
	f := Finding{Severity: Refused, Where: bad.Where, Msg: bad.Reason()}
	if bad.Line > 0 {
		f.Where = fmt.Sprintf("%s:%d:%d", bad.Where, bad.Line, bad.Col)
	}
	if bad.Key != "" {
		f.Msg = bad.Key + ": " + f.Msg
	}
	return f, true
}

// Lint examines the package that UnpackPackage has unpacked at dir, and every file of its tests: what it would be refused
// for, and what is legal and hardly ever meant. points is what the groups should be worth together. The problem is nil if
// the package would be refused. An error is the machine's.
func Lint(dir string, points uint64) (*Problem, []Finding, error) {
	var l linter
	p, faults, err := load(dir, Options{})
	for _, fault := range append(faults, err) {
		if err := l.fault(fault); err != nil {
			return nil, nil, err
		}
	}
	if p != nil {
		l.config(p, points)
		if _, err := p.LabelledSolutions(); err != nil {
			if err := l.fault(err); err != nil {
				return nil, nil, err
			}
		}
	}
	if err := l.tests(dir, p); err != nil {
		return nil, nil, err
	}
	if len(faults) > 0 {
		p = nil
	}
	return p, l.found, nil
}

type linter struct{ found []Finding }

func (l *linter) warn(where, format string, arguments ...any) {
	l.found = append(l.found, Finding{Surprising, where, fmt.Sprintf(format, arguments...)})
}

func (l *linter) refuse(where, format string, arguments ...any) {
	l.found = append(l.found, Finding{Refused, where, fmt.Sprintf(format, arguments...)})
}

// fault notes an error that is the package's, and returns any other.
func (l *linter) fault(err error) error {
	if err == nil {
		return nil
	}
	f, ok := FindingOf(err)
	if ok {
		l.found = append(l.found, f)
		return nil
	}
	return err
}

func (l *linter) config(p *Problem, points uint64) {
	if len(p.ExtraCompilationFiles) > 0 {
		l.warn(ConfigName, "extraCompilationFiles is read and used for nothing: a judging program is one file")
	}
	switch sum := p.MaxScore(); {
	case sum == 0:
		l.warn(ConfigName, "the groups are worth nothing: every score is 0 of 0")
	case sum != points:
		l.warn(ConfigName, "the groups are worth %d points together, not %d", sum, points)
	}
	for _, s := range slices.Concat(one(p.Checker), one(p.Interactor)) {
		if !p.has(s.Path) {
			l.refuse(s.Path, "declared in %s and not in the package", ConfigName)
		}
	}
	for _, s := range p.ModelSolutions {
		if !p.has(s.Path) {
			l.warn(s.Path, "declared in %s and not in the package", ConfigName)
		}
	}
}

func (p *Problem) has(path string) bool {
	file, err := p.OpenFile(path)
	if err == nil {
		_ = file.Close()
	}
	return err == nil
}

func one(s *Source) []Source {
	if s == nil {
		return nil
	}
	return []Source{*s}
}

// tests reads every file below tests/, whether or not it is one of a test: what is passed over in silence is a test nobody
// judges. p is nil if the configuration cannot be read.
func (l *linter) tests(dir string, p *Problem) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if info, err := root.Stat(testsDir); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil // the census has said so
	}
	children, err := fs.ReadDir(root.FS(), testsDir) // sorted by name
	if err != nil {
		return err
	}
	for _, child := range children {
		path := testsDir + "/" + child.Name()
		in, out := strings.HasSuffix(child.Name(), ".in"), strings.HasSuffix(child.Name(), ".out")
		switch {
		case strings.HasPrefix(child.Name(), ".") && !in && !out:
		case child.IsDir():
			l.warn(path, "a folder: nothing in it is a test")
		case !in && !out:
			l.warn(path, "belongs to no test: those end in .in and .out, in small letters")
		case child.Type().IsRegular():
			if err := l.data(root, path, out, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// data reads one file of a test.
func (l *linter) data(root *os.Root, path string, out bool, p *Problem) error {
	file, err := openRegular(root, path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	t, err := read(bufio.NewReaderSize(file, 1<<16))
	if err != nil {
		return err
	}
	if t.bom {
		l.warn(path, "begins with a byte order mark, which is a part of the first token")
	}
	if t.crlf {
		l.warn(path, "has CRLF line ends")
	}
	if t.nul > 0 {
		l.warn(path, "has a NUL byte in line %d", t.nul)
	}
	if t.invalid > 0 {
		l.warn(path, "is not UTF-8 text in line %d", t.invalid)
	}
	if t.size > 0 && !t.ended {
		l.warn(path, "does not end with a newline; programs that read line by line may lose the last one")
	}
	compared := out && p != nil && p.Checker == nil && p.Interactor == nil
	if compared && !t.token {
		l.warn(path, "is empty: only a program that prints nothing passes this test")
	}
	if compared && p.Type == StandardIO && t.size > maxOutput {
		l.warn(path, "has %d bytes; a program may write %s, so none passes this test", int64(t.size), maxOutput)
	}
	return nil
}

// traits of a text. A line number is 0 where there is no such line.
type traits struct {
	size             verdict.Bytes
	bom, crlf, token bool
	ended            bool // by a newline
	nul, invalid     int  // the first line
}

func read(text *bufio.Reader) (traits, error) {
	var t traits
	if head, _ := text.Peek(3); string(head) == "\ufeff" {
		t.bom = true
	}
	last := rune(0)
	for line := 1; ; {
		r, size, err := text.ReadRune()
		if errors.Is(err, io.EOF) {
			t.ended = last == '\n'
			return t, nil
		}
		if err != nil {
			return t, err
		}
		t.size += verdict.Bytes(size)
		switch {
		case r == utf8.RuneError && size == 1 && t.invalid == 0:
			t.invalid = line
		case r == 0 && t.nul == 0:
			t.nul = line
		case r == '\n':
			t.crlf = t.crlf || last == '\r'
			line++
		}
		t.token = t.token || !unicode.IsSpace(r)
		last = r
	}
}
