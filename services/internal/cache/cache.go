package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// MaxPackage is the largest package there is (5.9).
const MaxPackage = 128 * verdict.MiB

// Config of a Cache. Path and Instance are required.
type Config struct {
	// Path is the cache's directory: absolute, its own, on a local file system. It is made if it is missing.
	Path string
	// MaxBytes is how much is kept: everything of every entry counts. What is held stays whatever this is.
	MaxBytes verdict.Bytes
	// Instance names this Runner in markers and partial names: its key's fingerprint. No two processes share one.
	Instance string
	// Observe is told what happens; nil for nobody.
	Observe Observer
	// Log takes what an operator should know; nil discards it.
	Log *slog.Logger
}

// Observer is told what happens in a cache, for metrics. Its methods return at once and may be called by several goroutines.
type Observer interface {
	// Hit: a package was there.
	Hit()
	// Downloaded: a package came from the Server.
	Downloaded(size verdict.Bytes, took time.Duration)
	// Prepared: a package was unpacked, or a judging program built.
	Prepared(product string, took time.Duration)
	// Damaged: something on the disk was not what it should be and is made anew.
	Damaged(what string)
	// Evicted: entries were removed to make room.
	Evicted(entries int, size verdict.Bytes)
	// Sized: how much there is.
	Sized(entries int, size verdict.Bytes)
}

// Source downloads. *protocol.Client is one.
type Source interface {
	Download(ctx context.Context, f protocol.Wanted, w io.Writer) (verdict.Bytes, error)
}

// Ref names a package: the Server's file and the checksum of its bytes.
type Ref struct {
	File   protocol.FileID
	SHA256 string
}

// Cache is one Runner's view of a cache directory. It is safe for use by several goroutines.
type Cache struct {
	cfg   Config
	log   *slog.Logger
	watch Observer

	mu       sync.Mutex
	held     map[protocol.FileID]int // by this process
	verified map[string]string       // digest by product directory, of what this process has read whole

	fetching chan struct{} // one download at a time: its partial has this instance's name
}

// Open makes the cache's directories and proves that the file system can lock. It deletes nothing; see Sweep.
func Open(cfg Config) (*Cache, error) {
	if !filepath.IsAbs(cfg.Path) || filepath.Clean(cfg.Path) != cfg.Path || cfg.Path == "/" {
		return nil, &Error{BadName, "opening the cache", fmt.Errorf("the directory is %q, expected a clean absolute path", cfg.Path)}
	}
	if err := protocol.FileID(cfg.Instance).Check(); err != nil {
		return nil, &Error{BadName, "opening the cache", fmt.Errorf("the instance's name cannot be part of a path: %w", err)}
	}
	c := &Cache{
		cfg: cfg, log: cfg.Log, watch: cfg.Observe,
		held: map[protocol.FileID]int{}, verified: map[string]string{}, fetching: make(chan struct{}, 1),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.watch == nil {
		c.watch = nobody{}
	}
	if err := os.MkdirAll(cfg.Path, 0o700); err != nil {
		return nil, trouble(err, "making the cache's directory %s", cfg.Path)
	}
	for _, dir := range []string{"packages", "holding", "used", "locks", "trash"} {
		if err := os.MkdirAll(filepath.Join(cfg.Path, dir), 0o755); err != nil {
			return nil, trouble(err, "making the cache's directories below %s", cfg.Path)
		}
	}
	if err := c.proveLocks(); err != nil {
		return nil, err
	}
	return c, nil
}

// proveLocks takes a lock twice: a file system that grants it twice, or never, cannot be shared.
func (c *Cache) proveLocks() error {
	path := filepath.Join(c.cfg.Path, ".probe."+c.cfg.Instance)
	defer os.Remove(path)
	first, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return trouble(err, "proving that %s can be locked", c.cfg.Path)
	}
	defer first.Close()
	second, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return trouble(err, "proving that %s can be locked", c.cfg.Path)
	}
	defer second.Close()
	if err := unix.Flock(int(first.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return trouble(err, "locking a file below %s, without which Runners would overwrite each other's packages; use a file system with flock", c.cfg.Path)
	}
	if err := unix.Flock(int(second.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		return &Error{Disk, "locking a file below " + c.cfg.Path + " twice", errors.New("it was granted twice, so locks mean nothing on this file system")}
	}
	return nil
}

// entry is the directory of a package. A checksum is the Server's word: two dots of it are allowed (5.3) and must not lead
// out of here.
func (c *Cache) entry(ref Ref) string {
	sum := strings.ToLower(ref.SHA256)
	pair := func(i int) string {
		if len(sum) < 2*i+2 || sum[2*i:2*i+2] == ".." {
			return "__"
		}
		return sum[2*i : 2*i+2]
	}
	return filepath.Join(c.cfg.Path, "packages", pair(0), pair(1), pair(2), string(ref.File))
}

func (c *Cache) usedMarker(id string) string { return filepath.Join(c.cfg.Path, "used", id) }

// partial is the name of something unfinished of this Runner.
func (c *Cache) partial(name string) string { return name + "." + c.cfg.Instance + ".partial" }

func isPartial(name string) bool { return strings.HasSuffix(name, ".partial") }

// touch says that an entry was wanted now. The marker only decides what is evicted first, so a failure fails nothing.
func (c *Cache) touch(id protocol.FileID) {
	marker := c.usedMarker(string(id))
	file, err := os.OpenFile(marker, os.O_WRONLY|os.O_CREATE, 0o644)
	if err == nil {
		now := time.Now()
		err = errors.Join(file.Close(), os.Chtimes(marker, now, now))
	}
	if err != nil {
		c.log.Warn("a cached package could not be marked as wanted; it may be evicted too early", "marker", marker, "error", err)
	}
}

// nobody observes nothing.
type nobody struct{}

func (nobody) Hit()                                    {}
func (nobody) Downloaded(verdict.Bytes, time.Duration) {}
func (nobody) Prepared(string, time.Duration)          {}
func (nobody) Damaged(string)                          {}
func (nobody) Evicted(int, verdict.Bytes)              {}
func (nobody) Sized(int, verdict.Bytes)                {}
