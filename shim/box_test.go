package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestEveryLimitIsWrittenAndOnlyAnAbsentFileIsForgiven(t *testing.T) {
	files := func() map[string]string {
		return map[string]string{"memory.max": "", "pids.max": "", "memory.swap.max": "", "memory.oom.group": ""}
	}
	whole := boxOf(t, files())
	must(t, whole.limit(4<<20))
	for file, want := range map[string]string{
		"memory.max": "4194304", "pids.max": "15", "memory.swap.max": "0", "memory.oom.group": "1",
	} {
		got, err := os.ReadFile(filepath.Join(whole.dir, file))
		must(t, err)
		if string(got) != want {
			t.Errorf("%s says %q, want %q", file, got, want)
		}
	}
	for file, forgiven := range map[string]bool{
		"memory.max": false, "pids.max": false, "memory.swap.max": true, "memory.oom.group": true,
	} {
		there := files()
		delete(there, file)
		err := boxOf(t, there).limit(4 << 20)
		if (err == nil) != forgiven {
			t.Errorf("without %s: %v, want forgiven %v", file, err, forgiven)
		}

		// A file that is there and refuses: a directory cannot be opened for writing, not even by root.
		refusing := boxOf(t, there)
		must(t, os.Mkdir(filepath.Join(refusing.dir, file), 0o700))
		err = refusing.limit(4 << 20)
		if !errors.Is(err, syscall.EISDIR) || !strings.Contains(err.Error(), file) {
			t.Errorf("a %s that refuses: %v, want its name and what the kernel said", file, err)
		}
	}
}
