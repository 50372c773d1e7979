package policy

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestReportsOfCAndOfCPlusPlusAreTheSame(t *testing.T) {
	source := "#include <thread>\n#include \"unistd.h\"\nstd::thread t; system(\"x\"); std::system(\"y\"); asm(\"nop\");\n#pragma omp parallel\n"
	if diff := cmp.Diff(check(t, cpp, source), check(t, c, source)); diff != "" {
		t.Errorf("reports differ (-C++ +C):\n%s", diff)
	}
	expect(t, cpp, source,
		"forbidden header <thread> — thread (line 1)",
		"forbidden header <unistd.h> — unistd.h (line 2)",
		"Running another program — system (line 3)",
		"Running another program — system (line 3)",
		"Running another program — std::system (line 3)",
		"Inline assembly — asm (line 3)",
		"Creating threads — std::thread (line 3)",
		"Changing compiler optimization — #pragma omp (line 4)")
}

// The cases of 10.8 for C and C++ that the lists do not already show, and those of 9.5 as they are decided.
func TestSourcesInCAreJudgedAsDecided(t *testing.T) {
	for _, test := range []struct {
		name, source string
		want         []string
	}{
		{"nothing", "", nil},
		{"an ordinary program", "#include <bits/stdc++.h>\nusing namespace std;\nint main() { int a, b; cin >> a >> b; cout << a + b; }\n", nil},
		{"open, closed and read as ordinary words", "bool open, closed; int read = 3; open = !closed; read(open);", nil},
		{"std::remove", "v.erase(std::remove(v.begin(), v.end(), 3), v.end()); rename(a);", nil},
		{"a header of the kernel", "#include <linux/futex.h>", []string{"forbidden header <linux/futex.h> — linux/futex.h (line 1)"}},
		{"asm in the name of a header is no assembly", "#include <asm/unistd.h>", []string{"forbidden header <asm/unistd.h> — asm/unistd.h (line 1)"}},
		{"nor in quotation marks", "#include \"asm/unistd.h\"", []string{"forbidden header <asm/unistd.h> — asm/unistd.h (line 1)"}},
		{"asm without its directory", "#include <asm>\n#include <asmx/y.h>", nil},
		{"a system of another name", "std::system_error e;", []string{"Running another program — std::system (line 1)"}},
		{"a pool of threads", "std::threadpool p;", []string{"Creating threads — std::thread (line 1)"}},
		{"a word that is not ASCII", "int ésystem(int);  systemé(1); 系system(2);", nil},
		{"a word after a sign that is not ASCII", "→system(1);", []string{"Running another program — system (line 1)"}},
		{"a word after a broken byte", "\xffsystem(1);", []string{"Running another program — system (line 1)"}},
		{"a word after a NUL", "\x00system\x00(1);", []string{"Running another program — system (line 1)"}},
		{"lines counted through blank ones", "\n\n\n#include <unistd.h>\n\n\nsystem(1);\n", []string{
			"forbidden header <unistd.h> — unistd.h (line 4)", "Running another program — system (line 7)",
		}},
		{"lines counted through comments", "/* a\nb\n*/ #include <poll.h>\n// c\nsystem(1);", []string{
			"forbidden header <poll.h> — poll.h (line 3)", "Running another program — system (line 5)",
		}},
		{"lines that end in other ways", "\r\nfopen(1);\r\rfopen(2);\n", []string{"Opening a file — fopen (line 2)", "Opening a file — fopen (line 4)"}},
		{"a line comment ends with its line, however that ends", "// a\rsystem(1);", []string{"Running another program — system (line 2)"}},
		{"a byte order mark before a directive", "\ufeff#include <unistd.h>", []string{"forbidden header <unistd.h> — unistd.h (line 1)"}},
		{"a directive over several lines of comment", "#/*\n*/include/**/</**/", nil},
		{"a comment within a directive", "# /* a */ include /* b\n*/ <unistd.h>", []string{"forbidden header <unistd.h> — unistd.h (line 2)"}},
		{"a directive that does not begin its line", "int x; #include <unistd.h>\n", nil},
		{"a name without its end", "#include <unistd.h\n#include \"unistd.h\n\";system(1);", []string{"Running another program — system (line 3)"}},
		{"slashes within a name", "#include <linux//futex.h> \nsystem(1);", []string{
			"forbidden header <linux//futex.h> — linux//futex.h (line 1)", "Running another program — system (line 2)",
		}},
		{"an apostrophe within a name", "#include <linux/it's.h>\nsystem(1);", []string{
			"forbidden header <linux/it's.h> — linux/it's.h (line 1)", "Running another program — system (line 2)",
		}},
		{"a literal left open hides the rest", "char c = 'x; system(1);\nsystem(2);", nil},
		{"a block comment left open hides the rest", "/* system(1);\nsystem(2);", nil},
		{"an escaped quotation mark", `"\" system(1)"; '\''; system(2);`, []string{"Running another program — system (line 1)"}},
		{"an escape at the end", `"\`, nil},
		{"division", "a / b; system(1) / 2 /", []string{"Running another program — system (line 1)"}},
		{"a pattern over two lines", "std::\n  thread t;", []string{"Creating threads — std:: thread (line 1)"}},
		{"a pattern with a comment inside", "std/* x */::/* y\n */thread t;", []string{"Creating threads — std :: thread (line 1)"}},
		{"hits in the order of the rules, then of the source", "popen(1);\nsystem(2);\npopen(3);\nfopen(4);\nsystem(5);", []string{
			"Running another program — system (line 2)", "Running another program — system (line 5)", "Running another program — popen (line 1)",
			"Running another program — popen (line 3)", "Opening a file — fopen (line 4)",
		}},
		{"three violations on lines 1, 3 and 4", "#include <unistd.h>\nint main() {\n  system(\"ls\");\n  getenv(\"x\");\n}\n", []string{
			"forbidden header <unistd.h> — unistd.h (line 1)", "Running another program — system (line 3)", "Reading the environment — getenv (line 4)",
		}},
	} {
		t.Run(test.name, func(t *testing.T) { expect(t, cpp, test.source, test.want...) })
	}
}

func TestSourcesInPythonAreJudgedAsDecided(t *testing.T) {
	for _, test := range []struct {
		name, source string
		want         []string
	}{
		{"nothing", "", nil},
		{"an ordinary program", "import sys, gc\nfrom math import gcd\nprint(sum(map(int, sys.stdin.read().split())))\n", nil},
		{"the second of two names", "import sys, os", []string{"forbidden module os — os (line 1)"}},
		{"both of two names", "import os, socket as s", []string{"forbidden module os — os (line 1)", "forbidden module socket — socket (line 1)"}},
		{"names over two lines", "import sys, \\\n  os\n", []string{"forbidden module os — os (line 2)"}},
		{"names over two lines of another system", "import \\\r\n  os\r\n", []string{"forbidden module os — os (line 2)"}},
		{"what is imported from a module is not a module", "from math import os, open", nil},
		{"relative imports", "from . import os\nfrom .os import x", nil},
		{"a word that only begins like the keyword", "important = os\nfromos = 1\nimportos = 2", nil},
		{"a keyword within a statement", "x = yield_from\nraise E from os", nil},
		{"a string before an import", "'doc'; import os", []string{"forbidden module os — os (line 1)"}},
		{"a byte order mark", "\ufeffimport os", []string{"forbidden module os — os (line 1)"}},
		{"blank lines before an import", "\n\n\nimport os", []string{"forbidden module os — os (line 4)"}},
		{"a comment that ends with a carriage return", "# a\rimport os", []string{"forbidden module os — os (line 2)"}},
		{"methods called like builtins", "re.compile('x')\nmodel.eval()\nzf.open('a')\nre . compile (x)\n", nil},
		{"a builtin from the module of builtins", "__builtins__.open(1)\nbuiltins.eval(2)\n_io.open(3)\n", []string{
			"forbidden builtin open — open (line 1)", "forbidden builtin open — open (line 3)", "forbidden builtin eval — eval (line 2)",
		}},
		{"a number with a point on the line before", "x = 1.\nopen('a')", []string{"forbidden builtin open — open (line 2)"}},
		{"a definition and then a call", "def open(x): pass\nopen(1)", []string{"forbidden builtin open — open (line 2)"}},
		{"not a definition", "xdef, (open(1))\nundef (2)", []string{"forbidden builtin open — open (line 1)"}},
		{"an argument of a method", "f.compile(eval(x))", []string{"forbidden builtin eval — eval (line 1)"}},
		{"code in an f-string", `print(f"{open('x')}")`, nil},
		{"code in an f-string with the same marks", `print(f"{open("x")}")`, []string{}},
		{"triple quotation marks", "s = '''it's open(1)'''\nt = \"\"\"open(\"2\")\"\"\"\nopen(3)", []string{"forbidden builtin open — open (line 3)"}},
		{"an empty string is no triple", "''; open(1)", []string{"forbidden builtin open — open (line 1)"}},
		{"a triple left open hides the rest", "'''\nopen(1)", nil},
		{"imports, then builtins, then patterns", "sys.modules\nopen(1)\nimport os\neval(2)\nexec(3)", []string{
			"forbidden module os — os (line 3)", "forbidden builtin open — open (line 2)", "forbidden builtin exec — exec (line 5)",
			"forbidden builtin eval — eval (line 4)", "forbidden call — sys.modules (line 1)",
		}},
		{"the whole of a dotted name is shown", "import os.path as p", []string{"forbidden module os — os.path (line 1)"}},
	} {
		t.Run(test.name, func(t *testing.T) { expect(t, python, test.source, test.want...) })
	}
}

func TestAtMostAHundredViolationsAreListedAndTheRestCounted(t *testing.T) {
	for _, test := range []struct{ violations, lines int }{{0, 0}, {3, 3}, {100, 100}, {101, 101}, {250, 101}} {
		for name, source := range map[string]string{
			"one rule": strings.Repeat("system(1);\n", test.violations), "headers": strings.Repeat("#include <poll.h>\n", test.violations),
		} {
			report := profile(t).Check(cpp, []byte(source))
			lines := report.Lines()
			if report.Total != test.violations || len(lines) != test.lines || report.Broken() != (test.violations > 0) {
				t.Errorf("%s, %d violations: %d in total, %d lines", name, test.violations, report.Total, len(lines))
			}
			if more := test.violations - 100; more > 0 && !strings.Contains(lines[100], fmt.Sprintf("%d more", more)) {
				t.Errorf("%s, %d violations: the last line is %q", name, test.violations, lines[100])
			}
		}
	}
	report := profile(t).Check(cpp, []byte(strings.Repeat("system(1);\n", 60)+strings.Repeat("fopen(1);\n", 60)))
	if report.Total != 120 || report.Violations[99] != (Violation{"Opening a file", "fopen", 100}) {
		t.Errorf("two rules: %d in total, the hundredth is %v", report.Total, report.Violations[99])
	}
}

func TestALineOfTheReportIsOneLineOfTextAndNotTooLong(t *testing.T) {
	for _, name := range []string{"linux/" + strings.Repeat("a", 5000), "linux/\x1b[2J\u202e\xff\x00\u2028x", "linux/ a \t b"} {
		lines := profile(t).Check(cpp, []byte("#include <"+name+">")).Lines()
		if len(lines) != 1 || len(lines[0]) > 300 || !utf8.ValidString(lines[0]) || strings.ContainsAny(lines[0], "\x1b\x00\n\u202e\u2028") {
			t.Errorf("%q gives %q", name, lines)
		}
	}
}

func TestALanguageWithoutRulesIsReportedAsUnchecked(t *testing.T) {
	for _, keys := range [][]string{nil, {"pascal"}, {"pascal", "fpc"}, {"java", "java21"}, {""}} {
		if report := profile(t).Check(keys, []byte("system(1)")); !report.Unchecked || report.Broken() || report.Lines() != nil {
			t.Errorf("%q: %+v", keys, report)
		}
	}
	if profile(t).Check(cpp, nil).Unchecked {
		t.Error("C++ is reported as unchecked")
	}
}

func TestAPhraseIsFoundWhereItsExpressionIs(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"std", "::", ":", " ", "\n", "thread", "th", "#", "pragma", "GCC", "s", "x"}
	for _, source := range []string{`std\s*::\s*thread`, `#\s*pragma\s+GCC`, `s\s+s`, `sys\.modules`, `:\s*`, `std`} {
		phrase, ok := asPhrase(source)
		if !ok {
			t.Fatalf("%s is not a phrase", source)
		}
		for range 800 {
			var text strings.Builder
			for range random.IntN(14) {
				text.WriteString(pieces[random.IntN(len(pieces))])
			}
			var want, got [][]int
			want = regexp.MustCompile(source).FindAllIndex([]byte(text.String()), -1)
			pattern{phrase: phrase}.each([]byte(text.String()), func(start, end int) { got = append(got, []int{start, end}) })
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s in %q (-expression +phrase):\n%s", source, text.String(), diff)
			}
		}
	}
}

func TestAnExpressionThatIsNoPhraseIsStillUsed(t *testing.T) {
	for _, source := range []string{`\s*x`, `x\s*\s*y`, `a|b`, `x\d`, `[x]`, `x y`, `é`, `x{2}`, `x\s*(y)`, `x\s`, `x.y`} {
		if _, ok := asPhrase(source); ok {
			t.Errorf("%s is taken for a phrase", source)
		}
		if p, err := compilePattern(source); err != nil || p.regexp == nil {
			t.Errorf("%s: %v", source, err)
		}
	}
	p, err := Parse([]byte("version: 1\nid: x\nlanguages: {cpp: {groups: {A: {name: Any, patterns: ['\\w+_t\\b']}}}}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Check(cpp, []byte("a\nint_t x; b_tx;")).Lines(); !slices.Equal(got, []string{"Any — int_t (line 2)"}) {
		t.Errorf("found %q", got)
	}
}

// hostile are sources of a size that are meant to be slow.
func hostile(size int) map[string]string {
	fill := func(text string) string { return strings.Repeat(text, size/len(text)+1)[:size] }
	return map[string]string{
		"an ordinary program":     fill("for (int i = 0; i < n; ++i) { cin >> a[i]; sum += a[i]; } // and so on\n"),
		"words":                   fill("system "),
		"beginnings of a phrase":  fill("std::threa "),
		"phrases":                 fill("std :: thread;"),
		"number signs":            fill("#\n"),
		"directives":              fill("#include <poll.h>\n"),
		"directives left open":    fill("#include <a\n"),
		"open comments":           fill("/*/ #include/*"),
		"white space":             "std" + fill(" "),
		"one word":                fill("a"),
		"letters above ASCII":     fill("ž"),
		"white space above ASCII": fill("\u3000"),
		"signs above ASCII":       fill("😀"),
		"broken bytes":            fill("\xe2\xff"),
		"quotation marks":         fill("\"'"),
		"escapes":                 fill("\\\""),
		"line ends":               fill("\n"),
		"NULs":                    fill("\x00"),
		"calls":                   fill("a.open(open(eval("),
		"spaced calls":            fill("open                                (.                          open"),
		"imports":                 fill("import a, os, b as c, \\\nimport as, os;import os\n"),
	}
}

func TestNoSourceTakesTheSquareOfItsLength(t *testing.T) {
	for name, source := range hostile(128 << 10) {
		for _, keys := range [][]string{cpp, python} {
			begin := time.Now()
			profile(t).Check(keys, []byte(source))
			// Linear takes a hundredth of this even where everything is slow; quadratic takes minutes.
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("%s in %s took %v", name, keys[0], took)
			}
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	p := profile(b)
	sources := hostile(8 << 20) // the largest submission there is
	for _, keys := range [][]string{cpp, python} {
		for name, source := range sources {
			b.Run(keys[0]+"/"+name, func(b *testing.B) {
				data := []byte(source)
				b.SetBytes(int64(len(data)))
				for b.Loop() {
					p.Check(keys, data)
				}
			})
		}
	}
}

func TestASourceIsNotChanged(t *testing.T) {
	source := []byte("\ufeff#include <unistd.h>\r\n/* x */ \"y\" import os # z\n")
	before := bytes.Clone(source)
	profile(t).Check(cpp, source)
	profile(t).Check(python, source)
	if !bytes.Equal(before, source) {
		t.Error("the source was written to")
	}
}
