package refserver

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTheStateSurvivesARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	clock := NewFrozenClock(began)
	first := newStage(t, Options{Dir: dir, Clock: clock})
	p := first.player(t).in()
	j := first.submit(t)
	lease := p.claim().text("leaseToken")
	file := p.uploaded()
	p.want(204, "", p.post("jobs/"+j.ID+"/files", obj{"leaseToken": lease, "fileId": file, "name": "log"}))
	_, err := first.AddTrial("standard-io@1", strings.NewReader("a trial"))
	must(t, err)
	must(t, first.SetMaintenance(LevelDraining, "why"))
	before := first.Snapshot()
	if _, err := New(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second server on one directory: %v", err)
	}
	must(t, first.Close())

	second := newStage(t, Options{Dir: dir, Clock: clock})
	if diff := cmp.Diff(before, second.Snapshot(), cmp.AllowUnexported(Fault{})); diff != "" {
		t.Error(diff)
	}
	p.s = second
	p.want(401, "unauthenticated", p.post("heartbeat", nil)) // tokens are not kept
	p.shake()
	must(t, second.SetMaintenance(LevelOpen, ""))
	a := p.want(200, "", p.do("GET", Prefix+"/runner/files/"+before.Problems[0].PackageID, nil))
	if string(a.raw) != "a package" || string(second.Attachment(j.ID, "log")) != "hello" {
		t.Errorf("%s, %s", a.raw, second.Attachment(j.ID, "log"))
	}
	p.want(200, "", p.post("jobs/"+j.ID+"/report", report(lease))) // leases are kept
	must(t, second.Close())
	third := newStage(t, Options{Dir: dir, Clock: clock})
	if r := third.job(t, j.ID).Result; r == nil || r.Verdict != "Partial" {
		t.Errorf("%+v", r)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.partial"))
	if err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestAStateThatCannotBeReadIsRefusedAndNotReplaced(t *testing.T) {
	for _, text := range []string{
		"{", `{"version":99}`, "", "null", "{}", "[]", "0", `{"version":1,"jobs":null}`, `{"version":1,"jobs":{"j":null}}`,
		`{"version":1,"jobs":{"j":{"submissionId":"gone"}}}`, `{"version":1,"submissions":{"s":{"problemId":"gone","fileId":"gone"}}}`,
		`{"version":1,"problems":{"p":{"packageId":"gone"}}}`, `{"version":1,"runners":{"r":null}}`, `{"version":1,"files":{"f":null}}`,
		`{"version":1,"trials":{"t":null}}`, `{"version":1,"order":{"jobs":["gone"]}}`, `{"version":1} {}`,
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "state.json")
		must(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := New(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", text, err)
		}
		if left, _ := os.ReadFile(path); string(left) != text {
			t.Errorf("%q was replaced by %q", text, left)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := New(Options{Dir: file}); err == nil {
		t.Error("a file was taken for a directory")
	}
}

// A state that was cut anywhere, by a disk that was full or a crash, is refused and left as it is.
func TestAStateThatWasCutAnywhereIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := newStage(t, Options{Dir: dir})
	p := s.player(t).in()
	s.submit(t)
	p.claim()
	must(t, s.Close())
	path := filepath.Join(dir, "state.json")
	whole, err := os.ReadFile(path)
	must(t, err)
	for n := 0; n < len(whole); n += 13 {
		must(t, os.WriteFile(path, whole[:n], 0o600))
		if again, err := New(Options{Dir: dir}); err == nil {
			must(t, again.Close())
			t.Errorf("the first %d of %d bytes were taken for a state", n, len(whole))
		}
		if left, _ := os.ReadFile(path); len(left) != n {
			t.Errorf("%d bytes became %d", n, len(left))
		}
	}
	must(t, os.WriteFile(path, whole, 0o600))
	again, err := New(Options{Dir: dir})
	must(t, err)
	must(t, again.Close())
}

// Bytes that are gone from the directory are said to be out of reach; bytes that were changed there are sent as they are, and
// whoever downloads them finds out by their checksum. Neither is a package that is not there.
func TestFilesThatWereHarmedOnTheDiskAreNotTakenForOthers(t *testing.T) {
	dir := t.TempDir()
	s := newStage(t, Options{Dir: dir})
	p := s.player(t).in()
	s.submit(t)
	p.claim()
	id := s.Snapshot().Problems[0].PackageID
	blob, path := filepath.Join(dir, "files", id), Prefix+"/runner/files/"+id
	must(t, os.WriteFile(blob, []byte("a pac"), 0o600))
	if a := p.want(200, "", p.do("GET", path, nil)); string(a.raw) != "a pac" {
		t.Errorf("%q", a.raw)
	}
	must(t, os.Remove(blob))
	p.want(503, "storage.unavailable", p.do("GET", path, nil))
}

func TestAChangeThatCannotBeKeptIsNotAnsweredAsDone(t *testing.T) {
	dir := t.TempDir()
	s := newStage(t, Options{Dir: dir})
	p := s.player(t).in()
	s.submit(t)
	s.store.(*directory).path = filepath.Join(dir, "gone")
	p.want(500, "error", p.post("jobs/claim", obj{}))
}

func TestBothStoresKeepBytesAlike(t *testing.T) {
	d, _, err := openDirectory(t.TempDir())
	must(t, err)
	defer func() { must(t, d.close()) }()
	for name, st := range map[string]store{"memory": newMemory(), "directory": d} {
		n, sum, err := st.put("a", strings.NewReader("hello"), 5)
		if n != 5 || sum != sumOfHello || err != nil {
			t.Errorf("%s: %d, %s, %v", name, n, sum, err)
		}
		if _, _, err := st.put("b", strings.NewReader("hello!"), 5); !errors.Is(err, errTooLarge) {
			t.Errorf("%s: six bytes of five: %v", name, err)
		}
		if _, err := st.open("b"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: what was too large is there: %v", name, err)
		}
		f, err := st.open("a")
		must(t, err)
		if b, err := io.ReadAll(f); string(b) != "hello" || err != nil {
			t.Errorf("%s: %q, %v", name, b, err)
		}
		must(t, f.Close())
		st.drop("a")
		if _, err := st.open("a"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: dropped bytes are there: %v", name, err)
		}
	}
}

func TestTheClockRingsItsAlarmsWhenItIsMoved(t *testing.T) {
	rung := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}
	c := NewFrozenClock(began)
	early, stopEarly := c.Alarm(began.Add(time.Second))
	late, stopLate := c.Alarm(began.Add(time.Minute))
	past, stopPast := c.Alarm(began)
	defer stopEarly()
	defer stopPast()
	if rung(early) || !rung(past) {
		t.Error("rung too early, or an alarm of the past not at all")
	}
	c.Advance(time.Second)
	if !rung(early) || rung(late) || !c.Now().Equal(began.Add(time.Second)) {
		t.Error("after a second")
	}
	stopLate()
	c.Advance(time.Hour)
	if rung(late) {
		t.Error("a stopped alarm rang")
	}
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		start := time.Now()
		ring, stop := c.Alarm(c.Now().Add(time.Hour))
		defer stop()
		time.AfterFunc(time.Minute, func() { c.Advance(30 * time.Minute) })
		<-ring
		if took := time.Since(start); took != 30*time.Minute {
			t.Errorf("an hour, half of it skipped, took %v", took)
		}
		ring, stop2 := c.Alarm(c.Now().Add(time.Hour))
		defer stop2()
		c.Advance(-time.Hour) // the clock is stepped back
		start = time.Now()
		<-ring
		if took := time.Since(start); took != 2*time.Hour {
			t.Errorf("an hour, and one back, took %v", took)
		}
	})
}

func TestRunSweepsUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Options{})
		must(t, err)
		must(t, s.SetMaintenance(LevelDraining, ""))
		done := make(chan struct{})
		ctx, cancel := contextWithCancel(t)
		go func() {
			defer close(done)
			s.Run(ctx)
		}()
		time.Sleep(drainTick + 2*sweepEvery)
		if level := s.Snapshot().Maintenance.Level; level != LevelClosed {
			t.Errorf("an idle Server is %s", level)
		}
		cancel()
		<-done
	})
}
