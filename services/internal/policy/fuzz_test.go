package policy

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// FuzzCheck checks any source: it must not panic, must give the same report twice, and the report must be one that could
// be shown.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		"", "#include <unistd.h>\nint main() { std::system(\"ls\"); }\n", "#include \"sys/socket.h\"\r\n#pragma GCC optimize(\"O3\")\r\n",
		"import sys, os as o, \\\n  socket\nfrom os.path import *\n", "re.compile('x')\nbuiltins.open('y')\ndef open(z): eval(z)\n",
		"'''\nimport os\n'''; import os # import os", "/* asm */ asm // asm\n\"asm\" 'asm' \\", "\ufeff# include /* \n */ <linux/\xff>\x00",
		"std\u00a0::\u3000thread é\u0301system \u200csystem", "#", "#include", "#include <", "#include \"", "/", "/*", "'", "\"\\", "import", "import ", "from ", "import os as", "import os,",
		".open(", "def open(", "open(", "io.open(", "a.io . open (", "\r", "\r\r\n", "\xe2\x80", "# pragma omp", "1'000'000; system(1)", strings.Repeat("system(1);", 120),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		before := bytes.Clone(source)
		for _, keys := range [][]string{cpp, c, python} {
			report := profile(t).Check(keys, source)
			if diff := cmp.Diff(report, profile(t).Check(keys, source)); diff != "" {
				t.Fatalf("%s: two reports:\n%s", keys[0], diff)
			}
			if report.Unchecked || len(report.Violations) != min(report.Total, 100) {
				t.Fatalf("%s: %+v", keys[0], report)
			}
			last := strings.Count(strings.ReplaceAll(strings.ReplaceAll(string(source), "\r\n", "\n"), "\r", "\n"), "\n") + 1
			for _, violation := range report.Violations {
				if violation.Line < 1 || violation.Line > last || violation.Matched == "" || violation.Rule == "" {
					t.Fatalf("%s: %+v in a source of %d lines", keys[0], violation, last)
				}
			}
			for _, line := range report.Lines() {
				if !utf8.ValidString(line) || strings.ContainsAny(line, "\n\r\x00") {
					t.Fatalf("%s: the line %q", keys[0], line)
				}
			}
		}
		if !bytes.Equal(before, source) {
			t.Fatal("the source was written to")
		}
	})
}
