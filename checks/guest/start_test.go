package guest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Which way a guest is started when its snapshot makes trouble. One whose own boot failed is not booted a second time.
func TestAGuestIsBootedWhereItsSnapshotCanBeNeitherMadeNorRestored(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		make, restore, boot error
		canceled            bool
		booted              int
		want                error // nil: a guest
		says                string
	}{
		"the snapshot is there":               {},
		"it cannot be restored":               {restore: broken, booted: 1, says: "could not be restored, booting instead: broken"},
		"it cannot be made":                   {make: noSnapshot{broken}, booted: 1, says: "could not be made: broken; booting instead"},
		"it cannot be made, nor booted":       {make: noSnapshot{broken}, boot: broken, booted: 1, want: broken, says: "booting instead"},
		"the guest does not come up for it":   {make: broken, want: broken},
		"the guest is taken down meanwhile":   {make: errTakenDown, want: errTakenDown},
		"the restored one is taken down":      {restore: errTakenDown, want: errTakenDown},
		"nobody waits any more":               {make: noSnapshot{broken}, canceled: true, want: broken},
		"nobody waits for the restored guest": {restore: broken, canceled: true, want: broken},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.canceled {
				cancel()
			}
			var log strings.Builder
			booted := 0
			result := func(err error) (*Guest, error) {
				if err != nil {
					return nil, err
				}
				return &Guest{}, nil
			}
			g, err := restoredOrBooted(ctx, Options{Name: "x", Log: &log},
				func() (template, error) { return template{}, c.make },
				func(template) (*Guest, error) { return result(c.restore) },
				func() (*Guest, error) { booted++; return result(c.boot) })
			if booted != c.booted || !errors.Is(err, c.want) || (err == nil) != (g != nil) {
				t.Errorf("booted %d times: %v, %v", booted, g, err)
			}
			if !strings.Contains(log.String(), c.says) || c.says == "" && log.Len() > 0 {
				t.Errorf("it says %q", log.String())
			}
		})
	}
}

// sleeper stands for a QEMU.
func sleeper(t *testing.T) (*exec.Cmd, process) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	start, err := startTime(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, process{PID: cmd.Process.Pid, Start: start}
}

func TestDownAllEndsEveryGuestAlsoOneThatIsBootedForItsSnapshot(t *testing.T) {
	t.Setenv("EVALHOST_CACHE", t.TempDir())
	cache, err := Cache()
	if err != nil {
		t.Fatal(err)
	}
	if err := DownAll(t.Context()); err != nil {
		t.Errorf("where no guest ever was: %v", err)
	}
	var all []process
	for _, name := range []string{"default", ".template-systemd", ".probe-123"} {
		dir := filepath.Join(cache, "instances", name)
		_, p := sleeper(t)
		all = append(all, p)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := (record{Name: name, QEMU: p}).write(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(cache, "instances", ".template-half"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := DownAll(t.Context()); err != nil {
		t.Error(err)
	}
	for _, p := range all {
		if p.alive() {
			t.Errorf("process %d is still there", p.PID)
		}
	}
	entries, err := os.ReadDir(filepath.Join(cache, "instances"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			t.Errorf("left behind: %s", e.Name())
		}
	}
}

func TestAStartThatFailsBecauseItWasTakenDownSaysSo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	broken := errors.New("QEMU has ended")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := clearAway(dir, "x", broken); !errors.Is(err, broken) || errors.Is(err, errTakenDown) || exists(dir) {
		t.Errorf("%v", err)
	}
	if err := clearAway(dir, "x", broken); !errors.Is(err, errTakenDown) {
		t.Errorf("its directory is gone: %v", err)
	}
	write(t, filepath.Join(dir, downFile), "", 0o644)
	if err := clearAway(dir, "x", broken); !errors.Is(err, errTakenDown) || exists(dir) {
		t.Errorf("it is marked: %v", err)
	}
}

func TestAStartThatFailsEndsTheProcessOfItsRecordAndNoOther(t *testing.T) {
	b := fakeQEMU(t, "trap '' TERM; while :; do sleep 0.1; done") // only SIGKILL ends it
	dir := filepath.Join(b.cache, "instances", "x")
	other, earlier := filepath.Join(b.cache, "instances", "x.2"), filepath.Join(b.cache, "instances", "x-2")
	for _, d := range []string{dir, other, earlier} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	start := func(dir string) process {
		t.Helper()
		p, err := machine{qemu: b.qemu, disk: b.disk, accel: tcg, memory: memoryFile}.start(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.kill() })
		return p
	}
	p, bystander := start(dir), start(other)
	if err := (record{Name: "x", QEMU: p}).write(dir); err != nil {
		t.Fatal(err)
	}
	// A record of a process whose number was given to another one since.
	if err := (record{Name: "x-2", QEMU: process{PID: bystander.PID, Start: bystander.Start - 1}}).write(earlier); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, other} {
		if found := processesIn(t, d); len(found) == 0 {
			t.Fatalf("no process is seen in %s, where one runs", d)
		}
	}
	broken := errors.New("broken")
	for _, d := range []string{dir, earlier} {
		if err := clearAway(d, filepath.Base(d), broken); !errors.Is(err, broken) || exists(d) {
			t.Errorf("%v", err)
		}
	}
	if p.alive() {
		t.Errorf("process %d is still there", p.PID)
	}
	// What the script runs of its own ends a moment after it.
	for end := time.Now().Add(10 * time.Second); len(processesIn(t, dir)) > 0 && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	if left := processesIn(t, dir); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
	if !bystander.alive() || len(processesIn(t, other)) == 0 {
		t.Error("the process of another guest was ended")
	}
}

func TestAGuestThatEndsShowsTheLastLinesOfItsConsole(t *testing.T) {
	dir := t.TempDir()
	cmd, p := sleeper(t)
	write(t, filepath.Join(dir, "console.log"), "Kernel panic - not syncing: out of luck\n", 0o644)
	write(t, filepath.Join(dir, "qemu.log"), "qemu: terminating\n", 0o644)
	g := newGuest(dir, record{Name: "x", QEMU: p})
	broken := errors.New("the connection is closed")
	if err := g.explained(nil, broken); !errors.Is(err, broken) || strings.Contains(err.Error(), "console") {
		t.Errorf("a guest that is there: %v", err)
	}
	if err := g.explained(nil, nil); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); p.alive() && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	err := g.explained(nil, broken)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "out of luck") || !strings.Contains(err.Error(), "terminating") {
		t.Errorf("%v", err)
	}
	// And whoever asks it something hears the same.
	if _, err := g.Exec(t.Context(), Cmd{Args: []string{"true"}}); err == nil || !strings.Contains(err.Error(), "out of luck") {
		t.Errorf("%v", err)
	}
}

func TestTheRecordOfAnInstanceCanBeReadBack(t *testing.T) {
	dir := t.TempDir()
	want := record{Name: "x", Variant: "legacy", QEMU: process{PID: 4, Start: 5}, Ready: true}
	if err := want.write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := readRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(want)
	b, _ := json.Marshal(got)
	if string(a) != string(b) {
		t.Errorf("%s, want %s", b, a)
	}
}
