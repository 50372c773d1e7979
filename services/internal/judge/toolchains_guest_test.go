//go:build guest

package judge

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/sandbox/hoststate"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// One program a family. Its input says how it behaves: 0 sums, 1 fails, 2 never ends, 3 wants more memory than there is. It
// is written for the oldest standard of its family.
var (
	manyWaysC = `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char *volatile kept;
int main(void) {
	int how, n, i, number;
	double sum = 0;
	volatile int forever = 1;
	if (scanf("%d", &how) != 1) return 2;
	if (how == 1) abort();
	while (how == 2 && forever) {}
	while (how == 3) {
		char *more = (char *)malloc(1 << 20);
		if (!more) return 4;
		memset(more, 1, 1 << 20);
		kept = more;
	}
	if (scanf("%d", &n) != 1) return 2;
	for (i = 0; i < n; i++) {
		if (scanf("%d", &number) != 1) return 3;
		sum += number;
	}
	printf("%.0f\n", sum);
	return 0;
}
`
	manyWaysCPP = `#include <cstdio>
#include <cstdlib>
#include <cstring>
static char *volatile kept;
int main() {
	int how, n, number;
	volatile bool forever = true;
	if (std::scanf("%d", &how) != 1) return 2;
	if (how == 1) std::abort();
	while (how == 2 && forever) {}
	while (how == 3) {
		auto more = new char[1 << 20];
		std::memset(more, 1, 1 << 20);
		kept = more;
	}
	if (std::scanf("%d", &n) != 1) return 2;
	long long sum = 0;
	auto next = [&]() { return std::scanf("%d", &number) == 1; };
	for (int i = 0; i < n; i++) {
		if (!next()) return 3;
		sum += number;
	}
	std::printf("%lld\n", sum);
}
`
	manyWaysPython = `import sys
words = sys.stdin.buffer.read().split()
how = int(words[0])
if how == 1:
    raise SystemExit(1 // 0)
while how == 2:
    pass
held = []
while how == 3:
    held.append(bytearray(b"x") * (1 << 20))
print(sum(map(int, words[2:])))
`
)

// family says how a family's program is sent, and what each behaviour comes to.
type family struct {
	file, source, broken string
	// loop and memory are the limits of the endless loop and of the glutton: an interpreter needs some of either to start.
	loop   int64 // milliseconds
	memory int64 // bytes
	// failure is the note of the program that fails, complaint what the compiler says of the broken source.
	failure   string
	complaint string
}

var families = map[string]family{
	"c": {
		"sum.c", manyWaysC, "int main(void) {\n\treturn missing;\n}\n", 500, 32 << 20,
		"Runtime error: aborted (exit code 134)", "main.c:2",
	},
	"cpp": {
		"sum.cpp", manyWaysCPP, "int main() {\n\treturn missing;\n}\n", 500, 32 << 20,
		"Runtime error: aborted (exit code 134)", "main.cpp:2",
	},
	"python": {
		"sum.py", manyWaysPython, "def answer():\n    return (1\n", 4000, 128 << 20,
		"Runtime error, exit code 1", "SyntaxError",
	},
}

// manyWays is the package of a family: each behaviour is a group.
func (f family) manyWays(behaviours bool) map[string]string {
	var numbers strings.Builder
	sum := 0
	for i := range 100_000 {
		n := i*7919%200_001 - 100_000
		sum += n
		fmt.Fprintf(&numbers, "%d\n", n)
	}
	p := map[string]string{
		"config.yml":  "type: standard-io@1\nlimits: { timeMs: 60000, memoryBytes: 268435456 }\ngroups:\n  - { group: 1, points: 10 }\n",
		"tests/1a.in": fmt.Sprintf("0 100000\n%s", numbers.String()), "tests/1a.out": fmt.Sprintln(sum),
		"tests/0a.in": "", "tests/0a.out": "", "tests/2a.in": "", "tests/2a.out": "",
	}
	if behaviours {
		p["config.yml"] += fmt.Sprintf("  - { group: 2, points: 20 }\n  - { group: 3, points: 30, limits: { timeMs: %d } }\n"+
			"  - { group: 4, points: 40, limits: { memoryBytes: %d } }\n", f.loop, f.memory)
		for n, how := range map[int]int{2: 1, 3: 2, 4: 3} {
			p[fmt.Sprintf("tests/%da.in", n)], p[fmt.Sprintf("tests/%da.out", n)] = fmt.Sprintln(how), "0\n"
		}
	}
	return p
}

// thorough are the toolchains whose every behaviour is tried in an ordinary run: each family in each of its images. The
// others sum in an ordinary run, and do everything in a long one (docs/decisions/0014).
var thorough = map[string]bool{
	"c89-gcc": true, "c23-clang": true, "cpp20-gcc": true, "cpp11-clang": true, "python3": true, "pypy3": true,
}

// J3, and what every language must do: sum, fail, never end, want too much, and not compile. There is a sandbox on each of
// the processors of a lane, and each takes the next toolchain.
func TestJ3EveryToolchainJudgesEveryBehaviour(t *testing.T) {
	everything := os.Getenv("EVALHOST_TEST_EVERYTHING") != ""
	var rigs []*guestRig
	for _, cpuset := range hoststate.Cpusets() {
		rigs = append(rigs, onAHost(t, alone(cpuset)))
	}
	table := langimages.Default()
	versions := Versions{}
	for _, image := range table.Images() {
		read, err := ReadVersions(t.Context(), rigs[0].spans, table, image.Key, image.Reference)
		if err != nil {
			t.Fatal(err)
		}
		versions.Join(read)
	}
	problems := map[string]*problem.Problem{}
	for name, f := range families {
		problems[name+" all"], problems[name+" sum"] = open(t, f.manyWays(true)), open(t, f.manyWays(false))
	}
	next := make(chan langimages.Toolchain)
	var working sync.WaitGroup
	for _, g := range rigs {
		working.Go(func() {
			for toolchain := range next {
				behaviours := "sum"
				if everything || thorough[toolchain.ID] {
					behaviours = "all"
				}
				t.Run(toolchain.ID, func(t *testing.T) {
					b, err := g.open(problems[toolchain.Family+" "+behaviours], 1)
					if err != nil {
						t.Fatal(err)
					}
					b.Versions = versions
					tryToolchain(t, b, toolchain, behaviours == "all")
				})
			}
		})
	}
	tried := 0
	for _, toolchain := range table.Offered() {
		next <- toolchain
		tried++
	}
	close(next)
	working.Wait()
	if tried != 18 {
		t.Errorf("%d toolchains were tried", tried)
	}
}

// alone is a sandbox of one lane.
func alone(cpuset string) func(*sandbox.Config) {
	return func(c *sandbox.Config) { c.Lanes = []sandbox.Lane{{Cpuset: cpuset}} }
}

// tryToolchain judges the program of many ways in one toolchain, and what does not compile.
func tryToolchain(t *testing.T, b *Bench, toolchain langimages.Toolchain, all bool) {
	f, version := families[toolchain.Family], b.Versions[toolchain.ID]
	saysItsVersion(t, toolchain, version)
	s := Submission{FileName: f.file, Source: []byte(f.source), Toolchain: toolchain.ID}
	j, err := b.Judge(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tested := range j.Tests {
		t.Log(row(tested))
	}
	if tested := j.Tests[0]; tested.Status != verdict.OK || j.Document.Groups[0].Points != 10 || j.Version != version {
		t.Errorf("the sum of 100,000 numbers: %s; version %q, log:\n%s", row(tested), j.Version, j.Log)
	}
	if !all {
		return
	}
	for i, want := range []struct {
		reason verdict.Reason
		note   string
	}{{verdict.RuntimeError, f.failure}, {verdict.TimeLimit, "Time limit exceeded"}, {verdict.MemoryLimit, "Memory limit exceeded"}} {
		result{Tested: j.Tests[i+1]}.says(t, verdict.Error, want.reason, want.note)
	}
	nearly(t, j.Tests[3].Memory, verdict.Bytes(f.memory))
	s.Source = []byte(f.broken)
	if j, err = b.Judge(t.Context(), s, nil); err != nil {
		t.Fatal(err)
	}
	log := j.Document.Compilation.Log
	if j.Verdict != verdict.CompilationFailed || !strings.Contains(log, f.complaint) || !strings.Contains(strings.ToLower(log), "error") ||
		!utf8.ValidString(log) || !strings.Contains(j.Log, version) {
		t.Errorf("a source that does not compile: %s, log:\n%s", j.Verdict, j.Log)
	}
}

// saysItsVersion looks for the compiler's name and a number in what an image said of itself.
func saysItsVersion(t *testing.T, toolchain langimages.Toolchain, version string) {
	t.Helper()
	t.Logf("%s: %s", toolchain.ID, version)
	name := map[string]string{"gcc": "gcc", "clang": "clang", "cpython": "Python 3", "pypy": "PyPy"}[toolchain.Image]
	if toolchain.Family == "cpp" && toolchain.Image == "gcc" {
		name = "g++"
	}
	if !strings.Contains(version, name) || !strings.ContainsAny(version, "0123456789") {
		t.Errorf("%s says of itself %q", toolchain.ID, version)
	}
}

// The same memory in a language whose interpreter takes its own from it as well.
func TestFortyMiBWhereThirtyTwoAreAllowedAreTooManyInPythonToo(t *testing.T) {
	g := onAHost(t)
	b := g.bench(open(t, single(30000, 32<<20)), 1)
	j := g.judge(b, Submission{FileName: "forty.py", Toolchain: "python3", Source: []byte("held = bytearray(b'x') * (40 << 20)\nprint(input())\n")})
	tested := j.Tests[0]
	t.Log(row(tested))
	if j.Verdict != verdict.MemoryLimitExceeded || tested.Reason != verdict.MemoryLimit {
		t.Errorf("%s", j.Verdict)
	}
	nearly(t, tested.Memory, 32<<20)
}
