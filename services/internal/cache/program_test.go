package cache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheKeyOfABuildIsTheContractsOwn(t *testing.T) {
	for key, b := range map[string]Build{
		"cc1221a8f9902b26": {Source: "checker/checker.cpp", Language: "cpp17-gcc", ImageID: "sha256:aa"},
		"19450318f7010881": {Source: "checker/checker.cpp", Language: "cpp17-gcc", ImageID: "sha256:bb"},
	} {
		if got := b.Key(); got != key {
			t.Errorf("%+v: %s, want %s", b, got, key)
		}
	}
	if a, b := (Build{Source: "a", Language: "bc"}).Key(), (Build{Source: "ab", Language: "c"}).Key(); a == b {
		t.Error("what separates the parts does not count")
	}
}

// builder is a build that writes one program and counts.
type builder struct{ times int }

func (b *builder) build(text string) func(context.Context, string) error {
	return func(_ context.Context, dir string) error {
		b.times++
		return os.WriteFile(filepath.Join(dir, "program"), []byte(text), 0o555)
	}
}

func TestAJudgingProgramIsBuiltOnceForAnImageAndACommand(t *testing.T) {
	s, b, u := newServer(), &builder{}, &unpacker{}
	dir := t.TempDir()
	ref := s.add("p", 1000)
	c := open(t, dir, "one", plenty)
	h := get(t, c, ref, s)
	tree(t, h, u)
	checker := Build{Source: "checker.cpp", Language: "cpp17-gcc", Image: "gcc:1", ImageID: "sha256:aa", Command: []string{"g++", "-O2"}}
	program := func(h *Held, build Build, text string) string {
		t.Helper()
		path, err := h.Program(t.Context(), build, b.build(text))
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil || string(content) != text {
			t.Errorf("%s holds %q, %v; want %q", path, content, err, text)
		}
		return path
	}
	first := program(h, checker, "first")
	if want := filepath.Join(h.entry(), "_build", checker.Key(), "out", "program"); first != want {
		t.Errorf("it is at %s, want %s", first, want)
	}
	program(h, checker, "first")
	program(get(t, open(t, dir, "two", plenty), ref, s), checker, "first") // another Runner uses it from now on
	if b.times != 1 {
		t.Fatalf("built %d times", b.times)
	}
	// Another image: another product; the older one is forgotten but not removed under whoever runs it.
	newer := checker
	newer.ImageID = "sha256:bb"
	program(h, newer, "second")
	if exists(first) {
		t.Error("the older build keeps its name")
	}
	old, err := filepath.Glob(filepath.Join(h.entry(), "_build", checker.Key()+"-*.one.partial", "out", "program"))
	if err != nil || len(old) != 1 {
		t.Errorf("the older build was removed while another Runner held it: %v, %v", old, err)
	}
	// Another command of the toolchain, same image: the same name and another program.
	newer.Command = []string{"g++", "-O3"}
	program(h, newer, "third")
	if b.times != 3 {
		t.Errorf("built %d times, want 3", b.times)
	}
	if tree(t, h, u); u.times.Load() != 1 {
		t.Error("the tree was unpacked again because a program was built")
	}
	// When nobody holds it any more, the next life of the Runner that set it aside removes it.
	h.Release()
	if err := os.RemoveAll(filepath.Join(dir, "holding", "p")); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, dir, "one", plenty).Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range files(t, h.entry()) {
		if strings.Contains(name, ".partial") {
			t.Errorf("left %s", name)
		}
	}
}

func TestADamagedProgramIsBuiltAgain(t *testing.T) {
	s, b := newServer(), &builder{}
	dir := t.TempDir()
	ref := s.add("p", 1000)
	h := get(t, open(t, dir, "one", plenty), ref, s)
	path, err := h.Program(t.Context(), Build{Source: "c"}, b.build("whole"))
	if err != nil {
		t.Fatal(err)
	}
	h.Release()
	if err := errors.Join(os.Chmod(path, 0o755), os.WriteFile(path, []byte("wrong"), 0o755)); err != nil {
		t.Fatal(err)
	}
	h = get(t, open(t, dir, "one", plenty), ref, s)
	if path, err = h.Program(t.Context(), Build{Source: "c"}, b.build("whole")); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "whole" || b.times != 2 {
		t.Errorf("%q, %v, built %d times", content, err, b.times)
	}
	// Nobody else held it, so the damaged one is gone at once.
	if names, err := os.ReadDir(filepath.Join(h.entry(), "_build")); err != nil || len(names) != 1 {
		t.Errorf("left %v, %v", names, err)
	}
}

func TestABuildThatFailsIsNotKept(t *testing.T) {
	s, b := newServer(), &builder{}
	h := get(t, open(t, t.TempDir(), "one", plenty), s.add("p", 1000), s)
	bad := errors.New("it does not compile")
	if _, err := h.Program(t.Context(), Build{Source: "c"}, func(context.Context, string) error { return bad }); !errors.Is(err, bad) {
		t.Errorf("%v; want the build's own error", err)
	}
	for name, build := range map[string]func(context.Context, string) error{
		"nothing": func(context.Context, string) error { return nil },
		"two files": func(_ context.Context, dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "a"), nil, 0o555), os.WriteFile(filepath.Join(dir, "b"), nil, 0o555))
		},
		"a link": func(_ context.Context, dir string) error { return os.Symlink("/bin/sh", filepath.Join(dir, "program")) },
	} {
		if path, err := h.Program(t.Context(), Build{Source: "c"}, build); err == nil {
			t.Errorf("%s was taken for a program: %s", name, path)
		}
	}
	if got := files(t, h.entry()); len(got) != 1 {
		t.Errorf("left %q", got)
	}
	if _, err := h.Program(t.Context(), Build{Source: "c"}, b.build("good")); err != nil {
		t.Error(err)
	}
}
