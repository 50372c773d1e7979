package cache

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// childVariable makes this test binary a Runner of its own: "<role> <cache directory> <instance>".
const childVariable = "EVALHOST_TEST_CACHE_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childVariable); role != "" {
		words := strings.Fields(role)
		if err := children[words[0]](words[1], words[2]); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var children = map[string]func(dir, instance string) error{"fetcher": fetcher, "sleeper": sleeper, "full": full}

// child starts a process in a role.
func child(t *testing.T, role, dir, instance string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+strings.Join([]string{role, dir, instance}, " "))
	cmd.Stderr = os.Stderr
	return cmd
}

// packages is what both sides of the process tests know.
func packages() (*server, []Ref) {
	s := newServer()
	var refs []Ref
	for i := range 5 {
		refs = append(refs, s.add("package-"+strconv.Itoa(i), 20_000))
	}
	return s, refs
}

// tellingUnpack unpacks and appends a line to a file that all processes share.
func tellingUnpack(dir, instance string) Unpack {
	var u unpacker
	return func(ctx context.Context, src, target string) (int, error) {
		told, err := os.OpenFile(filepath.Join(dir, "unpacked.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return 0, err
		}
		_, err = fmt.Fprintf(told, "%s %s\n", filepath.Base(filepath.Dir(src)), instance)
		if err = errors.Join(err, told.Close()); err != nil {
			return 0, err
		}
		time.Sleep(20 * time.Millisecond) // long enough for the others to come
		return u.unpack(ctx, src, target)
	}
}

// fetcher uses every package several times, under a bound that keeps two of five, and looks at what it was given while
// others fetch and evict.
func fetcher(dir, instance string) error {
	s, refs := packages()
	c, err := Open(Config{Path: dir, Instance: instance, MaxBytes: 250_000})
	if err != nil {
		return err
	}
	if _, err := c.Sweep(context.Background()); err != nil {
		return err
	}
	for round := range 6 {
		for i := range refs {
			ref := refs[(i*(round+1)+len(instance))%len(refs)]
			if err := use(c, ref, s, tellingUnpack(dir, instance)); err != nil {
				return fmt.Errorf("%s, round %d: %w", ref.File, round, err)
			}
		}
	}
	return nil
}

// use judges with a package: it stays what it is from Get to Release.
func use(c *Cache, ref Ref, s *server, unpack Unpack) error {
	h, err := c.Get(context.Background(), ref, s)
	if err != nil {
		return err
	}
	defer h.Release()
	tree, err := h.Tree(context.Background(), unpack)
	if err != nil {
		return err
	}
	for range 3 {
		for _, name := range []string{"config.yml", "tests/1a.in", "tests/1a.out"} {
			got, err := os.ReadFile(filepath.Join(tree, name))
			if err != nil || string(got) != name+"\n"+string(s.packages[ref.File]) {
				return fmt.Errorf("a held package has %s of %d bytes (%w)", name, len(got), err)
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil
}

func TestProcessesThatShareACacheNeverSeeHalfAPackage(t *testing.T) {
	dir := t.TempDir()
	var processes []*exec.Cmd
	var output []*strings.Builder
	for i := range 3 {
		cmd := child(t, "fetcher", dir, strings.Repeat("r", i+1))
		out := &strings.Builder{}
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		processes, output = append(processes, cmd), append(output, out)
	}
	for i, cmd := range processes {
		if err := cmd.Wait(); err != nil {
			t.Errorf("Runner %d: %v: %s", i+1, err, output[i])
		}
	}
	c := open(t, dir, "observer", plenty)
	entries, total, err := c.entries()
	if err != nil || total > 250_000 || len(entries) == 0 {
		t.Errorf("in the end there are %d entries of %d bytes, %v", len(entries), total, err)
	}
	for _, e := range entries {
		if e.working || c.holders(e.id) {
			t.Errorf("%s is still held or worked on", e.id)
		}
	}
	log, _ := os.ReadFile(filepath.Join(dir, "unpacked.log"))
	t.Logf("90 uses by 3 processes, unpacked %d times", strings.Count(string(log), "\n"))
}

func TestProcessesThatWantOnePackageAtOnceUnpackItOnce(t *testing.T) {
	dir := t.TempDir()
	s, refs := packages()
	// A process that is in the middle of it while another comes.
	first := child(t, "sleeper", dir, "first")
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := first.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	expect(t, out, "unpacking")
	second := open(t, dir, "second", plenty)
	h := get(t, second, refs[0], s)
	u := &unpacker{}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := h.Tree(ctx, u.unpack); ProblemOf(err) != Stopped {
		t.Errorf("while another process unpacks: %v", err)
	}
	if _, err := io.WriteString(in, "\n"); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err != nil {
		t.Fatal(err)
	}
	tree(t, h, u)
	if u.times.Load() != 0 {
		t.Error("unpacked again")
	}
}

// sleeper unpacks the first package and stops in the middle of it until it is told to go on.
func sleeper(dir, instance string) error {
	s, refs := packages()
	c, err := Open(Config{Path: dir, Instance: instance, MaxBytes: plenty})
	if err != nil {
		return err
	}
	return use(c, refs[0], s, func(ctx context.Context, src, target string) (int, error) {
		u := &unpacker{}
		n, err := u.unpack(ctx, src, target)
		if err != nil {
			return 0, err
		}
		fmt.Println("unpacking")
		_, err = bufio.NewReader(os.Stdin).ReadString('\n')
		return n, err
	})
}

func expect(t *testing.T, from io.Reader, want string) {
	t.Helper()
	line, err := bufio.NewReader(from).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != want {
		t.Fatalf("the process said %q, %v; want %q", line, err, want)
	}
}

func TestARunnerKilledInTheMiddleHoldsNobodyUpAndIsSweptByItsNextLife(t *testing.T) {
	dir := t.TempDir()
	s, refs := packages()
	killed := child(t, "sleeper", dir, "killed")
	out, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := killed.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	expect(t, out, "unpacking")
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	// The kernel gave its lock back; what it had unpacked is not vouched for.
	u := &unpacker{}
	other := open(t, dir, "other", plenty)
	h := get(t, other, refs[0], s)
	tree(t, h, u)
	if u.times.Load() != 1 {
		t.Errorf("unpacked %d times, want anew", u.times.Load())
	}
	h.Release()
	left := filepath.Join(other.entry(refs[0]), "_extracted.killed.partial")
	if !exists(left) || !exists(filepath.Join(dir, "holding", "package-0", "killed")) {
		t.Fatal("the killed Runner left nothing, so this test shows nothing")
	}
	// Another Runner's sweep leaves it alone; its own does not.
	for instance, want := range map[string]bool{"other": true, "killed": false} {
		if instance == "killed" {
			continue
		}
		if _, err := open(t, dir, instance, plenty).Sweep(t.Context()); err != nil || exists(left) != want {
			t.Errorf("after a sweep by %s it is there: %v, %v", instance, exists(left), err)
		}
	}
	swept, err := open(t, dir, "killed", plenty).Sweep(t.Context())
	if err != nil || swept.Holds != 1 || swept.Partials != 1 || exists(left) {
		t.Errorf("its own sweep: %+v, %v", swept, err)
	}
}

func TestAFullDisk(t *testing.T) {
	cmd := child(t, "full", t.TempDir(), "one")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.Output()
	switch {
	case err != nil && len(out) == 0:
		t.Skipf("NOT SHOWN: a process with a file system of its own cannot be made here, so no full disk: %v", err)
	case err != nil:
		t.Fatalf("%v: %s", err, out)
	case strings.HasPrefix(string(out), "skipped"):
		t.Skipf("NOT SHOWN: no small file system can be mounted here, so no full disk: %s", out)
	}
	t.Log(string(out))
}

// full runs on a file system of 1 MiB of its own.
func full(dir, instance string) error {
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=1m,nr_inodes=200"); err != nil {
		fmt.Println("skipped:", err)
		return nil
	}
	said := 0
	check := func(ok bool, format string, args ...any) {
		if !ok {
			fmt.Printf("wrong: "+format+"\n", args...)
			said++
		}
	}
	ctx := context.Background()
	w := &seen{}
	c, err := Open(Config{Path: dir, Instance: instance, MaxBytes: plenty, Observe: w})
	if err != nil {
		return err
	}
	s, u := newServer(), &unpacker{}
	free := func() verdict.Bytes {
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			return -1
		}
		return verdict.Bytes(fs.Bavail) * verdict.Bytes(fs.Bsize)
	}
	fill := func(leave verdict.Bytes) func() {
		path := filepath.Join(dir, "filler")
		if err := os.WriteFile(path, make([]byte, max(0, free()-leave)), 0o644); err != nil {
			check(false, "filling the disk: %v", err)
		}
		return func() { _ = os.Remove(path) }
	}

	// A package larger than the disk: full during the download, and nothing of it stays.
	_, err = c.Get(ctx, s.add("huge", 2<<20), s)
	check(ProblemOf(err) == NoSpace && strings.Contains(err.Error(), "AJ_Cache__Path"), "a download larger than the disk: %v", err)
	check(!protocol.Retryable(err), "a full disk reads as a Server that is away")
	check(free() > 900<<10, "%d bytes left after a download that did not fit", free())

	// Full in the middle, and an old package that nobody holds in the way: it goes, and the new one is there.
	old := s.add("old", 500<<10)
	h, err := c.Get(ctx, old, s)
	check(err == nil, "the first package: %v", err)
	if err != nil {
		return errors.New("nothing more can be shown")
	}
	h.Release()
	h, err = c.Get(ctx, s.add("new", 700<<10), s)
	check(err == nil && !exists(c.entry(old)) && w.has("evicted 1"), "a package that fits when another goes: %v, told %q", err, w.events)
	if err == nil {
		// It fits, and its three unpacked copies do not: full after the download. Nothing half unpacked stays.
		_, err = h.Tree(ctx, u.unpack)
		check(ProblemOf(err) == NoSpace, "unpacking on a full disk: %v", err)
		check(u.times.Load() == 2, "tried %d times, want once more after evicting", u.times.Load())
		check(len(files2(h.entry())) == 1, "left %q", files2(h.entry()))
		h.Release()
	}

	// Full before anything begins, with something that may go.
	empty := fill(0)
	h, err = c.Get(ctx, s.add("third", 100<<10), s)
	check(err == nil, "on a disk that is full of what may go: %v", err)
	if err == nil {
		_, err = h.Tree(ctx, u.unpack)
		check(err == nil, "unpacking after making room: %v", err)
		h.Release()
	}
	// Full before anything begins, with nothing that may go.
	empty()
	if err := c.evict(ctx, 0); err != nil {
		return err
	}
	empty = fill(0)
	_, err = c.Get(ctx, s.add("fourth", 100<<10), s)
	check(ProblemOf(err) == NoSpace, "on a disk that is full of something else: %v", err)
	empty()
	// Afterwards everything goes on, in the same process.
	h, err = c.Get(ctx, s.add("fourth", 100<<10), s)
	check(err == nil, "after the disk was emptied: %v", err)
	if err == nil {
		_, err = h.Tree(ctx, u.unpack)
		check(err == nil, "after the disk was emptied: %v", err)
		h.Release()
	}
	// No inode left: even a marker cannot be made.
	for i := 0; ; i++ {
		if os.WriteFile(filepath.Join(dir, "trash", "inode"+strconv.Itoa(i)), nil, 0o644) != nil {
			break
		}
	}
	h, err = c.Get(ctx, s.add("fifth", 10<<10), s)
	check(err == nil, "without an inode for the marker, and with something that may go: %v", err)
	if err == nil {
		h.Release()
	}
	if said > 0 {
		return fmt.Errorf("%d findings", said)
	}
	fmt.Println("full before, during and after a download, in bytes and in inodes")
	return nil
}

func files2(root string) []string {
	names, _ := os.ReadDir(root)
	var list []string
	for _, name := range names {
		list = append(list, name.Name())
	}
	return list
}
