package refserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// errTooLarge: a file has more bytes than are stored.
var errTooLarge = errors.New("the file is larger than what is stored")

// store keeps the state and the bytes of files: in memory, or in a directory.
type store interface {
	// save makes the state durable; when it returns, a restart finds it.
	save(*state) error
	// put stores bytes under a fresh id and says how many and with which checksum. It fails with errTooLarge.
	put(id string, r io.Reader, limit verdict.Bytes) (verdict.Bytes, string, error)
	// open gives the bytes of an id; fs.ErrNotExist when there are none.
	open(id string) (io.ReadSeekCloser, error)
	// drop forgets the bytes of an id.
	drop(id string)
	close() error
}

// memory is the store that forgets.
type memory struct {
	mu    sync.Mutex
	blobs map[string][]byte
}

func newMemory() *memory { return &memory{blobs: map[string][]byte{}} }

func (m *memory) save(*state) error { return nil }
func (m *memory) close() error      { return nil }

func (m *memory) put(id string, r io.Reader, limit verdict.Bytes) (verdict.Bytes, string, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return 0, "", err
	}
	if len(b) > int(limit) {
		return 0, "", errTooLarge
	}
	sum := sha256.Sum256(b)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blobs[id] = b
	return verdict.Bytes(len(b)), hex.EncodeToString(sum[:]), nil
}

type memoryFile struct{ *bytes.Reader }

// Close does nothing: the bytes stay.
func (memoryFile) Close() error { return nil }

func (m *memory) open(id string) (io.ReadSeekCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.blobs[id]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return memoryFile{bytes.NewReader(b)}, nil
}

func (m *memory) drop(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.blobs, id)
}

// directory is the store that survives a restart: state.json and files/<id>, each written beside its final name, synced
// and renamed into place. The lock keeps a second process out.
type directory struct {
	path string
	lock *os.File
}

// openDirectory takes a directory and reads the state in it, a new one if there is none. It fails when another process
// holds the directory and when its state cannot be read.
func openDirectory(path string) (*directory, *state, error) {
	if err := os.MkdirAll(filepath.Join(path, "files"), 0o700); err != nil {
		return nil, nil, fmt.Errorf("refserver: make the data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("refserver: open the data directory's lock: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, nil, fmt.Errorf("refserver: the data directory %s is in use by another process: %w", path, err)
	}
	d := &directory{path, lock}
	s := newState()
	raw, err := os.ReadFile(filepath.Join(path, "state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return d, s, nil
	}
	if err == nil {
		s.Version = 0 // a document that says nothing is no state: to begin with an empty one would be to replace what was there
		err = json.Unmarshal(raw, s)
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		_ = lock.Close()
		return nil, nil, fmt.Errorf("refserver: read %s: %w; move it away to begin anew", filepath.Join(path, "state.json"), err)
	}
	return d, s, nil
}

func (d *directory) close() error { return d.lock.Close() }

func (d *directory) save(s *state) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return d.place("state.json", func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	})
}

func (d *directory) blob(id string) string { return filepath.Join("files", id) }

func (d *directory) put(id string, r io.Reader, limit verdict.Bytes) (verdict.Bytes, string, error) {
	var n int64
	sum := sha256.New()
	err := d.place(d.blob(id), func(w io.Writer) (err error) {
		n, err = io.Copy(io.MultiWriter(w, sum), io.LimitReader(r, int64(limit)+1))
		if err == nil && n > int64(limit) {
			err = errTooLarge
		}
		return err
	})
	return verdict.Bytes(n), hex.EncodeToString(sum.Sum(nil)), err
}

func (d *directory) open(id string) (io.ReadSeekCloser, error) {
	return os.Open(filepath.Join(d.path, d.blob(id)))
}

func (d *directory) drop(id string) { _ = os.Remove(filepath.Join(d.path, d.blob(id))) }

// place writes a file so that its name always means whole bytes, over a crash too.
func (d *directory) place(name string, fill func(io.Writer) error) (err error) {
	final := filepath.Join(d.path, name)
	f, err := os.CreateTemp(filepath.Dir(final), filepath.Base(final)+".*.partial")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), final); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(final))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
