package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/internal/problem"
)

func TestEveryKindOfPackageThatInitWritesIsCleanAndHasLabelledSolutions(t *testing.T) {
	for kind := range kinds {
		f := &fakeHost{t: t}
		dir := filepath.Join(t.TempDir(), "new", kind)
		if r := f.command("init", dir, "--kind", kind); r.status != 0 || !strings.Contains(r.out, "evalhost verify "+dir) {
			t.Fatalf("%s: status %d, %q", kind, r.status, r.errout)
		}
		if r := f.command("lint", "--static", dir); r.status != 0 {
			t.Errorf("%s: %s", kind, r.out)
		}
		p, err := problem.Open(t.Context(), dir, filepath.Join(t.TempDir(), "tree"), problem.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if labelled, err := p.LabelledSolutions(); err != nil || len(labelled) < 2 {
			t.Errorf("%s: %v, %v", kind, labelled, err)
		}
	}
}

func TestInitWritesNothingWhereSomethingIs(t *testing.T) {
	f := &fakeHost{t: t}
	full := tree(t, map[string]string{"mine": "x"})
	file := filepath.Join(full, "mine")
	for _, dir := range []string{full, file, "/proc/none/package"} {
		if r := f.command("init", dir); r.status != exitUsage || r.out != "" {
			t.Errorf("%s: status %d, %q", dir, r.status, r.errout)
		}
	}
	count := 0
	_ = filepath.WalkDir(full, func(string, fs.DirEntry, error) error { count++; return nil })
	if count != 2 {
		t.Errorf("%d entries where there were 2", count)
	}
	empty := t.TempDir()
	if r := f.command("init", empty, "--json"); r.status != 0 || !strings.Contains(r.out, `"kind": "comparison"`) || !strings.Contains(r.out, `"solutions/accepted/sum.c"`) {
		t.Errorf("status %d, %s", r.status, r.out)
	}
	if info, err := os.Stat(filepath.Join(empty, "config.yml")); err != nil || info.Mode().Perm()&0o444 == 0 {
		t.Errorf("%v", err)
	}
}

func TestThereIsNoOtherKind(t *testing.T) {
	f := &fakeHost{t: t}
	if r := f.command("init", t.TempDir(), "--kind", "hard"); r.status != exitUsage || !strings.Contains(r.errout, "the kinds are checker, comparison, groups, interactor, output-only, policy") {
		t.Errorf("status %d, %q", r.status, r.errout)
	}
}
