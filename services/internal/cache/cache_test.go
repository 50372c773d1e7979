package cache

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/internal/protocol"
)

func TestAnEntryIsFoundByItsChecksumAndItsId(t *testing.T) {
	s := newServer()
	c := open(t, t.TempDir(), "one", plenty)
	ref := s.add("0198-abc", 100)
	h := get(t, c, ref, s)
	want := filepath.Join(c.cfg.Path, "packages", ref.SHA256[0:2], ref.SHA256[2:4], ref.SHA256[4:6], "0198-abc", "file")
	if h.Archive() != want {
		t.Errorf("the archive is at %s, want %s", h.Archive(), want)
	}
	content, err := os.ReadFile(want)
	if err != nil || string(content) != string(s.packages[ref.File]) {
		t.Errorf("the archive has %d bytes, %v", len(content), err)
	}
	upper := get(t, c, Ref{ref.File, strings.ToUpper(ref.SHA256)}, s)
	if upper.Archive() != want || s.downloads.Load() != 1 {
		t.Errorf("in upper case it is at %s after %d downloads", upper.Archive(), s.downloads.Load())
	}
	if got := c.entry(Ref{"f", "ab1"}); !strings.HasSuffix(got, "/packages/ab/__/__/f") {
		t.Errorf("a checksum that is too short leads to %s", got)
	}
}

func TestNamesThatCannotBePartOfAPathAreRefusedBeforeAnythingIsTouched(t *testing.T) {
	s := newServer()
	c := open(t, t.TempDir(), "one", plenty)
	before := files(t, c.cfg.Path)
	good := s.add("good", 10)
	for _, bad := range []string{"", ".", "..", "../../..", "a/b", `a\b`, "a b", "a\x00b", "ä", strings.Repeat("x", 129)} {
		for _, ref := range []Ref{{protocol.FileID(bad), good.SHA256}, {good.File, bad}} {
			if _, err := c.Get(t.Context(), ref, s); ProblemOf(err) != BadName {
				t.Errorf("%q: %v", ref, err)
			}
		}
	}
	if s.downloads.Load() != 0 || !slices.Equal(files(t, c.cfg.Path), before) {
		t.Errorf("%d downloads, files %q", s.downloads.Load(), files(t, c.cfg.Path))
	}
	for _, instance := range []string{"", "..", "a/b"} {
		if _, err := Open(Config{Path: t.TempDir(), Instance: instance}); ProblemOf(err) != BadName {
			t.Errorf("instance %q: %v", instance, err)
		}
	}
	for _, path := range []string{"", "/", "relative", "/a/../b"} {
		if _, err := Open(Config{Path: path, Instance: "one"}); ProblemOf(err) != BadName {
			t.Errorf("path %q: %v", path, err)
		}
	}
}

// The contract allows dots in a checksum, and two of them are a name of the directory above.
func TestAChecksumOfDotsLeadsNowhereElse(t *testing.T) {
	s := newServer()
	outside := t.TempDir()
	precious := filepath.Join(outside, "victim", "file", "precious")
	if err := os.MkdirAll(precious, 0o755); err != nil {
		t.Fatal(err)
	}
	c := open(t, filepath.Join(outside, "a", "cache"), "one", plenty)
	s.add("victim", 10)
	for _, sum := range []string{"......", "ab....", "....ab", "..", ".....", "...", "..aabb" + strings.Repeat("0", 58)} {
		ref := Ref{"victim", sum}
		if entry := c.entry(ref); !strings.HasPrefix(entry, filepath.Join(c.cfg.Path, "packages")+"/") || strings.Count(entry[len(c.cfg.Path):], "/") != 5 {
			t.Errorf("the checksum %q leads to %s", sum, entry)
		}
		if h, err := c.Get(t.Context(), ref, s); err == nil {
			h.Release()
			t.Errorf("the checksum %q was met", sum)
		}
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("something outside of the cache was removed: %v", err)
	}
}

func TestAPackageIsDownloadedOnceAndUnpackedOnce(t *testing.T) {
	s, u, w := newServer(), &unpacker{}, &seen{}
	dir := t.TempDir()
	c, err := Open(Config{Path: dir, Instance: "one", MaxBytes: plenty, Observe: w})
	if err != nil {
		t.Fatal(err)
	}
	ref := s.add("p", 1000)
	for range 5 {
		h := get(t, c, ref, s)
		if got := tree(t, h, u); got != filepath.Join(c.entry(ref), "_extracted") {
			t.Errorf("the tree is at %s", got)
		}
		h.Release()
	}
	// Another life of the same Runner finds it too.
	again := get(t, open(t, dir, "one", plenty), ref, s)
	tree(t, again, u)
	if s.downloads.Load() != 1 || u.times.Load() != 1 {
		t.Errorf("%d downloads, %d times unpacked", s.downloads.Load(), u.times.Load())
	}
	if want := []string{"downloaded 1000", "prepared extracted", "hit", "hit", "hit", "hit"}; !slices.Equal(w.events, want) {
		t.Errorf("told %q, want %q", w.events, want)
	}
	if !exists(filepath.Join(dir, "used", "p")) {
		t.Error("it has no marker that says when it was wanted")
	}
}

func TestAPackageThatDoesNotVerifyLeavesNothingBehind(t *testing.T) {
	s := newServer()
	c := open(t, t.TempDir(), "one", plenty)
	ref := s.add("p", 1000)
	wrong := Ref{ref.File, strings.Repeat("0", 64)}
	for name, want := range map[string]protocol.Class{"checksum": protocol.Checksum, "missing": protocol.NotFound, "empty": protocol.Unreadable} {
		ask := wrong
		switch name {
		case "missing":
			ask = Ref{"nothing", ref.SHA256}
		case "empty":
			ask = s.add("nil", 0)
		}
		_, err := c.Get(t.Context(), ask, s)
		if protocol.ClassOf(err) != want {
			t.Errorf("%s: %v", name, err)
		}
		if left := files(t, c.cfg.Path); len(left) != 0 {
			t.Errorf("%s: left %q", name, left)
		}
	}
	get(t, c, ref, s)
}

func TestADownloadThatBreaksOffIsTheSourcesErrorAndLeavesNothing(t *testing.T) {
	s := newServer()
	c := open(t, t.TempDir(), "one", plenty)
	ref := s.add("p", 1000)
	s.before = func(w io.Writer, content []byte) ([]byte, error) {
		_, _ = w.Write(content[:500])
		return nil, &protocol.Error{Op: "download", Class: protocol.Unreachable}
	}
	_, err := c.Get(t.Context(), ref, s)
	if !protocol.Retryable(err) || len(files(t, c.cfg.Path)) != 0 {
		t.Errorf("%v, left %q", err, files(t, c.cfg.Path))
	}
}

func TestAnEntryThatVanishesIsFetchedAgainInPlaceAFewTimes(t *testing.T) {
	s, u := newServer(), &unpacker{}
	c := open(t, t.TempDir(), "one", plenty)
	ref := s.add("p", 1000)
	spoil := 2
	s.before = func(_ io.Writer, content []byte) ([]byte, error) {
		if spoil > 0 {
			spoil--
			return content, os.RemoveAll(c.entry(ref))
		}
		return content, nil
	}
	h := get(t, c, ref, s)
	if s.downloads.Load() != 3 {
		t.Errorf("%d downloads, want 3", s.downloads.Load())
	}
	// And once more before it is unpacked.
	if err := os.RemoveAll(c.entry(ref)); err != nil {
		t.Fatal(err)
	}
	tree(t, h, u)
	spoil = 100
	h.Release()
	if err := os.RemoveAll(c.entry(ref)); err != nil {
		t.Fatal(err)
	}
	_, err := c.Get(t.Context(), ref, s)
	if ProblemOf(err) != Vanished || !protocol.Retryable(err) {
		t.Errorf("an entry that always vanishes: %v", err)
	}
}

func TestAnUnpackingThatFailsLeavesNothingAndIsTriedAnew(t *testing.T) {
	s, u := newServer(), &unpacker{}
	c := open(t, t.TempDir(), "one", plenty)
	h := get(t, c, s.add("p", 1000), s)
	bad := errors.New("no zip")
	_, err := h.Tree(t.Context(), func(_ context.Context, _, target string) (int, error) {
		mustWrite(t, filepath.Join(target, "half"), "x")
		return 0, bad
	})
	if !errors.Is(err, bad) || ProblemOf(err) != 0 {
		t.Errorf("%v; want the unpacker's own error", err)
	}
	if names, _ := os.ReadDir(h.entry()); len(names) != 1 || names[0].Name() != "file" {
		t.Errorf("left %v", names)
	}
	tree(t, h, u)
}

func TestOnlyWhatTheManifestVouchesForIsReused(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, entry string){
		"no manifest": func(t *testing.T, entry string) {
			if err := os.Remove(filepath.Join(entry, "manifest.json")); err != nil {
				t.Fatal(err)
			}
		},
		"half a manifest": func(t *testing.T, entry string) {
			mustWrite(t, filepath.Join(entry, "manifest.json"), `{"fileId": "p", "sha`)
		},
		"the manifest of another file": func(t *testing.T, entry string) {
			path := filepath.Join(entry, "manifest.json")
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			mustWrite(t, path, strings.Replace(string(content), `"fileId": "p"`, `"fileId": "q"`, 1))
		},
		"the manifest of another checksum": func(t *testing.T, entry string) {
			path := filepath.Join(entry, "manifest.json")
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			mustWrite(t, path, strings.Replace(string(content), `"sha256": "`, `"sha256": "0`, 1))
		},
		"a record without a digest": func(t *testing.T, entry string) {
			mustWrite(t, filepath.Join(entry, "manifest.json"), `{"fileId":"p","sha256":"`+newServer().add("p", 1000).SHA256+`","products":{"_extracted":{"files":3}}}`)
		},
		"no tree": func(t *testing.T, entry string) {
			if err := os.RemoveAll(filepath.Join(entry, "_extracted")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, u := newServer(), &unpacker{}
			c := open(t, t.TempDir(), "one", plenty)
			h := get(t, c, s.add("p", 1000), s)
			tree(t, h, u)
			spoil(t, h.entry())
			stale := filepath.Join(h.entry(), "_extracted", "stale")
			if name == "no manifest" {
				mustWrite(t, stale, "of nobody knows when")
			}
			dir := tree(t, h, u)
			if u.times.Load() != 2 || exists(filepath.Join(dir, "stale")) || s.downloads.Load() != 1 {
				t.Errorf("unpacked %d times, downloaded %d times, stale file there: %v", u.times.Load(), s.downloads.Load(), exists(filepath.Join(dir, "stale")))
			}
			for _, name := range files(t, h.entry()) {
				if strings.Contains(name, ".partial") {
					t.Errorf("left %s", name)
				}
			}
		})
	}
}

func TestADamagedTreeIsNeverHandedOut(t *testing.T) {
	// Truncated tests are what a crash leaves; an expected output of zero bytes would turn every answer into a wrong one.
	for name, damage := range map[string]func(dir string) error{
		"an empty expected output": func(dir string) error { return os.Truncate(filepath.Join(dir, "tests/1a.out"), 0) },
		"another byte": func(dir string) error {
			path := filepath.Join(dir, "tests/1a.out")
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content[3] ^= 1
			return os.WriteFile(path, content, 0o644)
		},
		"a missing test": func(dir string) error { return os.Remove(filepath.Join(dir, "tests/1a.in")) },
		"another test":   func(dir string) error { return os.WriteFile(filepath.Join(dir, "tests/1b.in"), nil, 0o644) },
		"a link":         func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "tests/1b.in")) },
	} {
		for _, life := range []string{"same", "next"} {
			if life == "same" && name == "another byte" {
				continue // within one life the quick look is at names and sizes: nothing but a Runner writes there
			}
			t.Run(name+" in the "+life+" life", func(t *testing.T) {
				s, u, w := newServer(), &unpacker{}, &seen{}
				path := t.TempDir()
				ref := s.add("p", 1000)
				c, err := Open(Config{Path: path, Instance: "one", MaxBytes: plenty, Observe: w})
				if err != nil {
					t.Fatal(err)
				}
				h := get(t, c, ref, s)
				dir := tree(t, h, u)
				if err := damage(dir); err != nil {
					t.Fatal(err)
				}
				if life == "next" {
					h.Release()
					if c, err = Open(Config{Path: path, Instance: "one", MaxBytes: plenty, Observe: w}); err != nil {
						t.Fatal(err)
					}
					h = get(t, c, ref, s)
				}
				dir = tree(t, h, u)
				got, err := os.ReadFile(filepath.Join(dir, "tests/1a.out"))
				if err != nil || string(got) != "tests/1a.out\n"+string(s.packages["p"]) || len(files(t, dir)) != 3 {
					t.Errorf("handed out %q with %d bytes, %v", files(t, dir), len(got), err)
				}
				if !w.has("damaged") || u.times.Load() != 2 {
					t.Errorf("told %q, unpacked %d times", w.events, u.times.Load())
				}
			})
		}
	}
}

func TestADamagedArchiveIsFetchedAgainInPlace(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"another byte": func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("x", 1000)), 0o644) },
		"half of it":   func(path string) error { return os.Truncate(path, 500) },
		"nothing":      func(path string) error { return os.Truncate(path, 0) },
		"no file":      os.Remove,
		"a directory":  func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) },
	} {
		t.Run(name, func(t *testing.T) {
			s, u := newServer(), &unpacker{}
			path := t.TempDir()
			ref := s.add("p", 1000)
			h := get(t, open(t, path, "one", plenty), ref, s)
			if err := damage(h.Archive()); err != nil {
				t.Fatal(err)
			}
			h.Release()
			h = get(t, open(t, path, "one", plenty), ref, s)
			if info, err := os.Stat(h.Archive()); err != nil || info.Size() == 0 {
				t.Errorf("handed out %v, %v", info, err)
			}
			dir := tree(t, h, u)
			got, err := os.ReadFile(filepath.Join(dir, "config.yml"))
			if err != nil || string(got) != "config.yml\n"+string(s.packages["p"]) {
				t.Errorf("unpacked from %d bytes, %v", len(got), err)
			}
			if s.downloads.Load() != 2 || u.times.Load() != 1 {
				t.Errorf("%d downloads, %d times unpacked", s.downloads.Load(), u.times.Load())
			}
		})
	}
}

func TestADamagedArchiveWithoutAServerIsTheServersError(t *testing.T) {
	s, u := newServer(), &unpacker{}
	c := open(t, t.TempDir(), "one", plenty)
	h := get(t, c, s.add("p", 1000), s)
	if err := os.Truncate(h.Archive(), 10); err != nil {
		t.Fatal(err)
	}
	s.before = func(io.Writer, []byte) ([]byte, error) {
		return nil, &protocol.Error{Op: "download", Class: protocol.Unavailable}
	}
	if _, err := h.Tree(t.Context(), u.unpack); !protocol.Retryable(err) || u.times.Load() != 0 {
		t.Errorf("%v, unpacked %d times", err, u.times.Load())
	}
}
