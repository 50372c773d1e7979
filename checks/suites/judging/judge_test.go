//go:build guest

package judging

import (
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

// A program that the source rules refuse is neither built nor run, and the command says which and where. What else is not built is
// in the suite judge.
func TestJ37WhatTheSourceRulesRefuseRunsNothing(t *testing.T) {
	unchanged(t)
	d := judge(t, adder().dir(t), "ls.c", "#include <unistd.h>\n#include <stdlib.h>\nint main(void) { return system(\"ls\"); }\n")
	if d.Score != 0 || d.MaxScore != 100 || d.Compilation.Status != "WARNING" || len(d.Tests) != 3 {
		t.Errorf("document: %+v", d)
	}
	for _, words := range []string{"unistd.h", "Running another program", "(line "} {
		if !strings.Contains(d.Compilation.Log, words) {
			t.Errorf("the log does not say %q:\n%s", words, d.Compilation.Log)
		}
	}
	for _, row := range d.Tests {
		if row.Reason != "policyViolation" || *row.TimeMs != 0 || row.MemoryBytes != nil {
			t.Errorf("a test that was not run: %+v", row)
		}
	}
}
