//go:build guest

package judging

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// example is the directory of an example package.
func example(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("EVALHOST_TEST_EXAMPLES")
	if root == "" {
		t.Fatal("EVALHOST_TEST_EXAMPLES does not name the examples")
	}
	return filepath.Join(root, name)
}

// copyOf copies a package; change may alter the copy.
func copyOf(t *testing.T, dir string, change func(root string)) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), filepath.Base(dir))
	if err := os.CopyFS(root, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(root)
	}
	return root
}

func edit(t *testing.T, path, from, to string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), from) {
		t.Fatalf("%s has no %q: %v", path, from, err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Issue C, 12 and must hold 6. The demo judges the other two examples.
func TestTheExamplesOfEveryKindGetTheVerdictsOfTheirLabels(t *testing.T) {
	unchanged(t)
	var dirs []string
	for _, name := range []string{"pair", "guess", "divisors", "tilings", "vowels"} {
		dirs = append(dirs, example(t, name))
	}
	r := evalhost(t, options{}, append([]string{"verify", "--json"}, dirs...)...)
	r.wants(t, 0)
	var got struct {
		AsExpected bool
		Packages   []struct {
			Package   string
			Solutions []struct {
				Path, Actual string
				Slowest      *struct{ TimeMs, LimitMs int64 }
			}
			Limits []struct {
				Setting                    string
				Limit, Measured, Suggested uint64
			}
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || !got.AsExpected || len(got.Packages) != len(dirs) {
		t.Fatalf("%v\n%s", err, r.stdout)
	}
	for _, p := range got.Packages {
		for _, s := range p.Solutions {
			t.Logf("%s: %s", s.Path, s.Actual)
		}
		for _, l := range p.Limits {
			t.Logf("%s: %+v", filepath.Base(p.Package), l)
			if l.Measured == 0 || l.Suggested < l.Measured {
				t.Errorf("%s: %+v", p.Package, l)
			}
		}
		if want := map[string]int{"pair": 2, "guess": 2, "divisors": 4, "tilings": 0, "vowels": 2}[filepath.Base(p.Package)]; len(p.Limits) != want {
			t.Errorf("%s: %d suggestions, want %d", p.Package, len(p.Limits), want)
		}
	}
}

func TestACopyWithOneLabelChangedIsNamed(t *testing.T) {
	unchanged(t)
	dir := copyOf(t, example(t, "vowels"), func(root string) {
		os.Mkdir(filepath.Join(root, "solutions/wrong_answer"), 0o755)
		if err := os.Rename(filepath.Join(root, "solutions/accepted/count.py"), filepath.Join(root, "solutions/wrong_answer/count.py")); err != nil {
			t.Fatal(err)
		}
	})
	r := evalhost(t, options{}, "verify", dir)
	r.wants(t, 1, dir+`/solutions/wrong_answer/count.py got "Accepted", its label says "Wrong answer"`)
	if !strings.Contains(r.stdout, "UNEXPECTED") || !strings.Contains(r.stdout, "2 of 3 solutions") {
		t.Errorf("%s", r.stdout)
	}
}

func TestLintRunsCheckersAndInteractors(t *testing.T) {
	unchanged(t)
	good := evalhost(t, options{}, "lint", example(t, "pair"), example(t, "guess"), example(t, "divisors"), example(t, "vowels"), example(t, "tilings"))
	good.wants(t, 0)
	if good.stdout != "0 findings\n" {
		t.Errorf("%s", good.stdout)
	}
	strict := copyOf(t, example(t, "pair"), func(root string) {
		edit(t, filepath.Join(root, "checker/check.c"), "a - b > 1 || b - a > 1", "a - b > -1 && b - a > -1")
	})
	trusting := copyOf(t, example(t, "guess"), func(root string) {
		edit(t, filepath.Join(root, "interactor/talk.c"), `"WRONG", "it ended before`, `"OK", "it ended before`)
	})
	broken := copyOf(t, example(t, "pair"), func(root string) {
		edit(t, filepath.Join(root, "checker/check.c"), "int main", "int mian")
	})
	r := evalhost(t, options{}, "lint", strict, trusting, broken)
	r.wants(t, 1)
	for _, want := range []string{
		strict + `: warning: checker/check.c: test 1a: the checker gives the package's own expected output 50 %; it says "right, but they lie far apart"`,
		trusting + `: warning: interactor/talk.c: test 1a: the interactor accepts a program that writes nothing; it says "it ended before it had found the number"`,
		broken + ": error: checker/check.c: it does not build: exit code 1: ",
		"\n3 findings\n",
	} {
		if !strings.Contains("\n"+r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
}

// J40: every row names a language, and takes time.
func TestJ40ATrialMeasuresTwoModels(t *testing.T) {
	unchanged(t)
	pkg := adder().config("modelSolutions: [ { source: add.cpp, language: cpp }, { source: add.py, language: python } ]\noverrideLimits: { python: { timeMs: 30000 } }").with(files{
		"add.cpp": strings.Replace(add, "<stdio.h>", "<cstdio>", 1),
		"add.py":  "print(sum(map(int, input().split())))\n",
	}).dir(t)
	r := evalhost(t, options{}, "trial", "--json", pkg)
	r.wants(t, 0)
	var got struct {
		Measured []struct {
			Group       *uint32
			Language    string
			TimeMs      int64
			MemoryBytes int64
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || len(got.Measured) != 6 || strings.Count(r.stdout, "\n") != 1 {
		t.Fatalf("%v\n%s", err, r.stdout)
	}
	t.Log(r.stdout)
	for i, row := range got.Measured {
		if want := []string{"cpp", "python"}[i/3]; row.Language != want || row.Group == nil || *row.Group != uint32(i%3) || row.TimeMs <= 0 || row.MemoryBytes < 128<<10 {
			t.Errorf("row %d: %+v", i, row)
		}
	}
	bad := evalhost(t, options{}, "trial", adder().config("modelSolution: { source: sub.c, language: c11-gcc }").
		with(files{"sub.c": strings.Replace(add, "a + b", "a - b", 1)}).dir(t))
	bad.wants(t, 1, "nothing was measured: the model solution sub.c: Wrong answer, 0 of 100 points", "test 0a: token 1 differs")
	if bad.stdout != "" {
		t.Errorf("%s", bad.stdout)
	}
}

func TestWhatInitWritesIsVerified(t *testing.T) {
	unchanged(t)
	dir := filepath.Join(t.TempDir(), "new")
	evalhost(t, options{}, "init", dir).wants(t, 0)
	r := evalhost(t, options{}, "verify", dir)
	r.wants(t, 0)
	if !strings.Contains(r.stdout, "\n2 of 2 solutions got the verdict of their label\n") {
		t.Errorf("%s", r.stdout)
	}
}

// What lint takes for too little is too little: a limit that an empty program keeps is none of its findings.
func TestALimitThatAnEmptyProgramKeepsIsNoFinding(t *testing.T) {
	unchanged(t)
	pkg := single(60000, 256<<20).with(files{"tests/1a.out": "\n"}).dir(t)
	for toolchain, c := range map[string]struct{ name, source string }{
		"c11-gcc": {"a.c", "int main(void) { return 0; }\n"}, "cpp20-gcc": {"a.cpp", "int main() { return 0; }\n"},
		"python3": {"a.py", "pass\n"}, "pypy3": {"a.py", "pass\n"},
	} {
		d := judge(t, pkg, c.name, c.source, "--toolchain", toolchain)
		row := d.row(t, "1a")
		if row.Status != "OK" || row.MemoryBytes == nil {
			t.Errorf("%s: %+v", toolchain, row)
			continue
		}
		t.Logf("%s: %d bytes, %d ms", toolchain, *row.MemoryBytes, *row.TimeMs)
		tight := single(60000, *row.MemoryBytes).config(fmt.Sprintf("languages: [%s]", toolchain)).dir(t)
		if r := evalhost(t, options{}, "lint", tight); r.status != 0 {
			t.Errorf("%s needs %d bytes, and lint finds that too little: %s", toolchain, *row.MemoryBytes, r.stdout)
		}
	}
}

func TestAnswersAreJudgedByAnybody(t *testing.T) {
	r := evalhost(t, options{as: 65534, env: []string{"TMPDIR=/var/tmp"}}, "judge", example(t, "tilings"), example(t, "tilings/solutions/accepted/both"))
	r.wants(t, 0)
	if !strings.HasSuffix(r.stdout, "verdict Accepted\n") {
		t.Errorf("%s", r.stdout)
	}
}
