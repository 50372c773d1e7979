package refserver

import (
	"strings"
	"testing"
	"time"
)

func (s *stage) fault(t testing.TB, f Fault) string {
	t.Helper()
	id, err := s.SetFault(f)
	must(t, err)
	return id
}

func TestAFaultHitsWhatItMatchesAsOftenAsItSays(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	s.fault(t, Fault{Method: "POST", Path: "/runner/*", Kind: FaultStatus, Status: 503, Code: "x", RetryAfter: "0", Skip: 1, Times: 2})
	var got []int
	for range 4 {
		got = append(got, p.post("heartbeat", nil).status)
	}
	if dump(got) != "[204 503 503 204]" || s.Faults()[0].Hits != 2 {
		t.Errorf("%v, %+v", got, s.Faults())
	}
	if a := p.do("GET", Prefix+"/health", nil); a.status != 200 {
		t.Errorf("another path was hit: %d", a.status)
	}
	for _, bad := range []Fault{{Path: "/x"}, {Path: "/x", Kind: "explode"}, {Path: "x", Kind: FaultHTML}, {Path: "/[", Kind: FaultHTML}} {
		if _, err := s.SetFault(bad); err == nil {
			t.Errorf("%+v was set", bad)
		}
	}
	if s.ClearFault("none") {
		t.Error("cleared what is not there")
	}
}

func TestAnAnswerThatIsLostWasCommitted(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	j := s.submit(t)
	s.fault(t, Fault{Path: "/runner/jobs/claim", Kind: FaultDropAfter, Times: 1})
	if _, err := p.try("POST", Prefix+"/runner/jobs/claim", obj{}); err == nil {
		t.Error("the answer came")
	}
	if s.job(t, j.ID).State != Running {
		t.Error("the claim was not committed")
	}
	s.fault(t, Fault{Path: "/runner/heartbeat", Kind: FaultDropBefore, Times: 1})
	if _, err := p.try("POST", Prefix+"/runner/heartbeat", nil); err == nil {
		t.Error("the answer came")
	}
	calls := s.Calls(0)
	last := calls[len(calls)-1]
	if last.Path != "/runner/heartbeat" || last.Status != -1 {
		t.Errorf("%+v", last)
	}
}

func TestACallThatIsHeldGoesOnWhenItsFaultIsCleared(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	id := s.fault(t, Fault{Path: "/runner/heartbeat", Kind: FaultHold})
	ch := make(chan answer, 1)
	go func() { a, _ := p.try("POST", Prefix+"/runner/heartbeat", nil); ch <- a }()
	eventually(t, "the call is held", func() bool { return s.Faults()[0].Hits == 1 })
	calls := s.Calls(0)
	if last := calls[len(calls)-1]; last.Status != 0 {
		t.Errorf("%+v", last)
	}
	s.ClearFault(id)
	if a := soon(t, ch); a.status != 204 {
		t.Errorf("%d", a.status)
	}
	s.fault(t, Fault{Path: "/runner/heartbeat", Kind: FaultDelay, Seconds: 0.05})
	start := time.Now()
	if p.post("heartbeat", nil); time.Since(start) < 50*time.Millisecond {
		t.Error("not delayed")
	}
}

func TestAClaimsAnswerCanBeMadeWrong(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	s.submit(t)
	for kind, ok := range map[FaultKind]func(answer) bool{
		FaultWrongSHA:   func(a answer) bool { return a.text("packageSha256") == strings.Repeat("0", 64) },
		FaultNoPackage:  func(a answer) bool { return a.m["packageFileId"] == "" && a.m["packageSha256"] == "" },
		FaultNoFiles:    func(a answer) bool { return len(a.m["files"].([]any)) == 0 },
		FaultNoLanguage: func(a answer) bool { return len(a.m["props"].(obj)) == 0 },
		FaultUnknown:    func(a answer) bool { return a.m["addedLater"] != nil && a.m["JobID"] == 7.0 },
		FaultNulls:      func(a answer) bool { return strings.Contains(string(a.raw), `"config":null`) },
		FaultHTML: func(a answer) bool {
			return strings.Contains(string(a.raw), "<html>") && a.header.Get("Content-Type") == "text/html"
		},
	} {
		s.fault(t, Fault{Path: "/runner/jobs/claim", Kind: kind, Times: 1})
		a := p.post("jobs/claim", obj{})
		if a.status != 200 || !ok(a) {
			t.Errorf("%s: %d %s", kind, a.status, a.raw)
		}
		s.Advance(time.Hour)
	}
	s.fault(t, Fault{Path: "/runner/jobs/claim", Kind: FaultIgnoreWait, Times: 1})
	s.submit(t)
	p.claim()
	for {
		if a := p.post("jobs/claim", obj{}); a.status == 204 {
			break
		}
	}
	p.want(204, "", p.post("jobs/claim", obj{"waitSeconds": 0}))
	ch := p.later(5)
	s.Advance(5 * time.Second)
	soon(t, ch)
	s.fault(t, Fault{Path: "/runner/jobs/claim", Kind: FaultIgnoreWait, Times: 1})
	p.want(204, "", p.post("jobs/claim", obj{"waitSeconds": 300}))
	s.fault(t, Fault{Path: "/runner/jobs/claim", Kind: FaultOverHold, Seconds: 60, Times: 1})
	ch = p.later(5)
	s.Advance(64 * time.Second)
	held(t, ch)
	s.Advance(time.Second)
	soon(t, ch)
}

func TestABodyCanBeHarmedOnItsWay(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	problem := s.problem(t, Package{Content: strings.NewReader("0123456789")})
	s.submitTo(t, problem.ID)
	p.claim()
	path := Prefix + "/runner/files/" + problem.PackageID
	for kind, want := range map[FaultKind]string{FaultTruncate: "0123", FaultCorrupt: "0123\xcb56789", FaultCut: "0123", FaultStall: "0123"} {
		id := s.fault(t, Fault{Path: "/runner/files/*", Kind: kind, Bytes: 4})
		if kind == FaultStall {
			time.AfterFunc(50*time.Millisecond, func() { s.ClearFault(id) })
		}
		a, err := p.try("GET", path, nil)
		if string(a.raw) != want || (err != nil) != (kind == FaultCut || kind == FaultStall) {
			t.Errorf("%s: %q, %v", kind, a.raw, err)
		}
		s.ClearFault(id)
	}
}

func TestTheJournalForgetsTheOldestCalls(t *testing.T) {
	var j journal
	for n := 1; n <= journalLimit+10; n++ {
		if got := j.begin(began, "GET", "/x"); got != n {
			t.Fatalf("call %d is number %d", n, got)
		}
		j.end(n, 200, "r")
	}
	j.end(1, 500, "gone") // no longer remembered
	if len(j.calls) > journalLimit || j.calls[len(j.calls)-1].N != journalLimit+10 || j.calls[0].Status != 200 {
		t.Errorf("%d calls, the first %+v", len(j.calls), j.calls[0])
	}
}
