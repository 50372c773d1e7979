package wire

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Pack writes paths as one tar stream. Each is named by its last element; modes and symbolic links are kept, owners and
// times are not.
func Pack(w io.Writer, paths []string) error {
	buf := bufio.NewWriterSize(w, MaxPayload)
	tw := tar.NewWriter(buf)
	for _, path := range paths {
		base := filepath.Base(filepath.Clean(path))
		if base == "." || base == ".." {
			abs, err := filepath.Abs(path)
			if err != nil {
				return err
			}
			base = filepath.Base(abs)
		}
		err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(path, p)
			if err != nil {
				return err
			}
			return packOne(tw, p, filepath.Join(base, rel), p == path)
		})
		if err != nil {
			return fmt.Errorf("pack %s: %w", path, err)
		}
	}
	if err := tw.Close(); err != nil {
		return err
	}
	return buf.Flush()
}

func packOne(tw *tar.Writer, path, name string, follow bool) error {
	stat := os.Lstat
	if follow {
		stat = os.Stat // a source that is a link means what it points to
	}
	info, err := stat(path)
	if err != nil {
		return err
	}
	link := ""
	switch {
	case info.Mode().IsRegular(), info.IsDir():
	case info.Mode()&fs.ModeSymlink != 0:
		if link, err = os.Readlink(path); err != nil {
			return err
		}
	default:
		return nil // sockets, pipes and devices have no content to carry
	}
	hdr, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	hdr.Name, hdr.Uid, hdr.Gid, hdr.Uname, hdr.Gname = name, 0, 0, "", ""
	if info.Mode().IsRegular() && info.Size() == 0 {
		// A file of /proc or /sys has size 0 and content.
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		hdr.Size = int64(len(data))
		if err := tw.WriteHeader(hdr); err != nil {
			return err
		}
		_, err = tw.Write(data)
		return err
	}
	if err := tw.WriteHeader(hdr); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.CopyN(tw, f, hdr.Size); err != nil {
		return fmt.Errorf("%s changed while it was read: %w", path, err)
	}
	return nil
}

// Unpack reads what Pack wrote. With into, or when dst exists as a directory, everything lands below dst; otherwise the
// stream's single top element becomes dst itself.
func Unpack(r io.Reader, dst string, into bool) error {
	if strings.HasSuffix(dst, "/") {
		into = true
	}
	if info, err := os.Stat(dst); err == nil && info.IsDir() {
		into = true
	}
	tr := tar.NewReader(bufio.NewReaderSize(r, MaxPayload))
	top := ""
	for {
		hdr, err := tr.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, r)
			return err
		}
		if err != nil {
			return err
		}
		name := filepath.Clean(hdr.Name)
		if !filepath.IsLocal(name) {
			return fmt.Errorf("unpack: %q leads outside", hdr.Name)
		}
		path := filepath.Join(dst, name)
		if !into {
			first, rest, _ := strings.Cut(name, "/")
			if top != "" && top != first {
				return fmt.Errorf("unpack: %s is not a directory and cannot take both %s and %s", dst, top, first)
			}
			top = first
			path = filepath.Join(dst, rest)
		}
		if err := unpackOne(tr, hdr, path); err != nil {
			return err
		}
	}
}

func unpackOne(r io.Reader, hdr *tar.Header, path string) error {
	mode := hdr.FileInfo().Mode()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	switch hdr.Typeflag {
	case tar.TypeDir:
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		return os.Chmod(path, mode&^fs.ModeType)
	case tar.TypeSymlink:
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return os.Symlink(hdr.Linkname, path)
	case tar.TypeReg:
		// A new inode, put in place at the end: a running binary can be replaced and nobody sees half a file.
		tmp, err := os.CreateTemp(filepath.Dir(path), ".push-*")
		if err != nil {
			return err
		}
		_, err = io.Copy(tmp, r)
		if err == nil {
			err = tmp.Chmod(mode &^ fs.ModeType)
		}
		if cerr := tmp.Close(); err == nil {
			err = cerr
		}
		if err == nil {
			err = os.Rename(tmp.Name(), path)
		}
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
		return err
	}
	return nil
}
