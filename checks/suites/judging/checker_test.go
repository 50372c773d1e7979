//go:build guest

package judging

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checks begins a checker that has opened the input and what the submission wrote.
const checks = `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
	FILE *in = fopen(argv[1], "r"), *out = fopen(argv[2], "r");
	if (argc != 4 || !in || !out) return 9;
`

// withChecker makes single a checker problem without expected outputs.
func withChecker(source string) files {
	f := single(5000, 64<<20).config("checker: { source: check.c, language: c11-gcc }").with(files{"check.c": source})
	delete(f, "tests/1a.out")
	return f
}

// One checker and one submission; what the submission answers depends on the test.
func TestJ18J19J25J28ACheckerDecidesByItsOwnWords(t *testing.T) {
	unchanged(t)
	p := withChecker(checks + `
	int a, b, sum;
	const char *seeking = fseek(out, 0, SEEK_SET) ? "not seekable" : "seekable";
	if (fscanf(in, "%d %d", &a, &b) != 2 || fscanf(out, "%d", &sum) != 1) { puts("WRONG\nno number"); return 0; }
	printf("OK\n%s of group %s, %s, %s, reference %s\n%d\n", getenv("AJ_TEST"), getenv("AJ_GROUP"), argv[1], seeking,
		fopen(argv[3], "r") ? "there" : "absent", sum == a + b ? 100 : 50);
	return 0;
}
`)
	p["config.yml"] = strings.Replace(p["config.yml"], "points: 100 }", "points: 10 }, { group: 2, points: 20 }, { group: 3, points: 30 }, { group: 4, points: 40 }", 1)
	p["tests/2a.in"], p["tests/3a.in"], p["tests/4a.in"] = "2 2\n", "3 2\n", "4 2\n"
	d := judge(t, p.dir(t), "add.c", `#include <stdio.h>
int main(void) {
	int a, b;
	if (scanf("%d %d", &a, &b) != 2) return 1;
	if (a == 3) puts("three");
	else printf("%d\n", a + b + (a == 2));
	fflush(stdout);
	if (a == 4) for (;;) puts("more");
	return 0;
}
`)
	if row := d.row(t, "1a"); row.Score != 10 || *row.Note != "1a of group 1, /in/1a.in, not seekable, reference absent" {
		t.Errorf("accepted: %+v", row)
	}
	if row := d.row(t, "2a"); row.Status != "OK" || row.Score != 10 || !strings.HasPrefix(*row.Note, "2a of group 2") {
		t.Errorf("accepted in part: %+v", row)
	}
	if row := d.row(t, "3a"); row.Reason != "wrongAnswer" || *row.Note != "no number" {
		t.Errorf("refused: %+v", row)
	}
	// A checker that is satisfied does not end the program. Which limit does, depends on the machine.
	if row := d.row(t, "4a"); row.Status != "ERROR" || row.Reason == "wrongAnswer" || !strings.Contains(*row.Note, "limit exceeded") {
		t.Errorf("accepted, and never ending: %+v", row)
	}
	if d.Score != 20 {
		t.Errorf("%v points", d.Score)
	}
}

// What the package does wrong is an infrastructure failure, for every submission alike, and the command says so. Every other way
// to break the contract is in the suite judge, where it does not take a command each.
func TestABrokenCheckerIsNoVerdict(t *testing.T) {
	for _, c := range []struct{ name, source, says string }{
		{"it does not build", "this is no C\n", "building the judging program check.c"},
		{"it says nothing of the kind", checks + "puts(\"ok\"); return 0; }\n", "must be OK or WRONG"},
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

// J29: three tests and no file of any.
func TestJ20J29AnInteractorTalksWithTheProgram(t *testing.T) {
	unchanged(t)
	p := files{
		"config.yml": "type: standard-io@1\nlimits: { timeMs: 5000, memoryBytes: 67108864 }\n" +
			"groups: [ { group: 1, points: 100, tests: 3 } ]\ninteractor: { source: talk.c, language: c11-gcc }\n",
		"talk.c": `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
	const char *test = getenv("AJ_TEST");
	int secret = 30 * (test[1] - 'a') + 12, guess, asked = 0;
	FILE *verdict = fopen(argv[2], "w");
	if (!verdict) return 9;
	while (scanf("%d", &guess) == 1 && asked++ < 20) {
		puts(guess < secret ? "more" : guess > secret ? "less" : "yes");
		fflush(stdout);
		if (guess == secret) { fprintf(verdict, "OK\nfound in %s after %d questions\n", test, asked); return 0; }
	}
	fprintf(verdict, "WRONG\nnot found after %d questions\n", asked);
	return 0;
}
`,
	}
	d := judge(t, p.dir(t), "guess.c", `#include <stdio.h>
#include <string.h>
int main(void) {
	int low = 1, high = 100; char word[8];
	for (;;) {
		int middle = (low + high) / 2;
		printf("%d\n", middle); fflush(stdout);
		if (scanf("%7s", word) != 1 || !strcmp(word, "yes")) return 0;
		if (!strcmp(word, "more")) low = middle + 1; else high = middle - 1;
	}
}
`)
	if d.Score != 100 || len(d.Tests) != 3 {
		t.Errorf("%v points, %d tests", d.Score, len(d.Tests))
	}
	for _, no := range []string{"1a", "1b", "1c"} {
		if row := d.row(t, no); row.Status != "OK" || !strings.HasPrefix(*row.Note, "found in "+no+" after ") {
			t.Errorf("%+v", row)
		}
	}
}
