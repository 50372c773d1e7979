package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func TestKeyFollowsItsInputs(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "d/a"), "one", 0o644)
	sum := func() string {
		t.Helper()
		var k keyHash
		k.value("packages", "x y")
		k.files(root, "d")
		s, err := k.sum()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := sum()
	write(t, filepath.Join(root, "d/a_test.go"), "a test is no input", 0o644)
	if sum() != first {
		t.Error("a test changed the key")
	}
	seen := map[string]string{first: "the beginning"}
	for name, change := range map[string]func(){
		"content": func() { write(t, filepath.Join(root, "d/a"), "two", 0o644) },
		"a file":  func() { write(t, filepath.Join(root, "d/sub/b"), "", 0o644) },
		"mode": func() {
			if err := os.Chmod(filepath.Join(root, "d/a"), 0o755); err != nil {
				t.Fatal(err)
			}
		},
	} {
		change()
		s := sum()
		if other, ok := seen[s]; ok {
			t.Errorf("%s left the key as it was with %s", name, other)
		}
		seen[s] = name
	}
	var k keyHash
	k.files(root, "missing")
	if _, err := k.sum(); err == nil {
		t.Error("a missing input has a key")
	}
}

func TestPlanSeparatesStages(t *testing.T) {
	root, err := treeRoot()
	if err != nil {
		t.Fatal(err)
	}
	copied := t.TempDir()
	for _, dir := range []string{"nixos/host", "checks/guest", "langimages/build"} {
		if err := os.CopyFS(filepath.Join(copied, dir), os.DirFS(filepath.Join(root, dir))); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"go.mod", "go.sum", "langimages/manifest.go"} {
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(copied, file), string(data), 0o644)
	}
	keys := func() map[string]string {
		t.Helper()
		_, stages, err := plan(copied, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		m := map[string]string{}
		for _, s := range stages {
			m[s.name] = s.key
		}
		return m
	}
	changed := func(before, after map[string]string) []string {
		var names []string
		for name := range before {
			if before[name] != after[name] {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	appendTo := func(path string) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(copied, path), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString("\n"); err != nil {
			t.Fatal(err)
		}
	}
	before := keys()
	all := slices.Sorted(maps.Keys(before))
	images := []string{"image-clang", "image-cpython", "image-gcc", "image-pypy"}
	for _, c := range []struct {
		path string
		want []string
	}{
		{"nixos/host/daemon.json", []string{"disk"}},
		{"nixos/host/firewall.nft.in", []string{"disk"}},
		{"checks/guest/agent/main.go", []string{"disk"}},
		{"checks/guest/disk.go", []string{"disk"}},
		{"checks/guest/initrd.go", []string{"disk"}},
		{"go.sum", []string{"disk"}},
		{"checks/guest/store.go", []string{"disk", "docker20", "store"}},
		{"checks/guest/testimages.go", []string{"disk", "docker20", "image-tests", "store"}},
		{"checks/guest/images.go", slices.Concat([]string{"disk", "docker20"}, images, []string{"image-tests", "store"})},
		{"langimages/build/rootfs.sh", slices.Concat([]string{"disk", "docker20"}, images, []string{"store"})},
		{"checks/guest/trees.go", []string{"base", "disk", "docker20", "image-tests", "qemu", "store"}},
		{"checks/guest/command.go", all},
		{"checks/guest/README.md", nil},
		{"checks/guest/guest_test.go", nil},
		{"checks/guest/qemu.go", nil},
	} {
		appendTo(c.path)
		after := keys()
		got := changed(before, after)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s changes the keys of %v, want %v", c.path, got, c.want)
		}
		before = after
	}
}

// notInputs are the Go files of this package that no stage's result depends on: they build, boot, restore and talk. What they
// decide about a running machine is in the key of its snapshot.
var notInputs = []string{
	"accel.go", "build.go", "down.go", "export.go", "guest.go", "instance.go", "keys.go", "paths.go", "qemu.go", "qmp.go", "reboot.go", "stage.go",
	"template.go", "variants.go",
}

func TestEveryGoFileOfTheBuildIsAnInputOfAStageOrKnownToBeNone(t *testing.T) {
	known := slices.Concat(notInputs, treeSources, imageSources, testSources, storeSources, diskSources)
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") && !slices.Contains(known, file) {
			t.Errorf("%s: does it decide what a stage's result is? Then it belongs into that stage's sources in build.go, else into notInputs", file)
		}
	}
	for _, file := range known {
		if !slices.Contains(files, file) {
			t.Errorf("%s is not there", file)
		}
	}
}

func TestEveryFileOfTheHostHasAPlaceInTheGuest(t *testing.T) {
	root, err := treeRoot()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(root, "nixos/host"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if installed[e.Name()] == "" && !strings.HasSuffix(e.Name(), ".service") {
			t.Errorf("nixos/host/%s is installed nowhere", e.Name())
		}
	}
}

func TestTheRulesAreFilledInWithNothingOpen(t *testing.T) {
	root, err := treeRoot()
	if err != nil {
		t.Fatal(err)
	}
	template, err := os.ReadFile(filepath.Join(root, "nixos/host/firewall.nft.in"))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := fillRules(template)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(rules)) {
		if !strings.HasPrefix(line, "#") && (strings.Contains(line, "@INBOUND@") || strings.Contains(line, "@ELEMENTS@") || strings.HasPrefix(line, "add")) {
			t.Errorf("%q", line)
		}
	}
	for _, broken := range []string{"", "\n@INBOUND@\n", strings.Repeat("\n@INBOUND@\n\n@ELEMENTS@\n", 2)} {
		if _, err := fillRules([]byte(broken)); err == nil {
			t.Errorf("%q is filled in", broken)
		}
	}
}

func TestStagesAreMadeOnceAndWhole(t *testing.T) {
	cache := t.TempDir()
	made := map[string]int{}
	ok := &stage{name: "ok", key: "1", limit: time.Minute, make: func(_ context.Context, dir string) error {
		made["ok"]++
		return os.WriteFile(filepath.Join(dir, "f"), nil, 0o644)
	}}
	bad := &stage{name: "bad", key: "1", limit: time.Minute, needs: []*stage{ok}, make: func(_ context.Context, dir string) error {
		made["bad"]++
		if !exists(filepath.Join(ok.dir, "f")) {
			t.Error("a stage was made before what it needs")
		}
		write(t, filepath.Join(dir, "half"), "", 0o644)
		return errors.New("broken")
	}}
	stages := []*stage{bad, ok}
	if err := place(cache, stages); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := makeAll(t.Context(), cache, stages, io.Discard); err == nil || !strings.Contains(err.Error(), "stage bad: broken") {
			t.Fatalf("%v", err)
		}
	}
	if made["ok"] != 1 || made["bad"] != 2 || exists(bad.dir) {
		t.Errorf("made %v, the broken stage is there: %t", made, exists(bad.dir))
	}
	if left, _ := os.ReadDir(filepath.Join(cache, "tmp")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAStageThatHangsIsEndedAndSaysWhatItWasDoing(t *testing.T) {
	cache := t.TempDir()
	slow := &stage{name: "slow", key: "1", limit: 300 * time.Millisecond, make: func(ctx context.Context, _ string) error {
		_, err := command{args: []string{"sh", "-c", "echo downloading a lot; sleep 60"}}.run(ctx)
		return err
	}}
	stages := []*stage{slow}
	if err := place(cache, stages); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err := makeAll(t.Context(), cache, stages, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "stage slow") || !strings.Contains(err.Error(), "not done within 300ms") || !strings.Contains(err.Error(), "downloading a lot") {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it was ended after %v", took)
	}
	if exists(slow.dir) {
		t.Error("half a result is kept")
	}
	if err := place(cache, []*stage{{name: "endless", key: "1"}}); err == nil {
		t.Error("a stage without a deadline is accepted")
	}
}

func TestEveryStageHasADeadline(t *testing.T) {
	root, err := treeRoot()
	if err != nil {
		t.Fatal(err)
	}
	_, stages, err := plan(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stages {
		if s.limit < time.Minute || s.limit > time.Hour {
			t.Errorf("stage %s may take %v", s.name, s.limit)
		}
	}
}

func TestPruneKeepsTheLastUsed(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"disk-a", "disk-b", "disk-c", "disk-x-d", "disk.lock"} {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		used := time.Now().Add(-time.Duration(i) * time.Hour)
		if err := os.Chtimes(path, used, used); err != nil {
			t.Fatal(err)
		}
	}
	prune(dir, "disk")
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if want := []string{"disk-a", "disk-b", "disk-x-d", "disk.lock"}; !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
}

func TestMachineArguments(t *testing.T) {
	variant, err := FindVariant("legacy")
	if err != nil {
		t.Fatal(err)
	}
	m := machine{qemu: "/q", disk: "/d", accel: tcg, variant: variant, memory: "memory", shared: true}
	line := strings.Join(m.args(), " ")
	for _, want := range []string{
		"/q/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 --library-path /q/usr/lib/x86_64-linux-gnu:/q/usr/lib /q/usr/bin/qemu-system-x86_64",
		"-accel tcg,thread=multi", "mem-path=memory,share=on", "-kernel /d/vmlinuz", "evalhost.variant=legacy",
		"systemd.unified_cgroup_hierarchy=0 SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1", "psi=1", "name=org.evalhost.guest.7",
	} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %s", want, line)
		}
	}
	for _, device := range []string{"-net", "-nic", "-netdev", "virtio-net"} {
		if strings.Contains(line, device) {
			t.Errorf("a network device: %s", line)
		}
	}
	m.shared, m.incoming = false, true
	if line := strings.Join(m.args(), " "); !strings.Contains(line, "share=off") || !strings.Contains(line, "-incoming defer") {
		t.Errorf("a restored machine: %s", line)
	}
}

func TestAGuestHasAsManyProcessorsAsAskedFor(t *testing.T) {
	for _, one := range []struct{ asked, have int }{{0, 2}, {1, 1}, {2, 2}} {
		v, err := Options{Processors: one.asked}.find()
		if err != nil {
			t.Fatal(err)
		}
		if line := strings.Join(machine{variant: v}.args(), " "); !strings.Contains(line, fmt.Sprintf(" -smp %d ", one.have)) {
			t.Errorf("asked for %d: %s", one.asked, line)
		}
	}
	for _, bad := range []int{-1, 3} {
		if _, err := (Options{Processors: bad}).find(); err == nil || !strings.Contains(err.Error(), "1 to 2 processors") {
			t.Errorf("asked for %d: %v", bad, err)
		}
	}
}

func TestTemplateKey(t *testing.T) {
	one := func(b *built, accel, variant string, processors int) string {
		t.Helper()
		v, err := Options{Variant: variant, Processors: processors}.find()
		if err != nil {
			t.Fatal(err)
		}
		k, err := templateKey(b, accel, v)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	key := func(b *built, accel, variant string) string { return one(b, accel, variant, 0) }
	a := key(&built{key: "1", cache: "/a"}, tcg, "systemd")
	if b := key(&built{key: "1", cache: "/b"}, tcg, "systemd"); a != b {
		t.Error("the key depends on where the cache is")
	}
	for _, b := range []string{
		key(&built{key: "2"}, tcg, "systemd"), key(&built{key: "1"}, "kvm", "systemd"), key(&built{key: "1"}, tcg, "cgroupfs"),
		one(&built{key: "1"}, tcg, "systemd", 1),
	} {
		if a == b {
			t.Error("another guest has the same key")
		}
	}
}

func TestFindVariant(t *testing.T) {
	if v, err := FindVariant(""); err != nil || v.Name != DefaultVariant {
		t.Errorf("%+v %v", v, err)
	}
	if _, err := FindVariant("nonsense"); err == nil || !strings.Contains(err.Error(), "cgroupfs") {
		t.Errorf("%v", err)
	}
}

func TestProcessIdentity(t *testing.T) {
	start, err := startTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if p := (process{PID: os.Getpid(), Start: start}); !p.alive() {
		t.Error("this process is not alive")
	}
	if p := (process{PID: os.Getpid(), Start: start + 1}); p.alive() || p.kill() != nil {
		t.Error("an earlier process of the same number is alive")
	}
	if (process{}).alive() {
		t.Error("no process is alive")
	}
}

func TestInstanceNames(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/b", "A", "-x", strings.Repeat("x", 41)} {
		if _, err := instanceDir(name); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
	if _, err := instanceDir("suite-adversarial.1"); err != nil {
		t.Error(err)
	}
}

func TestCommandEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := command{args: []string{"sh", "-c", "sleep 60 & sleep 60"}}.run(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 8*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	if _, err := (command{args: []string{"sh", "-c", "echo why >&2; exit 3"}}).run(t.Context()); err == nil || !strings.Contains(err.Error(), "why") {
		t.Errorf("the error does not say why: %v", err)
	}
}

func TestLockWaitsAndGivesUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	waited := false
	if _, err := lock(ctx, path, func() { waited = true }); err == nil || !waited {
		t.Fatalf("a lock that is held was taken (%v), waited %t", err, waited)
	}
	unlock()
	if unlock, err = lock(t.Context(), path, nil); err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestTailIsReadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "console.log")
	write(t, path, "first\n\x1b[31msecond\x1b[0m\r\nthird\n", 0o644)
	if got := tail(path, 2); got != "[31msecond[0m\nthird" {
		t.Errorf("%q", got)
	}
}
