//go:build guest

package judge

import (
	"archive/zip"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/report"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

const (
	addC   = "#include <stdio.h>\nint main(void) { long a, b; if (scanf(\"%ld %ld\", &a, &b) != 2) return 1; printf(\"%ld\\n\", a + b); return 0; }\n"
	addCPP = "#include <cstdio>\nint main() { long a, b; if (std::scanf(\"%ld %ld\", &a, &b) != 2) return 1; std::printf(\"%ld\\n\", a + b); }\n"
	addPy  = "a, b = map(int, input().split())\nprint(a + b)\n"
)

// One problem, many submissions: what a correct program gets, by any name of its language.
func TestACorrectSubmissionIsAcceptedByAnyNameOfItsLanguage(t *testing.T) {
	g := onAHost(t)
	p := open(t, map[string]string{
		"config.yml": strings.Replace(adder["config.yml"], "timeMs: 2000", "timeMs: 20000", 1) + "overrideLimits: { python: { timeMs: 9000 } }\n",
	})
	// Three tests where the groups matter, one where they do not.
	all, one := g.bench(p, 2), g.bench(open(t, single(20000, 256<<20), map[string]string{
		"config.yml": strings.Replace(single(20000, 256<<20)["config.yml"], "groups:", "overrideLimits: { python: { timeMs: 9000 } }\ngroups:", 1),
	}), 1)
	for _, c := range []struct {
		name, file, source, toolchain, resolved string
		limit                                   time.Duration
		bench                                   *Bench
	}{
		{"J2 J6 J8 C++ by its id", "add.cpp", addCPP, "cpp20-gcc", "cpp20-gcc", 20 * time.Second, all},
		{"J4 C++ by its alias", "Add.CXX", addCPP, "cpp", "cpp20-gcc", 20 * time.Second, one},
		{"J4 J7 J42 Python by its alias, with its own limit", "add.py", addPy, "python", "python3", 9 * time.Second, all},
		{"C44 a source in C that begins with a byte order mark", "add.c", "\xef\xbb\xbf" + addC, "c11-gcc", "c11-gcc", 20 * time.Second, one},
		{"C44 a source in Python that begins with a byte order mark", "add.py", "\xef\xbb\xbf" + addPy, "python3", "python3", 9 * time.Second, one},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := g.judge(c.bench, Submission{FileName: c.file, Source: []byte(c.source), Toolchain: c.toolchain})
			d := j.Document
			if j.Verdict != verdict.Accepted || d.Score != 100 || d.MaxScore != 100 || d.Type != "standard-io@1" || d.Compilation.Status != verdict.OK ||
				len(d.Tests) != len(c.bench.problem.Tests) || d.Limits.Time != c.limit || j.Toolchain.ID != c.resolved {
				t.Errorf("%s, %+v", j.Verdict, d)
			}
			for _, tested := range j.Tests {
				// Half the limit is far above what adding costs, whatever emulates the processor.
				if tested.Memory == nil || *tested.Memory < 128*verdict.KiB || *tested.Memory > 256*verdict.MiB || tested.Time > c.limit/2 {
					t.Errorf("%s", row(tested))
				}
			}
		})
	}
	t.Run("J1 a language that the problem does not accept", func(t *testing.T) {
		only := open(t, map[string]string{"config.yml": adder["config.yml"] + "languages: [python3]\n"})
		j := g.judge(g.bench(only, 1), Submission{FileName: "add.cpp", Source: []byte(addCPP), Toolchain: "cpp20-gcc"})
		if j.Verdict != verdict.PolicyViolated || j.Document.Score != 0 || !strings.Contains(j.Log, "C++20 (GCC)") || !strings.Contains(j.Log, "python3") {
			t.Errorf("%s, log %q", j.Verdict, j.Log)
		}
	})
}

// What a compiler is made to do becomes the participant's compilation error, in words that can be shown.
func TestWhatACompilerObjectsToIsShownAsText(t *testing.T) {
	g := onAHost(t)
	b := g.bench(open(t), 1)
	const secret = "evalhost-planted-secret-6b1f"
	for _, path := range []string{"/etc/evalhost-planted", guestScratch + "/planted"} {
		guestFile(t, path, secret+"\n")
		t.Cleanup(func() { os.Remove(path) })
	}
	var doubling strings.Builder
	doubling.WriteString("#define A0 int x = 0;\n")
	for i := range 12 {
		fmt.Fprintf(&doubling, "#define A%d A%d A%d\n", i+1, i, i)
	}
	doubling.WriteString("int main(void) { A12 }\n")
	for _, c := range []struct {
		name, source string
		says         []string
	}{
		{"C41 a message in Latin-1", "#error caf\xe9\nint main(void) { return 0; }\n", []string{"caf\ufffd", "error"}},
		{"C49 a few characters that make very many complaints", doubling.String(), []string{"redefinition", "it wrote too much"}},
		{"C47 an array that no file holds", "char a[1UL << 30] = {1};\nint main(void) { return a[5]; }\n", nil},
		{
			"C52 a file of the host by a digraph", "%:include \"/etc/evalhost-planted\"\n%:include \"" + guestScratch + "/planted\"\nint main(void) { return 0; }\n",
			[]string{"No such file"},
		},
		{"C52 the image's own file, as far as an error quotes it", "%:include \"/etc/passwd\"\nint main(void) { return 0; }\n", []string{"error"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := g.judge(b, inC("hostile.c", c.source))
			log := report.Clean(j.Document.Compilation.Log)
			if j.Verdict != verdict.CompilationFailed || len(log) > 520<<10 || log == "" || strings.Contains(log, secret) {
				t.Errorf("%s, a log of %d bytes:\n%.2000s", j.Verdict, len(log), log)
			}
			for _, words := range c.says {
				if !strings.Contains(log, words) {
					t.Errorf("the log does not say %q:\n%.2000s", words, log)
				}
			}
			if text, err := j.Document.JSON(); err != nil || !utf8.Valid(text) || !utf8.ValidString(j.Log) {
				t.Errorf("the document or the log is no text: %v", err)
			}
		})
	}
}

// A program that cannot be executed: whose doing it is decides (spec/sandbox.md 3.8).
func TestAProgramThatCannotBeExecutedIsJudgedByWhoseItIs(t *testing.T) {
	g := onAHost(t)
	p := open(t, single(2000, 64<<20))
	b := g.bench(p, 1)
	loader := func(path string) string {
		return "#include <stdio.h>\nconst char loader[] __attribute__((section(\".interp\"))) = \"" + path + "\";\nint main(void) { puts(\"3\"); return 0; }\n"
	}
	for _, c := range []struct{ name, source, note string }{
		{"its loader exists nowhere", loader("/no/such/loader"), "Runtime error, exit code 127"},
		{"its loader is no program", loader("/etc/passwd"), "Runtime error, exit code 126"},
		{"its loader is a directory", loader("/"), "Runtime error, exit code 126"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := g.judge(b, inC("loader.c", c.source))
			result{Tested: j.Tests[0]}.says(t, verdict.Error, verdict.RuntimeError, c.note)
		})
	}
	t.Run("the interpreter is missing from the image", func(t *testing.T) {
		python, _ := b.Table.Resolve("python3")
		job, err := b.Box.OpenJob(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer job.Close()
		image, err := b.image(python)
		if err != nil {
			t.Fatal(err)
		}
		built, err := compile(t.Context(), job, image, python, []byte("print(3)\n"))
		if err != nil || built.program == nil {
			t.Fatalf("%+v, %v", built, err)
		}
		// The same program, in an image that has no python3.
		c := candidate{toolchain: python, image: "evalhost/test-busybox:local", program: built.program}
		if tested, err := b.judgeTest(t.Context(), job, c, p.Tests[0], 0); err == nil || !strings.Contains(err.Error(), "exec python3: no such file") {
			t.Errorf("%s, %v; want a failure that says what is missing", row(tested), err)
		}
	})
	t.Run("there is no compiler in the image", func(t *testing.T) {
		none := g.bench(p, 1)
		none.Images = maps.Clone(none.Images)
		none.Images["gcc"] = "evalhost/test-busybox:local"
		j, err := none.Judge(t.Context(), inC("add.c", addC), nil)
		fails(t, j, err, "exit code 127")
		if _, err := ReadVersions(t.Context(), g.spans, none.Table, "gcc", none.Images["gcc"]); err == nil || !strings.Contains(err.Error(), "cannot be started") {
			t.Errorf("the versions of an image without a compiler: %v", err)
		}
	})
}

// J39: an archive of fourteen files through the real extraction, its checker in C++.
func TestJ39AnArchiveOfFourteenFilesIsUnpackedAndJudged(t *testing.T) {
	g := onAHost(t)
	files := map[string]string{
		"config.yml": `type: standard-io@1
limits: { timeMs: 10000, memoryBytes: 268435456 }
overrideLimits: { python: { timeMs: 30000, memoryBytes: 536870912 } }
groups: [ { group: 0, points: 0, examples: true }, { group: 1, points: 40 }, { group: 2, points: 60, limits: { timeMs: 20000 } } ]
checker: { source: checker/check.cpp, language: cpp }
modelSolutions: [ { source: solutions/sum.cpp, language: cpp }, { source: solutions/sum.py, language: python } ]
`,
		"checker/check.cpp": "#include <cstdio>\nint main(int, char **argv) {\n\tlong want, got;\n\tFILE *w = std::fopen(argv[3], \"r\"), *g = std::fopen(argv[2], \"r\");\n" +
			"\tif (!w || !g || std::fscanf(w, \"%ld\", &want) != 1) return 1;\n\tstd::puts(std::fscanf(g, \"%ld\", &got) == 1 && got == want ? \"OK\" : \"WRONG\");\n}\n",
		"solutions/sum.cpp": addCPP, "solutions/sum.py": addPy,
	}
	for i, name := range []string{"0a", "1a", "1b", "2a", "2b"} {
		files["tests/"+name+".in"], files["tests/"+name+".out"] = fmt.Sprintf("%d %d\n", i, 1000*i), fmt.Sprintln(1001*i)
	}
	path := filepath.Join(t.TempDir(), "sum.zip")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write([]byte(files[name]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out.Close()
	tree := filepath.Join(t.TempDir(), "tree")
	if n, err := problem.UnpackPackage(t.Context(), path, tree); n != 14 || err != nil {
		t.Fatalf("%d files were unpacked, %v", n, err)
	}
	p, err := problem.Load(tree, problem.Options{Type: problem.StandardIO})
	if err != nil {
		t.Fatal(err)
	}
	j := g.judge(g.bench(p, 2), inC("add.c", addC))
	if j.Verdict != verdict.Accepted || j.Document.Score != 100 || j.Document.MaxScore != 100 || len(j.Document.Tests) != 5 {
		t.Errorf("%s, %v of %v points, %d rows", j.Verdict, j.Document.Score, j.Document.MaxScore, len(j.Document.Tests))
	}
}
