package cache

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

const archiveName = "file"

// attempts is how often an entry that vanishes, or whose bytes turn out to be damaged, is fetched again in place (10.11).
const attempts = 3

// Get makes a package available and holds it: from the disk if it is there, else downloaded and compared with its checksum
// (5.4). The caller owes a Release.
//
// Errors: an *Error; else what the source said, with its class (a wrong checksum, a file the Server does not have, a Server
// that is away). Nothing unverified stays behind in any case.
func (c *Cache) Get(ctx context.Context, ref Ref, from Source) (*Held, error) {
	if err := errors.Join(ref.File.Check(), protocol.FileID(ref.SHA256).Check()); err != nil {
		return nil, &Error{BadName, "looking for a package", err}
	}
	if err := c.hold(ctx, ref.File); err != nil {
		return nil, err
	}
	h := &Held{cache: c, ref: ref, source: from}
	if err := h.fetch(ctx); err != nil {
		h.Release()
		return nil, err
	}
	return h, nil
}

// fetch sees to it that the archive is there.
func (h *Held) fetch(ctx context.Context) error {
	info, err := os.Lstat(h.Archive())
	switch {
	case err == nil && info.Mode().IsRegular() && info.Size() > 0:
		h.cache.watch.Hit()
		h.cache.touch(h.ref.File)
		return nil
	case err == nil:
		h.cache.damaged(h.ref, "the archive is empty or no file")
		if err := os.RemoveAll(h.Archive()); err != nil {
			return trouble(err, "removing a damaged archive %s", h.Archive())
		}
	case !notThere(err):
		return trouble(err, "looking for a package at %s", h.Archive())
	}
	return h.refetch(ctx)
}

// refetch downloads the archive, whatever is there, and puts it in its place at once.
func (h *Held) refetch(ctx context.Context) error {
	c := h.cache
	select {
	case c.fetching <- struct{}{}:
		defer func() { <-c.fetching }()
	case <-ctx.Done():
		return stopped(ctx, "waiting for another download")
	}
	evicted := false
	for try := 1; ; try++ {
		err := h.download(ctx)
		switch {
		case err == nil:
			c.touch(h.ref.File)
			c.fitAgain(ctx)
			return nil
		case ProblemOf(err) == NoSpace && !evicted:
			// Whatever nobody holds may go: this package is wanted now.
			evicted = true
			if e := c.makeRoom(ctx, err); e != nil {
				return errors.Join(err, e)
			}
		case ProblemOf(err) == Vanished && try < attempts:
		default:
			return err
		}
	}
}

// download writes the archive beside its place, whole and on the device, and renames it.
func (h *Held) download(ctx context.Context) (err error) {
	entry := h.entry()
	partial := h.cache.partial(h.Archive())
	defer func() {
		if err != nil {
			_ = os.Remove(partial)
			_ = os.Remove(entry) // only if it is empty
		}
	}()
	if err := os.MkdirAll(entry, 0o755); err != nil {
		return vanished(err, "making the entry %s", entry)
	}
	file, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return vanished(err, "downloading a package to %s", partial)
	}
	began := time.Now()
	disk := &diskWriter{w: file}
	size, err := h.source.Download(ctx, protocol.Wanted{
		ID: h.ref.File, SHA256: h.ref.SHA256, Max: MaxPackage, What: "the package",
	}, disk)
	if disk.err != nil {
		err = trouble(disk.err, "writing a package to %s", partial)
	}
	if err == nil {
		err = trouble(file.Sync(), "writing a package to %s", partial)
	}
	if e := trouble(file.Close(), "writing a package to %s", partial); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	if size == 0 {
		// The Server keeps no empty file, and an empty archive would read as a missing one.
		return &protocol.Error{Op: "download the package", Class: protocol.Unreadable, Detail: "it is empty"}
	}
	if err := os.Rename(partial, h.Archive()); err != nil {
		return vanished(err, "putting a package in its place %s", h.Archive())
	}
	if err := syncDir(entry); err != nil {
		return vanished(err, "putting a package in its place %s", h.Archive())
	}
	h.cache.watch.Downloaded(size, time.Since(began))
	return nil
}

// diskWriter remembers the error of the file itself, so that a full disk is not taken for the Server's fault.
type diskWriter struct {
	w   io.Writer
	err error
}

func (d *diskWriter) Write(p []byte) (int, error) {
	n, err := d.w.Write(p)
	if err != nil {
		d.err = err
	}
	return n, err
}

// vanished is trouble, where a file that is missing was removed by somebody while it was in use.
func vanished(err error, doing string, args ...any) error {
	err = trouble(err, doing, args...)
	var e *Error
	if errors.As(err, &e) && e.Problem == Disk && notThere(e.Err) {
		e.Problem = Vanished
	}
	return err
}

// syncDir writes a directory to the device, so that a renamed file keeps its new name.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// damaged says that something on the disk is not what it should be.
func (c *Cache) damaged(ref Ref, what string) {
	c.log.Warn("a cached package is damaged and is made anew", "file", string(ref.File), "what", what, "entry", c.entry(ref))
	c.watch.Damaged(what)
}

// usage is how much a file takes, in whole blocks of the usual size: thousands of tiny tests are not nothing.
func usage(size int64) verdict.Bytes {
	const block = 4096
	return verdict.Bytes((size + block - 1) / block * block)
}

// makeRoom answers a full disk: everything that nobody holds goes.
func (c *Cache) makeRoom(ctx context.Context, why error) error {
	c.log.Warn("the disk of the cache is full; everything that nobody holds is evicted", "path", c.cfg.Path, "error", why)
	return c.evict(ctx, 0)
}
