//go:build guest

package judging

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// withChecker makes single a checker problem without an expected output.
func withChecker(source string) files {
	f := single(5000, 64<<20).config("checker: { source: check.c, language: c11-gcc }").with(files{"check.c": source})
	delete(f, "tests/1a.out")
	return f
}

// checks begins a checker that has opened what the submission wrote.
const checks = `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
	FILE *in = fopen(argv[1], "r"), *out = fopen(argv[2], "r");
	if (argc != 4 || !in || !out) return 9;
`

func TestACheckerDecidesByItsOwnWords(t *testing.T) {
	unchanged(t)
	p := withChecker(checks + `
	int a, b, sum;
	if (fseek(out, 0, SEEK_SET) == 0) return 8;
	if (fscanf(in, "%d %d", &a, &b) != 2 || fscanf(out, "%d", &sum) != 1) { puts("WRONG\nno number"); return 0; }
	printf("OK\n%s of group %s, %s, reference %s\n%d\n", getenv("AJ_TEST"), getenv("AJ_GROUP"), argv[1],
		fopen(argv[3], "r") ? "there" : "absent", sum == a + b ? 100 : 50);
	return 0;
}
`).dir(t)
	d := judge(t, p, "add.c", add)
	if row := d.row(t, "1a"); d.Score != 100 || *row.Note != "1a of group 1, /in/1a.in, reference absent" {
		t.Errorf("%v points, test %+v", d.Score, row)
	}
	d = judge(t, p, "add.c", strings.Replace(add, "a + b", "a + b + 1", 1))
	if row := d.row(t, "1a"); d.Score != 50 || row.Status != "OK" {
		t.Errorf("accepted in part: %v points, test %+v", d.Score, row)
	}
	d = judge(t, p, "add.c", instead(`puts("three");`))
	if row := d.row(t, "1a"); d.Score != 0 || row.Reason != "wrongAnswer" || *row.Note != "no number" {
		t.Errorf("refused: %v points, test %+v", d.Score, row)
	}
}

func TestACheckerThatIsSatisfiedDoesNotEndTheProgram(t *testing.T) {
	unchanged(t)
	p := withChecker(checks + "int sum; if (fscanf(out, \"%d\", &sum) != 1) return 7; puts(\"OK\"); return 0; }\n").dir(t)
	// Which limit it is depends on the machine.
	if row := judge(t, p, "add.c", first("for (;;) puts(\"more\");")).row(t, "1a"); row.Status != "ERROR" || row.Reason == "wrongAnswer" {
		t.Errorf("test %+v", row)
	}
}

// What the package does wrong is an infrastructure failure, for every submission alike.
func TestABrokenCheckerIsNoVerdict(t *testing.T) {
	for _, c := range []struct{ name, source, says string }{
		{"it does not build", "this is no C\n", "building the judging program check.c"},
		{"it crashes", checks + "*(volatile int *)0 = 1; return 0; }\n", "exit code 139"},
		{"it says nothing of the kind", checks + "puts(\"ok\"); return 0; }\n", "must be OK or WRONG"},
		{"it uses too much memory", checks + touch(1024) + " puts(\"OK\"); return 0; }\n", "memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			unchanged(t)
			source := filepath.Join(t.TempDir(), "add.c")
			if err := os.WriteFile(source, []byte(add), 0o644); err != nil {
				t.Fatal(err)
			}
			r := evalhost(t, options{}, "judge", withChecker(c.source).dir(t), source, "--json")
			r.wantsNoVerdict(t, 3, "infrastructure failure", "judging program", c.says)
		})
	}
}
