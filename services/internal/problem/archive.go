package problem

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// ArchiveLimits bounds what an archive may hold (spec/judging.md 1.2). A value equal to a limit passes.
type ArchiveLimits struct {
	// Entries counts files and directories.
	Entries int
	// Entry is what one entry may unpack to, Total what all of them may.
	Entry, Total verdict.Bytes
	// Ratio is how many times larger than its compressed entries the unpacked whole may be, rounded down.
	Ratio int64
}

var (
	// PackageLimits is for what a problem author hands in.
	PackageLimits = ArchiveLimits{Entries: 10_000, Entry: 256 * verdict.MiB, Total: verdict.GiB, Ratio: 1000}
	// AnswerLimits is for a participant's archive of answers.
	AnswerLimits = ArchiveLimits{Entries: 2000, Entry: 64 * verdict.MiB, Total: 256 * verdict.MiB, Ratio: 200}
)

// entry is one file or directory of a source, with a clean name.
type entry struct {
	name string
	dir  bool
	// packed is the compressed size, 0 in a source that is not compressed.
	packed verdict.Bytes
	open   func() (io.ReadCloser, error)
}

// source is a zip or a directory, checked by name, kind and count but not yet by content.
type source struct {
	entries []entry
	close   func() error
}

// Unpack writes the zip or directory at src into target, which must not exist, and returns the number of files written.
// Every check that can be made without unpacking is made before target is created; whatever is refused, or stopped by
// ctx, leaves no target behind. Symbolic links, devices and the like are refused, never followed: the target holds
// regular files and directories only, readable by everybody.
func Unpack(ctx context.Context, src, target string, limits ArchiveLimits) (files int, err error) {
	from, err := openSource(src, limits)
	if err != nil {
		return 0, err
	}
	defer func() { _ = from.close() }()

	if err := os.Mkdir(target, 0o755); err != nil {
		return 0, &Error{Code: CodeTarget, Where: target, Msg: "cannot create the directory to unpack into", Err: err}
	}
	defer func() {
		if err == nil {
			return
		}
		if gone := os.RemoveAll(target); gone != nil {
			err = errors.Join(err, fmt.Errorf("and what was unpacked so far could not be removed: %w", gone))
		}
	}()
	x, err := newExtraction(target, limits)
	if err != nil {
		return 0, err
	}
	defer func() { _ = x.root.Close() }()
	for _, e := range from.entries {
		if err := ctx.Err(); err != nil {
			return 0, fmt.Errorf("unpacking %s was stopped: %w", src, err)
		}
		if err := x.put(ctx, e); err != nil {
			return 0, err
		}
	}
	if err := x.checkRatio(src); err != nil {
		return 0, err
	}
	return x.files, nil
}

// openSource tells a directory from an archive and lists it.
func openSource(src string, limits ArchiveLimits) (*source, error) {
	info, err := os.Stat(src)
	if err != nil {
		return nil, &Error{Code: CodeArchive, Where: src, Msg: "cannot be opened", Err: err}
	}
	switch {
	case info.IsDir():
		return openDirectory(src, limits)
	case info.Mode().IsRegular():
		return openZip(src, limits)
	}
	return nil, &Error{Code: CodeArchive, Where: src, Msg: "expected a zip file or a directory, found " + info.Mode().Type().String()}
}

// openZip lists a zip file. The bytes read for listing are bounded, so that a directory of millions of entries is
// refused for its size and not held in memory first.
func openZip(src string, limits ArchiveLimits) (_ *source, err error) {
	file, err := os.Open(src)
	if err != nil {
		return nil, &Error{Code: CodeArchive, Where: src, Msg: "cannot be opened", Err: err}
	}
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, &Error{Code: CodeArchive, Where: src, Msg: "cannot be opened", Err: err}
	}
	bounded := &boundedReaderAt{from: file, size: info.Size(), left: listingBudget(limits)}
	archive, err := zip.NewReader(bounded, info.Size())
	switch {
	case errors.Is(err, errListing):
		return nil, &Error{
			Code: CodeRefused, Where: src,
			Msg: fmt.Sprintf("its list of entries is longer than %d entries need", limits.Entries),
		}
	case err != nil && !errors.Is(err, zip.ErrInsecurePath): // names are checked below, all of them
		return nil, &Error{Code: CodeArchive, Where: src, Msg: "not a zip archive", Err: err}
	}
	bounded.unbounded = true
	if len(archive.File) > limits.Entries {
		return nil, tooManyEntries(src, limits)
	}
	entries, names := make([]entry, 0, len(archive.File)), newInventory()
	unclaimed := verdict.Bytes(info.Size())
	for _, f := range archive.File {
		e, err := zipEntry(f)
		if err != nil {
			return nil, err
		}
		if err := names.add(e.name, e.dir); err != nil {
			return nil, refusedEntry(f.Name, err)
		}
		// A name makes up to 127 directories that are no entries. They cost a disk as much as entries do; one name may always.
		if most := limits.Entries + maxNameBytes/2; len(names.dirs) > most {
			return nil, &Error{Code: CodeRefused, Where: src, Msg: fmt.Sprintf("its names make more than %d directories", most)}
		}
		// The ratio is taken from what entries say of their compressed size. One that says too much, or two that share the
		// same bytes, would hide how far the archive expands.
		if unclaimed -= e.packed; unclaimed < 0 {
			return nil, &Error{Code: CodeArchive, Where: src, Msg: "its entries claim more bytes than it has"}
		}
		entries = append(entries, e)
	}
	return &source{entries: entries, close: file.Close}, nil
}

const (
	unixKind      = 0o170000
	unixRegular   = 0o100000
	unixDirectory = 0o040000
	flagEncrypted = 0x1
)

// zipEntry checks what can be told of an entry without reading it.
func zipEntry(f *zip.File) (entry, error) {
	name, err := cleanName(f.Name)
	if err != nil {
		return entry{}, refusedEntry(f.Name, err)
	}
	// Go looks at the Unix mode only when the entry says that Unix wrote it. Others set the bits without saying so.
	kind := f.ExternalAttrs >> 16 & unixKind
	dir := strings.HasSuffix(f.Name, "/")
	switch mode := f.Mode().Type(); {
	case mode&^fs.ModeDir != 0, kind != 0 && kind != unixRegular && kind != unixDirectory:
		return entry{}, refusedEntry(f.Name, fmt.Errorf("neither a file nor a directory (mode %06o)", f.ExternalAttrs>>16))
	case !dir && (mode.IsDir() || kind == unixDirectory):
		return entry{}, refusedEntry(f.Name, fmt.Errorf("marked as a directory, but the name does not end in a slash"))
	case f.Flags&flagEncrypted != 0:
		return entry{}, &Error{Code: CodeArchive, Where: f.Name, Msg: "the entry is encrypted"}
	case !dir && f.Method != zip.Store && f.Method != zip.Deflate:
		return entry{}, &Error{
			Code: CodeArchive, Where: f.Name,
			Msg: fmt.Sprintf("compressed with method %d; supported are stored (0) and deflate (8)", f.Method),
		}
	}
	packed := verdict.Bytes(min(f.CompressedSize64, 1<<62))
	return entry{name: name, dir: dir, packed: packed, open: f.Open}, nil
}

func refusedEntry(name string, err error) error {
	return &Error{Code: CodeRefused, Where: place(name), Err: err}
}

func tooManyEntries(src string, limits ArchiveLimits) error {
	return &Error{Code: CodeRefused, Where: src, Msg: fmt.Sprintf("more than %d entries", limits.Entries)}
}

var errListing = errors.New("the list of entries is too long")

// listingBudget is what may be read to list an archive: the end of the file is searched for the directory, and each
// entry takes 46 bytes, a name and seldom more.
func listingBudget(limits ArchiveLimits) int64 {
	return int64(verdict.MiB) + int64(limits.Entries)*int64(verdict.KiB)
}

// boundedReaderAt fails once more than left bytes were asked of it. An archive may name any place for its content; one that
// lies beyond the file is never asked of the kernel, whose refusal would read as a failure of this machine.
type boundedReaderAt struct {
	from      io.ReaderAt
	size      int64
	left      int64
	unbounded bool
}

func (b *boundedReaderAt) ReadAt(p []byte, off int64) (int, error) {
	if !b.unbounded {
		b.left -= int64(len(p))
		if b.left < 0 {
			return 0, errListing
		}
	}
	if off < 0 || off >= b.size {
		return 0, io.EOF
	}
	return b.from.ReadAt(p, off)
}
