package cgroup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

func TestAnInstanceIsMadeSafeForAUnitsName(t *testing.T) {
	for instance, want := range map[string]string{
		"":                       "_",
		"0a1b2c":                 "0a1b2c",
		"cli-7f":                 "cli_7f",
		"a.b/c d":                "a_b_c_d",
		"ünï":                    "__n__",
		strings.Repeat("f", 100): strings.Repeat("f", 64),
		"..":                     "__",
		"x_y":                    "x_y",
	} {
		if got := Safe(instance); got != want {
			t.Errorf("Safe(%q) = %q, want %q", instance, got, want)
		}
	}
}

func TestC25C65NamesOfRunsAreUniqueAndHaveNoDash(t *testing.T) {
	seen := map[Name]bool{}
	for range 1000 {
		n := NewName("cli-1")
		if seen[n] {
			t.Fatalf("%s was made twice", n)
		}
		seen[n] = true
		if strings.ContainsAny(string(n), "-./ ") {
			t.Fatalf("%s would be more than one level to systemd", n)
		}
		if owner, ok := instanceOf(string(n)); !ok || owner != "cli_1" {
			t.Fatalf("%s belongs to %q", n, owner)
		}
	}
}

func TestARunBelongsToExactlyOneInstance(t *testing.T) {
	of := runsOf("a")
	for run, want := range map[string]bool{
		"a_r0123456789abcdef":                    true,
		"a_r0123456789abcdef_r0123456789abcdef":  false, // of the instance a_r0123456789abcdef
		"ab_r0123456789abcdef":                   false,
		"a_r0123456789abcde":                     false,
		"a_r0123456789abcdefg":                   false,
		"a_rX123456789abcdef":                    false,
		".probe.a":                               false,
		"a":                                      false,
		"xa_r0123456789abcdef":                   false,
		"a_r0123456789abcdef\nb":                 false,
		"_r0123456789abcdef":                     false,
		"A_r0123456789abcdef":                    false,
		"a_r0123456789abcdef.slice":              false,
		"a_b_r0123456789abcdef":                  false,
		"evalhost-a_r0123456789abcdef":           false,
		"a_r0123456789abcdef/../../system.slice": false,
	} {
		if of.MatchString(run) != want {
			t.Errorf("%q belongs to instance a: %v, want %v", run, !want, want)
		}
	}
	if owner, ok := instanceOf("a_r1_r0123456789abcdef"); !ok || owner != "a_r1" {
		t.Errorf("the owner is %q", owner)
	}
}

func TestAnUnknownDriverIsRefusedWithTheReason(t *testing.T) {
	_, err := Open(t.Context(), "none", t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "processor time") || strings.Contains(err.Error(), "change the driver") {
		t.Errorf("Open = %v", err)
	}
}

func TestAHierarchyWithoutWhatLimitsNeedIsRefused(t *testing.T) {
	for content, ok := range map[string]bool{
		"cpuset cpu io memory hugetlb pids rdma misc\n": true,
		"cpu memory pids\n":                             true,
		"cpu memory\n":                                  false,
		"cpuset memory pids\n":                          false,
		"cpu pids\n":                                    false,
		"cpu memoryx pids\n":                            false,
		"\n":                                            false,
		"":                                              false,
		"  \n":                                          false,
		"cpu  memory   pids \n":                         true,
	} {
		root := t.TempDir()
		write(t, root, map[string]string{"cgroup.controllers": content})
		if err := CheckHierarchy(root); (err == nil) != ok {
			t.Errorf("controllers %q: %v, want accepted %v", content, err, ok)
		}
	}
	if err := CheckHierarchy(t.TempDir()); err == nil {
		t.Error("a directory that is no hierarchy was accepted")
	}
}

func TestThePeakOfTheBoxIsFoundUnderEitherRuntime(t *testing.T) {
	for _, at := range []string{"docker-1.scope/box", "docker-1.scope/container/box", "0123abcd/box"} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, at), map[string]string{"memory.peak": "4096\n"})
		if got := (&Home{Dir: dir}).BoxPeak("box"); got == nil || *got != verdict.Bytes(4096) {
			t.Errorf("in %s: %v", at, got)
		}
	}
	if got := (&Home{Dir: t.TempDir()}).BoxPeak("box"); got != nil {
		t.Errorf("without a box: %v", *got)
	}
}

func TestABoxIsUntouchedUntilAProgramIsLetGoInIt(t *testing.T) {
	type files = map[string]string
	const lives, empty = "populated 1\nfrozen 0\n", "populated 0\nfrozen 0\n"
	idle, busy := "usage_usec 0\nuser_usec 0\nsystem_usec 0\n", "usage_usec 1\nuser_usec 0\nsystem_usec 1\n"
	for name, test := range map[string]struct {
		home, shim, box, other files
		want                   bool
	}{
		"a shim that has not made its cgroups":            {home: files{"cgroup.events": lives}, want: true},
		"a shim that has not made the box":                {home: files{"cgroup.events": lives}, shim: files{"cpu.stat": busy}, want: true},
		"a box with no limits yet":                        {home: files{"cgroup.events": lives}, box: files{"cgroup.events": empty, "cpu.stat": idle}, want: true},
		"a container that has ended":                      {home: files{"cgroup.events": empty}},
		"a home that does not say whether anything lives": {home: files{}},
		"a program in the box":                            {home: files{"cgroup.events": lives}, box: files{"cgroup.events": lives, "cpu.stat": busy}},
		"a program in the box that never ran":             {home: files{"cgroup.events": lives}, box: files{"cgroup.events": lives, "cpu.stat": idle}},
		"a program that was in the box":                   {home: files{"cgroup.events": lives}, box: files{"cgroup.events": empty, "cpu.stat": busy}},
		"a box that does not say what it used":            {home: files{"cgroup.events": lives}, box: files{"cgroup.events": empty}},
		"a box that says nonsense of what it used":        {home: files{"cgroup.events": lives}, box: files{"cgroup.events": empty, "cpu.stat": "usage_usec some\n"}},
		"a box that does not say whether it is empty":     {home: files{"cgroup.events": lives}, box: files{"cpu.stat": idle}},
		"two boxes": {home: files{"cgroup.events": lives}, box: files{"cgroup.events": empty, "cpu.stat": idle}, other: files{"cgroup.events": empty, "cpu.stat": idle}},
	} {
		for _, container := range []string{"docker-1.scope", "docker-1.scope/container", "0123abcd"} {
			dir := t.TempDir()
			write(t, dir, test.home)
			write(t, filepath.Join(dir, container), files{"cgroup.events": lives, "cpu.stat": busy})
			for at, content := range map[string]files{"shim": test.shim, "box": test.box, "shim/box": test.other} {
				if content != nil {
					write(t, filepath.Join(dir, container, at), content)
				}
			}
			if got := (&Home{Dir: dir}).BoxUntouched("box"); got != test.want {
				t.Errorf("%s, in %s: untouched %v, want %v", name, container, got, test.want)
			}
		}
	}
	if (&Home{Dir: filepath.Join(t.TempDir(), "gone")}).BoxUntouched("box") {
		t.Error("a home that is gone is untouched")
	}
}

func TestTheProcessesOfAHomeAreThoseOfItsWholeTree(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"cgroup.procs": ""})
	write(t, filepath.Join(dir, "docker-1.scope"), map[string]string{"cgroup.procs": "12\n7\n"})
	write(t, filepath.Join(dir, "docker-1.scope", "box"), map[string]string{"cgroup.procs": "99\n"})
	got := (&Home{Dir: dir}).Procs()
	slices.Sort(got)
	if !slices.Equal(got, []int{7, 12, 99}) {
		t.Errorf("Procs = %v", got)
	}
	if got := (&Home{Dir: filepath.Join(dir, "gone")}).Procs(); got != nil {
		t.Errorf("of a home that is gone: %v", got)
	}
}

func TestAKernelWithoutCgroupKillSaysSo(t *testing.T) {
	dir := t.TempDir()
	if err := (&Home{Dir: dir}).Kill(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Kill = %v", err)
	}
	write(t, dir, map[string]string{"cgroup.kill": ""})
	if err := (&Home{Dir: dir}).Kill(); err != nil {
		t.Error(err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "cgroup.kill")); string(got) != "1" {
		t.Errorf("cgroup.kill holds %q", got)
	}
}

func TestACgroupfsHomeIsADirectoryThatComesAndGoes(t *testing.T) {
	root := t.TempDir()
	d, err := Open(t.Context(), "cgroupfs", root)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	run := NewName("me")
	h, err := d.Open(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	if h.Parent != "/evalhost/"+string(run) || h.Dir != filepath.Join(root, h.Parent) || h.Source != "/sys/fs/cgroup"+h.Parent {
		t.Errorf("home %+v", h)
	}
	if _, err := d.Open(t.Context(), run); err == nil {
		t.Error("a home was opened twice")
	}
	// A container's cgroup that was left in it goes too.
	os.MkdirAll(filepath.Join(h.Dir, "0123abcd", "box"), 0o755)
	if err := errors.Join(h.Close(t.Context()), h.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if exists(h.Dir) {
		t.Error("the home is still there")
	}
}

func TestACgroupfsSweepRemovesItsOwn(t *testing.T) {
	root := t.TempDir()
	d, _ := Open(t.Context(), "cgroupfs", root)
	for _, instance := range []string{"me", "me", "other", "cli-x"} {
		if _, err := d.Open(t.Context(), NewName(instance)); err != nil {
			t.Fatal(err)
		}
	}
	os.Mkdir(filepath.Join(root, "evalhost", ".probe.me"), 0o755)
	if n, err := d.Sweep(t.Context(), "me"); n != 2 || err != nil {
		t.Errorf("swept %d, %v; want 2", n, err)
	}
	got, err := d.Instances(t.Context())
	slices.Sort(got)
	if err != nil || strings.Join(got, " ") != "cli_x other" {
		t.Errorf("left are %q, %v", got, err)
	}
}

func TestRemovingATreeDeletesNoFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tree")
	write(t, dir, map[string]string{"precious": "data"})
	if err := removeDirs(dir); err == nil {
		t.Error("a directory with a file in it was removed")
	}
	if !exists(filepath.Join(dir, "precious")) {
		t.Error("the file is gone")
	}
}

// fakeSystemd makes and removes the directories systemd would.
type fakeSystemd struct {
	mu      sync.Mutex
	root    string
	units   map[string]bool
	noFiles bool
	refuses bool // a start is given up, and the unit is there all the same
	closed  bool
	// stopping is called before a unit is stopped.
	stopping func()
	startOf  map[string][]sd.Property
}

func (f *fakeSystemd) dir(unit string) string { return filepath.Join(f.root, "evalhost.slice", unit) }

func (f *fakeSystemd) Start(_ context.Context, unit string, properties []sd.Property) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.units[unit] {
		return dbus.Error{Name: "org.freedesktop.systemd1.UnitExists", Body: []any{"Unit " + unit + " was already loaded or has a fragment file."}}
	}
	if f.refuses {
		f.units[unit] = true // as a start that is given up and succeeds later
		return errors.New("systemd did not say how its job ended")
	}
	f.units[unit], f.startOf[unit] = true, properties
	if err := os.MkdirAll(f.dir(unit), 0o755); err != nil || f.noFiles {
		return err
	}
	return os.WriteFile(filepath.Join(f.dir(unit), "memory.events"), []byte("oom 0\noom_kill 0\n"), 0o644)
}

func (f *fakeSystemd) Stop(_ context.Context, unit string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopping != nil {
		f.stopping()
	}
	delete(f.units, unit)
	return os.RemoveAll(f.dir(unit))
}

func (f *fakeSystemd) List(_ context.Context, pattern string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for u := range f.units {
		if ok, _ := filepath.Match(pattern, u); ok {
			names = append(names, u)
		}
	}
	return names, nil
}

func (f *fakeSystemd) Close() { f.closed = true }

func overFake(t *testing.T) (*systemdDriver, *fakeSystemd) {
	t.Helper()
	f := &fakeSystemd{root: t.TempDir(), units: map[string]bool{}, startOf: map[string][]sd.Property{}}
	return &systemdDriver{root: f.root, bus: f}, f
}

func TestASystemdHomeIsATransientSliceThatIsStopped(t *testing.T) {
	d, f := overFake(t)
	run := NewName("cli-1")
	h, err := d.Open(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	unit := "evalhost-" + string(run) + ".slice"
	if h.Parent != unit || h.Dir != f.dir(unit) || h.Source != "/sys/fs/cgroup/evalhost.slice/"+unit {
		t.Errorf("home %+v", h)
	}
	properties := map[string]any{}
	for _, p := range f.startOf[unit] {
		properties[p.Name] = p.Value.Value()
	}
	for name, want := range map[string]any{
		"CollectMode": "inactive-or-failed", "CPUAccounting": true, "MemoryAccounting": true, "TasksAccounting": true,
	} {
		if properties[name] != want {
			t.Errorf("%s is %v, want %v", name, properties[name], want)
		}
	}
	if err := errors.Join(h.Close(t.Context()), h.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if f.units[unit] || exists(h.Dir) {
		t.Error("the slice is still there")
	}
	d.Close()
	if !f.closed {
		t.Error("the bus was not let go")
	}
}

func TestANameThatIsTakenIsRefusedAndItsOwnerIsLeftAlone(t *testing.T) {
	d, f := overFake(t)
	run := NewName("me")
	h, err := d.Open(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(t.Context(), run); err == nil || !strings.Contains(err.Error(), "already loaded") {
		t.Errorf("the second of one name: %v", err)
	}
	if !f.units["evalhost-"+string(run)+".slice"] || !exists(h.Dir) {
		t.Error("the first one's slice was stopped")
	}
	f.refuses = true
	if _, err := d.Open(t.Context(), NewName("me")); err == nil {
		t.Error("a start that failed gave a home")
	}
	if len(f.units) != 1 {
		t.Errorf("a start whose end nobody knows left its slice: %v", f.units)
	}
}

func TestWhatStillLivesInASliceIsKilledBeforeItIsStopped(t *testing.T) {
	d, f := overFake(t)
	h, err := d.Open(t.Context(), NewName("me"))
	if err != nil {
		t.Fatal(err)
	}
	kill := filepath.Join(h.Dir, "cgroup.kill")
	if err := os.WriteFile(kill, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f.stopping = func() {
		if got, err := os.ReadFile(kill); err != nil || string(got) != "1" {
			t.Errorf("when the slice is stopped its cgroup.kill says %q, %v", got, err)
		}
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestASliceWithoutItsFilesIsNoHomeAndIsStoppedAgain(t *testing.T) {
	d, f := overFake(t)
	f.noFiles = true
	ctx, cancel := context.WithTimeout(t.Context(), 1)
	defer cancel()
	if _, err := d.Open(ctx, NewName("me")); err == nil || !strings.Contains(err.Error(), "delegated") {
		t.Errorf("Open = %v", err)
	}
	if len(f.units) != 0 {
		t.Errorf("units %v were left", f.units)
	}
}

func TestASystemdSweepStopsItsOwnAndFindsDirectoriesWithoutUnits(t *testing.T) {
	d, f := overFake(t)
	for _, instance := range []string{"me", "me_too", "other"} {
		if _, err := d.Open(t.Context(), NewName(instance)); err != nil {
			t.Fatal(err)
		}
	}
	os.Mkdir(f.dir("evalhost-"+string(NewName("me"))+".slice"), 0o755) // of a systemd that forgot it
	f.units["evalhost-unrelated.slice"] = true
	if n, err := d.Sweep(t.Context(), "me"); n != 2 || err != nil {
		t.Errorf("swept %d, %v; want 2", n, err)
	}
	got, err := d.Instances(t.Context())
	slices.Sort(got)
	if err != nil || strings.Join(got, " ") != "me_too other" {
		t.Errorf("left are %q, %v", got, err)
	}
	if !f.units["evalhost-unrelated.slice"] {
		t.Error("a slice that is no run's was stopped")
	}
}
