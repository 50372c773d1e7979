//go:build guest

package judging

import (
	"archive/zip"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// files are the files of a package by name.
type files map[string]string

// adder is the package most cases use: groups worth 0, 40 and 60, one test each.
func adder() files {
	return files{
		"config.yml": `type: standard-io@1
limits: { timeMs: 10000, memoryBytes: 268435456 }
groups:
  - { group: 0, points: 0, examples: true }
  - { group: 1, points: 40 }
  - { group: 2, points: 60 }
`,
		"tests/0a.in": "1 2\n", "tests/0a.out": "3\n",
		"tests/1a.in": "10 20\n", "tests/1a.out": "30\n",
		"tests/2a.in": "1000000 2000000\n", "tests/2a.out": "3000000\n",
	}
}

// single is a package with one test, `1 2` to `3`, under these limits.
func single(timeMs, memoryBytes int64) files {
	return files{
		"config.yml": fmt.Sprintf("type: standard-io@1\nlimits: { timeMs: %d, memoryBytes: %d }\ngroups: [ { group: 1, points: 100 } ]\n",
			timeMs, memoryBytes),
		"tests/1a.in": "1 2\n", "tests/1a.out": "3\n",
	}
}

// with returns the files with others added or replaced.
func (f files) with(more files) files {
	all := files{}
	for name, content := range f {
		all[name] = content
	}
	for name, content := range more {
		all[name] = content
	}
	return all
}

// config returns the files with a line added to config.yml.
func (f files) config(line string) files {
	return f.with(files{"config.yml": f["config.yml"] + line + "\n"})
}

// dir writes the package as a directory.
func (f files) dir(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range f {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// zip writes the package as an archive.
func (f files) zip(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "package.zip")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(out)
	for name, content := range f {
		entry, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := entry.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// add is a correct solution of the adder. Its comment must not trouble the source rules.
const add = `#include <stdio.h>
/* no system() and no fopen() here */
int main(void) {
	long a, b;
	if (scanf("%ld %ld", &a, &b) != 2) return 1;
	printf("%ld\n", a + b);
	return 0;
}
`

// prelude begins a program. What strict C does not declare is declared here, because the source rules deny its headers.
const prelude = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <time.h>\n" +
	"int fork(void);\nint wait(int *);\nint nanosleep(const struct timespec *, struct timespec *);\n"

// instead runs these statements and answers correctly afterwards, should it come so far.
func instead(statements string) string {
	return prelude + "int main(void) {\n\t" + statements + "\n\tputs(\"3\");\n\treturn 0;\n}\n"
}

// sleeps lets time pass without using the processor.
func sleeps(seconds int) string {
	return fmt.Sprintf("{ struct timespec t = { %d, 0 }; nanosleep(&t, 0); }", seconds)
}
