package judge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/evalhost/evalhost/services/internal/compare"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/report"
	"github.com/evalhost/evalhost/services/internal/score"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// The fixed words of output-only@1 (spec/judging.md 2.5).
const (
	noteNoAnswer   = "no answer was uploaded for this test"
	noteUnreadable = "the answers could not be read"

	logNothingCompiled = "nothing was compiled: this is an output-only problem"
)

// Answers is what a participant sent to a problem of output-only@1.
type Answers struct {
	// FileName is the name they were sent under. What ends in .zip, in any case, is an archive.
	FileName string
	// Path is where they lie on this machine. A directory is taken as an archive that holds the same.
	Path string
}

// Marker marks the answers to problems of output-only@1. Nothing of a participant is executed, so it needs no sandbox.
type Marker struct {
	// Scratch is a directory in which archives are unpacked, each in one of its own that is gone afterwards.
	Scratch string
	// Log gets what an operator should know and a participant need not. Nil for nothing.
	Log *slog.Logger
}

// Mark compares answers with a package's (spec/judging.md 2.5). Whatever the participant sent is a Judged: an archive that
// is refused is a wrong answer to every test, with the reason in the log (decisions 15). An error is a *Failure: the
// machinery or the package did it, and then there is nothing else. An expected output that cannot be read is such a failure.
func (m Marker) Mark(ctx context.Context, p *problem.Problem, a Answers) (*Judged, error) {
	if m.Log == nil {
		m.Log = slog.New(slog.DiscardHandler)
	}
	judged, err := m.mark(ctx, p, a)
	if err != nil {
		return nil, failure(err, "marking the answers")
	}
	return judged, nil
}

func (m Marker) mark(ctx context.Context, p *problem.Problem, a Answers) (*Judged, error) {
	if p.Type != problem.OutputOnly {
		return nil, fmt.Errorf("problems of type %s are not marked", p.Type)
	}
	sheet, refused, err := m.read(ctx, p, a)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := sheet.close(); err != nil {
			m.Log.Error("the unpacked answers could not be removed", "error", err)
		}
	}()
	tested := make([]Tested, len(p.Tests))
	for i, t := range p.Tests {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if tested[i], err = sheet.mark(p, t); err != nil {
			return nil, failure(err, "marking test %s", t.Name)
		}
		// The package is looked at all the same: one that is broken yields no verdict, not even on what nobody can read.
		if refused != "" {
			tested[i] = Tested{Name: t.Name, Group: t.Group, Status: verdict.Error, Reason: verdict.WrongAnswer, Note: noteUnreadable}
		}
	}
	scores, err := score.Compute(groupsOf(p), scored(tested))
	if err != nil {
		return nil, err
	}
	compilation := report.Compilation{Status: verdict.Warning, Log: logNothingCompiled}
	return assemble(p, p.Base, compilation, refused, scores, tested)
}

// answerSheet finds the answer to a test.
type answerSheet struct {
	// root is the unpacked archive, nil for a single file; folders are its direct subdirectories in the order of their names.
	root    *os.Root
	folders []string
	// single is the one test that a file is the answer to, path the file.
	single, path string
	dir          string // to be removed
}

// read opens what was sent. refused is not empty if the participant's file is none that can be marked; that is never the
// machinery's doing, whose failures are errors.
func (m Marker) read(ctx context.Context, p *problem.Problem, a Answers) (_ *answerSheet, refused string, err error) {
	// A file that is not there, or that cannot be opened, was lost by us.
	info, err := os.Stat(a.Path)
	if err != nil {
		return nil, "", fmt.Errorf("the answers cannot be opened: %w", err)
	}
	if !info.IsDir() && !strings.HasSuffix(strings.ToLower(a.FileName), ".zip") {
		switch test, ok := singleAnswer(p, a.FileName); {
		case !ok:
			return &answerSheet{}, fmt.Sprintf("%s is not a zip archive, and the problem has %d tests: send an archive with a file "+
				"for each, such as %s.out\n", shownUpTo(maxFileName, a.FileName), len(p.Tests), p.Tests[0].Name), nil
		case info.Size() > int64(problem.AnswerLimits.Entry):
			return &answerSheet{}, fmt.Sprintf("an answer of %d bytes; the most that is accepted is %s\n", info.Size(), problem.AnswerLimits.Entry), nil
		default:
			return &answerSheet{single: test, path: a.Path}, "", nil
		}
	}
	dir, err := os.MkdirTemp(m.Scratch, "answers-")
	if err != nil {
		return nil, "", err
	}
	s := &answerSheet{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	tree := filepath.Join(dir, "tree")
	if _, err := problem.Unpack(ctx, a.Path, tree, problem.AnswerLimits); err != nil {
		if why, ok := refusedAnswers(err, a.Path); ok {
			return s, fmt.Sprintf("%s: %s\n", shownUpTo(maxFileName, a.FileName), why), nil
		}
		return nil, "", err
	}
	if s.root, err = os.OpenRoot(tree); err != nil {
		return nil, "", err
	}
	children, err := fs.ReadDir(s.root.FS(), ".") // sorted by name
	if err != nil {
		return nil, "", err
	}
	for _, child := range children {
		if child.IsDir() {
			s.folders = append(s.folders, child.Name())
		}
	}
	return s, "", nil
}

// singleAnswer tells which test a file that is no archive answers: the one whose output it is named after, or the only one.
func singleAnswer(p *problem.Problem, fileName string) (string, bool) {
	for _, t := range p.Tests {
		if fileName == t.Name+".out" {
			return t.Name, true
		}
	}
	if len(p.Tests) == 1 {
		return p.Tests[0].Name, true
	}
	return "", false
}

// refusedAnswers tells an archive that is at fault from a machine that is. The kernel's word is the machine's: what a
// participant put into an archive never is one. The words name entries of the archive and no path of this machine.
func refusedAnswers(err error, path string) (why string, ok bool) {
	var bad *problem.Error
	var kernel syscall.Errno
	if !errors.As(err, &bad) || errors.As(err, &kernel) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return "", false
	}
	if bad.Code != problem.CodeArchive && bad.Code != problem.CodeRefused {
		return "", false
	}
	if bad.Where == "" || bad.Where == path {
		return bad.Reason(), true
	}
	return bad.Where + ": " + bad.Reason(), true
}

// mark compares the answer to one test.
func (s *answerSheet) mark(p *problem.Problem, t problem.Test) (Tested, error) {
	tested := Tested{Name: t.Name, Group: t.Group, Status: verdict.Error, Reason: verdict.WrongAnswer}
	expected, err := p.TestExpected(t)
	if err != nil {
		return Tested{}, fmt.Errorf("the package has no expected output for this test: %w", err)
	}
	defer expected.Close()
	answer, err := s.open(t.Name)
	if errors.Is(err, fs.ErrNotExist) {
		tested.Note = noteNoAnswer
		return tested, nil
	}
	if err != nil {
		return Tested{}, fmt.Errorf("reading the answer: %w", err)
	}
	defer answer.Close()
	result, err := compared(expected, answer)
	if err != nil {
		return Tested{}, err
	}
	tested.Note = result.Note
	if result.Equal {
		tested.Status, tested.Reason, tested.Percentage = verdict.OK, verdict.NoReason, 100
	}
	return tested, nil
}

// compared compares what is there in full. An error means that one of the two could not be read.
func compared(expected, answer io.Reader) (compare.Result, error) {
	comparison := compare.New(expected)
	if _, err := io.Copy(writes(comparison.Write), answer); err != nil {
		return compare.Result{}, fmt.Errorf("reading the answer: %w", err)
	}
	return comparison.Finish()
}

// open finds the answer to a test: at the root of the archive, else in one of the folders there. It is fs.ErrNotExist if
// there is none; a folder of that name is none.
func (s *answerSheet) open(test string) (*os.File, error) {
	if s.root == nil {
		if test != s.single {
			return nil, fs.ErrNotExist
		}
		return os.Open(s.path)
	}
	for _, folder := range append([]string{"."}, s.folders...) {
		name := filepath.Join(folder, test+".out")
		info, err := s.root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && !info.Mode().IsRegular():
			continue
		case err != nil:
			return nil, err
		}
		return s.root.Open(name)
	}
	return nil, fs.ErrNotExist
}

// close removes what was unpacked.
func (s *answerSheet) close() error {
	var errs []error
	if s.root != nil {
		errs = append(errs, s.root.Close())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// writes is a writer into a comparison.
type writes func([]byte) bool

func (w writes) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}
