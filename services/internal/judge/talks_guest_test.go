//go:build guest

package judge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// talker is one interactor for every conversation: the test's name says which. It tells the submission with its first line.
const talker = `#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static FILE *verdict;
static char *volatile kept;
static int end(const char *words) { fputs(words, verdict); fclose(verdict); return 0; }
int main(int argc, char **argv) {
	char line[256];
	const char *test = getenv("AJ_TEST");
	int asked = 0, i;
	signal(SIGPIPE, SIG_IGN);
	verdict = fopen(argv[2], "w");
	if (argc != 4 || !verdict || !test) return 9;
	char how = test[0] == '2' ? test[1] - 'a' + 'A' : test[1];
	printf("%c\n", how);
	fflush(stdout);
	switch (how) {
	case 'a': /* guess a number */
		while (scanf("%d", &i) == 1) {
			asked++;
			puts(i < 77 ? "more" : i > 77 ? "less" : "yes");
			fflush(stdout);
			if (i == 77) { sprintf(line, "OK\nfound after %d questions\n", asked); return end(line); }
		}
		return end("WRONG\nnot found\n");
	case 'b': /* at most 40 questions */
		while (fgets(line, sizeof line, stdin)) {
			if (++asked > 40) return end("WRONG\nmore than 40 questions\n");
			puts("no");
			fflush(stdout);
		}
		return end("WRONG\ngave up\n");
	case 'c': return end("OK\nsatisfied at once\n");
	case 'd': case 'g': case 'h': /* an answer to every line */
		while (fgets(line, sizeof line, stdin)) { asked++; puts("yes"); fflush(stdout); }
		sprintf(line, "%s\n%d lines\n", asked ? "OK" : "WRONG", asked);
		return end(line);
	case 'e': /* a megabyte on standard error */
		for (i = 0; i < 1 << 14; i++) fputs("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\n", stderr);
		return end(fgets(line, sizeof line, stdin) ? "OK\n" : "WRONG\n");
	case 'f': /* what the submission could open */
		if (!fgets(line, sizeof line, stdin)) return end("WRONG\nnothing said\n");
		fputs(strcmp(line, "none\n") ? "WRONG\nit opened " : "OK\n", verdict);
		return end(line);
	case 'i': /* slow, and not for ever */
		while (asked < 100 && fgets(line, sizeof line, stdin)) {
			struct timespec t = { 0, 10000000 };
			asked++;
			nanosleep(&t, 0);
		}
		return end("WRONG\ntoo much\n");
	case 'k': /* slow for ever */
		while (fgets(line, sizeof line, stdin)) { struct timespec t = { 0, 10000000 }; nanosleep(&t, 0); }
		return end("WRONG\ntoo much\n");
	case 'j': /* two lines for every question */
		while (fgets(line, sizeof line, stdin)) { asked++; printf("%d\n%d\n", asked, asked); fflush(stdout); }
		sprintf(line, "%s\n%d questions\n", asked == 100000 ? "WRONG" : "OK", asked);
		return end(line);
	/* From here on it is broken. */
	case 'A': fputs("OK\n", verdict); fclose(verdict); return 3;
	case 'B': return 0;
	case 'C': return end("ok\n");
	case 'D': return end("OK\n\n101\n");
	case 'E': abort();
	case 'F': for (;;) { kept = malloc(1 << 20); if (kept) memset(kept, 1, 1 << 20); }
	/* As PID 1 of its container it does not die of a signal that has no handler: only its exit code tells. */
	case 'G': for (;;) if (puts("still there?") < 0 || fflush(stdout)) return 141;
	}
	return 9;
}
`

// listener is one submission for every conversation.
const listener = `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static const char *paths[] = { "/in", "/in/1f.in", "/in/1f.out", "/in/1a.in", "/tests", "/answers", "/answers/verdict",
	"/aj-out/stdout", "/aj-out/report", "/src/main.c", "/usr/local/bin/aj-shim", 0 };
int main(void) {
	char how[8], word[8];
	int low = 1, high = 100, i;
	if (!fgets(how, sizeof how, stdin)) return 1;
	switch (how[0]) {
	case 'a':
		for (;;) {
			int middle = (low + high) / 2;
			printf("%d\n", middle);
			fflush(stdout);
			if (scanf("%7s", word) != 1 || !strcmp(word, "yes")) return 0;
			if (!strcmp(word, "more")) low = middle + 1; else high = middle - 1;
		}
	case 'b': for (;;) { puts("is it so?"); fflush(stdout); if (!fgets(word, sizeof word, stdin)) clearerr(stdin); }
	case 'c': for (;;) if (getchar() == EOF) clearerr(stdin);
	case 'd': puts("never flushed"); if (!fgets(word, sizeof word, stdin)) return 5; return 0;
	case 'e': puts("here"); return 0;
	case 'f':
		for (i = 0; paths[i]; i++) {
			FILE *f = fopen(paths[i], "r");
			if (f) { puts(paths[i]); return 0; }
		}
		puts("none");
		return 0;
	case 'g': return 0;
	case 'h': return 3;
	case 'i': case 'k': for (;;) puts("flood");
	case 'j': for (i = 0; i < 100000; i++) puts("question"); return 0;
	}
	puts("something");
	return 0;
}
`

// Every conversation, with one interactor and one submission, each built once.
func TestConversationsEndInAVerdictAndABrokenInteractorInNone(t *testing.T) {
	g := onAHost(t)
	b := g.bench(open(t, map[string]string{
		"config.yml": "type: standard-io@1\nlimits: { timeMs: 1000, memoryBytes: 67108864 }\ninteractor: { source: talk.c, language: c11-gcc }\n" +
			"groups: [ { group: 1, points: 10, tests: 11 }, { group: 2, points: 10, tests: 7 } ]\n",
		"talk.c":      talker,
		"tests/0a.in": "", "tests/0a.out": "", "tests/1a.in": "secret\n", "tests/1a.out": "77\n", "tests/2a.in": "", "tests/2a.out": "",
	}), 2)
	got := g.each(b, inC("listener.c", listener))
	ok, wrong, limit := verdict.OK, verdict.WrongAnswer, verdict.TimeLimit
	t.Run("J20 a correct guesser", func(t *testing.T) { got["1a"].says(t, ok, verdict.NoReason, "found after ") })
	t.Run("J21 asking for ever, refused after 40", func(t *testing.T) { got["1b"].says(t, verdict.Error, wrong, "more than 40 questions") })
	t.Run("J22 C28 accepted, and reading for ever", func(t *testing.T) { got["1c"].says(t, verdict.Error, limit, "Time limit exceeded") })
	t.Run("J23 a guesser that does not flush", func(t *testing.T) {
		got["1d"].says(t, verdict.Error, limit, "Time limit exceeded: no processor time for 8.0 s")
	})
	t.Run("J24 an interactor that talks to its standard error", func(t *testing.T) { got["1e"].says(t, ok, verdict.NoReason, "") })
	t.Run("J27 an interactive submission sees no file of the package", func(t *testing.T) { got["1f"].says(t, ok, verdict.NoReason, "") })
	t.Run("C34 leaving at once with success", func(t *testing.T) { got["1g"].says(t, verdict.Error, wrong, "0 lines") })
	t.Run("C34 leaving at once with a code", func(t *testing.T) {
		got["1h"].says(t, verdict.Error, verdict.RuntimeError, "Runtime error, exit code 3")
	})
	t.Run("C31 a flood on a slow interactor", func(t *testing.T) {
		// Which of the two it is, depends on who is faster: the flood or the hundred slow lines.
		if r := got["1i"]; r.err != nil || r.Reason != wrong && r.Reason != verdict.OutputLimit && r.Reason != limit {
			t.Errorf("%+v", r)
		}
	})
	t.Run("C31 a flood on an interactor that is slow for ever", func(t *testing.T) {
		// The interactor is stopped by its clock, and the flood is over a limit of its own, whichever comes first.
		if r := got["1k"]; r.err != nil || r.Reason != verdict.OutputLimit && r.Reason != limit {
			t.Errorf("%+v", r)
		}
	})
	t.Run("C32 a hundred thousand questions and no answer read", func(t *testing.T) {
		got["1j"].says(t, verdict.Error, wrong, "100000 questions")
	})
	for test, how := range map[string]string{
		"2a": "an acceptance and exit code 3", "2b": "no answer", "2c": "an answer in small letters", "2d": "more than everything",
		"2e": "a crash", "2f": "all the memory", "2g": "the exit code of a closed stream",
	} {
		t.Run("a broken interactor: "+how, func(t *testing.T) {
			if r := got[test]; r.err == nil || !strings.Contains(r.err.Error(), "the judging program") || !strings.Contains(r.err.Error(), "test "+test) {
				t.Errorf("%+v; want a failure that names the judging program and the test", r)
			}
		})
	}
}

// breaking is one checker for every way to break the contract: the test's name says which.
const breaking = `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char *volatile kept;
static int deeper(volatile char *above) {
	volatile char here[512]; /* whose address the call below gets, so that it is a call and no loop */
	here[0] = above[0];
	return here[0] == 'x' ? 0 : deeper(here) + here[0];
}
int main(int argc, char **argv) {
	const char *test = getenv("AJ_TEST");
	FILE *out = fopen(argv[2], "r");
	int i, sum = 0;
	if (argc != 4 || !out || !test) return 9;
	if (test[1] != 'm' && fscanf(out, "%d", &sum) != 1) return 8;
	switch (test[1]) {
	case 'a': printf("OK\nthe sum is %d\n", sum); return 0;
	case 'b': puts("OK"); return 1;
	case 'c': return 0;
	case 'd': puts("ok"); return 0;
	case 'e': puts("OK\n\n101"); return 0;
	case 'f': puts("WRONG\n\n101"); return 0;
	case 'g': puts("\nOK"); return 0;
	case 'h': puts("\xef\xbb\xbfOK"); return 0;
	case 'i': puts("OK"); fflush(stdout); *(volatile int *)0 = 1; return 0; /* a raised signal would not end PID 1 */
	case 'j': for (;;) { kept = malloc(1 << 20); if (kept) memset(kept, 1, 1 << 20); }
	case 'k': puts("OK"); for (i = 0; i < 2000; i++) puts("0123456789abcdef0123456789abcdef0123456789abcdef"); return 0;
	case 'l': puts("OK"); fflush(stdout); for (;;) pause();
	case 'n': return deeper((volatile char *)test);
	case 'm': for (i = 0; getc(out) != EOF; i++) {} printf("OK\n%d bytes\n50\n", i); return 0;
	}
	return 9;
}
`

func TestABrokenCheckerIsNeverAWrongAnswer(t *testing.T) {
	g := onAHost(t)
	p := map[string]string{
		"config.yml": "type: standard-io@1\nlimits: { timeMs: 1000, memoryBytes: 67108864 }\nchecker: { source: check.c, language: c11-gcc }\n" +
			"groups: [ { group: 1, points: 10 } ]\n",
		"check.c":     breaking,
		"tests/0a.in": "", "tests/0a.out": "", "tests/1a.out": "", "tests/2a.in": "", "tests/2a.out": "",
	}
	for letter := 'a'; letter <= 'n'; letter++ {
		p[fmt.Sprintf("tests/1%c.in", letter)] = "1 2\n"
	}
	got := g.each(g.bench(open(t, p), 2), inC("add.c", addC))
	// A checker that keeps the contract, so that the others can be seen to be the ones that do not.
	t.Run("J28 no expected output, and a checker that needs none", func(t *testing.T) { got["1a"].says(t, verdict.OK, verdict.NoReason, "the sum is 3") })
	t.Run("accepted in part", func(t *testing.T) {
		got["1m"].says(t, verdict.OK, verdict.NoReason, "2 bytes")
		if got["1m"].Percentage != 50 {
			t.Errorf("%d %%", got["1m"].Percentage)
		}
	})
	// Its stack ends, or its memory where the stack has no end, and not the machine's.
	t.Run("C77 a checker that calls itself for ever", func(t *testing.T) {
		if r := got["1n"]; r.err == nil || !strings.Contains(r.err.Error(), "the judging program") ||
			!strings.Contains(r.err.Error(), "exit code 139") && !strings.Contains(r.err.Error(), "stopped (memory)") {
			t.Errorf("%+v; want a failure of the judging program", r)
		}
	})
	for test, how := range map[string]string{
		"1b": "exit code 1", "1c": "must be OK or WRONG", "1d": "must be OK or WRONG", "1e": "0 to 100", "1f": "0 to 100", "1g": "must be OK or WRONG",
		"1h": "must be OK or WRONG", "1i": "exit code 139", "1j": "stopped (memory)", "1k": "stopped (output)", "1l": "stopped (it did not end within its clock)",
	} {
		t.Run(test+" "+how, func(t *testing.T) {
			if r := got[test]; r.err == nil || !strings.Contains(r.err.Error(), "the judging program") || !strings.Contains(r.err.Error(), how) {
				t.Errorf("%+v; want a failure that says %q", r, how)
			}
		})
	}
}
