package problem_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// small limits make small archives enough to cross them.
var small = problem.ArchiveLimits{Entries: 10, Entry: verdict.KiB, Total: 4 * verdict.KiB, Ratio: 1000}

func TestAnOrdinaryPackageUnpacksFromAZipAndFromADirectoryAlike(t *testing.T) {
	for _, src := range []string{plain().with("a/b/c.txt", "deep").zip(t), plain().with("a/b/c.txt", "deep").dir(t)} {
		to := target(t)
		count, err := problem.Unpack(t.Context(), src, to, problem.PackageLimits)
		must(t, err)
		if count != 8 {
			t.Errorf("wrote %d files, want 8", count)
		}
		for name, content := range plain().with("a/b/c.txt", "deep") {
			got, err := os.ReadFile(filepath.Join(to, name))
			if err != nil || string(got) != content {
				t.Errorf("%s: got %q, %v", name, got, err)
			}
		}
	}
}

func TestDirectoryEntriesAreMadeAndNotCountedAsFiles(t *testing.T) {
	to := target(t)
	count, err := problem.Unpack(t.Context(), zipOf(t,
		zipped{name: "tests/"}, zipped{name: "empty/"}, zipped{name: "tests/1a.in", content: "x"}), to, problem.PackageLimits)
	must(t, err)
	if info, err := os.Stat(filepath.Join(to, "empty")); count != 1 || err != nil || !info.IsDir() {
		t.Errorf("%d files, %v, %v", count, info, err)
	}
}

func TestNoUmaskAndNoModeInAnArchiveDecidesWhoMayReadWhatWasUnpacked(t *testing.T) {
	to := target(t)
	_, err := problem.Unpack(t.Context(), zipOf(t, zipped{name: "d/x", content: "x", mode: 0o104777}), to, problem.PackageLimits)
	must(t, err)
	for name, want := range map[string]fs.FileMode{".": 0o755 | fs.ModeDir, "d": 0o755 | fs.ModeDir, "d/x": 0o644} {
		info, err := os.Stat(filepath.Join(to, name))
		must(t, err)
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
	}
}

func TestC61AHostileArchiveIsRefusedAndLeavesNothing(t *testing.T) {
	long := strings.Repeat("a/", 120)
	for name, entries := range map[string][]zipped{
		"climbing":                     {{name: "../../etc/passwd"}},
		"climbing and returning":       {{name: "checker/../x"}},
		"absolute":                     {{name: "/etc/passwd"}},
		"semicolon":                    {{name: "a;b"}},
		"bidi override":                {{name: "a\u202eb"}},
		"space":                        {{name: "a b"}},
		"backslash":                    {{name: `..\x`}},
		"colon":                        {{name: "c:x"}},
		"NUL":                          {{name: "a\x00b"}},
		"not UTF-8":                    {{name: "a\xff"}},
		"only dots":                    {{name: "./"}},
		"256 bytes":                    {{name: long + strings.Repeat("x", 16)}},
		"the same name twice":          {{name: "a"}, {name: "a"}},
		"two spellings of one name":    {{name: "d/a"}, {name: "d//./a"}},
		"names that differ by case":    {{name: "Tests/1A.in"}, {name: "Tests/1a.in"}},
		"folders that differ by case":  {{name: "Tests/1a.in"}, {name: "tests/1b.in"}},
		"a folder listed twice":        {{name: "d/"}, {name: "d//"}},
		"a file below a file":          {{name: "a"}, {name: "a/b"}},
		"a file over a folder":         {{name: "a/b"}, {name: "a"}},
		"a folder over a file":         {{name: "a"}, {name: "A/"}},
		"a link":                       {{name: "l", content: "/etc", mode: 0o120777}},
		"a link and a file through it": {{name: "l", content: "/tmp", mode: 0o120777}, {name: "l/x", content: "x"}},
		"a link that DOS wrote":        {{name: "l", content: "/etc", mode: 0o120777, creator: 1}},
		"a device":                     {{name: "d", mode: 0o020666}},
		"a pipe":                       {{name: "d", mode: 0o010666}},
		"a socket":                     {{name: "d", mode: 0o140666}},
		"a folder without its slash":   {{name: "d", mode: 0o040755}},
		"too many entries":             manyEntries(11),
		"an entry that is too large":   {{name: "first", content: "x"}, {name: "big", content: strings.Repeat("x", 1025)}},
		"a total that is too large": {
			{name: "a", content: strings.Repeat("a", 1024)},
			{name: "b", content: strings.Repeat("b", 1024)},
			{name: "c", content: strings.Repeat("c", 1024)},
			{name: "d", content: strings.Repeat("d", 1024)},
			{name: "e", content: "e"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			to := target(t)
			_, err := problem.Unpack(t.Context(), zipOf(t, entries...), to, small)
			wantCode(t, err, problem.CodeRefused)
			wantGone(t, to)
			wantGone(t, filepath.Join(filepath.Dir(to), "x"))
		})
	}
}

func TestWhatCanBeRefusedWithoutUnpackingIsRefusedBeforeATargetIsCreated(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "absent", "target") // creating it would fail with another code
	for name, src := range map[string]string{
		"too many entries": zipOf(t, manyEntries(50)...),
		"a bad last name":  zipOf(t, zipped{name: "a", content: "a"}, zipped{name: "../b"}),
		"a directory":      files{"config.yml": plainConfig, "a b": ""}.dir(t),
	} {
		_, err := problem.Unpack(t.Context(), src, nowhere, small)
		if problem.CodeOf(err) != problem.CodeRefused {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A name of 255 bytes makes 127 directories, so 2,000 entries would make a quarter of a million of them: more than a gigabyte of
// an ordinary disk, out of an archive of a few kilobytes.
func TestNamesMakeNoMoreDirectoriesThanAnArchiveMayHaveEntries(t *testing.T) {
	// The longest of names makes 127, and 10 more are as many as there may be entries.
	long, more := zipped{name: strings.Repeat("d/", 127) + "x"}, strings.Repeat("e/", small.Entries)
	if _, err := problem.Unpack(t.Context(), zipOf(t, long, zipped{name: more + "x"}), target(t), small); err != nil {
		t.Error(err)
	}
	for name, entries := range map[string][]zipped{
		"by a file":   {long, {name: more + "e/x"}},
		"by two":      {long, {name: more + "x"}, {name: "f/x"}},
		"by a folder": {long, {name: more + "e/"}},
	} {
		to := target(t)
		_, err := problem.Unpack(t.Context(), zipOf(t, entries...), to, small)
		if problem.CodeOf(err) != problem.CodeRefused {
			t.Errorf("%s: %v", name, err)
		}
		wantGone(t, to)
	}
}

// The ratio is taken from what an archive says of its entries' compressed size, and it could say anything.
func TestC61EntriesThatClaimMoreBytesThanTheirArchiveHasAreRefused(t *testing.T) {
	zeros := make([]byte, 64<<10)
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	must(t, err)
	_, err = w.Write(zeros)
	must(t, err)
	must(t, w.Close())
	limits := problem.ArchiveLimits{Entries: 10, Entry: verdict.MiB, Total: verdict.MiB, Ratio: 10}
	for name, claims := range map[string][]uint64{
		"a ratio beyond the limit": {0},
		"a little more":            {uint64(len(zeros))},
		"much more":                {1 << 40},
		"all there is":             {math.MaxUint64},
		"a sum that overflows":     {1 << 62, 1 << 62, 1 << 62},
		"the same bytes twice":     {300, 300},
	} {
		var b bytes.Buffer
		archive := zip.NewWriter(&b)
		for i, claim := range claims {
			entry, err := archive.CreateRaw(&zip.FileHeader{
				Name: fmt.Sprint(i), Method: zip.Deflate, CRC32: crc32.ChecksumIEEE(zeros), UncompressedSize64: uint64(len(zeros)),
				CompressedSize64: uint64(packed.Len()) + claim,
			})
			must(t, err)
			_, err = entry.Write(packed.Bytes())
			must(t, err)
		}
		must(t, archive.Close())
		to := target(t)
		_, err := problem.Unpack(t.Context(), write(t, b.Bytes()), to, limits)
		if code := problem.CodeOf(err); code != problem.CodeArchive && code != problem.CodeRefused {
			t.Errorf("%s: %v", name, err)
		}
		wantGone(t, to)
	}
}

func manyEntries(n int) []zipped {
	var list []zipped
	for i := range n {
		list = append(list, zipped{name: fmt.Sprintf("f%d", i), stored: true})
	}
	return list
}

func TestWhatIsExactlyAtALimitPasses(t *testing.T) {
	full := strings.Repeat("x", 1024)
	src := zipOf(t, append(manyEntries(6),
		zipped{name: "a", content: full}, zipped{name: "b", content: full},
		zipped{name: "c", content: full}, zipped{name: strings.Repeat("d/", 120) + strings.Repeat("x", 15), content: full})...)
	if count, err := problem.Unpack(t.Context(), src, target(t), small); err != nil || count != 10 {
		t.Errorf("%d files, %v", count, err)
	}
}

func TestAnExpansionBeyondTheRatioIsRefusedAndOneAtTheRatioIsNot(t *testing.T) {
	src := zipOf(t, zipped{name: "zeros", content: strings.Repeat("\x00", 4<<20)})
	archive, err := zip.OpenReader(src)
	must(t, err)
	ratio := int64(archive.File[0].UncompressedSize64 / archive.File[0].CompressedSize64)
	must(t, archive.Close())

	limits := problem.PackageLimits
	limits.Ratio = ratio
	_, err = problem.Unpack(t.Context(), src, target(t), limits)
	must(t, err)
	limits.Ratio = ratio - 1
	to := target(t)
	_, err = problem.Unpack(t.Context(), src, to, limits)
	wantCode(t, err, problem.CodeRefused, "times its size")
	wantGone(t, to)
}

func TestTheTwoSetsOfLimitsAreTheSpecifiedOnes(t *testing.T) {
	if got, want := problem.PackageLimits, (problem.ArchiveLimits{Entries: 10000, Entry: 268435456, Total: 1073741824, Ratio: 1000}); got != want {
		t.Errorf("packages: %v", got)
	}
	if got, want := problem.AnswerLimits, (problem.ArchiveLimits{Entries: 2000, Entry: 67108864, Total: 268435456, Ratio: 200}); got != want {
		t.Errorf("answers: %v", got)
	}
}

func TestATargetThatExistsIsRefusedAndStaysAsItIs(t *testing.T) {
	to := target(t)
	must(t, os.Mkdir(to, 0o700))
	must(t, os.WriteFile(filepath.Join(to, "mine"), []byte("mine"), 0o600))
	_, err := problem.Unpack(t.Context(), plain().zip(t), to, problem.PackageLimits)
	wantCode(t, err, problem.CodeTarget)
	if got, err := os.ReadFile(filepath.Join(to, "mine")); err != nil || string(got) != "mine" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAHeaderThatUnderstatesASizeIsRefused(t *testing.T) {
	for _, stored := range []bool{false, true} {
		content, err := os.ReadFile(zipOf(t, zipped{name: "big", content: strings.Repeat("x", 100_000), stored: stored}))
		must(t, err)
		patchSizes(t, content, 10)
		to := target(t)
		_, err = problem.Unpack(t.Context(), write(t, content), to, small)
		if code := problem.CodeOf(err); code != problem.CodeArchive && code != problem.CodeRefused {
			t.Errorf("got %v", err)
		}
		wantGone(t, to)
	}
}

// patchSizes rewrites the unpacked size in every header of the central directory.
func patchSizes(t *testing.T, content []byte, size uint32) {
	t.Helper()
	at := bytes.Index(content, []byte("PK\x01\x02"))
	if at < 0 {
		t.Fatal("no central directory")
	}
	binary.LittleEndian.PutUint32(content[at+24:], size)
}

func TestWhatIsNoArchiveOrADamagedOneIsSaidToBeThat(t *testing.T) {
	good, err := os.ReadFile(zipOf(t, zipped{name: "config.yml", content: strings.Repeat(plainConfig, 3)}))
	must(t, err)
	damaged := bytes.Clone(good)
	damaged[40] ^= 0xff
	encrypted := bytes.Clone(good)
	encrypted[bytes.Index(good, []byte("PK\x01\x02"))+8] |= 1
	bzip := bytes.Clone(good)
	binary.LittleEndian.PutUint16(bzip[bytes.Index(good, []byte("PK\x01\x02"))+10:], 12)
	for name, content := range map[string][]byte{
		"empty": nil, "text": []byte("hello"), "half": good[:len(good)/2],
		"damaged": damaged, "encrypted": encrypted, "method 12": bzip,
	} {
		t.Run(name, func(t *testing.T) {
			to := target(t)
			_, err := problem.Unpack(t.Context(), write(t, content), to, problem.PackageLimits)
			wantCode(t, err, problem.CodeArchive)
			wantGone(t, to)
		})
	}
	_, err = problem.Unpack(t.Context(), filepath.Join(t.TempDir(), "absent"), target(t), problem.PackageLimits)
	wantCode(t, err, problem.CodeArchive)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v does not say that the file is absent", err)
	}
}

func TestAListOfEntriesIsNotReadFurtherThanItsLimitNeeds(t *testing.T) {
	src := zipOf(t, manyEntries(30_000)...)
	limits := small
	_, err := problem.Unpack(t.Context(), src, target(t), limits)
	wantCode(t, err, problem.CodeRefused, "entries")
}

func TestTenThousandEntriesPassAndOneMoreDoesNot(t *testing.T) {
	if testing.Short() {
		t.Skip("writes ten thousand files")
	}
	count, err := problem.Unpack(t.Context(), zipOf(t, manyEntries(10_000)...), target(t), problem.PackageLimits)
	if err != nil || count != 10_000 {
		t.Errorf("%d files, %v", count, err)
	}
	_, err = problem.Unpack(t.Context(), zipOf(t, manyEntries(10_001)...), target(t), problem.PackageLimits)
	wantCode(t, err, problem.CodeRefused)
}

func TestUnpackingStopsWhenItIsToldToAndLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	to := target(t)
	_, err := problem.Unpack(ctx, plain().zip(t), to, problem.PackageLimits)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wantGone(t, to)
}

func FuzzAnyArchiveIsUnpackedBelowItsTargetOrLeavesNothing(f *testing.F) {
	for _, entries := range [][]zipped{
		{{name: "config.yml", content: plainConfig}, {name: "tests/", mode: 0o040755}, {name: "tests/1a.in", content: "1\n", stored: true}},
		{{name: "../x", content: "x"}},
		{{name: "l", content: "/tmp", mode: 0o120777}, {name: "l/x"}},
		{{name: "a"}, {name: "A"}},
	} {
		seed, err := os.ReadFile(zipOf(f, entries...))
		must(f, err)
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		base := t.TempDir()
		to := filepath.Join(base, "target")
		_, err := problem.Unpack(t.Context(), write(t, content), to, small)
		left, readErr := os.ReadDir(base)
		must(t, readErr)
		if err != nil && len(left) != 0 || err == nil && (len(left) != 1 || left[0].Name() != "target") {
			t.Errorf("left %v with %v", left, err)
		}
	})
}
