package cache

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

func TestASecondRunnerWaitsWhileAPackageIsPreparedAndThenFindsIt(t *testing.T) {
	s, u := newServer(), &unpacker{}
	dir := t.TempDir()
	ref := s.add("p", 1000)
	one, two := get(t, open(t, dir, "one", plenty), ref, s), get(t, open(t, dir, "two", plenty), ref, s)
	inside, leave := make(chan struct{}), make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		_, err := one.Tree(context.Background(), func(ctx context.Context, src, target string) (int, error) {
			close(inside)
			<-leave
			return u.unpack(ctx, src, target)
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-inside
	// Somebody who asks while it lasts does not get in, is told so, and hears a stop.
	var waits []bool
	two.OnWait(func(waiting bool) { waits = append(waits, waiting) })
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	if _, err := two.Tree(ctx, u.unpack); ProblemOf(err) != Stopped || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while another prepares: %v", err)
	}
	if u.times.Load() != 0 {
		t.Error("two Runners prepared at once")
	}
	close(leave)
	wait.Wait()
	if _, err := two.Tree(t.Context(), u.unpack); err != nil || u.times.Load() != 1 {
		t.Errorf("afterwards: %v, unpacked %d times", err, u.times.Load())
	}
	if !slices.Equal(waits, []bool{true, false}) {
		t.Errorf("of its waits it was told %v", waits)
	}
}

func TestTwoRunnersThatFetchAtOnceLeaveOneWholeFile(t *testing.T) {
	s := newServer()
	dir := t.TempDir()
	ref := s.add("p", 300_000)
	var together, listed sync.WaitGroup
	together.Add(2)
	listed.Add(2)
	s.before = func(_ io.Writer, content []byte) ([]byte, error) {
		together.Done()
		together.Wait() // both are in the middle of it
		var partials []string
		for _, name := range files(t, dir) {
			if strings.HasSuffix(name, ".partial") {
				partials = append(partials, filepath.Base(name))
			}
		}
		slices.Sort(partials)
		if !slices.Equal(partials, []string{"file.one.partial", "file.two.partial"}) {
			t.Errorf("partials %q", partials)
		}
		listed.Done()
		listed.Wait() // so that neither puts its file in place while the other looks
		return content, nil
	}
	var wait sync.WaitGroup
	for _, instance := range []string{"one", "two"} {
		c := open(t, dir, instance, plenty)
		wait.Go(func() {
			h, err := c.Get(context.Background(), ref, s)
			if err != nil {
				t.Error(err)
				return
			}
			defer h.Release()
			if content, err := os.ReadFile(h.Archive()); err != nil || string(content) != string(s.packages["p"]) {
				t.Errorf("%d bytes, %v", len(content), err)
			}
		})
	}
	wait.Wait()
	if got := files(t, filepath.Join(dir, "packages")); len(got) != 1 {
		t.Errorf("left %q", got)
	}
}

func TestWhatIsHeldIsNeverEvicted(t *testing.T) {
	s := newServer()
	dir := t.TempDir()
	two := open(t, dir, "two", plenty)
	theirs := s.add("theirs", 10_000)
	get(t, two, theirs, s)
	one := open(t, dir, "one", 20_000)
	twice := s.add("twice", 10_000)
	first, second := get(t, one, twice, s), get(t, one, twice, s)
	first.Release()
	first.Release() // one call or more
	free := s.add("free", 10_000)
	get(t, one, free, s).Release()
	// Three of 12 KiB are too many; only one of them is nobody's.
	get(t, one, s.add("new", 10_000), s)
	for id, want := range map[Ref]bool{theirs: true, twice: true, free: false} {
		if got := exists(one.entry(id)); got != want {
			t.Errorf("%s is there: %v, want %v", id.File, got, want)
		}
	}
	if exists(filepath.Join(dir, "used", "free")) || len(files(t, filepath.Join(dir, "trash"))) != 0 {
		t.Error("an evicted entry left its marker or itself in the trash")
	}
	second.Release()
	get(t, one, s.add("newer", 10_000), s)
	if exists(one.entry(twice)) {
		t.Error("a released entry is not evicted")
	}
}

func TestTheLongestUnwantedGoesFirst(t *testing.T) {
	s := newServer()
	c := open(t, t.TempDir(), "one", 40_000)
	refs := map[string]Ref{}
	for _, name := range []string{"a", "b", "c"} {
		refs[name] = s.add(name, 10_000)
		get(t, c, refs[name], s).Release()
	}
	wanted(t, c, refs["a"], time.Hour)
	wanted(t, c, refs["b"], 3*time.Hour)
	if err := os.Remove(c.usedMarker("c")); err != nil { // never wanted, as far as anybody knows
		t.Fatal(err)
	}
	get(t, c, s.add("d", 10_000), s)
	if exists(c.entry(refs["c"])) || !exists(c.entry(refs["b"])) {
		t.Error("the one without a marker did not go first")
	}
	get(t, c, refs["b"], s).Release() // wanted now
	get(t, c, s.add("e", 10_000), s)
	if exists(c.entry(refs["a"])) || !exists(c.entry(refs["b"])) {
		t.Error("a hit does not count as wanted")
	}
}

func TestWhatSomebodyWorksOnIsNotEvictedAndCounts(t *testing.T) {
	s := newServer()
	c := open(t, t.TempDir(), "one", 20_000)
	at := s.add("at", 10_000)
	get(t, c, at, s).Release()
	for _, partial := range []string{"_extracted.other.partial/x", "_build/0123.other.partial/x"} {
		mustWrite(t, filepath.Join(c.entry(at), partial), "x")
		get(t, c, s.add("n"+filepath.Base(filepath.Dir(partial)), 10_000), s).Release()
		if !exists(c.entry(at)) {
			t.Fatalf("evicted in spite of %s", partial)
		}
		if err := os.RemoveAll(filepath.Join(c.entry(at), filepath.Dir(partial))); err != nil {
			t.Fatal(err)
		}
	}
	get(t, c, s.add("last", 10_000), s)
	if exists(c.entry(at)) {
		t.Error("not evicted although nobody works on it any more")
	}
}

func TestASweepRemovesWhatThisInstanceLeftAndNothingElse(t *testing.T) {
	s := newServer()
	dir := t.TempDir()
	one, two := open(t, dir, "one", plenty), open(t, dir, "two", plenty)
	both, mine := s.add("both", 100), s.add("mine", 100)
	// An earlier life of "one" held two packages and was killed; "two" is alive.
	for _, ref := range []Ref{both, mine} {
		if _, err := one.Get(t.Context(), ref, s); err != nil {
			t.Fatal(err)
		}
	}
	get(t, two, both, s)
	left := filepath.Join
	for _, name := range []string{"_extracted.one.partial/x", "file.one.partial", "_build/k.one.partial/x", "_extracted.two.partial/x", "file.someone.partial"} {
		mustWrite(t, left(one.entry(mine), name), "x")
		mustWrite(t, left(one.entry(both), name), "x")
	}
	mustWrite(t, left(dir, "trash", "old.0123", "file"), "x")
	mustWrite(t, left(dir, "ab", "cd", "ef", "oldfile"), "x")
	mustWrite(t, left(dir, "ab", "cd", "ef", "both"), "x") // held by "two"
	mustWrite(t, left(dir, "ab", "cd", "00", "x.partial"), "x")
	mustWrite(t, left(dir, "notes", "cd", "ef", "file"), "of somebody")

	swept, err := open(t, dir, "one", plenty).Sweep(t.Context())
	if err != nil || swept != (Swept{Holds: 2, Partials: 3, Old: 1}) {
		t.Errorf("swept %+v, %v", swept, err)
	}
	for name, want := range map[string]bool{
		"holding/both/one": false, "holding/mine": false, "holding/both/two": true,
		"trash/old.0123": false, "ab/cd/ef/oldfile": false, "ab/cd/ef/both": true, "ab/cd/00/x.partial": true, "notes/cd/ef/file": true,
	} {
		if got := exists(left(dir, name)); got != want {
			t.Errorf("%s is there: %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]bool{
		"_extracted.one.partial": false, "file.one.partial": false, "_build/k.one.partial": false,
		"_extracted.two.partial": true, "file.someone.partial": true, "file": true,
	} {
		if got := exists(left(one.entry(mine), name)); got != want {
			t.Errorf("of mine, %s is there: %v, want %v", name, got, want)
		}
		if !exists(left(one.entry(both), name)) {
			t.Errorf("of an entry that another Runner holds, %s is gone", name)
		}
	}
}

func TestAFileSystemThatCannotLockIsRefused(t *testing.T) {
	// There is none here; what is shown is that the probe asks and cleans up.
	dir := t.TempDir()
	open(t, dir, "one", plenty)
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("opening left %q", got)
	}
	if _, err := Open(Config{Path: "/proc/evalhost-cache", Instance: "one"}); ProblemOf(err) != Disk || !strings.Contains(err.Error(), "/proc/evalhost-cache") {
		t.Errorf("a place where no directory can be made: %v", err)
	}
}

func TestTinyFilesAreCountedAsTheRoomTheyTake(t *testing.T) {
	for size, want := range map[int64]verdict.Bytes{0: 0, 1: 4096, 4096: 4096, 4097: 8192} {
		if got := usage(size); got != want {
			t.Errorf("usage(%d) = %d, want %d", size, got, want)
		}
	}
}
