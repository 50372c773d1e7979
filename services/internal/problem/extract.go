package problem

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// extraction writes entries below one directory and counts what it writes. Declared sizes are never looked at.
type extraction struct {
	root          *os.Root
	limits        ArchiveLimits
	files         int
	total, packed verdict.Bytes
	buffer        []byte
	// made holds the directories that were made. Asking the kernel for each of them again, for every entry below it, would take
	// minutes for a thousand files in the deepest of folders.
	made map[string]bool
}

func newExtraction(target string, limits ArchiveLimits) (*extraction, error) {
	root, err := os.OpenRoot(target)
	if err != nil {
		return nil, &Error{Code: CodeTarget, Where: target, Msg: "cannot open the directory to unpack into", Err: err}
	}
	// Judging programs read the tree as another user; the umask of whoever unpacks must not decide about that.
	if err := root.Chmod(".", 0o755); err != nil {
		_ = root.Close()
		return nil, targetError(target, err)
	}
	return &extraction{root: root, limits: limits, buffer: make([]byte, 64*verdict.KiB), made: map[string]bool{}}, nil
}

// put writes one entry. Nothing of an entry that is refused stays.
func (x *extraction) put(ctx context.Context, e entry) (err error) {
	if e.dir {
		return x.mkdir(e.name)
	}
	if err := x.mkdir(path.Dir(e.name)); err != nil {
		return err
	}
	from, err := e.open()
	if err != nil {
		return unreadable(e.name, err)
	}
	defer func() { _ = from.Close() }()
	to, err := x.root.OpenFile(e.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return targetError(e.name, err)
	}
	err = x.copy(ctx, e, to, from)
	if err == nil {
		err = asTargetError(e.name, to.Chmod(0o644))
	}
	if closed := to.Close(); err == nil {
		err = asTargetError(e.name, closed)
	}
	if err != nil {
		_ = x.root.Remove(e.name)
		return err
	}
	x.files++
	x.packed += e.packed
	return nil
}

// copy moves the content in pieces and stops at the first byte beyond a limit.
func (x *extraction) copy(ctx context.Context, e entry, to io.Writer, from io.Reader) error {
	var size verdict.Bytes
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("unpacking %s was stopped: %w", shown(e.name), err)
		}
		n, readErr := from.Read(x.buffer)
		size += verdict.Bytes(n)
		switch {
		case size > x.limits.Entry:
			return refusedEntry(e.name, fmt.Errorf("unpacks to more than %s", x.limits.Entry))
		case x.total+size > x.limits.Total:
			return refusedEntry(e.name, fmt.Errorf("here everything together has unpacked to more than %s", x.limits.Total))
		}
		if _, err := to.Write(x.buffer[:n]); err != nil {
			return targetError(e.name, err)
		}
		if errors.Is(readErr, io.EOF) {
			x.total += size
			return nil
		}
		if readErr != nil {
			return unreadable(e.name, readErr)
		}
	}
}

// mkdir makes a directory and those above it, each readable by everybody.
func (x *extraction) mkdir(name string) error {
	if name == "." || x.made[name] {
		return nil
	}
	if err := x.mkdir(path.Dir(name)); err != nil {
		return err
	}
	// The target was empty, and the inventory has made sure that no file has this name.
	err := x.root.Mkdir(name, 0o755)
	if err == nil {
		err = x.root.Chmod(name, 0o755)
	}
	x.made[name] = err == nil
	return asTargetError(name, err)
}

// checkRatio is the last of the checks: floor(unpacked / packed) must not exceed the limit.
func (x *extraction) checkRatio(src string) error {
	if x.packed == 0 {
		return nil
	}
	if ratio := int64(x.total / x.packed); ratio > x.limits.Ratio {
		return &Error{
			Code: CodeRefused, Where: src,
			Msg: fmt.Sprintf("unpacks to %d times its size, more than %d", ratio, x.limits.Ratio),
		}
	}
	return nil
}

// unreadable tells an archive that cannot be read from other failures to read.
func unreadable(name string, err error) error {
	for _, fault := range []error{zip.ErrFormat, zip.ErrChecksum, zip.ErrAlgorithm, io.ErrUnexpectedEOF} {
		if errors.Is(err, fault) {
			return &Error{Code: CodeArchive, Where: place(name), Msg: "the entry is damaged or lies about its size", Err: err}
		}
	}
	var refused *Error
	if errors.As(err, &refused) {
		return err
	}
	return &Error{Code: CodeArchive, Where: place(name), Msg: "cannot be read", Err: err}
}

func targetError(name string, err error) error {
	return &Error{Code: CodeTarget, Where: place(name), Msg: "cannot be written", Err: err}
}

func asTargetError(name string, err error) error {
	if err == nil {
		return nil
	}
	return targetError(name, err)
}
