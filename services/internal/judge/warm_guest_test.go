//go:build guest

package judge

import (
	"os"
	"testing"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// C08: file pages are charged to whoever reads them first. What an image brings was read before a submission's first test, so
// that this one is measured like the others.
func TestC08TheFirstTestIsNotChargedForTheImage(t *testing.T) {
	g := onAHost(t)
	files := map[string]string{
		"config.yml":  "type: standard-io@1\nlimits: { timeMs: 60000, memoryBytes: 268435456 }\ngroups: [ { group: 1, points: 100 } ]\n",
		"tests/0a.in": "", "tests/0a.out": "", "tests/2a.in": "", "tests/2a.out": "",
	}
	for _, name := range []string{"1a", "1b", "1c"} {
		files["tests/"+name+".in"], files["tests/"+name+".out"] = "\n", "120\n"
	}
	const source = "import heapq, bisect, collections, itertools, math, fractions, decimal, random, re, functools, string, array, struct\n" +
		"print(math.factorial(5))\n"
	images := map[string]string{"python3": "cpython"}
	if os.Getenv("EVALHOST_TEST_EVERYTHING") != "" {
		images["pypy3"] = "pypy"
	}
	for toolchain, image := range images {
		p := open(t, files)
		b := g.bench(p, 1)
		// As after a boot: nothing of any image is in memory.
		if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3\n"), 0); err != nil {
			t.Fatal(err)
		}
		// What a Runner does at its start.
		read, err := ReadVersions(t.Context(), g.spans, b.Table, image, b.Images[image])
		if err != nil {
			t.Fatal(err)
		}
		b.Versions = read
		j := g.judge(b, Submission{FileName: "main.py", Toolchain: toolchain, Source: []byte(source)})
		if j.Verdict != verdict.Accepted || len(j.Tests) != 3 {
			t.Fatalf("%s: %s", toolchain, j.Verdict)
		}
		var least, most verdict.Bytes
		for i, tested := range j.Tests {
			if tested.Memory == nil {
				t.Fatalf("%s: test %s has no peak", toolchain, tested.Name)
			}
			if i == 0 || *tested.Memory < least {
				least = *tested.Memory
			}
			most = max(most, *tested.Memory)
		}
		if most-least > verdict.MiB {
			t.Errorf("%s: the same program has peaks from %v to %v", toolchain, least, most)
		}
	}
}
