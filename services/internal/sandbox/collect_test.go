//go:build !guest

package sandbox

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// archive makes a tar stream; bodies follow their headers.
func archive(t *testing.T, headers ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.CopyN(w, zeros{}, h.Size); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// tarFile describes a regular file.
func tarFile(name string, size int64) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, Size: size}
}

// resized gives a header another size, and the checksum that belongs to it.
func resized(header []byte, size int64) []byte {
	h := bytes.Clone(header)
	copy(h[124:136], fmt.Sprintf("%011o\x00", size))
	copy(h[148:156], "        ")
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return h
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// unpack unpacks into a new directory and returns it, and what is in the directory.
func unpack(t *testing.T, stream io.Reader, limit verdict.Bytes) (dir string, files []string, err error) {
	t.Helper()
	dir = t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	err = unpackArtefact(stream, "program", limit, root)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		files = append(files, e.Name())
	}
	return dir, files, err
}

func TestAnArtefactIsOneRegularFileThatNobodyCanWrite(t *testing.T) {
	dir, files, err := unpack(t, archive(t, tar.Header{Name: "program", Typeflag: tar.TypeReg, Size: 1000, Mode: 0o4777, Uid: 65534}), 1000)
	if err != nil || len(files) != 1 {
		t.Fatalf("unpacked %q, %v", files, err)
	}
	info, err := os.Lstat(filepath.Join(dir, "program"))
	if err != nil || info.Mode() != 0o555 || info.Size() != 1000 {
		t.Errorf("unpacked %v of %d bytes, %v; want mode 0555 and 1000 bytes", info.Mode(), info.Size(), err)
	}
}

func TestHostileArchivesAreRefused(t *testing.T) {
	const limit = 10_000
	for name, test := range map[string]struct {
		headers []tar.Header
		says    string
	}{
		"C53 C56 a symbolic link":     {[]tar.Header{{Name: "program", Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"}}, "no regular file"},
		"C56 a link to a device":      {[]tar.Header{{Name: "program", Typeflag: tar.TypeSymlink, Linkname: "/dev/urandom"}}, "no regular file"},
		"a hard link":                 {[]tar.Header{{Name: "program", Typeflag: tar.TypeLink, Linkname: "/etc/shadow"}}, "no regular file"},
		"a directory":                 {[]tar.Header{{Name: "program/", Typeflag: tar.TypeDir}}, "no regular file"},
		"a device":                    {[]tar.Header{{Name: "program", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 9}}, "no regular file"},
		"what nobody has a name for":  {[]tar.Header{{Name: "program", Typeflag: 'Q'}}, "unknown tar type"},
		"a channel":                   {[]tar.Header{{Name: "program", Typeflag: tar.TypeFifo}}, "no regular file"},
		"another name":                {[]tar.Header{tarFile("other", 1)}, "is called"},
		"C61 a name that climbs":      {[]tar.Header{tarFile("../program", 1)}, "is called"},
		"C61 an absolute name":        {[]tar.Header{tarFile("/program", 1)}, "is called"},
		"a name in a directory":       {[]tar.Header{tarFile("out/program", 1)}, "is called"},
		"a second file":               {[]tar.Header{tarFile("program", 1), tarFile("more", 1)}, "more than one"},
		"a second file with the name": {[]tar.Header{tarFile("program", 1), tarFile("program", 1)}, "more than one"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := unpack(t, archive(t, test.headers...), limit)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("unpacking: %v, want an error that says %q", err, test.says)
			}
		})
	}
}

func TestTheCapOfAnArtefactIsExact(t *testing.T) {
	for size, tooLarge := range map[int64]bool{9_999: false, 10_000: false, 10_001: true, 30_000: true} {
		_, _, err := unpack(t, archive(t, tar.Header{Name: "program", Typeflag: tar.TypeReg, Size: size}), 10_000)
		if errors.Is(err, errTooLarge) != tooLarge || (err != nil) != tooLarge {
			t.Errorf("%d bytes: %v, want too large %v", size, err, tooLarge)
		}
		if tooLarge && !strings.Contains(err.Error(), "larger than") {
			t.Errorf("the refusal %q does not say that the artefact is larger than its cap", err)
		}
	}
}

func TestC47ALyingSizeDoesNotFillTheDisk(t *testing.T) {
	whole := archive(t, tar.Header{Name: "program", Typeflag: tar.TypeReg, Size: 5000}).Bytes()
	// The stream breaks off in the middle of the body.
	if _, _, err := unpack(t, bytes.NewReader(whole[:2000]), 10_000); err == nil {
		t.Error("half an artefact was taken")
	}
}

func TestAnEmptyStreamIsNothing(t *testing.T) {
	if _, _, err := unpack(t, archive(t), 1000); !errors.Is(err, errNothing) {
		t.Errorf("unpacking nothing: %v", err)
	}
	if _, _, err := unpack(t, strings.NewReader("this is no archive at all"), 1000); err == nil {
		t.Error("what is no archive was taken")
	}
}

func TestTheTwoStreamsOfABuildAreCountedTogether(t *testing.T) {
	floods := 0
	k := &collector{limit: 100, onFlood: func() { floods++ }}
	out, errs := stream{k, &k.stdout}, stream{k, &k.stderr}
	out.Write(bytes.Repeat([]byte("o"), 60))
	errs.Write(bytes.Repeat([]byte("e"), 40))
	if k.flooded || floods != 0 {
		t.Fatal("exactly the limit is no flood")
	}
	errs.Write([]byte("x"))
	out.Write(bytes.Repeat([]byte("y"), 1000))
	if !k.flooded || floods != 1 {
		t.Errorf("flooded %v, %d calls; want one", k.flooded, floods)
	}
	if string(k.stdout) != strings.Repeat("o", 60) || string(k.stderr) != strings.Repeat("e", 40) {
		t.Errorf("kept %q and %q, want a prefix of each", k.stdout, k.stderr)
	}
}

func TestAPieceThatCrossesTheLimitIsCutExactlyThere(t *testing.T) {
	k := &collector{limit: 10, onFlood: func() {}}
	stream{k, &k.stdout}.Write([]byte("0123456789abcdef"))
	if string(k.stdout) != "0123456789" {
		t.Errorf("kept %q", k.stdout)
	}
}
