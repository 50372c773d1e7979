//go:build guest

package judge

import (
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// What is not built runs nothing: every test is told as failed, at no cost (spec/judging.md 4.2).
func TestWhatIsNotBuiltRunsNothing(t *testing.T) {
	g := onAHost(t)
	b := g.bench(open(t), 2)
	for _, c := range []struct {
		name, file, source, toolchain string
		verdict                       verdict.Verdict
		reason                        verdict.Reason
		log                           []string
	}{
		{"J33 not C++ at all", "prose.cpp", "This is no program.\n", "cpp20-gcc", verdict.CompilationFailed, verdict.CompilationError, []string{"error"}},
		{"J34 a syntax error in Python", "add.py", "print(1 +)\n", "python3", verdict.CompilationFailed, verdict.CompilationError, []string{"Syntax"}},
		{
			"J5 another extension", "solution.py", addCPP, "cpp17-gcc", verdict.CompilationFailed, verdict.CompilationError,
			[]string{"solution.py", ".cpp", "C++17 (GCC)"},
		},
		{
			"J36 too large", "big.cpp", addCPP + "/*" + strings.Repeat("x", 8<<20) + "*/\n", "cpp20-gcc", verdict.PolicyViolated, verdict.PolicyViolation,
			[]string{"KiB"},
		},
		{
			"J35 the network", "net.cpp", "#include <sys/socket.h>\n#include <arpa/inet.h>\nint main() {}\n", "cpp20-gcc",
			verdict.PolicyViolated, verdict.PolicyViolation,
			[]string{"sys/socket.h", "arpa/inet.h"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := g.judge(b, Submission{FileName: c.file, Source: []byte(c.source), Toolchain: c.toolchain})
			d := j.Document
			status := verdict.Error
			if c.reason == verdict.PolicyViolation {
				status = verdict.Warning
			}
			if j.Verdict != c.verdict || d.Score != 0 || d.MaxScore != 100 || d.Compilation.Status != status || len(d.Tests) != 3 {
				t.Errorf("%s, document: %+v", j.Verdict, d)
			}
			for _, words := range c.log {
				if !strings.Contains(d.Compilation.Log, words) || !strings.Contains(j.Log, words) {
					t.Errorf("the log does not say %q:\n%.2000s", words, d.Compilation.Log)
				}
			}
			for _, tested := range j.Tests {
				if tested.Ran || tested.Reason != c.reason || tested.Time != 0 || tested.Memory != nil {
					t.Errorf("a test that was not run: %s", row(tested))
				}
			}
		})
	}
	if all := g.spans.take(); len(all) > 0 {
		t.Errorf("something ran: %+v", all)
	}
}

func TestJ30AGroupPaysOnlyAsAWhole(t *testing.T) {
	g := onAHost(t)
	b := g.bench(open(t, map[string]string{"tests/2a.in": "1000000 2000000\n", "tests/2a.out": "3000000\n"}), 2)
	source := strings.Replace(addC, `printf("%ld\n", a + b);`, `printf("%ld\n", a < 1000 ? a + b : a);`, 1)
	j := g.judge(b, inC("add.c", source))
	if d := j.Document; j.Verdict == verdict.Accepted || d.Score != 40 || d.Groups[2].Points != 0 || d.Groups[2].Status != verdict.Error || d.Groups[1].Points != 40 {
		t.Errorf("%s, %v points, groups %+v", j.Verdict, d.Score, d.Groups)
	}
	result{Tested: j.Tests[2]}.says(t, verdict.Error, verdict.WrongAnswer, `token 1 differs: got "1000000"`)
}

// Decisions 7 over J26: its own input is there, and nothing else is.
func TestJ26ASubmissionSeesItsOwnInputAndNoOther(t *testing.T) {
	g := onAHost(t)
	p := map[string]string{}
	for _, name := range []string{"0a", "1a", "2a"} {
		p["tests/"+name+".out"] = "/in/" + name + ".in\n"
	}
	j := g.judge(g.bench(open(t, p), 2), inC("probe.c", `#include <stdio.h>
int main(void) {
	static const char *paths[] = {
		"/in/0a.in", "/in/0a.out", "/in/1a.in", "/in/1a.out", "/in/2a.in", "/in/2a.out", "/tests", "/src/main.c",
		"/var/run/docker.sock", "/run/docker.sock", "/etc/evalhost/images.json", "/aj-out/report", "/aj-out/stdout",
		"/usr/local/bin/aj-shim", 0,
	};
	for (int i = 0; paths[i]; i++) {
		FILE *f = fopen(paths[i], "r");
		if (f) { puts(paths[i]); fclose(f); }
		f = fopen(paths[i], "r+");
		if (f) { printf("writable: %s\n", paths[i]); fclose(f); }
	}
	return 0;
}
`))
	if j.Verdict != verdict.Accepted || j.Document.Score != 100 {
		t.Errorf("a program could open more or less than its own input: %+v", j.Document.Tests)
	}
}

func TestJ10AStaticProgramInCPlusPlusRunsInFourMiB(t *testing.T) {
	g := onAHost(t)
	j := g.judge(g.bench(open(t, single(10000, 4*mib)), 1), Submission{FileName: "add.cpp", Toolchain: "cpp20-gcc", Source: []byte(`#include <iostream>
#include <string>
#include <vector>
int main() {
	std::vector<long> numbers(2);
	for (auto &number : numbers) std::cin >> number;
	std::cout << std::to_string(numbers[0] + numbers[1]) << std::endl;
}
`)})
	if r := j.Tests[0]; j.Verdict != verdict.Accepted || r.Memory == nil || *r.Memory > 4*mib {
		t.Errorf("%s", row(r))
	}
}

// One checker and one submission; what the submission answers depends on the test. No test has an expected output.
func TestJ18J19J25J28ACheckerDecidesByItsOwnWords(t *testing.T) {
	g := onAHost(t)
	p := map[string]string{
		"config.yml": "type: standard-io@1\nlimits: { timeMs: 5000, memoryBytes: 67108864 }\nchecker: { source: check.c, language: c11-gcc }\n" +
			"groups: [ { group: 1, points: 10 }, { group: 2, points: 20 }, { group: 3, points: 30 }, { group: 4, points: 40 } ]\n",
		"check.c": `#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
	FILE *in = fopen(argv[1], "r"), *out = fopen(argv[2], "r");
	if (argc != 4 || !in || !out) return 9;
	int a, b, sum;
	const char *seeking = fseek(out, 0, SEEK_SET) ? "not seekable" : "seekable";
	if (fscanf(in, "%d %d", &a, &b) != 2 || fscanf(out, "%d", &sum) != 1) { puts("WRONG\nno number"); return 0; }
	printf("OK\n%s of group %s, %s, %s, reference %s\n%d\n", getenv("AJ_TEST"), getenv("AJ_GROUP"), argv[1], seeking,
		fopen(argv[3], "r") ? "there" : "absent", sum == a + b ? 100 : 50);
	return 0;
}
`,
		"tests/0a.in": "", "tests/0a.out": "", "tests/1a.out": "", "tests/2a.out": "",
		"tests/1a.in": "1 2\n", "tests/2a.in": "2 2\n", "tests/3a.in": "3 2\n", "tests/4a.in": "4 2\n",
	}
	j := g.judge(g.bench(open(t, p), 2), inC("add.c", `#include <stdio.h>
int main(void) {
	int a, b;
	if (scanf("%d %d", &a, &b) != 2) return 1;
	if (a == 3) puts("three");
	else printf("%d\n", a + b + (a == 2));
	fflush(stdout);
	if (a == 4) for (;;) puts("more");
	return 0;
}
`))
	rows := j.Document.Tests
	if r := rows[0]; r.Score != 10 || r.Note != "1a of group 1, /in/1a.in, not seekable, reference absent" {
		t.Errorf("accepted: %+v", r)
	}
	if r := rows[1]; r.Status != verdict.OK || r.Score != 10 || !strings.HasPrefix(r.Note, "2a of group 2") {
		t.Errorf("accepted in part: %+v", r)
	}
	if r := rows[2]; r.Reason != verdict.WrongAnswer || r.Note != "no number" {
		t.Errorf("refused: %+v", r)
	}
	// A checker that is satisfied does not end the program. Which limit does, depends on the machine.
	if r := rows[3]; r.Status != verdict.Error || r.Reason == verdict.WrongAnswer || !strings.Contains(r.Note, "limit exceeded") {
		t.Errorf("accepted, and never ending: %+v", r)
	}
	if j.Document.Score != 20 {
		t.Errorf("%v points", j.Document.Score)
	}
}

// Three tests and no file of any.
func TestJ20J29AnInteractorTalksWithTheProgram(t *testing.T) {
	g := onAHost(t)
	b := g.bench(open(t, map[string]string{
		"config.yml": "type: standard-io@1\nlimits: { timeMs: 5000, memoryBytes: 67108864 }\n" +
			"groups: [ { group: 1, points: 100, tests: 3 } ]\ninteractor: { source: talk.c, language: c11-gcc }\n",
		"tests/0a.in": "", "tests/0a.out": "", "tests/1a.in": "", "tests/1a.out": "", "tests/2a.in": "", "tests/2a.out": "",
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
	}), 2)
	j := g.judge(b, inC("guess.c", `#include <stdio.h>
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
`))
	if j.Verdict != verdict.Accepted || j.Document.Score != 100 || len(j.Tests) != 3 {
		t.Errorf("%s, %v points, %d tests", j.Verdict, j.Document.Score, len(j.Tests))
	}
	for i, name := range []string{"1a", "1b", "1c"} {
		if r := j.Tests[i]; r.Status != verdict.OK || !strings.HasPrefix(r.Note, "found in "+name+" after ") {
			t.Errorf("%s", row(r))
		}
	}
}
