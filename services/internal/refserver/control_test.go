package refserver

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
)

// script is a program at the control surface.
func (s *stage) script(t testing.TB) func(method, path string, body any) answer {
	return func(method, path string, body any) answer {
		t.Helper()
		return (&player{t: t, s: s}).do(method, ControlPrefix+path, body, ControlHeader, "1")
	}
}

func TestAScriptCanDoAllThatTheGoAPICan(t *testing.T) {
	s := newStage(t, Options{})
	do := s.script(t)
	p := s.player(t)
	want := func(status int, a answer) answer { t.Helper(); return p.want(status, "", a) }
	id := want(200, p.post("register", p.registration())).text("runnerId")
	want(204, do("POST", "/runners/"+string(p.key.Fingerprint())+"/approve", nil))
	want(204, do("POST", "/runners/"+id+"/tags?tags=default,%20b", nil))
	p.shake()
	problem := want(200, do("POST", "/packages?name=sum&type=standard-io@1&tags=b&config=%7B%22a%22:1%7D", "a package")).text("id")
	sub := want(200, do("POST", "/submissions?problem="+problem+"&fileName=main.py&language=python3&maxPoints=50", "print(1)"))
	job := p.claim()
	if job.text("jobId") != sub.text("id") || job.m["config"] == nil {
		t.Errorf("%s and %s", sub.raw, job.raw)
	}
	path := "/jobs/" + sub.text("id")
	if a := want(200, do("GET", path, nil)); a.text("state") != "running" || a.text("lease") != "" {
		t.Errorf("%s", a.raw)
	}
	done := make(chan answer, 1)
	go func() { done <- do("GET", path+"?waitSeconds=30", nil) }()
	lease := job.text("leaseToken")
	p.want(204, "", p.post("jobs/"+sub.text("id")+"/files", obj{"leaseToken": lease, "fileId": p.uploaded(), "name": "log"}))
	want(200, p.post("jobs/"+sub.text("id")+"/report", report(lease)))
	if a := soon(t, done); a.text("state") != "completed" || a.m["result"].(obj)["score"] != 35.0 {
		t.Errorf("%s", a.raw)
	}
	if a := do("GET", path+"/files/log", nil); string(a.raw) != "hello" {
		t.Errorf("%s", a.raw)
	}
	p.want(404, "not_found", do("GET", path+"/files/none", nil))
	again := want(200, do("POST", "/submissions/"+sub.text("submissionId")+"/rejudge", nil))
	want(204, do("POST", "/jobs/"+again.text("id")+"/cancel", nil))
	p.want(409, "job.state", do("POST", "/jobs/"+again.text("id")+"/cancel", nil))
	trial := want(200, do("POST", "/trials?type=standard-io@1", "p")).text("id")
	want(200, do("GET", "/trials/"+trial, nil))
	p.want(404, "not_found", do("GET", "/trials/none", nil))
	p.want(404, "not_found", do("GET", "/jobs/none", nil))
	want(204, do("POST", "/maintenance?level=draining&reason=why", nil))
	if m := s.Snapshot().Maintenance; m.Level != LevelDraining || m.Reason != "why" {
		t.Errorf("%+v", m)
	}
	p.want(503, "server.maintenance", do("POST", "/packages", "p"))
	want(204, do("POST", "/maintenance?level=open", nil))
	want(204, do("POST", "/external?open=true", nil))
	now := s.Snapshot().Now
	want(204, do("POST", "/clock/advance?seconds=3600.5", nil))
	if moved := s.Snapshot().Now.Sub(now); moved != time.Hour+500*time.Millisecond {
		t.Errorf("moved by %v", moved)
	}
	want(204, do("POST", "/sweep", nil))
	want(204, do("POST", "/restart", nil))
	p.want(401, "unauthenticated", p.post("heartbeat", nil))
	fault := want(200, do("POST", "/faults", Fault{Path: "/health", Kind: FaultStatus, Status: 503})).text("id")
	if a := p.do("GET", Prefix+"/health", nil); a.status != 503 {
		t.Errorf("%d", a.status)
	}
	want(204, do("DELETE", "/faults/"+fault, nil))
	p.want(404, "not_found", do("DELETE", "/faults/"+fault, nil))
	var calls []Call
	must(t, json.Unmarshal(do("GET", "/calls?after=2", nil).raw, &calls))
	if len(calls) == 0 || calls[0].N != 3 {
		t.Errorf("%+v", calls)
	}
	want(204, do("POST", "/runners/"+id+"/revoke", nil))
	state := want(200, do("GET", "/state", nil))
	if r := state.m["runners"].([]any)[0].(obj); r["state"] != string(protocol.RunnerRevoked) {
		t.Errorf("%s", state.raw)
	}
}

func TestAScriptIsToldWhatIsWrong(t *testing.T) {
	s := newStage(t, Options{})
	do := s.script(t)
	problem := s.problem(t, Package{})
	for path, want := range map[string]int{
		"/packages":                               422, // empty
		"/packages?config=[]":                     422,
		"/submissions?problem=none":               422,
		"/submissions?problem=none&fileName=a.py": 404,
		"/submissions?fileName=a.py&maxPoints=x&problem=" + problem.ID: 400,
		"/submissions?fileName=a.py&props=7&problem=" + problem.ID:     422,
		"/clock/advance?seconds=soon":                                  400,
		"/maintenance?level=purple":                                    400,
		"/runners/none/approve":                                        404,
		"/faults":                                                      400,
		"/trials":                                                      422,
		"/submissions?fileName=a.py&language=x&problem=" + problem.ID + "&": 200,
	} {
		if a := do("POST", path, ""); a.status != want {
			t.Errorf("%s: %d %s", path, a.status, a.raw)
		}
	}
}

// endless is a file that is always too large.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestWhatIsTooLargeIsNotStored(t *testing.T) {
	s := newStage(t, Options{})
	problem := s.problem(t, Package{})
	var r *Refusal
	_, err := s.Submit(Submission{ProblemID: problem.ID, FileName: "a", Content: endless{}})
	if !errors.As(err, &r) || r.Status != 413 || r.Code != protocol.CodePayloadTooLarge {
		t.Errorf("%v", err)
	}
	if n := len(s.store.(*memory).blobs); n != 1 { // the package
		t.Errorf("%d files are stored", n)
	}
}

func TestTheControlSurfaceIsClosedToPagesOfOthers(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t)
	p.want(403, "control.header", p.do("POST", ControlPrefix+"/restart", nil))
	p.want(403, "control.header", p.do("DELETE", ControlPrefix+"/faults/x", nil))
	p.want(403, "host", p.do("POST", ControlPrefix+"/restart", nil, ControlHeader, "1", "Host", "evil.example"))
	p.want(403, "host", p.do("GET", ControlPrefix+"/jobs/x/files/log", nil, "Host", "evil.example"))
	a := p.do("OPTIONS", ControlPrefix+"/restart", nil, "Origin", "http://evil.example", "Access-Control-Request-Headers", ControlHeader)
	if a.header.Get("Access-Control-Allow-Origin") != "" || a.status == 200 {
		t.Errorf("%d %v", a.status, a.header)
	}
}

// FuzzEndpoints: nothing that a Runner can send makes the Server panic or answer 500.
func FuzzEndpoints(f *testing.F) {
	s := newStage(f, Options{})
	p := s.player(f).in()
	s.submit(f)
	job := p.claim()
	paths := []string{
		"register", "auth/challenge", "auth/token", "jobs/claim", "jobs/leases", "jobs/releases", "files", "files/attach",
		"jobs/" + job.text("jobId") + "/report", "jobs/" + job.text("jobId") + "/lease", "jobs/" + job.text("jobId") + "/files",
		"trials/claim", "trials/x/report", "heartbeat",
	}
	for i := range paths {
		for _, body := range []string{"", "{", "null", "[]", `{"leaseToken":7}`, `{"jobs":[{}]}`, `{"problemTypes":[null],"publicKey":"x","name":"y"}`} {
			f.Add(i, body)
		}
	}
	f.Fuzz(func(t *testing.T, i int, body string) {
		path := paths[((i%len(paths))+len(paths))%len(paths)]
		one := *p
		one.t = t
		if a := one.do("POST", Prefix+"/runner/"+path, body); a.status >= 500 || a.status == 0 {
			t.Fatalf("%s %q: %d %s", path, body, a.status, a.raw)
		}
	})
}
