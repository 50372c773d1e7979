package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/services/internal/protocol"
)

// content is what the archive of a held package holds.
func content(t *testing.T, h *Held) string {
	t.Helper()
	b, err := os.ReadFile(h.Archive())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The same bytes under two ids are two packages: what holds, locks and evicts one does nothing to the other.
func TestTwoPackagesOfTheSameBytesAreTwoEntries(t *testing.T) {
	s, u := newServer(), &unpacker{}
	c := open(t, t.TempDir(), "one", plenty)
	first := s.add("first", 1000)
	s.packages["second"] = s.packages["first"]
	second := Ref{"second", first.SHA256}
	one, two := get(t, c, first, s), get(t, c, second, s)
	if tree(t, one, u) == tree(t, two, u) || s.downloads.Load() != 2 {
		t.Errorf("%d downloads", s.downloads.Load())
	}
	one.Release()
	if err := c.evict(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if exists(c.entry(first)) || !exists(c.entry(second)) || content(t, two) == "" {
		t.Error("the held one went with its twin")
	}
}

// One id whose bytes the Server changed, where the two checksums lead to one directory: what is unpacked is what was asked for,
// never what was there.
func TestAnIdWhoseBytesChangedIsNeverServedWithTheOldOnes(t *testing.T) {
	s, u := newServer(), &unpacker{}
	c := open(t, t.TempDir(), "one", plenty)
	old := s.add("id", 1000)
	h := get(t, c, old, s)
	tree(t, h, u)
	h.Release()
	changed := []byte("other bytes")
	sum := sha256.Sum256(changed)
	same := Ref{"id", hex.EncodeToString(sum[:])}
	s.packages["id"] = changed
	if err := os.MkdirAll(filepath.Dir(c.entry(same)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(c.entry(same), os.DirFS(c.entry(old))); err != nil { // as if they began alike
		t.Fatal(err)
	}
	h = get(t, c, same, s)
	dir := tree(t, h, u)
	got, err := os.ReadFile(filepath.Join(dir, "config.yml"))
	if err != nil || string(got) != "config.yml\n"+string(s.packages["id"]) {
		t.Errorf("%q, %v", got, err)
	}
}

// A checksum in capitals is the same package.
func TestAChecksumInCapitalsIsTheSameEntry(t *testing.T) {
	s, u := newServer(), &unpacker{}
	c := open(t, t.TempDir(), "one", plenty)
	ref := s.add("id", 1000)
	tree(t, get(t, c, ref, s), u)
	tree(t, get(t, c, Ref{ref.File, strings.ToUpper(ref.SHA256)}, s), u)
	if s.downloads.Load() != 1 || u.times.Load() != 1 {
		t.Errorf("%d downloads, unpacked %d times", s.downloads.Load(), u.times.Load())
	}
}

// A package of no bytes whose checksum is right is refused, and leaves nothing that a later look could take for one.
func TestAPackageOfNoBytesIsNoPackage(t *testing.T) {
	s := newServer()
	c := open(t, t.TempDir(), "one", plenty)
	ref := s.add("empty", 0)
	for range 2 {
		if _, err := c.Get(t.Context(), ref, s); protocol.ClassOf(err) != protocol.Unreadable || protocol.Retryable(err) {
			t.Errorf("%v", err)
		}
		if exists(c.entry(ref)) || exists(filepath.Join(c.cfg.Path, "holding", "empty")) {
			t.Error("something is left")
		}
	}
}

// A package that is larger than the whole cache is judged from it and goes when somebody else's comes.
func TestAPackageLargerThanTheCacheIsJudgedAndThenGoes(t *testing.T) {
	s, u := newServer(), &unpacker{}
	c := open(t, t.TempDir(), "one", 1)
	large, small := s.add("large", 100_000), s.add("small", 10)
	h := get(t, c, large, s)
	dir := tree(t, h, u)
	other := get(t, c, small, s)
	if !exists(dir) || len(content(t, h)) != 100_000 {
		t.Error("it went while it was held")
	}
	h.Release()
	other.Release()
	get(t, c, s.add("third", 10), s)
	if exists(c.entry(large)) || exists(c.entry(small)) {
		t.Error("it stays although nobody holds it")
	}
}

// Whatever a crash or a person made of an entry's files, what is handed out is what was announced.
func TestWhateverBecameOfAnEntryWhatIsHandedOutIsWhatWasAnnounced(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, entry string) error{
		"a manifest of nothing": func(_ *testing.T, e string) error { return os.WriteFile(filepath.Join(e, manifestName), nil, 0o644) },
		"a manifest that is null": func(_ *testing.T, e string) error {
			return os.WriteFile(filepath.Join(e, manifestName), []byte("null"), 0o644)
		},
		"a manifest of another package": func(_ *testing.T, e string) error { return rewrite(e, `"fileId": "id"`, `"fileId": "other"`) },
		"a manifest that says no files": func(_ *testing.T, e string) error { return rewrite(e, `"digest": "`, `"digest": "0`) },
		"a manifest that is a directory": func(_ *testing.T, e string) error {
			if err := os.Remove(filepath.Join(e, manifestName)); err != nil {
				return err
			}
			return os.Mkdir(filepath.Join(e, manifestName), 0o755)
		},
		"an archive that is a directory": func(_ *testing.T, e string) error {
			if err := os.Remove(filepath.Join(e, archiveName)); err != nil {
				return err
			}
			return os.MkdirAll(filepath.Join(e, archiveName, "x"), 0o755)
		},
		"an archive that is a link": func(t *testing.T, e string) error {
			elsewhere := filepath.Join(t.TempDir(), "elsewhere")
			if err := os.WriteFile(elsewhere, []byte("not this"), 0o644); err != nil {
				return err
			}
			return replaceByLink(filepath.Join(e, archiveName), elsewhere)
		},
		"a tree that is a link": func(t *testing.T, e string) error { return replaceByLink(filepath.Join(e, treeName), t.TempDir()) },
		"a tree with a link in it": func(_ *testing.T, e string) error {
			return replaceByLink(filepath.Join(e, treeName, "tests/1a.out"), "1a.in")
		},
		"a tree with a file more": func(_ *testing.T, e string) error {
			return os.WriteFile(filepath.Join(e, treeName, "tests/2a.in"), nil, 0o644)
		},
		"a tree with a file less":   func(_ *testing.T, e string) error { return os.Remove(filepath.Join(e, treeName, "tests/1a.out")) },
		"a tree that is gone":       func(_ *testing.T, e string) error { return os.RemoveAll(filepath.Join(e, treeName)) },
		"an output that is emptied": func(_ *testing.T, e string) error { return os.Truncate(filepath.Join(e, treeName, "tests/1a.out"), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			s, u := newServer(), &unpacker{}
			path := t.TempDir()
			ref := s.add("id", 1000)
			before := open(t, path, "one", plenty)
			h := get(t, before, ref, s)
			tree(t, h, u)
			h.Release()
			if err := harm(t, before.entry(ref)); err != nil {
				t.Fatal(err)
			}
			c := open(t, path, "one", plenty) // another life
			h, err := c.Get(t.Context(), ref, s)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Release()
			dir, err := h.Tree(t.Context(), u.unpack)
			if err != nil {
				if name == "a manifest that is a directory" { // a failure of the disk, and nothing is handed out
					return
				}
				t.Fatal(err)
			}
			for _, file := range []string{"config.yml", "tests/1a.in", "tests/1a.out"} {
				got, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil || string(got) != file+"\n"+string(s.packages["id"]) {
					t.Errorf("%s: %.40q, %v", file, got, err)
				}
			}
			if names, err := os.ReadDir(filepath.Join(dir, "tests")); err != nil || len(names) != 2 {
				t.Errorf("%v, %v", names, err)
			}
		})
	}
}

func rewrite(entry, old, with string) error {
	path := filepath.Join(entry, manifestName)
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.ReplaceAll(string(b), old, with)), 0o644)
}

func replaceByLink(path, target string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return os.Symlink(target, path)
}

// Choosing what goes and taking hold exclude each other: nobody is handed what is just going.
func TestNobodyTakesHoldOfWhatIsJustGoing(t *testing.T) {
	s := newServer()
	path := t.TempDir()
	c, other := open(t, path, "one", plenty), open(t, path, "two", plenty)
	ref := s.add("id", 1000)
	get(t, c, ref, s).Release()
	soon := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 3*lockPoll)
		t.Cleanup(cancel)
		return ctx
	}
	unlock, err := other.gate(t.Context(), unix.LOCK_SH) // somebody is taking hold
	if err != nil {
		t.Fatal(err)
	}
	if err := c.evict(soon(), 0); ProblemOf(err) != Stopped || !exists(c.entry(ref)) {
		t.Errorf("evicted while somebody took hold: %v", err)
	}
	h, err := c.Get(soon(), ref, s) // as many as like take hold at once
	if err != nil {
		t.Fatal(err)
	}
	h.Release()
	unlock()
	if unlock, err = other.gate(t.Context(), unix.LOCK_EX); err != nil { // somebody chooses what goes
		t.Fatal(err)
	}
	if _, err := c.Get(soon(), ref, s); ProblemOf(err) != Stopped || exists(filepath.Join(path, "holding", "id")) {
		t.Errorf("taken hold of while somebody evicted: %v", err)
	}
	unlock()
	get(t, c, ref, s)
}
