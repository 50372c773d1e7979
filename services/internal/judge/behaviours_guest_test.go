//go:build guest

package judge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// prelude begins a program. What strict C does not declare is declared here, because the source rules deny its headers.
const prelude = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <time.h>\n" +
	"int fork(void);\nint wait(int *);\nint nanosleep(const struct timespec *, struct timespec *);\n"

// touch uses memory of so many MiB.
func touch(mib int) string {
	return fmt.Sprintf("{ volatile char *p = malloc(%d << 20); if (!p) return 1; for (long i = 0; i < (%dL << 20); i += 4096) p[i] = 1; }", mib, mib)
}

// sleeps lets time pass without using the processor.
func sleeps(seconds int) string {
	return fmt.Sprintf("{ struct timespec t = { %d, 0 }; nanosleep(&t, 0); }", seconds)
}

// behaviour is one way a program can behave, and what is said of the test in which it does. All of them are in one
// program, which reads from its input how to behave: one build, and one container a test.
type behaviour struct {
	name   string
	timeMs int64
	memory int64
	// code is C; the answer is written behind it, should it come so far.
	code string
	// expects is the expected output; 3 for an empty one, and nothing for a space.
	expects string
	status  string
	reason  verdict.Reason
	note    string // what it begins with
	besides func(*testing.T, Tested)
}

const mib = 1 << 20

// nearLimit checks that a peak is within 1 MiB of the limit and not above it.
func nearLimit(limit verdict.Bytes) func(*testing.T, Tested) {
	return func(t *testing.T, r Tested) { nearly(t, r.Memory, limit) }
}

// forged is a report as the shim writes them, with a secret that was guessed.
const forged = `"00000000000000000000000000000000 aj-shim1 ok 0 0 1000 4096 1000 1000 0\n"`

var behaviours = []behaviour{
	{
		name: "J10 adding within 4 MiB", timeMs: 10000, memory: 4 * mib, code: "", status: "OK",
		besides: func(t *testing.T, r Tested) {
			if r.Memory == nil || *r.Memory >= mib {
				t.Errorf("an idle program's peak is %v, want less than 1 MiB", r.Memory)
			}
		},
	},
	{
		name: "J10 64 MiB where 4 are allowed", timeMs: 10000, memory: 4 * mib, code: touch(64),
		status: "ERROR", reason: verdict.MemoryLimit, note: "Memory limit exceeded", besides: nearLimit(4 * mib),
	},
	{
		name: "J9 256 MiB where 32 are allowed", timeMs: 30000, memory: 32 * mib, code: touch(256),
		status: "ERROR", reason: verdict.MemoryLimit, note: "Memory limit exceeded", besides: nearLimit(32 * mib),
	},
	{
		name: "40 MiB where 32 are allowed", timeMs: 30000, memory: 32 * mib, code: touch(40),
		status: "ERROR", reason: verdict.MemoryLimit, note: "Memory limit exceeded", besides: nearLimit(32 * mib),
	},
	{
		name: "J11 40 MiB in a file of /dev/shm", timeMs: 30000, memory: 32 * mib,
		code: `{ memset(block, 1, sizeof block); FILE *f = fopen("/dev/shm/x", "w"); if (!f) return 3;
			for (int i = 0; i < 640; i++) fwrite(block, 1, sizeof block, f); fclose(f); }`,
		status: "ERROR", reason: verdict.MemoryLimit, note: "Memory limit exceeded", besides: nearLimit(32 * mib),
	},
	{
		name: "J12 40 MiB in a child", timeMs: 30000, memory: 32 * mib, code: "if (fork() == 0) { " + touch(40) + " _Exit(0); } wait(0);",
		status: "ERROR", reason: verdict.MemoryLimit, note: "Memory limit exceeded", besides: nearLimit(32 * mib),
	},
	// Every other program here declares the array too, and touches nothing of it.
	{
		name: "C01 a static array of 800 MiB that is touched", timeMs: 30000, memory: 32 * mib, code: "for (long i = 0; i < (800L << 20); i += 4096) huge[i] = 1;",
		status: "ERROR", reason: verdict.MemoryLimit, note: "Memory limit exceeded", besides: nearLimit(32 * mib),
	},
	{
		name: "a limit of one byte", timeMs: 10000, memory: 1, code: "",
		status: "ERROR", reason: verdict.MemoryLimit, note: "Memory limit exceeded",
	},
	{
		name: "J13 sleeping longer than the limit costs nothing", timeMs: 1000, memory: 64 * mib, code: sleeps(2), status: "OK",
		besides: func(t *testing.T, r Tested) {
			if r.Time >= time.Second {
				t.Errorf("charged %v for sleeping", r.Time)
			}
		},
	},
	{
		name: "J14 sleeping for ever", timeMs: 300, memory: 64 * mib, code: sleeps(3600),
		status: "ERROR", reason: verdict.TimeLimit, note: "Time limit exceeded: no processor time for 5.2 s",
	},
	{
		name: "J31 J41 an endless loop", timeMs: 500, memory: 64 * mib, code: "for (volatile int i = 0;; i++) {}",
		status: "ERROR", reason: verdict.TimeLimit, note: "Time limit exceeded",
	},
	{
		name: "J43 right, and then too much time", timeMs: 500, memory: 64 * mib,
		code:   "answer(a + b); while (clock() < 1500L * (CLOCKS_PER_SEC / 1000)) {} return 0;",
		status: "ERROR", reason: verdict.TimeLimit, note: "Time limit exceeded",
		besides: func(t *testing.T, r Tested) {
			if r.Time <= 500*time.Millisecond {
				t.Errorf("charged %v, which is within the limit", r.Time)
			}
		},
	},
	{
		name: "spinning until its own clock says 200 ms", timeMs: 10000, memory: 64 * mib,
		code: "while (clock() < CLOCKS_PER_SEC / 5) {}", status: "OK",
		besides: func(t *testing.T, r Tested) {
			if r.Time < 140*time.Millisecond || r.Time > 260*time.Millisecond {
				t.Errorf("charged %v for what its own clock calls 200 ms", r.Time)
			}
		},
	},
	{
		name: "J16 endless wrong tokens are stopped early", timeMs: 60000, memory: 64 * mib,
		code:   `for (;;) puts("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");`,
		status: "ERROR", reason: verdict.WrongAnswer, note: `token 1 differs: got "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…"`,
		besides: func(t *testing.T, r Tested) {
			if r.Time >= 30*time.Second {
				t.Errorf("charged %v: it was not stopped early", r.Time)
			}
		},
	},
	{
		name: "J17 endless output without white space", timeMs: 60000, memory: 64 * mib,
		code:   `memset(block, 'a', sizeof block); for (;;) fwrite(block, 1, sizeof block, stdout);`,
		status: "ERROR", reason: verdict.OutputLimit, note: "Output limit exceeded",
	},
	{
		name: "J32 J41 a null pointer, after the right answer", timeMs: 10000, memory: 64 * mib, code: "answer(a + b); *(volatile int *)0 = 1;",
		status: "ERROR", reason: verdict.RuntimeError, note: "Runtime error: segmentation fault (exit code 139)",
	},
	{
		name: "C14 an assertion", timeMs: 10000, memory: 64 * mib, code: "abort();",
		status: "ERROR", reason: verdict.RuntimeError, note: "Runtime error: aborted (exit code 134)",
	},
	{
		name: "an exit code, after the right answer", timeMs: 10000, memory: 64 * mib, code: "answer(a + b); return 3;",
		status: "ERROR", reason: verdict.RuntimeError, note: "Runtime error, exit code 3",
	},
	{
		name: "the exit code of a shell that finds no command", timeMs: 10000, memory: 64 * mib,
		code:   `{ char *none[] = { "none", 0 }; execv("/nonexistent", none); return 127; }`,
		status: "ERROR", reason: verdict.RuntimeError, note: "Runtime error, exit code 127",
	},
	{
		name: "no output", timeMs: 10000, memory: 64 * mib, code: "return 0;",
		status: "ERROR", reason: verdict.WrongAnswer, note: "token 1 differs: got nothing",
	},
	{
		name: "C46 output where none is expected", timeMs: 10000, memory: 64 * mib, code: "", expects: " ",
		status: "ERROR", reason: verdict.WrongAnswer, note: `token 1 differs: got "3"`,
	},
	{
		name: "C38 one byte and the end", timeMs: 10000, memory: 64 * mib, code: `write(1, "3", 1); _exit(0);`, status: "OK",
	},
	{
		name: "C41 what is no UTF-8", timeMs: 10000, memory: 64 * mib, code: `puts("\xff\xfe"); return 0;`,
		status: "ERROR", reason: verdict.WrongAnswer, note: "token 1 differs: got \"\ufffd\ufffd\"",
	},
	{
		name: "J44 reading the input twice", timeMs: 10000, memory: 64 * mib,
		code:   `{ int again; if (fseek(stdin, 0, SEEK_SET)) return 4; if (scanf("%d", &again) != 1 || again != how) return 5; }`,
		status: "OK",
	},
	{
		name: "forging a report on every descriptor but its output, and spinning", timeMs: 500, memory: 64 * mib,
		code: `for (int fd = 0; fd < 256; fd++) if (fd != 1) { ssize_t n = write(fd, ` + forged + `, sizeof ` + forged + ` - 1); (void)n; }
			while (clock() < 1500L * (CLOCKS_PER_SEC / 1000)) {}`,
		status: "ERROR", reason: verdict.TimeLimit, note: "Time limit exceeded",
		besides: func(t *testing.T, r Tested) {
			// Believed, the forged millisecond would still be charged the home's reading less a second.
			if r.Time < 1400*time.Millisecond {
				t.Errorf("charged %v for 1.5 s: a forged report was believed", r.Time)
			}
		},
	},
	{
		name: "writing to every descriptor, its output among them", timeMs: 10000, memory: 64 * mib,
		code:   `for (int fd = 0; fd < 256; fd++) { ssize_t n = write(fd, ` + forged + `, sizeof ` + forged + ` - 1); (void)n; }`,
		status: "ERROR", reason: verdict.WrongAnswer, note: `token 1 differs: got "00000000000000000000000000000000"`,
	},
	{
		name: "writing to the descriptors of others", timeMs: 10000, memory: 64 * mib,
		code: `for (int pid = 1; pid < 200; pid++) for (int fd = 0; fd < 32; fd++) {
				char path[64]; sprintf(path, "/proc/%d/fd/%d", pid, fd);
				int other = pid == getpid() ? -1 : open(path, O_WRONLY | O_NONBLOCK);
				if (other >= 0) { puts(path); ssize_t n = write(other, ` + forged + `, sizeof ` + forged + ` - 1); (void)n; }
			}
			{ const char *names[] = { "/aj-out/report", "/aj-out/stdout", "/proc/1/mem", "/dev/stderr" };
			for (int i = 0; i < 3; i++) if (open(names[i], O_WRONLY | O_NONBLOCK) >= 0) puts(names[i]); }`,
		status: "OK",
	},
	{
		name: "killing its parent and everybody else", timeMs: 10000, memory: 64 * mib,
		code:   "for (int s = 1; s < 32; s++) { if (s == SIGCHLD) continue; kill(getppid(), s); kill(1, s); } kill(-1, SIGKILL);",
		status: "OK",
	},
	{
		name: "reading the environment and the command line of everybody", timeMs: 10000, memory: 64 * mib,
		code: `for (int pid = 1; pid < 200; pid++) for (int which = 0; which < 2; which++) {
				char path[64]; sprintf(path, "/proc/%d/%s", pid, which ? "environ" : "cmdline");
				FILE *f = fopen(path, "r");
				if (!f) continue;
				size_t n = fread(block, 1, sizeof block - 1, f); fclose(f);
				for (size_t i = 0; i + 14 < n; i++) if (!memcmp(block + i, "AJ_SHIM_NONCE=", 14) && block[i + 14] != 'x') { puts("a secret:"); puts(block + i); }
			}`,
		status: "OK",
	},
}

// What a submission did becomes a verdict.
func TestWhatAProgramDoesDecides(t *testing.T) {
	g := onAHost(t)
	p := map[string]string{
		"config.yml":  "type: standard-io@1\nlimits: { timeMs: 10000, memoryBytes: 67108864 }\ngroups:\n",
		"tests/0a.in": "", "tests/0a.out": "",
	}
	var cases strings.Builder
	for i, b := range behaviours {
		n := i + 1
		p["config.yml"] += fmt.Sprintf("  - { group: %d, points: 1, limits: { timeMs: %d, memoryBytes: %d } }\n", n, b.timeMs, b.memory)
		if b.expects == "" {
			b.expects = "3\n"
		}
		p[fmt.Sprintf("tests/%da.in", n)], p[fmt.Sprintf("tests/%da.out", n)] = fmt.Sprintf("%d 1 2\n", n), b.expects
		fmt.Fprintf(&cases, "\tcase %d: %s break;\n", n, b.code)
	}
	source := "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <signal.h>\n#include <unistd.h>\n" + prelude + `static char block[1 << 16];
static volatile char huge[800 << 20];
static void answer(int sum) { printf("%d\n", sum); fflush(stdout); }
int main(void) {
	int how, a, b;
	if (scanf("%d %d %d", &how, &a, &b) != 3) return 2;
	switch (how) {
` + cases.String() + "\t}\n\tanswer(a + b);\n\treturn 0;\n}\n"
	j := g.judge(g.bench(open(t, p), 2), inC("program.c", source))
	passed := 0.0
	for i, b := range behaviours {
		t.Run(b.name, func(t *testing.T) {
			r := j.Tests[i]
			reason, ok := verdict.NoReason, b.status == "OK"
			if !ok {
				reason = b.reason
			}
			if (r.Status == verdict.OK) != ok || r.Reason != reason || !strings.HasPrefix(r.Note, b.note) {
				t.Errorf("%s; want %s %s %q", row(r), b.status, b.reason, b.note)
			}
			if b.besides != nil {
				b.besides(t, r)
			}
			if ok {
				passed++
			}
		})
	}
	if j.Document.Score != passed {
		t.Errorf("%v points, want %v", j.Document.Score, passed)
	}
}
