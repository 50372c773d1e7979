package identity

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Problem is why a key file was refused. The zero Problem is invalid.
type Problem int

const (
	_ Problem = iota
	// Missing: there is no such file (Load only; LoadOrCreate makes one).
	Missing
	// WrongSize: the file is not exactly 32 bytes.
	WrongSize
	// WrongMode: somebody else than its owner may read or write it.
	WrongMode
	// WrongOwner: it belongs to another user than the one this process runs as.
	WrongOwner
	// NotAFile: it is a directory, a pipe or a device.
	NotAFile
	// NoSecret: its 32 bytes are all zero.
	NoSecret
	// Unreachable: the system refused an operation on it; the cause is wrapped.
	Unreachable
)

// String names the problem for logs.
func (p Problem) String() string {
	switch p {
	case Missing:
		return "missing"
	case WrongSize:
		return "wrong size"
	case WrongMode:
		return "wrong mode"
	case WrongOwner:
		return "wrong owner"
	case NotAFile:
		return "not a regular file"
	case NoSecret:
		return "no secret"
	case Unreachable:
		return "unreachable"
	}
	return "invalid problem"
}

// FileError refuses a key file. Its text names the path, what was found and what to do.
type FileError struct {
	Path    string
	Problem Problem
	// Found and Cure are sentences for the operator.
	Found, Cure string
	// Cause is the system's error, nil when the file was read and refused.
	Cause error
}

// Error says what is wrong with which path and what to do about it.
func (e *FileError) Error() string {
	return fmt.Sprintf("identity: the key file %s is refused: %s. %s", e.Path, e.Found, e.Cure)
}

// Unwrap gives the system's error.
func (e *FileError) Unwrap() error { return e.Cause }

// Load reads the key at path. The file must be a regular file of exactly 32 bytes, owned by the user this process runs
// as and closed to everybody else (mode 0600 or 0400). Anything else is a *FileError; the file is never repaired,
// padded or replaced: a lost key is a lost approval.
func Load(path string) (*Key, error) {
	// O_NONBLOCK: opening a pipe by mistake must be refused, not waited for.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &FileError{
			Path: path, Problem: Missing, Found: "there is no such file", Cause: err,
			Cure: "Start the Runner once to make it, or restore it from a backup",
		}
	}
	if err != nil {
		return nil, unreachable(path, "open it", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, unreachable(path, "look at it", err)
	}
	if err := vet(path, info); err != nil {
		return nil, err
	}
	// One byte more than allowed, so that a file that grew since the look is still noticed.
	seed, err := io.ReadAll(io.LimitReader(f, SeedSize+1))
	if err != nil {
		return nil, unreachable(path, "read it", err)
	}
	if len(seed) != SeedSize {
		return nil, wrongSize(path, int64(len(seed)))
	}
	key, err := FromSeed(seed)
	if err != nil {
		return nil, &FileError{
			Path: path, Problem: NoSecret, Found: "its 32 bytes are all zero",
			Cure: "Restore it from a backup, or remove it so that a new key is made; a new key needs a new approval",
		}
	}
	return key, nil
}

// vet checks kind, size, mode and owner of an opened key file.
func vet(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return &FileError{
			Path: path, Problem: NotAFile, Found: "it is no regular file but " + info.Mode().Type().String(),
			Cure: "Point the setting at a file of its own",
		}
	}
	if info.Size() != SeedSize {
		return wrongSize(path, info.Size())
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 || perm&0o400 == 0 {
		return &FileError{
			Path: path, Problem: WrongMode,
			Found: fmt.Sprintf("its mode is %#o, so others may have copied the key", perm),
			Cure:  "If only you could have read it: chmod 0600 " + path + "; otherwise revoke it on the Server and remove it",
		}
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return &FileError{
			Path: path, Problem: WrongOwner,
			Found: fmt.Sprintf("it belongs to user %d and this process runs as user %d", stat.Uid, os.Geteuid()),
			Cure:  fmt.Sprintf("chown %d %s, or run the Runner as the user that owns it", os.Geteuid(), path),
		}
	}
	return nil
}

func wrongSize(path string, size int64) error {
	return &FileError{
		Path: path, Problem: WrongSize, Found: fmt.Sprintf("it is %d bytes long, a key is exactly %d", size, SeedSize),
		Cure: "It is never padded or replaced: restore it from a backup, or remove it so that a new key is made; " +
			"a new key needs a new approval",
	}
}

func unreachable(path, what string, cause error) error {
	return &FileError{
		Path: path, Problem: Unreachable, Found: fmt.Sprintf("could not %s: %v", what, cause), Cause: cause,
		Cure: "Check that the directory exists, is on a writable file system and belongs to the user the Runner runs as",
	}
}

// LoadOrCreate reads the key at path, or makes one when there is none; created says which. A new key is written to a
// file of its own beside the final path (mode 0600 from its first byte), synced and linked into place, so that an
// interrupted start leaves no key or a whole key, and of two processes that start at once one makes the key and both
// use it. An existing file is never written to. Missing parent directories are made with mode 0700.
func LoadOrCreate(path string) (key *Key, created bool, err error) {
	key, err = Load(path)
	var refused *FileError
	if err == nil || !errors.As(err, &refused) || refused.Problem != Missing {
		return key, false, err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, false, unreachable(path, "make its directory", err)
	}
	seed, key, err := generate()
	if err != nil {
		return nil, false, err
	}
	err = publish(dir, path, seed)
	if errors.Is(err, fs.ErrExist) {
		// Somebody else was first. Theirs is whole: it was linked into place too.
		key, err = Load(path)
		return key, false, err
	}
	if err != nil {
		return nil, false, err
	}
	return key, true, nil
}

// publish puts the seed at path without ever overwriting: it fails with fs.ErrExist if the path exists by then.
func publish(dir, path string, seed []byte) (err error) {
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*.partial") // O_EXCL, mode 0600
	if err != nil {
		return unreachable(path, "make a file beside it", err)
	}
	defer func() { err = errors.Join(err, ignoreGone(os.Remove(f.Name()))) }()
	_, err = f.Write(seed)
	if err == nil {
		err = f.Chmod(0o600) // whatever the umask was
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return unreachable(path, "write a new key beside it", err)
	}
	if err := os.Link(f.Name(), path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return err
		}
		return unreachable(path, "put the new key in place", err)
	}
	return syncDir(dir, path)
}

// syncDir makes the new name durable.
func syncDir(dir, path string) error {
	d, err := os.Open(dir)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return unreachable(path, "sync its directory", err)
	}
	return nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
