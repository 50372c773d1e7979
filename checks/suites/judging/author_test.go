//go:build guest

package judging

import (
	"encoding/json"
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

// The demo judges the other two examples, and a soak does.
func TestTheExamplesOfEveryKindGetTheVerdictsOfTheirLabels(t *testing.T) {
	unchanged(t)
	var dirs []string
	names := []string{"pair", "guess", "divisors", "tilings", "vowels"}
	if os.Getenv("EVALHOST_TEST_EVERYTHING") != "" {
		names = append(names, "sum", "squares")
	}
	for _, name := range names {
		dirs = append(dirs, example(t, name))
	}
	// What init writes is one more.
	fresh := filepath.Join(t.TempDir(), "fresh")
	evalhost(t, options{}, "init", fresh).wants(t, 0)
	dirs = append(dirs, fresh)
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
		if want := map[string]int{"pair": 2, "guess": 2, "divisors": 4, "tilings": 0, "vowels": 2, "fresh": 2, "sum": 3, "squares": 3}[filepath.Base(p.Package)]; len(p.Limits) != want {
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

// Checkers and interactors are run, and limits that look too low are tried, each with a program of the author's tools.
func TestLintRunsCheckersAndInteractorsAndTriesTightLimits(t *testing.T) {
	unchanged(t)
	strict := copyOf(t, example(t, "pair"), func(root string) {
		edit(t, filepath.Join(root, "checker/check.c"), "a - b > 1 || b - a > 1", "a - b > -1 && b - a > -1")
	})
	trusting := copyOf(t, example(t, "guess"), func(root string) {
		edit(t, filepath.Join(root, "interactor/talk.c"), `"WRONG", "it ended before`, `"OK", "it ended before`)
	})
	broken := copyOf(t, example(t, "pair"), func(root string) {
		edit(t, filepath.Join(root, "checker/check.c"), "int main", "int mian")
	})
	// No interpreter starts within a millisecond. What a program in C needs is up to the machine, and 90 ms may or may not be enough.
	tight := single(1, 64<<20).config("languages: [python3, c11-gcc]\noverrideLimits: { c: { timeMs: 90 } }").dir(t)
	good := []string{example(t, "pair"), example(t, "guess"), example(t, "divisors"), example(t, "vowels"), example(t, "tilings")}
	r := evalhost(t, options{}, append([]string{"lint", strict, trusting, broken, tight}, good...)...)
	r.wants(t, 1)
	for _, want := range []string{
		strict + `: warning: checker/check.c: test 1a: the checker gives the package's own expected output 50 %; it says "right, but they lie far apart"`,
		trusting + `: warning: interactor/talk.c: test 1a: the interactor accepts a program that writes nothing; it says "it ended before it had found the number"`,
		broken + ": error: checker/check.c: it does not build: exit code 1: ",
		tight + ": warning: config.yml: limits.timeMs is 1ms, and a program in Python 3 (CPython) that does nothing gets \"Time limit exceeded\" here: it took ",
	} {
		if !strings.Contains("\n"+r.stdout, "\n"+want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	for _, dir := range good {
		if strings.Contains("\n"+r.stdout, "\n"+dir+":") {
			t.Errorf("something is found in %s:\n%s", dir, r.stdout)
		}
	}
	t.Log(r.stdout)
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
}

func TestAnswersAreJudgedByAnybody(t *testing.T) {
	r := evalhost(t, options{as: 65534, env: []string{"TMPDIR=/var/tmp"}}, "judge", example(t, "tilings"), example(t, "tilings/solutions/accepted/both"))
	r.wants(t, 0)
	if !strings.HasSuffix(r.stdout, "verdict Accepted\n") {
		t.Errorf("%s", r.stdout)
	}
}
