package refserver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The tests in this file are cases of spec/protocol.md 9.2 and 9.3, and rules of sections 1, 2 and 4.

func TestConformance_A_runner_reads_the_package_of_a_job_it_holds_and_nothing_else(t *testing.T) {
	s := newStage(t, Options{})
	p, other := s.player(t).in(), s.player(t).in()
	mine, theirs := s.problem(t, Package{}), s.problem(t, Package{})
	j := s.submitTo(t, mine.ID)
	get := func(p *player, id string) answer { return p.do("GET", Prefix+"/runner/files/"+id, nil) }
	p.want(404, "not_found", get(p, mine.PackageID)) // holding nothing
	job := p.claim()
	a := p.want(200, "", get(p, mine.PackageID))
	if string(a.raw) != "a package" || a.header.Get("ETag") != `"`+mine.SHA256+`"` || a.header.Get("Accept-Ranges") != "bytes" ||
		a.header.Get("Cache-Control") != "private, max-age=31536000, immutable" {
		t.Errorf("%s %v", a.raw, a.header)
	}
	source := job.m["files"].([]any)[0].(obj)
	p.want(200, "", get(p, source["fileId"].(string)))
	p.want(404, "not_found", get(p, theirs.PackageID))
	p.want(404, "not_found", get(other, mine.PackageID))
	p.want(404, "not_found", get(p, "11111111-0000-0000-0000-000000000000"))
	s.clock.Advance(601 * time.Second) // not swept yet: an expired lease reads nothing
	p.want(404, "not_found", get(p, mine.PackageID))
	_ = j
}

func TestConformance_A_download_can_be_resumed_from_the_middle(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	problem := s.problem(t, Package{Content: strings.NewReader("0123456789")})
	s.submitTo(t, problem.ID)
	p.claim()
	path := Prefix + "/runner/files/" + problem.PackageID
	a := p.want(206, "", p.do("GET", path, nil, "Range", "bytes=4-"))
	if string(a.raw) != "456789" || a.header.Get("Content-Range") != "bytes 4-9/10" {
		t.Errorf("%s %v", a.raw, a.header)
	}
	if a := p.do("GET", path, nil, "Range", "bytes=10-"); a.status != 416 {
		t.Errorf("past the end: %d", a.status)
	}
	if a := p.do("GET", path, nil, "If-None-Match", `"`+problem.SHA256+`"`); a.status != 304 {
		t.Errorf("already there: %d", a.status)
	}
	if a := p.do("GET", path, nil, "Range", "bytes=4-", "If-Range", `"other"`); a.status != 200 || len(a.raw) != 10 {
		t.Errorf("another file: %d %s", a.status, a.raw)
	}
	s.store.drop(problem.PackageID)
	p.want(503, "storage.unavailable", p.do("GET", path, nil))
}

func TestConformance_The_checksum_may_arrive_on_either_side_of_the_file(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	for _, order := range [][]string{{"file", "sha256"}, {"sha256", "file"}} {
		body, kind := upload(order, "hello", strings.ToUpper(sumOfHello))
		a := p.want(201, "", p.do("POST", Prefix+"/runner/files", body, "Content-Type", kind))
		if a.text("sha256") != sumOfHello || a.m["sizeBytes"] != 5.0 || a.header.Get("Location") != "/api/v1/runner/files/"+a.text("id") {
			t.Errorf("%s %v", a.raw, a.header)
		}
	}
}

func TestConformance_A_file_that_is_not_what_it_claimed_leaves_nothing_at_all(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	both := []string{"file", "sha256"}
	for _, c := range []struct {
		order         []string
		content, sum  string
		code          string
		differentType string
	}{
		{both, "hello", strings.Repeat("0", 64), "checksum_mismatch", ""},
		{both, "hello", "rubbish", "checksum_mismatch", ""},
		{[]string{"file"}, "hello", "", "checksum_mismatch", ""},
		{[]string{"sha256"}, "", sumOfHello, "file.required", ""},
		{both, "", sumOfHello, "file.required", ""},
		{[]string{"file", "file", "sha256"}, "hello", sumOfHello, "file.tooMany", ""},
		{both, "hello", sumOfHello, "request.notMultipart", "text/plain"},
		{both, "hello", sumOfHello, "request.malformed", "multipart/form-data; boundary=other"},
	} {
		body, kind := upload(c.order, c.content, c.sum)
		if c.differentType != "" {
			kind = c.differentType
		}
		p.want(422, c.code, p.do("POST", Prefix+"/runner/files", body, "Content-Type", kind))
	}
	if n := len(s.s.Files) + len(s.store.(*memory).blobs); n != 0 {
		t.Errorf("%d files are left", n)
	}
}

func TestConformance_A_runner_attaches_its_log_to_the_attempt_and_replaces_its_own(t *testing.T) {
	s := newStage(t, Options{})
	p, other := s.player(t).in(), s.player(t).in()
	j := s.submit(t)
	lease := p.claim().text("leaseToken")
	attach := func(who *player, file, name string) answer {
		return who.post("jobs/"+j.ID+"/files", obj{"leaseToken": lease, "fileId": file, "name": name})
	}
	mine := p.uploaded()
	p.want(422, "file.missing", attach(p, other.uploaded(), "log")) // another Runner's upload
	p.want(422, "file.missing", attach(p, s.Snapshot().Problems[0].PackageID, "log"))
	p.want(422, "file.required", attach(p, "not a uuid", "log"))
	p.want(204, "", attach(p, mine, "log"))
	p.want(409, "attempt.file.duplicate", attach(p, p.uploaded(), "log"))
	p.want(422, "file.missing", attach(p, mine, "details")) // one reference
	p.want(200, "", p.do("GET", Prefix+"/runner/files/"+mine, nil))

	own := func(file string) answer { return p.post("files/attach", obj{"fileId": file, "name": "runner.log"}) }
	first, second := p.uploaded(), p.uploaded()
	p.want(204, "", own(first))
	p.want(204, "", own(second))
	p.want(422, "file.missing", own(first))
	p.want(422, "file.required", own(""))
	if s.s.Files[first].Referenced != "superseded" || s.s.Runners[p.id].Files["runner.log"] != second {
		t.Error("the newer file did not replace the older one")
	}
}

func TestConformance_A_stale_lease_in_a_batch_leaves_its_neighbors_renewed(t *testing.T) {
	s := newStage(t, Options{})
	p, other := s.player(t).in(), s.player(t).in()
	var jobs []obj
	for range 3 {
		s.submit(t)
		a := p.claim()
		jobs = append(jobs, obj{"jobId": a.text("jobId"), "leaseToken": a.text("leaseToken")})
	}
	s.submit(t)
	foreign := other.claim()
	jobs[1]["leaseToken"] = "00000000-0000-0000-0000-000000000000"
	jobs = append(jobs, jobs[0],
		obj{"jobId": foreign.text("jobId"), "leaseToken": foreign.text("leaseToken")},
		obj{"jobId": "11111111-0000-0000-0000-000000000000", "leaseToken": ""})
	a := p.want(200, "", p.post("jobs/leases", obj{"leaseSeconds": 3600, "jobs": jobs}))
	results := a.m["results"].([]any)
	var codes []string
	for _, r := range results {
		code, _ := r.(obj)["code"].(string)
		_, deadline := r.(obj)["leaseExpiresAt"]
		if deadline == (code != "") {
			t.Errorf("%v", r)
		}
		codes = append(codes, code)
	}
	if got := strings.Join(codes, ","); got != ",runner.lease.stale,,runner.lease.foreign,not_found" {
		t.Errorf("codes %s", got)
	}
}

func TestConformance_A_batch_over_the_ceiling_is_refused_whole_and_an_empty_one_is_answered(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	for _, path := range []string{"jobs/leases", "jobs/releases"} {
		many := make([]obj, 513)
		for i := range many {
			many[i] = obj{"jobId": fmt.Sprint(i), "leaseToken": "x"}
		}
		p.want(422, "runner.batch.size", p.post(path, obj{"jobs": many}))
		if a := p.want(200, "", p.post(path, obj{"jobs": []obj{}})); string(a.raw) != `{"results":[]}` {
			t.Errorf("%s", a.raw)
		}
	}
}

func TestConformance_A_job_nobody_can_finish_is_given_up_on_rather_than_retried_for_ever(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	j := s.submit(t)
	for n := range 5 {
		lease := p.claim().text("leaseToken")
		p.want(204, "", p.post("jobs/"+j.ID+"/progress", obj{"leaseToken": lease}))
		s.Advance(time.Hour)
		if now := s.job(t, j.ID); now.Deliveries != n+1 {
			t.Fatalf("%+v", now)
		}
	}
	if now := s.job(t, j.ID); now.State != Failed || !strings.Contains(now.FailureReason, "Given up") {
		t.Errorf("%+v", now)
	}
	p.none()
}

func TestConformance_Canceling_an_attempt_stops_the_runner_reporting_on_it(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	j := s.submit(t)
	lease := p.claim().text("leaseToken")
	must(t, s.Cancel(j.ID))
	p.want(403, "runner.lease.stale", p.post("jobs/"+j.ID+"/report", report(lease)))
	if err := s.Cancel(j.ID); err == nil {
		t.Error("canceled twice")
	}
}

func TestConformance_Reporting_progress_renews_by_the_lease_the_job_was_granted(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	j := s.submit(t)
	lease := p.want(200, "", p.post("jobs/claim", obj{"leaseSeconds": 300})).text("leaseToken")
	s.Advance(100 * time.Second)
	p.want(204, "", p.post("jobs/"+j.ID+"/progress", obj{"leaseToken": lease}))
	if until := s.job(t, j.ID).LeaseExpires; !until.Equal(began.Add(400 * time.Second)) {
		t.Errorf("until %v", until)
	}
}

func TestConformance_Revoking_a_runner_gives_back_what_it_was_holding(t *testing.T) {
	s := newStage(t, Options{})
	p, other := s.player(t).in(), s.player(t).in()
	j := s.submit(t)
	p.claim()
	ch := p.later(30)
	must(t, s.Revoke(p.id))
	if a := soon(t, ch); a.status != 403 || a.text("code") != "runner.notApproved" {
		t.Errorf("the held claim: %d %s", a.status, a.raw)
	}
	if s.job(t, j.ID).State != Queued {
		t.Error("the job was not queued")
	}
	p.want(403, "runner.notApproved", p.post("jobs/claim", obj{}))
	p.want(409, "runner.revoked", p.post("register", p.registration()))
	if err := s.Approve(p.id); err == nil {
		t.Error("a revoked Runner was approved")
	}
	other.claim()
}

func TestConformance_Draining_admits_a_report_and_Closed_refuses_the_runner_too(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	j := s.submit(t)
	_, err := s.AddTrial("standard-io@1", strings.NewReader("p"))
	must(t, err)
	lease := p.claim().text("leaseToken")
	must(t, s.SetMaintenance(LevelDraining, "nightly backup"))
	a := p.want(503, "server.maintenance", p.post("register", p.registration()))
	if a.header.Get("Retry-After") != "30" {
		t.Errorf("%v", a.header)
	}
	p.want(204, "", p.post("heartbeat", nil))
	p.want(204, "", p.post("heartbeat", "{}"))
	p.none()
	p.want(204, "", p.post("trials/claim", obj{}))
	p.challenge()
	if _, err := s.Submit(BytesSubmission(s.Snapshot().Problems[0].ID, "a.py", "python3", nil)); err == nil {
		t.Error("a participant was admitted")
	}
	h := p.want(200, "", p.do("GET", Prefix+"/health", nil))
	if m := h.m["maintenance"].(obj); m["level"] != "draining" || m["reason"] != "nightly backup" || m["since"] != "2026-09-20T10:00:00.0000000Z" {
		t.Errorf("%s", h.raw)
	}
	s.Advance(299 * time.Second)
	if s.Snapshot().Maintenance.Level != LevelDraining {
		t.Error("the drain did not wait for a running job")
	}
	p.want(200, "", p.post("jobs/"+j.ID+"/report", report(lease)))
	s.Sweep()
	if s.Snapshot().Maintenance.Level != LevelClosed {
		t.Error("the drain did not end when the last job did")
	}
	p.want(503, "server.maintenance", p.post("heartbeat", nil))
	p.want(200, "", p.do("GET", Prefix+"/health", nil))
	must(t, s.SetMaintenance(LevelOpen, ""))
	if h := p.want(200, "", p.do("GET", Prefix+"/health", nil)); strings.Contains(string(h.raw), "maintenance") {
		t.Errorf("%s", h.raw)
	}
	if err := s.SetMaintenance("purple", ""); err == nil {
		t.Error("a level nobody knows was set")
	}
}

func TestConformance_A_wedged_job_is_closed_over_after_the_deadline(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	s.submit(t)
	p.want(200, "", p.post("jobs/claim", obj{"leaseSeconds": 3600}))
	must(t, s.SetMaintenance(LevelDraining, ""))
	s.Advance(300 * time.Second)
	if s.Snapshot().Maintenance.Level != LevelClosed {
		t.Error("still draining")
	}
}

func TestConformance_External_work_and_local_work_do_not_mix(t *testing.T) {
	s := newStage(t, Options{})
	local, forwarding := s.player(t).in(), s.player(t).in(func(r obj) { r["external"] = true })
	s.submit(t)
	outside := s.submitTo(t, s.problem(t, Package{External: true}).ID)
	_, err := s.AddTrial("standard-io@1", strings.NewReader("p"))
	must(t, err)
	forwarding.none()
	must(t, s.SetExternal(true))
	if got := forwarding.claim(); got.text("jobId") != outside.ID {
		t.Errorf("%s", got.raw)
	}
	forwarding.none()
	forwarding.want(204, "", forwarding.post("trials/claim", obj{}))
	local.claim()
	local.none()
	local.want(200, "", local.post("trials/claim", obj{}))
}

func TestConformance_Documents_reach_the_runner_whole_and_unmixed(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	problem := s.problem(t, Package{VersionProps: []byte(`{"v":1}`), Config: []byte(`{"c":[1,2]}`)})
	_, err := s.Submit(Submission{
		ProblemID: problem.ID, FileName: "a.py", Content: strings.NewReader("x"), Props: []byte(`{"type":"t"}`), Language: "python3",
	})
	must(t, err)
	a := p.claim()
	if got := dump([]any{a.m["config"], a.m["problemVersionProps"], a.m["props"]}); got != "[map[c:[1 2]] map[v:1] map[language:python3 type:t]]" {
		t.Error(got)
	}
	for _, bad := range []string{`[]`, `null`, `7`, `{`, `{"x":"` + strings.Repeat("y", 256<<10) + `"}`} {
		if _, err := s.Submit(Submission{ProblemID: problem.ID, FileName: "a", Content: strings.NewReader("x"), Props: []byte(bad)}); err == nil {
			t.Errorf("props %.20s were taken", bad)
		}
	}
}

func TestConformance_A_reports_refusals_come_in_their_order(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	j := s.submit(t)
	lease := p.claim().text("leaseToken")
	path := "jobs/" + j.ID + "/report"
	change := func(name string, v any) obj {
		r := report(lease)
		r[name] = v
		return r
	}
	p.want(404, "not_found", p.post("jobs/11111111-0000-0000-0000-000000000000/report", report(lease)))
	p.want(422, "runner.lease.malformed", p.post(path, change("leaseToken", "x")))
	p.want(403, "runner.lease.stale", p.post(path, change("leaseToken", "00000000-0000-0000-0000-000000000000")))
	p.want(422, "result.verdict.missing", p.post(path, change("verdict", " ")))
	p.want(422, "result.verdict.tooLong", p.post(path, change("verdict", strings.Repeat("x", 65))))
	p.want(422, "opaque.notAnObject", p.post(path, change("extra", []int{1})))
	p.want(422, "opaque.tooLarge", p.post(path, change("extra", obj{"x": strings.Repeat("y", 2048)})))
	p.want(400, "malformed_json", p.post(path, "{"))
	p.want(400, "malformed_json", p.post(path, change("score", "many")))
	p.want(200, "", p.post(path, change("extra", obj{"x": 1})))
}

func TestConformance_Tags_lead_work_to_the_pool_it_belongs_to(t *testing.T) {
	s := newStage(t, Options{})
	lab := s.player(t).in(func(r obj) { r["tags"] = []string{"lab-a"} })
	plain := s.player(t).in()
	j := s.submitTo(t, s.problem(t, Package{Tags: []string{"lab-b", "lab-a"}}).ID)
	plain.none()
	if got := lab.claim(); got.text("jobId") != j.ID {
		t.Errorf("%s", got.raw)
	}
	many := lab.registration()
	many["tags"] = strings.Split(strings.Repeat("x,", 17), ",")[:17]
	many["publicKey"] = s.player(t).key.PublicKey()
	lab.want(422, "runner.tags.count", lab.post("register", many))
	many["tags"] = []string{strings.Repeat("x", 65)}
	lab.want(422, "runner.tags.length", lab.post("register", many))
}

func TestConformance_What_is_outside_of_the_prefix_is_an_empty_404(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t)
	for _, path := range []string{"/", "/api", "/api/v2/health", "/favicon.ico"} {
		if a := p.do("GET", path, nil); a.status != 404 || len(a.raw) != 0 {
			t.Errorf("%s: %d %s", path, a.status, a.raw)
		}
	}
	for _, path := range []string{"/", "/nothing", "/runner/jobs"} {
		p.want(404, "not_found", p.do("GET", Prefix+path, nil))
	}
	p.want(404, "not_found", p.do("GET", Prefix+"/runner/jobs/claim", nil)) // another method
}

func TestATokenIsNeededKnownAndTwelveHoursOldAtMost(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	p.want(204, "", p.post("heartbeat", nil))
	good := p.token
	for _, token := range []string{"", "rubbish"} {
		p.token = token
		p.want(401, "unauthenticated", p.post("heartbeat", nil))
	}
	p.token = good
	a := p.do("POST", Prefix+"/runner/heartbeat", nil, "Authorization", "Basic "+good)
	p.want(401, "unauthenticated", a)
	s.Advance(12 * time.Hour)
	p.want(401, "unauthenticated", p.post("heartbeat", nil))
	p.shake()
	p.want(204, "", p.post("heartbeat", nil))
	ch := p.later(30)
	s.Restart()
	if a := soon(t, ch); a.status != -1 {
		t.Errorf("a held claim outlived a restart: %d", a.status)
	}
	p.want(401, "unauthenticated", p.post("heartbeat", nil))
}

func TestARegistrationWithoutWhatIsRequiredIsMalformed(t *testing.T) {
	p := newStage(t, Options{}).player(t)
	for _, missing := range []string{"name", "publicKey", "problemTypes"} {
		r := p.registration()
		delete(r, missing)
		if a := p.post("register", r); a.status != http.StatusBadRequest {
			t.Errorf("without %s: %d", missing, a.status)
		}
	}
}
