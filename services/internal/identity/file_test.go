package identity

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func refusal(t *testing.T, err error, want Problem, path string) {
	t.Helper()
	var refused *FileError
	if !errors.As(err, &refused) {
		t.Fatalf("error %v is no *FileError", err)
	}
	if refused.Problem != want {
		t.Errorf("problem %v, want %v (%v)", refused.Problem, want, err)
	}
	if !strings.Contains(err.Error(), path) || refused.Cure == "" || refused.Found == "" {
		t.Errorf("%q names no path, no finding or no cure", err)
	}
}

func TestAKeySurvivesARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "identity.key")
	first, created, err := LoadOrCreate(path)
	if err != nil || !created {
		t.Fatalf("first start: created %v, %v", created, err)
	}
	again, created, err := LoadOrCreate(path)
	if err != nil || created {
		t.Fatalf("second start: created %v, %v", created, err)
	}
	if first.Fingerprint() != again.Fingerprint() || first.Sign("n") != again.Sign("n") {
		t.Error("the key changed over a restart")
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 || info.Size() != SeedSize {
		t.Errorf("the file is %v, %v", info, err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left beside the key: %v, %v", entries, err)
	}
}

func TestAKeyFileOfAnotherSizeIsRefusedWithItsLength(t *testing.T) {
	for _, size := range []int{0, 16, 31, 33, 64, 4096} {
		path := filepath.Join(t.TempDir(), "identity.key")
		if err := os.WriteFile(path, bytes.Repeat([]byte{1}, size), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := LoadOrCreate(path)
		refusal(t, err, WrongSize, path)
		if !strings.Contains(err.Error(), "exactly 32") {
			t.Errorf("%v does not say 32", err)
		}
		if left, _ := os.ReadFile(path); len(left) != size {
			t.Errorf("a refused file of %d bytes was changed to %d", size, len(left))
		}
	}
}

func TestAKeyFileOthersMayReadIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity.key")
	if err := os.WriteFile(path, bytes.Repeat([]byte{1}, SeedSize), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o666, 0o601} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path)
		refusal(t, err, WrongMode, path)
	}
	for _, mode := range []os.FileMode{0o600, 0o400} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err != nil {
			t.Errorf("mode %#o: %v", mode, err)
		}
	}
}

func TestAKeyFileOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	path := filepath.Join(t.TempDir(), "identity.key")
	if err := os.WriteFile(path, bytes.Repeat([]byte{1}, SeedSize), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path)
	refusal(t, err, WrongOwner, path)
}

func TestWhatIsNoFileIsRefusedWithoutWaiting(t *testing.T) {
	dir := t.TempDir()
	_, err := Load(dir)
	refusal(t, err, NotAFile, dir)
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Load(pipe)
	refusal(t, err, NotAFile, pipe)
	_, err = Load(filepath.Join(dir, "absent"))
	refusal(t, err, Missing, "absent")
	_, _, err = LoadOrCreate(filepath.Join(pipe, "identity.key"))
	refusal(t, err, Unreachable, pipe)
}

func TestAFileOfZerosIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity.key")
	if err := os.WriteFile(path, make([]byte, SeedSize), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := LoadOrCreate(path)
	refusal(t, err, NoSecret, path)
}

func TestStartsThatRaceUseOneKey(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "identity.key")
		var wg sync.WaitGroup
		keys := make([]*Key, 8)
		made := make([]bool, len(keys))
		for i := range keys {
			wg.Go(func() {
				var err error
				if keys[i], made[i], err = LoadOrCreate(path); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		creators := 0
		for i, key := range keys {
			if key == nil || key.Fingerprint() != keys[0].Fingerprint() {
				t.Fatal("two starts hold different keys")
			}
			if made[i] {
				creators++
			}
		}
		if creators != 1 {
			t.Fatalf("%d starts say they made the key", creators)
		}
	}
}
