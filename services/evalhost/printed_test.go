package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

// refusing is a standard output that takes so many bytes and then fails.
type refusing struct {
	takes int
	err   error
}

func (r *refusing) Write(text []byte) (int, error) {
	n := min(len(text), r.takes)
	r.takes -= n
	if n < len(text) {
		return n, r.err
	}
	return n, nil
}

func TestWhatCannotBePrintedIsNoSuccess(t *testing.T) {
	good := tree(t, adder)
	for _, args := range [][]string{
		{"help"},
		{"help", "judge"},
		{"judge", "--help"},
		{"version"},
		{"toolchains"},
		{"lint", "--static", good},
		{"lint", "--static", "--json", good},
		{"verify", good},
		{"verify", "--json", good},
		{"init", filepath.Join(t.TempDir(), "new")},
	} {
		for _, c := range []struct {
			err    error
			status int
			says   string
		}{
			{syscall.ENOSPC, exitInfrastructure, "evalhost: infrastructure failure, no verdict: standard output did not take everything: no space left on device\n"},
			{syscall.EPIPE, exitSignal + 13, ""},
		} {
			f := &fakeHost{t: t}
			var errout bytes.Buffer
			env := []string{"EVALHOST_SCRATCH=" + filepath.Join(t.TempDir(), "scratch")}
			if args[0] == "init" {
				_ = os.RemoveAll(args[1])
			}
			status := runOn(t.Context(), args, stdio{env, &refusing{3, c.err}, &errout, f.open})
			if status != c.status || errout.String() != c.says {
				t.Errorf("%v, %v: status %d, said %q", args, c.err, status, &errout)
			}
			if args[0] == "verify" && len(args) == 2 && f.runs > 0 {
				t.Errorf("%v: %d tests were run for nobody", c.err, f.runs)
			}
		}
	}
}

func TestTheRunnersSettingsAreReadFromARegularFileAlone(t *testing.T) {
	dir := t.TempDir()
	fifo, large := filepath.Join(dir, "fifo"), filepath.Join(dir, "large")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, bytes.Repeat([]byte("#\n"), maxSettingsRead/2+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		fifo: "not a regular file", "/dev/zero": "not a regular file", dir: "is a directory", large: "more than",
		filepath.Join(dir, "none"): "no such file", "": "cannot be read",
	} {
		f := &fakeHost{t: t}
		r := f.command("check", "--json", "--env", path)
		if r.status != exitUsage || r.out != "" || strings.Count(r.errout, "\n") != 1 || !strings.Contains(r.errout, says) {
			t.Errorf("%q: status %d, %q, printed %q", path, r.status, r.errout, r.out)
		}
	}
}

// unreadable is a package of which one file cannot be read.
type unreadable struct {
	fs.FS
	name string
}

func (u unreadable) Open(name string) (fs.File, error) {
	if name == u.name {
		return nil, fs.ErrPermission
	}
	return u.FS.Open(name)
}

func TestAnInitThatCannotFinishLeavesTheDirectoryEmpty(t *testing.T) {
	dir := t.TempDir()
	from := unreadable{fstest.MapFS{"a/b/one": {Data: []byte("1")}, "two": {Data: []byte("2")}, "z": {}}, "z"}
	if files, err := writePackage(t.Context(), dir, from); err == nil {
		t.Fatalf("wrote %q", files)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestAMissingTemporaryDirectoryIsToldAsUnfit(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("NOT ASKED: root keeps packages below scratch")
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	r := (&fakeHost{t: t}).command("verify", t.TempDir())
	if r.status != exitUnfit || !strings.Contains(r.errout, "set TMPDIR") {
		t.Errorf("status %d, %q", r.status, r.errout)
	}
}
