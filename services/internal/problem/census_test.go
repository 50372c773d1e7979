package problem_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/internal/problem"
)

func names(p *problem.Problem) string {
	var list []string
	for _, t := range p.Tests {
		name := t.Name
		if !t.HasIn {
			name += "-in"
		}
		if !t.HasOut {
			name += "-out"
		}
		list = append(list, name)
	}
	return strings.Join(list, " ")
}

func TestTheCensusListsTestsByGroupAndThenByLetters(t *testing.T) {
	checked := plain().with("config.yml", plainConfig+checkerLine)
	interactive := plain().with("config.yml", plainConfig+interactorLine)
	counted := func(n string) files {
		text := strings.Replace(plainConfig, "points: 100 }\n", "points: 100, tests: "+n+" }\n"+interactorLine, 1)
		return files{"config.yml": text, "tests/0a.in": "x"}
	}
	only := strings.Replace(plainConfig, "  - { group: 0, points: 0, examples: true }\n", "", 1)
	for _, test := range []struct {
		name  string
		files files
		want  string
	}{
		{"as it is", plain(), "0a 1a 1b"},
		{"letters as text", plain().with("tests/1aa.in", "x", "tests/1aa.out", "x", "tests/1z.in", "x", "tests/1z.out", "x"), "0a 1a 1aa 1b 1z"},
		{"a zero in front", plain().with("tests/01a.in", "x", "tests/01a.out", "x"), "0a 01a 1a 1b"},
		{"other files", plain().with("tests/README", "x", "tests/1a.ans", "x", "tests/x.IN", "x", "tests/.in", "x", "tests/sub/9z.in", "x"), "0a 1a 1b"},
		{"a checker needs no outputs", checked.with("tests/1b.out", ""), "0a 1a 1b-out"},
		{"an interactor needs neither", interactive.with("tests/1a.in", "", "tests/1b.out", ""), "0a 1a-in 1b-out"},
		{"three by count", counted("3"), "0a-out 1a-in-out 1b-in-out 1c-in-out"},
		{"two by count and one on disk", counted("2").with("tests/1a.in", "x"), "0a-out 1a-out 1b-in-out"},
		{"groups with two digits", plain().with("config.yml", plainConfig+"  - { group: 12, points: 1 }\n", "tests/12ab.in", "x", "tests/12ab.out", "x"), "0a 1a 1b 12ab"},
		{"no directory, all by count", files{"config.yml": strings.Replace(only, "points: 100 }\n", "points: 100, tests: 3 }\n"+interactorLine, 1)}, "1a-in-out 1b-in-out 1c-in-out"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := open(t, test.files, problem.Options{})
			must(t, err)
			if got := names(p); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestATestThatIsNamedOrFurnishedWronglyIsRefused(t *testing.T) {
	checked := plain().with("config.yml", plainConfig+checkerLine)
	counted := plain().with("config.yml", strings.Replace(plainConfig, "points: 100 }\n", "points: 100, tests: 3 }\n"+interactorLine, 1))
	for _, test := range []struct {
		name    string
		files   files
		mention string
	}{
		{"letters first", plain().with("tests/a1.in", "x"), "tests/a1.in"},
		{"only digits", plain().with("tests/1.in", "x"), "tests/1.in"},
		{"only letters", plain().with("tests/a.out", "x"), "tests/a.out"},
		{"a capital", plain().with("tests/1C.in", "x"), "tests/1C.in"},
		{"digits behind", plain().with("tests/1a2.in", "x"), "tests/1a2.in"},
		{"two dots", plain().with("tests/1a.b.in", "x"), "1a.b"},
		{"a sign", plain().with("tests/-1a.in", "x"), "-1a"},
		{"a group beyond 32 bits", plain().with("tests/4294967296a.in", "x"), "too large"},
		{"a group nobody declares", plain().with("tests/2a.in", "x", "tests/2a.out", "x"), "group 2 is not declared"},
		{"no input", plain().with("tests/1b.in", ""), "tests/1b.in"},
		{"no output", plain().with("tests/1b.out", ""), "tests/1b.out"},
		{"no input beside a checker", checked.with("tests/1b.in", ""), "tests/1b.in"},
		{"outside the count", counted.with("tests/1d.in", "x"), "group 1 declares 3 tests"},
		{"a zero in front of a counted one", counted.with("tests/01a.in", "x"), "01a"},
		{"an empty group", plain().with("config.yml", plainConfig+"  - { group: 2, points: 0 }\n"), "group 2 has no tests"},
		{"a folder for an input", plain().with("tests/1c.in/x", "x"), "tests/1c.in: not a regular file"},
		{"a file for the folder", files{"config.yml": plainConfig, "tests": "x"}, "tests"},
		{"C46 nothing at all", files{"config.yml": plainConfig, "tests/": ""}, "no tests"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := open(t, test.files, problem.Options{})
			wantCode(t, err, problem.CodeTests, test.mention)
		})
	}
}

func TestAFileOfATestIsOpenedOnlyIfItIsARegularFileThatIsThere(t *testing.T) {
	p, err := open(t, plain(), problem.Options{})
	must(t, err)
	test := p.Tests[1]
	file, err := p.TestExpected(test)
	must(t, err)
	content, err := io.ReadAll(file)
	must(t, err)
	must(t, file.Close())
	if string(content) != "7\n" {
		t.Errorf("got %q", content)
	}

	expected := filepath.Join(p.Dir, filepath.FromSlash(test.OutPath))
	must(t, os.Remove(expected))
	_, err = p.TestExpected(test)
	wantCode(t, err, problem.CodeFile, "tests/1a.out")
	must(t, os.Symlink("1a.in", expected))
	_, err = p.TestExpected(test)
	wantCode(t, err, problem.CodeFile, "tests/1a.out")
	must(t, os.Remove(expected))
	must(t, os.Mkdir(expected, 0o755))
	_, err = p.TestExpected(test)
	wantCode(t, err, problem.CodeFile, "tests/1a.out")

	for _, name := range []string{"", "..", "../x", "/etc/passwd", "tests", "a b"} {
		if file, err := p.OpenFile(name); err == nil {
			t.Errorf("%q was opened: %s", name, file.Name())
		}
	}
}

func TestThereIsADirectoryForTestsEvenIfThePackageHasNone(t *testing.T) {
	text := "type: standard-io@1\nlimits: { timeMs: 1, memoryBytes: 1 }\ngroups: [ { group: 1, points: 1, tests: 2 } ]\n" + interactorLine
	p, err := open(t, files{"config.yml": text}, problem.Options{})
	must(t, err)
	info, err := os.Stat(filepath.Join(p.Dir, "tests"))
	must(t, err)
	if info.Mode() != os.ModeDir|0o755 {
		t.Errorf("it has mode %v", info.Mode())
	}
}

func TestAFileInThePlaceOfTheTestsIsSaidToBeThat(t *testing.T) {
	_, err := open(t, files{"config.yml": plainConfig, "tests": "1a\n"}, problem.Options{})
	wantCode(t, err, problem.CodeTests, "tests: a file; expected a directory with the tests")
}

func TestASourceIsReadUpToItsBound(t *testing.T) {
	root := plain().with("checker/check.c", "int main(void) { return 0; }\n", "large.c", strings.Repeat("x", 16<<20+1)).dir(t)
	p, err := problem.Open(t.Context(), root, target(t), problem.Options{})
	must(t, err)
	if text, err := p.ReadSource("checker/check.c"); err != nil || len(text) != 29 {
		t.Errorf("%q, %v", text, err)
	}
	_, err = p.ReadSource("large.c")
	wantCode(t, err, problem.CodeFile, "16 MiB")
}
