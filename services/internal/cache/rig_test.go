package cache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// server is a Source with packages in memory.
type server struct {
	mu        sync.Mutex
	packages  map[protocol.FileID][]byte
	downloads atomic.Int64
	// before is called before the bytes of a download are written; it may fail or change them.
	before func(w io.Writer, content []byte) ([]byte, error)
}

func newServer() *server { return &server{packages: map[protocol.FileID][]byte{}} }

// add makes a package of a size and returns its reference.
func (s *server) add(id string, size int) Ref {
	content := bytes.Repeat([]byte(id+"|"), size/(len(id)+1)+1)[:size]
	s.mu.Lock()
	s.packages[protocol.FileID(id)] = content
	s.mu.Unlock()
	sum := sha256.Sum256(content)
	return Ref{protocol.FileID(id), hex.EncodeToString(sum[:])}
}

func (s *server) Download(ctx context.Context, f protocol.Wanted, w io.Writer) (verdict.Bytes, error) {
	s.downloads.Add(1)
	s.mu.Lock()
	content, ok := s.packages[f.ID]
	s.mu.Unlock()
	if !ok {
		return 0, &protocol.Error{Op: "download", Class: protocol.NotFound}
	}
	if s.before != nil {
		var err error
		if content, err = s.before(w, content); err != nil {
			return 0, err
		}
	}
	// In pieces, as from a connection.
	for rest := content; len(rest) > 0; {
		n := min(len(rest), 64<<10)
		if _, err := w.Write(rest[:n]); err != nil {
			return 0, &protocol.Error{Op: "download", Class: protocol.Local, Cause: err}
		}
		rest = rest[n:]
	}
	sum := sha256.Sum256(content)
	if !strings.EqualFold(hex.EncodeToString(sum[:]), f.SHA256) {
		return 0, &protocol.Error{Op: "download", Class: protocol.Checksum}
	}
	return verdict.Bytes(len(content)), ctx.Err()
}

const plenty = 1 * verdict.GiB

func open(t testing.TB, path, instance string, atMost verdict.Bytes) *Cache {
	t.Helper()
	c, err := Open(Config{Path: path, Instance: instance, MaxBytes: atMost})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func get(t testing.TB, c *Cache, ref Ref, from Source) *Held {
	t.Helper()
	h, err := c.Get(t.Context(), ref, from)
	if err != nil {
		t.Fatalf("Get(%s): %v", ref.File, err)
	}
	t.Cleanup(h.Release)
	return h
}

// unpacker is an Unpack that writes the archive's bytes into a tree and counts how often it did.
type unpacker struct{ times atomic.Int64 }

func (u *unpacker) unpack(_ context.Context, src, target string) (int, error) {
	u.times.Add(1)
	content, err := os.ReadFile(src)
	if err != nil {
		return 0, err
	}
	if err := os.Mkdir(target, 0o755); err != nil {
		return 0, fmt.Errorf("the target must not exist: %w", err)
	}
	if err := os.Mkdir(filepath.Join(target, "tests"), 0o755); err != nil {
		return 0, err
	}
	for _, name := range []string{"config.yml", "tests/1a.in", "tests/1a.out"} {
		if err := os.WriteFile(filepath.Join(target, name), append([]byte(name+"\n"), content...), 0o644); err != nil {
			return 0, err
		}
	}
	return 3, nil
}

func tree(t testing.TB, h *Held, u *unpacker) string {
	t.Helper()
	dir, err := h.Tree(t.Context(), u.unpack)
	if err != nil {
		t.Fatalf("Tree: %v", err)
	}
	return dir
}

// files lists what lies below a directory, relative to it, directories left out.
func files(t testing.TB, root string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(root, path)
			list = append(list, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// mustWrite puts a file where something else is expected to be.
func mustWrite(t testing.TB, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// wanted sets when an entry was last wanted.
func wanted(t testing.TB, c *Cache, ref Ref, ago time.Duration) {
	t.Helper()
	when := time.Now().Add(-ago)
	if err := os.Chtimes(c.usedMarker(string(ref.File)), when, when); err != nil {
		t.Fatal(err)
	}
}

// seen is an Observer that counts.
type seen struct {
	nobody
	mu     sync.Mutex
	events []string
}

func (s *seen) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, fmt.Sprintf(format, args...))
}

func (s *seen) Hit()                                           { s.add("hit") }
func (s *seen) Downloaded(size verdict.Bytes, _ time.Duration) { s.add("downloaded %d", size) }
func (s *seen) Prepared(product string, _ time.Duration)       { s.add("prepared %s", product) }
func (s *seen) Damaged(string)                                 { s.add("damaged") }
func (s *seen) Evicted(n int, _ verdict.Bytes)                 { s.add("evicted %d", n) }

func (s *seen) has(event string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.events, event)
}
