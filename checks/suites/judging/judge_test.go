//go:build guest

package judging

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestJ6J8J38ACorrectProgramIsAcceptedFromADirectoryAndFromAZip(t *testing.T) {
	unchanged(t)
	d := judge(t, adder().dir(t), "add.c", add)
	if d.Type != "standard-io@1" || d.Compilation.Status != "OK" || d.Compilation.Log != "" || d.Score != 100 || d.MaxScore != 100 ||
		d.Limits.TimeMs != 10000 || d.Limits.MemoryBytes != 268435456 {
		t.Errorf("document: %+v", d)
	}
	var names []string
	for _, row := range d.Tests {
		names = append(names, row.No)
		if row.Status != "OK" || *row.Note != "" {
			t.Errorf("test %s: %+v", row.No, row)
		}
		// Half the limit is far above what adding costs, whatever emulates the processor.
		if *row.TimeMs >= 5000 {
			t.Errorf("test %s is charged %d ms", row.No, *row.TimeMs)
		}
		if row.MemoryBytes == nil || *row.MemoryBytes < 128<<10 || *row.MemoryBytes > 256<<20 {
			t.Errorf("test %s: memory %v", row.No, row.MemoryBytes)
		}
	}
	if !slices.Equal(names, []string{"0a", "1a", "2a"}) {
		t.Errorf("tests %v", names)
	}

	path := filepath.Join(t.TempDir(), "add.c")
	if err := os.WriteFile(path, []byte(add), 0o644); err != nil {
		t.Fatal(err)
	}
	r := evalhost(t, options{}, "judge", single(10000, 64<<20).zip(t), path)
	r.wants(t, 0)
	for _, line := range []string{"verdict Accepted\n", "score 100 of 100\n", "C11 (GCC)", "    1  1a    OK "} {
		if !strings.Contains(r.stdout, line) {
			t.Errorf("standard output does not say %q:\n%s", line, r.stdout)
		}
	}
}

func TestJ7J34J42PythonIsJudged(t *testing.T) {
	needs(t, "cpython")
	unchanged(t)
	p := single(30000, 256<<20).config("overrideLimits: { python: { timeMs: 29000 } }").dir(t)
	if d := judge(t, p, "add.py", "print(sum(map(int, input().split())))\n"); d.Score != 100 || d.Limits.TimeMs != 29000 {
		t.Errorf("document: %+v", d)
	}
	d := judge(t, p, "add.py", "print(1 +)\n")
	if d.Compilation.Status != "ERROR" || !strings.Contains(strings.ToLower(d.Compilation.Log), "syntax") {
		t.Errorf("a syntax error: %+v", d.Compilation)
	}
	// 40 MiB where 32 are allowed, interpreter and all.
	d = judge(t, single(30000, 32*mib).dir(t), "hoarder.py", "held = bytearray(b'x') * (40 << 20)\nprint(3)\n")
	row := d.row(t, "1a")
	if row.Reason != "memoryLimit" || *row.Note != "Memory limit exceeded" {
		t.Errorf("40 MiB in Python: %+v", row)
	}
	nearLimit(32*mib)(t, row)
}

func TestJ10AStaticProgramInCPlusPlusRunsInFourMiB(t *testing.T) {
	unchanged(t)
	d := judge(t, single(10000, 4*mib).dir(t), "add.cpp", `#include <iostream>
#include <string>
#include <vector>
int main() {
	std::vector<long> numbers(2);
	for (auto &number : numbers) std::cin >> number;
	std::cout << std::to_string(numbers[0] + numbers[1]) << std::endl;
}
`)
	if row := d.row(t, "1a"); d.Score != 100 || row.MemoryBytes == nil || *row.MemoryBytes > 4*mib {
		t.Errorf("%+v", row)
	}
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
	reason  string
	note    string // what it begins with
	besides func(*testing.T, test)
}

const mib = 1 << 20

// nearLimit checks that a peak is within 1 MiB of the limit and not above it.
func nearLimit(limit int64) func(*testing.T, test) {
	return func(t *testing.T, row test) {
		if row.MemoryBytes == nil || *row.MemoryBytes > limit || *row.MemoryBytes < limit-mib {
			t.Errorf("memory %v, want at most the limit of %d and at most 1 MiB less", row.MemoryBytes, limit)
		}
	}
}

// forged is a report as the shim writes them, with a secret that was guessed.
const forged = `"00000000000000000000000000000000 aj-shim1 ok 0 0 1000 4096 1000 1000 0\n"`

var behaviours = []behaviour{
	{
		name: "J10 adding within 4 MiB", timeMs: 10000, memory: 4 * mib, code: "", status: "OK",
		besides: func(t *testing.T, row test) {
			if row.MemoryBytes == nil || *row.MemoryBytes >= mib {
				t.Errorf("an idle program's peak is %v, want less than 1 MiB", row.MemoryBytes)
			}
		},
	},
	{
		name: "J10 64 MiB where 4 are allowed", timeMs: 10000, memory: 4 * mib, code: touch(64),
		status: "ERROR", reason: "memoryLimit", note: "Memory limit exceeded", besides: nearLimit(4 * mib),
	},
	{
		name: "J9 256 MiB where 32 are allowed", timeMs: 30000, memory: 32 * mib, code: touch(256),
		status: "ERROR", reason: "memoryLimit", note: "Memory limit exceeded", besides: nearLimit(32 * mib),
	},
	{
		name: "40 MiB where 32 are allowed", timeMs: 30000, memory: 32 * mib, code: touch(40),
		status: "ERROR", reason: "memoryLimit", note: "Memory limit exceeded", besides: nearLimit(32 * mib),
	},
	{
		name: "J11 40 MiB in a file of /dev/shm", timeMs: 30000, memory: 32 * mib,
		code: `{ memset(block, 1, sizeof block); FILE *f = fopen("/dev/shm/x", "w"); if (!f) return 3;
			for (int i = 0; i < 640; i++) fwrite(block, 1, sizeof block, f); fclose(f); }`,
		status: "ERROR", reason: "memoryLimit", note: "Memory limit exceeded", besides: nearLimit(32 * mib),
	},
	{
		name: "J12 40 MiB in a child", timeMs: 30000, memory: 32 * mib, code: "if (fork() == 0) { " + touch(40) + " _Exit(0); } wait(0);",
		status: "ERROR", reason: "memoryLimit", note: "Memory limit exceeded", besides: nearLimit(32 * mib),
	},
	// Every other program here declares the array too, and touches nothing of it.
	{
		name: "C01 a static array of 800 MiB that is touched", timeMs: 30000, memory: 32 * mib, code: "for (long i = 0; i < (800L << 20); i += 4096) huge[i] = 1;",
		status: "ERROR", reason: "memoryLimit", note: "Memory limit exceeded", besides: nearLimit(32 * mib),
	},
	{
		name: "a limit of one byte", timeMs: 10000, memory: 1, code: "",
		status: "ERROR", reason: "memoryLimit", note: "Memory limit exceeded",
	},
	{
		name: "J13 sleeping longer than the limit costs nothing", timeMs: 1000, memory: 64 * mib, code: sleeps(2), status: "OK",
		besides: func(t *testing.T, row test) {
			if *row.TimeMs >= 1000 {
				t.Errorf("charged %d ms for sleeping", *row.TimeMs)
			}
		},
	},
	{
		name: "J14 sleeping for ever", timeMs: 300, memory: 64 * mib, code: sleeps(3600),
		status: "ERROR", reason: "timeLimit", note: "Time limit exceeded: no processor time for 5.2 s",
	},
	{
		name: "J31 J41 an endless loop", timeMs: 500, memory: 64 * mib, code: "for (volatile int i = 0;; i++) {}",
		status: "ERROR", reason: "timeLimit", note: "Time limit exceeded",
	},
	{
		name: "J43 right, and then too much time", timeMs: 500, memory: 64 * mib,
		code:   "answer(a + b); while (clock() < 1500L * (CLOCKS_PER_SEC / 1000)) {} return 0;",
		status: "ERROR", reason: "timeLimit", note: "Time limit exceeded",
		besides: func(t *testing.T, row test) {
			if *row.TimeMs <= 500 {
				t.Errorf("charged %d ms, which is within the limit", *row.TimeMs)
			}
		},
	},
	{
		name: "spinning until its own clock says 200 ms", timeMs: 10000, memory: 64 * mib,
		code: "while (clock() < CLOCKS_PER_SEC / 5) {}", status: "OK",
		besides: func(t *testing.T, row test) {
			if *row.TimeMs < 140 || *row.TimeMs > 260 {
				t.Errorf("charged %d ms for what its own clock calls 200", *row.TimeMs)
			}
		},
	},
	{
		name: "J16 endless wrong tokens are stopped early", timeMs: 60000, memory: 64 * mib,
		code:   `for (;;) puts("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");`,
		status: "ERROR", reason: "wrongAnswer", note: `token 1 differs: got "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…"`,
		besides: func(t *testing.T, row test) {
			if *row.TimeMs >= 30000 {
				t.Errorf("charged %d ms: it was not stopped early", *row.TimeMs)
			}
		},
	},
	{
		name: "J17 endless output without white space", timeMs: 60000, memory: 64 * mib,
		code:   `memset(block, 'a', sizeof block); for (;;) fwrite(block, 1, sizeof block, stdout);`,
		status: "ERROR", reason: "outputLimit", note: "Output limit exceeded",
	},
	{
		name: "J32 J41 a null pointer, after the right answer", timeMs: 10000, memory: 64 * mib, code: "answer(a + b); *(volatile int *)0 = 1;",
		status: "ERROR", reason: "runtimeError", note: "Runtime error: segmentation fault (exit code 139)",
	},
	{
		name: "C14 an assertion", timeMs: 10000, memory: 64 * mib, code: "abort();",
		status: "ERROR", reason: "runtimeError", note: "Runtime error: aborted (exit code 134)",
	},
	{
		name: "an exit code, after the right answer", timeMs: 10000, memory: 64 * mib, code: "answer(a + b); return 3;",
		status: "ERROR", reason: "runtimeError", note: "Runtime error, exit code 3",
	},
	{
		name: "the exit code of a shell that finds no command", timeMs: 10000, memory: 64 * mib,
		code:   `{ char *none[] = { "none", 0 }; execv("/nonexistent", none); return 127; }`,
		status: "ERROR", reason: "runtimeError", note: "Runtime error, exit code 127",
	},
	{
		name: "no output", timeMs: 10000, memory: 64 * mib, code: "return 0;",
		status: "ERROR", reason: "wrongAnswer", note: "token 1 differs: got nothing",
	},
	{
		name: "C46 output where none is expected", timeMs: 10000, memory: 64 * mib, code: "", expects: " ",
		status: "ERROR", reason: "wrongAnswer", note: `token 1 differs: got "3"`,
	},
	{
		name: "C38 one byte and the end", timeMs: 10000, memory: 64 * mib, code: `write(1, "3", 1); _exit(0);`, status: "OK",
	},
	{
		name: "C41 what is no UTF-8", timeMs: 10000, memory: 64 * mib, code: `puts("\xff\xfe"); return 0;`,
		status: "ERROR", reason: "wrongAnswer", note: "token 1 differs: got \"\ufffd\ufffd\"",
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
		status: "ERROR", reason: "timeLimit", note: "Time limit exceeded",
		besides: func(t *testing.T, row test) {
			if *row.TimeMs <= 500 {
				t.Errorf("charged %d ms: a forged report was believed", *row.TimeMs)
			}
		},
	},
	{
		name: "writing to every descriptor, its output among them", timeMs: 10000, memory: 64 * mib,
		code:   `for (int fd = 0; fd < 256; fd++) { ssize_t n = write(fd, ` + forged + `, sizeof ` + forged + ` - 1); (void)n; }`,
		status: "ERROR", reason: "wrongAnswer", note: `token 1 differs: got "00000000000000000000000000000000"`,
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
	unchanged(t)
	p := files{"config.yml": "type: standard-io@1\nlimits: { timeMs: 10000, memoryBytes: 67108864 }\ngroups:\n"}
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
	d := judge(t, p.dir(t), "program.c", source, "--no-policy")
	passed := 0.0
	for i, b := range behaviours {
		t.Run(b.name, func(t *testing.T) {
			row := d.row(t, fmt.Sprintf("%da", i+1))
			if row.Status != b.status || row.Reason != b.reason || !strings.HasPrefix(*row.Note, b.note) {
				t.Errorf("%s %s, note %q; want %s %s %q", row.Status, row.Reason, *row.Note, b.status, b.reason, b.note)
			}
			if b.besides != nil {
				b.besides(t, row)
			}
			if b.status == "OK" {
				passed++
			}
		})
	}
	if d.Score != passed {
		t.Errorf("%v points, want %v", d.Score, passed)
	}
}

func TestJ30AGroupPaysOnlyAsAWhole(t *testing.T) {
	unchanged(t)
	source := strings.Replace(add, `printf("%ld\n", a + b);`, `printf("%ld\n", a < 1000 ? a + b : a);`, 1)
	d := judge(t, adder().dir(t), "add.c", source)
	if d.Score != 40 || d.Groups[2].Points != 0 || d.Groups[2].Status != "ERROR" || d.Groups[1].Points != 40 {
		t.Errorf("%v points, groups %+v", d.Score, d.Groups)
	}
	if row := d.row(t, "2a"); *row.Note != `token 1 differs: got "1000000"` || row.Reason != "wrongAnswer" {
		t.Errorf("test 2a: %+v", row)
	}
}

func TestJ26ASubmissionSeesItsOwnInputAndNoOther(t *testing.T) {
	unchanged(t)
	files := adder()
	for _, name := range []string{"0a", "1a", "2a"} {
		files["tests/"+name+".out"] = "/in/" + name + ".in\n"
	}
	source := `#include <stdio.h>
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
`
	d := judge(t, files.dir(t), "probe.c", source, "--no-policy")
	if d.Score != 100 {
		t.Errorf("a program could open more or less than its own input: %+v", d.Tests)
	}
}

func TestWhatIsNotBuiltRunsNothing(t *testing.T) {
	big := add + "/*" + strings.Repeat("x", 8<<20) + "*/\n"
	for _, c := range []struct {
		name   string
		file   string
		source string
		args   []string
		status string
		reason string
		log    []string
	}{
		{"J33 not C++ at all", "prose.cpp", "This is no program.\n", nil, "ERROR", "compilationError", []string{"error"}},
		{"J5 another extension", "solution.py", add, []string{"--toolchain", "cpp17-gcc"}, "ERROR", "compilationError", []string{"solution.py", ".cpp", "C++17 (GCC)"}},
		{"J36 too large", "big.c", big, nil, "WARNING", "policyViolation", []string{"KiB"}},
		{
			"J35 the network", "net.cpp", "#include <sys/socket.h>\n#include <arpa/inet.h>\nint main() {}\n", nil, "WARNING", "policyViolation",
			[]string{"sys/socket.h", "arpa/inet.h"},
		},
		{
			"J37 the source rules", "ls.c", "#include <unistd.h>\n#include <stdlib.h>\nint main(void) { return system(\"ls\"); }\n", nil,
			"WARNING", "policyViolation",
			[]string{"unistd.h", "Running another program", "(line "},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			unchanged(t)
			d := judge(t, adder().dir(t), c.file, c.source, c.args...)
			if d.Score != 0 || d.MaxScore != 100 || d.Compilation.Status != c.status {
				t.Errorf("document: %+v", d)
			}
			for _, words := range c.log {
				if !strings.Contains(d.Compilation.Log, words) {
					t.Errorf("the log does not say %q:\n%s", words, d.Compilation.Log)
				}
			}
			for _, row := range d.Tests {
				if row.Reason != c.reason || *row.TimeMs != 0 || row.MemoryBytes != nil {
					t.Errorf("a test that was not run: %+v", row)
				}
			}
		})
	}
}

func TestJ1ALanguageThatTheProblemDoesNotAcceptIsRefused(t *testing.T) {
	unchanged(t)
	d := judge(t, adder().config("languages: [python3]").dir(t), "add.c", add)
	if d.Compilation.Status != "WARNING" || !strings.Contains(d.Compilation.Log, "C11 (GCC)") || !strings.Contains(d.Compilation.Log, "python3") {
		t.Errorf("compilation: %+v", d.Compilation)
	}
}
