package problem

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// solutionsDir holds the labelled solutions, one directory a label (docs/decisions/0020).
const solutionsDir = "solutions"

// labels maps the directories below solutions/ to the verdict that a solution in them must get. The order is the order in
// which they are listed and judged.
var labels = []struct {
	name    string
	verdict verdict.Verdict
}{
	{"accepted", verdict.Accepted},
	{"partial", verdict.Partial},
	{"wrong_answer", verdict.AnswerWrong},
	{"time_limit_exceeded", verdict.TimeLimitExceeded},
	{"memory_limit_exceeded", verdict.MemoryLimitExceeded},
	{"output_limit_exceeded", verdict.OutputLimitExceeded},
	{"run_time_error", verdict.RunFailed},
	{"compile_error", verdict.CompilationFailed},
	{"policy_violation", verdict.PolicyViolated},
}

// Labelled is a solution that says which verdict it must get.
type Labelled struct {
	// Path lies below the package's root: "solutions/accepted/sum.c".
	Path string
	// Label is the directory's name, Want the verdict it stands for.
	Label string
	Want  verdict.Verdict
	// Hint is what stands between the last two dots of the file's name: "c11-clang" for "sum.c11-clang.c", else "". It must
	// be the id of a toolchain: what is none is a misspelling, and would be judged in another language than was meant.
	// Always empty in a problem of output-only@1, whose solutions are answers.
	Hint string
}

// LabelledSolutions lists solutions/<label>/<file>, by label in a fixed order and then by name. Files directly below
// solutions/ carry no label and are not listed, nor are names that begin with a dot. A directory that is no label is
// an error, and so is a directory within a label: what is passed over in silence is a solution nobody judges. Only answers
// to a problem of output-only@1 may be a directory, which stands for an archive of what is in it.
func (p *Problem) LabelledSolutions() ([]Labelled, error) {
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return nil, &Error{Code: CodeFile, Where: p.Dir, Msg: "the unpacked package cannot be opened", Err: err}
	}
	defer func() { _ = root.Close() }()
	children, err := fs.ReadDir(root.FS(), solutionsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &Error{Code: CodeSolutions, Where: solutionsDir, Err: err}
	}
	present := map[string]bool{}
	for _, child := range children {
		if !child.IsDir() || strings.HasPrefix(child.Name(), ".") {
			continue
		}
		if !slices.Contains(labelNames(), child.Name()) {
			return nil, &Error{
				Code: CodeSolutions, Where: path.Join(solutionsDir, child.Name()),
				Msg: "not a label; expected one of " + strings.Join(labelNames(), ", "),
			}
		}
		present[child.Name()] = true
	}
	var list []Labelled
	for _, label := range labels {
		if !present[label.name] {
			continue
		}
		files, err := labelledIn(root, label.name, p.Type == OutputOnly)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			l := Labelled{Path: path.Join(solutionsDir, label.name, file), Label: label.name, Want: label.verdict}
			if p.Type != OutputOnly {
				l.Hint = hint(file)
			}
			list = append(list, l)
		}
	}
	return list, nil
}

func labelledIn(root *os.Root, label string, folders bool) ([]string, error) {
	dir := path.Join(solutionsDir, label)
	children, err := fs.ReadDir(root.FS(), dir) // sorted by name
	if err != nil {
		return nil, &Error{Code: CodeSolutions, Where: dir, Err: err}
	}
	var files []string
	for _, child := range children {
		if strings.HasPrefix(child.Name(), ".") {
			continue
		}
		if !child.Type().IsRegular() && !(folders && child.IsDir()) {
			return nil, &Error{
				Code: CodeSolutions, Where: path.Join(dir, child.Name()),
				Err: fmt.Errorf("not a regular file; a labelled solution is one file"),
			}
		}
		files = append(files, child.Name())
	}
	return files, nil
}

func labelNames() []string {
	var names []string
	for _, label := range labels {
		names = append(names, label.name)
	}
	return names
}

// hint returns what stands between the last two dots.
func hint(file string) string {
	stem := strings.TrimSuffix(file, path.Ext(file))
	return strings.TrimPrefix(path.Ext(stem), ".")
}
