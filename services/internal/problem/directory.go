package problem

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// openDirectory lists a directory under the same rules as an archive. It is read through os.Root and no symbolic link
// in it is followed, not even one that stays inside.
func openDirectory(src string, limits ArchiveLimits) (_ *source, err error) {
	root, err := os.OpenRoot(src)
	if err != nil {
		return nil, &Error{Code: CodeArchive, Where: src, Msg: "cannot be opened", Err: err}
	}
	defer func() {
		if err != nil {
			_ = root.Close()
		}
	}()
	var entries []entry
	names := newInventory()
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return &Error{Code: CodeArchive, Where: place(name), Msg: "cannot be read", Err: err}
		case name == ".":
			return nil
		case len(entries) >= limits.Entries:
			return tooManyEntries(src, limits)
		case !d.IsDir() && !d.Type().IsRegular():
			return refusedEntry(name, fmt.Errorf("neither a file nor a directory (%s)", d.Type()))
		}
		clean, err := cleanName(name)
		if err != nil {
			return refusedEntry(name, err)
		}
		if err := names.add(clean, d.IsDir()); err != nil {
			return refusedEntry(name, err)
		}
		entries = append(entries, entry{
			name: clean, dir: d.IsDir(),
			open: func() (io.ReadCloser, error) { return openRegular(root, clean) },
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &source{entries: entries, close: root.Close}, nil
}

// openRegular opens a regular file below root and nothing else: not through a symbolic link, and never waiting for
// the other end of a pipe.
func openRegular(root *os.Root, name string) (*os.File, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, notRegular(name, before)
	}
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	after, err := file.Stat()
	if err == nil && (!after.Mode().IsRegular() || !os.SameFile(before, after)) {
		err = &Error{Code: CodeRefused, Where: place(name), Msg: "was exchanged while it was being opened"}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func notRegular(name string, info fs.FileInfo) error {
	return &Error{Code: CodeRefused, Where: place(name), Msg: "not a regular file but " + info.Mode().Type().String()}
}
