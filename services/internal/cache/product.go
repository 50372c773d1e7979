package cache

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	treeName  = "_extracted"
	buildName = "_build"
)

// Unpack writes the archive at src into target, which does not exist, and returns how many files it wrote. If it fails it
// leaves nothing behind that RemoveAll could not remove.
type Unpack func(ctx context.Context, src, target string) (files int, err error)

// Build names a judging program: what it is built of, and how.
type Build struct {
	// Source is its path in the package; Language the toolchain's id; Image and ImageID where it is built.
	Source, Language, Image, ImageID string
	// Command is the toolchain's; a program of another command is not this one.
	Command []string
}

// Key names the product (5.6).
func (b Build) Key() string {
	sum := sha256.Sum256([]byte(b.Source + "\n" + b.Language + "\n" + b.ImageID + "\n"))
	return hex.EncodeToString(sum[:8])
}

func (b Build) matches(r record) bool {
	return r.Source == b.Source && r.Language == b.Language && r.ImageID == b.ImageID && slices.Equal(r.Command, b.Command)
}

// Tree returns the unpacked package: unpacked before and still what it was, or unpacked now, by this Runner or by the one it
// waited for. It has to be read only. Errors: an *Error, the source's, or unpack's.
func (h *Held) Tree(ctx context.Context, unpack Unpack) (dir string, err error) {
	return h.product(ctx, treeName, func(record) bool { return true }, func(m *manifest) error {
		if err := h.soundArchive(ctx, m); err != nil {
			return err
		}
		return h.fill(ctx, m, treeName, func(target string) (record, error) {
			files, err := unpack(ctx, h.Archive(), target)
			return record{Files: files}, err
		})
	})
}

// Program returns the file of a judging program: kept, or built now. build puts exactly one file into dir. Older builds of
// the same source and language are forgotten, but not removed while somebody may run them. Errors: an *Error, or build's.
func (h *Held) Program(ctx context.Context, b Build, build func(ctx context.Context, dir string) error) (path string, err error) {
	name := buildName + "/" + b.Key()
	dir, err := h.product(ctx, name, b.matches, func(m *manifest) error {
		err := h.fill(ctx, m, name, func(target string) (record, error) {
			out := filepath.Join(target, "out")
			if err := os.MkdirAll(out, 0o755); err != nil {
				return record{}, vanished(err, "making %s", out)
			}
			r := record{Source: b.Source, Language: b.Language, Image: b.Image, ImageID: b.ImageID, Command: b.Command}
			if err := build(ctx, out); err != nil {
				return r, err
			}
			_, err := onlyFile(out)
			return r, err
		})
		if err == nil {
			h.forgetOlder(m, name, b)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return onlyFile(filepath.Join(dir, "out"))
}

// onlyFile is the one file of a directory.
func onlyFile(dir string) (string, error) {
	names, err := os.ReadDir(dir)
	if err == nil && (len(names) != 1 || !names[0].Type().IsRegular()) {
		err = fmt.Errorf("expected exactly one file, found %d entries", len(names))
	}
	if err != nil {
		return "", vanished(err, "looking for a built program in %s", dir)
	}
	return filepath.Join(dir, names[0].Name()), nil
}

// product returns a product that is vouched for and sound, made first if need be, under the entry's lock (5.5).
func (h *Held) product(ctx context.Context, name string, suits func(record) bool, produce func(*manifest) error) (string, error) {
	dir := filepath.Join(h.entry(), name)
	unlock, err := h.lock(ctx)
	if err != nil {
		return "", err
	}
	made, err := false, error(nil)
	for try := 1; ; try++ {
		m := h.readManifest()
		r, recorded := m.Products[name]
		if recorded && suits(r) && h.sound(name, r) {
			break
		}
		delete(m.Products, name)
		began := time.Now()
		made = true
		if err = produce(&m); err == nil {
			h.cache.watch.Prepared(strings.TrimLeft(strings.SplitN(name, "/", 2)[0], "_"), time.Since(began))
			break
		}
		if ProblemOf(err) != Vanished || try >= attempts {
			break
		}
		if err = h.fetch(ctx); err != nil {
			break
		}
	}
	unlock()
	if err != nil {
		return "", err
	}
	if made {
		h.cache.fitAgain(ctx)
	}
	return dir, nil
}

// lock takes the entry's lock for preparing.
func (h *Held) lock(ctx context.Context) (unlock func(), err error) {
	path := filepath.Join(h.cache.cfg.Path, "locks", string(h.ref.File))
	told := func(bool) {}
	unlock, err = locked(ctx, path, unix.LOCK_EX, func() {
		h.cache.log.Info("another Runner is preparing this package; waiting for it", "file", string(h.ref.File))
		if h.waits != nil {
			told = h.waits
		}
		told(true)
	})
	told(false)
	return unlock, err
}

// soundArchive makes sure that the bytes a product is made of are the announced ones, and fetches them again if not.
func (h *Held) soundArchive(ctx context.Context, m *manifest) error {
	whole, err := h.intact()
	switch {
	case err == nil && whole:
		return nil
	case err == nil || !notThere(err):
		why := "the archive has another checksum"
		if err != nil {
			why = "the archive cannot be read: " + err.Error()
		}
		h.cache.damaged(h.ref, why)
	}
	if err := h.refetch(ctx); err != nil {
		return err
	}
	m.Bytes = 0 // told anew when the manifest is written
	return nil
}

// fill makes a product beside its place, has it written to the device, puts it in its place and vouches for it. A full
// disk costs everything that nobody holds, and is then tried once more.
func (h *Held) fill(ctx context.Context, m *manifest, name string, produce func(target string) (record, error)) error {
	err := h.tryFill(m, name, produce)
	if !noSpace(err) {
		return err
	}
	if e := h.cache.makeRoom(ctx, err); e != nil {
		return errors.Join(err, e)
	}
	if err = h.tryFill(m, name, produce); noSpace(err) {
		return &Error{NoSpace, "preparing " + filepath.Join(h.entry(), name), err}
	}
	return err
}

func (h *Held) tryFill(m *manifest, name string, produce func(target string) (record, error)) (err error) {
	place := filepath.Join(h.entry(), name)
	partial := h.cache.partial(place)
	defer func() {
		if err != nil {
			err = errors.Join(err, trouble(os.RemoveAll(partial), "removing the unfinished %s", partial))
		}
	}()
	if err := os.RemoveAll(partial); err != nil {
		return trouble(err, "removing the unfinished %s", partial)
	}
	if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
		return vanished(err, "preparing %s", place)
	}
	r, err := produce(partial)
	if err != nil {
		return err
	}
	if r.Digest, r.Shape, err = survey(partial, true); err != nil {
		return vanished(err, "reading back %s", partial)
	}
	// Before it is vouched for: a crash must not leave empty files under a name that says they are whole.
	if err := syncFileSystem(partial); err != nil {
		return trouble(err, "writing %s to the device", partial)
	}
	if err := h.aside(name); err != nil {
		return err
	}
	if err := os.Rename(partial, place); err != nil {
		return vanished(err, "putting %s in its place", place)
	}
	if err := syncDir(filepath.Dir(place)); err != nil {
		return vanished(err, "putting %s in its place", place)
	}
	m.Products[name] = r
	if err := h.writeManifest(*m); err != nil {
		return err
	}
	h.cache.mu.Lock()
	h.cache.verified[place] = r.Digest
	h.cache.mu.Unlock()
	return nil
}

// aside takes what lies in a product's place out of it. Somebody may be reading it, so it is only renamed unless this Runner
// holds the entry alone; then this instance's next sweep removes it.
func (h *Held) aside(name string) error {
	place := filepath.Join(h.entry(), name)
	away := h.cache.partial(place + "-" + randomName())
	err := os.Rename(place, away)
	switch {
	case err != nil && !notThere(err):
		return trouble(err, "taking %s out of its place", place)
	case err == nil && h.cache.alone(h.ref.File):
		return trouble(os.RemoveAll(away), "removing %s", away)
	}
	return nil
}

// forgetOlder forgets builds of the same source and language that another image or command made (5.6).
func (h *Held) forgetOlder(m *manifest, kept string, b Build) {
	changed := false
	for name, r := range m.Products {
		if name == kept || !strings.HasPrefix(name, buildName+"/") || r.Source != b.Source || r.Language != b.Language {
			continue
		}
		delete(m.Products, name)
		changed = true
		if err := h.aside(name); err != nil {
			h.cache.log.Warn("an older build of a judging program stays in the cache until the next start", "build", name, "error", err)
		}
	}
	if !changed {
		return
	}
	if err := h.writeManifest(*m); err != nil {
		h.cache.log.Warn("an older build of a judging program stays in the cache until the next start", "build", kept, "error", err)
	}
}

func randomName() string {
	var random [6]byte
	rand.Read(random[:]) //nolint:errcheck // never returns an error
	return hex.EncodeToString(random[:])
}

// syncFileSystem writes everything of a file system to its device.
func syncFileSystem(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(dir.Fd())), dir.Close())
}
