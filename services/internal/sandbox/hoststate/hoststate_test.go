package hoststate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func snapshot(facts ...string) Snapshot {
	s := Snapshot{}
	for _, f := range facts {
		s.add("%s", f)
	}
	return s
}

func TestWhatCameAndWhatWentIsSaidAndProcessesMayEnd(t *testing.T) {
	before := snapshot("mount /a on /a", "process 1 init", "process 7 cron", "container kept")
	after := snapshot("process 1 init", "container kept", "cgroup /evalhost.slice/left", "process 9 shim")
	got := after.Changed(before)
	want := []string{"left behind: cgroup /evalhost.slice/left", "left behind: process 9 shim", "gone: mount /a on /a"}
	if !slices.Equal(got, want) {
		t.Errorf("changed %q, want %q", got, want)
	}
	if got := before.Changed(before); got != nil {
		t.Errorf("nothing changed, and it says %q", got)
	}
}

func TestFilesBelowADirectoryAreSeenAndTheDirectoryItselfIsNot(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "left"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := Snapshot{}
	if err := s.files([]string{dir, filepath.Join(dir, "none")}); err != nil {
		t.Fatal(err)
	}
	if len(s) != 1 {
		t.Errorf("seen %q", s)
	}
	for fact := range s {
		if !strings.HasPrefix(fact, "file "+dir+"/left") {
			t.Errorf("seen %q", fact)
		}
	}
}

func TestThisHostsProcessesAndMountsAreSeen(t *testing.T) {
	s := Snapshot{}
	if err := s.mounts(); err != nil || len(s) == 0 {
		t.Errorf("%d mounts, %v", len(s), err)
	}
	before := len(s)
	if err := s.processes(); err != nil || len(s) == before {
		t.Errorf("%d processes, %v", len(s)-before, err)
	}
}
