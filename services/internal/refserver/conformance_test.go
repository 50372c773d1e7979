package refserver

import (
	"strings"
	"testing"
	"time"
)

// The tests in this file are the cases of spec/protocol.md 9.1, by their names: what a Server must do.

func TestConformance_A_key_that_is_not_thirty_two_bytes_is_refused(t *testing.T) {
	p := newStage(t, Options{}).player(t)
	for key, code := range map[string]string{
		"dG9vLXNob3J0": "runner.key.length", "not base64 at all !!": "runner.key.malformed",
		"MCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=": "runner.key.length",
	} {
		r := p.registration()
		r["publicKey"] = key
		p.want(422, code, p.post("register", r))
	}
}

func TestConformance_A_registered_but_unapproved_runner_is_refused_a_token(t *testing.T) {
	p := newStage(t, Options{}).player(t)
	p.want(200, "", p.post("register", p.registration()))
	nonce := p.challenge()
	for _, signature := range []string{p.key.Sign(nonce), "rubbish"} { // approval is checked first
		p.want(403, "runner.notApproved", p.post("auth/token", obj{
			"fingerprint": p.key.Fingerprint(), "nonce": nonce, "signature": signature,
		}))
		nonce = p.challenge()
	}
}

func TestConformance_A_nonce_is_single_use(t *testing.T) {
	p := newStage(t, Options{}).player(t).in()
	nonce := p.challenge()
	body := obj{"fingerprint": p.key.Fingerprint(), "nonce": nonce, "signature": p.key.Sign(nonce)}
	p.want(200, "", p.post("auth/token", body))
	p.want(403, "runner.nonce.unknown", p.post("auth/token", body))
}

func TestConformance_A_nonce_lives_for_two_minutes(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	nonce := p.challenge()
	s.Advance(2 * time.Minute)
	p.want(403, "runner.nonce.expired", p.post("auth/token", obj{
		"fingerprint": p.key.Fingerprint(), "nonce": nonce, "signature": p.key.Sign(nonce),
	}))
}

func TestConformance_A_signature_from_the_wrong_key_is_refused(t *testing.T) {
	s := newStage(t, Options{})
	p, other := s.player(t).in(), s.player(t)
	nonce := p.challenge()
	p.want(403, "runner.signature", p.post("auth/token", obj{
		"fingerprint": p.key.Fingerprint(), "nonce": nonce, "signature": other.key.Sign(nonce),
	}))
	p.want(404, "not_found", other.post("auth/challenge", obj{"fingerprint": other.key.Fingerprint()}))
}

func TestConformance_An_empty_queue_answers_no_content(t *testing.T) {
	p := newStage(t, Options{}).player(t).in()
	p.none()
	p.want(204, "", p.post("trials/claim", obj{}))
}

func TestConformance_Reporting_twice_answers_the_same_result_and_says_it_is_a_repeat(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	s.submit(t)
	job := p.claim()
	first := p.want(200, "", p.post("jobs/"+job.text("jobId")+"/report", report(job.text("leaseToken"))))
	s.Advance(2 * time.Hour) // even after the lease expired
	second := p.want(200, "", p.post("jobs/"+job.text("jobId")+"/report", report(job.text("leaseToken"))))
	if first.m["duplicate"] != false || second.m["duplicate"] != true || first.text("resultId") == "" ||
		first.text("resultId") != second.text("resultId") || first.text("state") != "completed" {
		t.Errorf("%s then %s", first.raw, second.raw)
	}
}

func TestConformance_A_lease_that_expired_is_reclaimed_and_the_old_holder_is_refused(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	j := s.submit(t)
	job := p.claim()
	s.Advance(601 * time.Second)
	if now := s.job(t, j.ID); now.State != Queued || now.Holder != "" || now.Lease != "" {
		t.Errorf("%+v", now)
	}
	p.want(403, "runner.lease.stale", p.post("jobs/"+j.ID+"/report", report(job.text("leaseToken"))))
}

func TestConformance_Renewing_a_lease_never_shortens_it(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	j := s.submit(t)
	job := p.claim()
	got := p.want(200, "", p.post("jobs/"+j.ID+"/lease", obj{"leaseToken": job.text("leaseToken"), "leaseSeconds": 60}))
	if got.text("leaseExpiresAt") != job.text("leaseExpiresAt") {
		t.Errorf("%s became %s", job.text("leaseExpiresAt"), got.text("leaseExpiresAt"))
	}
	for asked, granted := range map[int]time.Duration{3600: time.Hour, 7200: time.Hour} {
		p.want(200, "", p.post("jobs/"+j.ID+"/lease", obj{"leaseToken": job.text("leaseToken"), "leaseSeconds": asked}))
		if until := s.job(t, j.ID).LeaseExpires; !until.Equal(began.Add(granted)) {
			t.Errorf("asked for %d s: until %v", asked, until)
		}
	}
}

func TestConformance_An_infrastructure_failure_is_queued_again_and_final_once_the_deliveries_run_out(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	j := s.submit(t)
	for n := 1; n <= 5; n++ {
		job := p.claim()
		body := obj{"leaseToken": job.text("leaseToken"), "infrastructureFailure": true, "failureReason": "broken", "score": nil}
		got := p.want(200, "", p.post("jobs/"+j.ID+"/report", body))
		now := s.job(t, j.ID)
		if n < 5 && (got.text("state") != "queued" || got.m["resultId"] != nil || now.Result != nil || now.Holder != "" ||
			now.FailureReason != "broken" || now.Deliveries != n) {
			t.Fatalf("delivery %d: %s, %+v", n, got.raw, now)
		}
		if n < 5 {
			p.want(403, "runner.lease.stale", p.post("jobs/"+j.ID+"/report", body)) // a resend after the requeue
			continue
		}
		if got.text("state") != "failed" || now.Result == nil || now.Result.Score != nil || now.Result.MaxScore != nil ||
			now.FailureReason != "broken" {
			t.Fatalf("the last: %s, %+v", got.raw, now)
		}
	}
	p.none()
}

func TestConformance_A_waiting_runner_is_handed_a_job_the_moment_one_exists(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	ch := p.later(30)
	j := s.submit(t)
	if a := soon(t, ch); a.status != 200 || a.text("jobId") != j.ID {
		t.Errorf("%d %s", a.status, a.raw)
	}
}

func TestConformance_A_waiting_runner_is_not_handed_a_type_it_did_not_declare(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	ch := p.later(5)
	j := s.submitTo(t, s.problem(t, Package{Type: "output-only@1"}).ID)
	held(t, ch)
	s.Advance(5 * time.Second)
	if a := soon(t, ch); a.status != 204 {
		t.Errorf("%d %s", a.status, a.raw)
	}
	capable := s.player(t).in(func(r obj) { r["problemTypes"] = []string{"x", "output-only@1"} })
	if got := capable.claim(); got.text("jobId") != j.ID {
		t.Errorf("%s", got.raw)
	}
}

func TestConformance_A_rejudge_supersedes_an_attempt_nobody_has_taken(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	old := s.submit(t)
	again, err := s.Rejudge(old.SubmissionID)
	must(t, err)
	if s.job(t, old.ID).State != Superseded || again.State != Queued || again.Attempt != 2 {
		t.Errorf("%+v, %+v", s.job(t, old.ID), again)
	}
	if got := p.claim(); got.text("jobId") != again.ID {
		t.Errorf("%s", got.raw)
	}
	p.none()
}

func TestConformance_A_rejudge_waits_behind_the_attempt_a_runner_is_judging(t *testing.T) {
	s := newStage(t, Options{})
	p, other := s.player(t).in(), s.player(t).in()
	old := s.submit(t)
	job := p.claim()
	again, err := s.Rejudge(old.SubmissionID)
	must(t, err)
	if s.job(t, old.ID).State != Running {
		t.Error("the running attempt was touched")
	}
	other.none()
	p.want(200, "", p.post("jobs/"+old.ID+"/report", report(job.text("leaseToken"))))
	if got := other.claim(); got.text("jobId") != again.ID {
		t.Errorf("%s", got.raw)
	}
}

func TestConformance_A_claim_the_runner_never_acknowledged_costs_no_delivery(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	j := s.submit(t)
	p.claim()
	s.Advance(601 * time.Second)
	if now := s.job(t, j.ID); now.State != Queued || now.Deliveries != 0 || now.Refunds != 1 {
		t.Errorf("%+v", now)
	}
}

func TestConformance_A_claim_that_was_acknowledged_still_costs_its_delivery(t *testing.T) {
	for _, call := range []string{"lease", "progress", "files"} {
		s := newStage(t, Options{})
		p := s.player(t).in()
		j := s.submit(t)
		lease := p.claim().text("leaseToken")
		a := p.post("jobs/"+j.ID+"/"+call, obj{"leaseToken": lease, "fileId": p.uploaded(), "name": "log"})
		if a.status > 204 {
			t.Fatalf("%s: %s", call, a.raw)
		}
		s.Advance(time.Hour)
		if now := s.job(t, j.ID); now.State != Queued || now.Deliveries != 1 {
			t.Errorf("%s: %+v", call, now)
		}
	}
}

func TestConformance_An_unsigned_re_registration_is_refused_and_the_queue_does_not_follow_it(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	r := p.registration()
	r["problemTypes"] = []string{"output-only@1"}
	p.want(403, "runner.nonce.unknown", p.post("register", r))
	s.submit(t)
	p.claim() // the old types are still in force
}

func TestConformance_A_signed_re_registration_changes_what_the_queue_hands_over(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in(func(r obj) { r["tags"] = []string{"default"} })
	s.submit(t)
	r := p.registration()
	r["problemTypes"], r["tags"] = []string{"output-only@1"}, []string{"elsewhere"}
	got := p.want(200, "", p.post("register", p.signed(r)))
	if got.text("runnerId") != p.id || got.text("state") != "approved" {
		t.Errorf("%s", got.raw)
	}
	p.none()
	j := s.submitTo(t, s.problem(t, Package{Type: "output-only@1"}).ID)
	if got := p.claim(); got.text("jobId") != j.ID { // tags are read at the first registration only
		t.Errorf("%s", got.raw)
	}
}

func TestConformance_A_nonce_issued_to_another_key_is_refused(t *testing.T) {
	s := newStage(t, Options{})
	p, other := s.player(t).in(), s.player(t).in()
	r := p.registration()
	nonce := other.challenge()
	r["nonce"], r["signature"] = nonce, p.key.Sign(nonce)
	p.want(403, "runner.nonce.mismatch", p.post("register", r))
}

func TestConformance_A_runner_is_told_nothing_about_a_job_it_never_held(t *testing.T) {
	s := newStage(t, Options{})
	p, stranger := s.player(t).in(), s.player(t).in()
	j := s.submit(t)
	lease := p.claim().text("leaseToken")
	stranger.want(403, "runner.lease.foreign", stranger.post("jobs/"+j.ID+"/report", report(lease)))
	p.want(200, "", p.post("jobs/"+j.ID+"/report", report(lease)))
	a := stranger.want(403, "runner.lease.stale", stranger.post("jobs/"+j.ID+"/report", report(lease)))
	if strings.Contains(string(a.raw), "resultId") || strings.Contains(string(a.raw), "duplicate") {
		t.Errorf("%s", a.raw)
	}
	if a := p.post("jobs/"+j.ID+"/report", report(lease)); a.m["duplicate"] != true {
		t.Errorf("%s", a.raw)
	}
}

func TestConformance_An_undone_handout_is_refunded_three_times_and_then_charged(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	j := s.submit(t)
	for range 5 {
		p.claim()
		s.Advance(601 * time.Second)
	}
	if now := s.job(t, j.ID); now.Refunds != 3 || now.Deliveries != 2 {
		t.Errorf("%+v", now)
	}
}

func TestConformance_One_submission_reaches_exactly_one_of_two_identical_runners(t *testing.T) {
	s := newStage(t, Options{})
	one, two := s.player(t).in().later(20), s.player(t).in().later(20)
	s.submit(t)
	eventually(t, "one of them is answered", func() bool { return len(one)+len(two) == 1 })
	s.Advance(20 * time.Second)
	a, b := soon(t, one), soon(t, two)
	if a.status+b.status != 404 || a.status == b.status {
		t.Errorf("answered %d and %d", a.status, b.status)
	}
}

func TestConformance_What_ends_a_held_claim(t *testing.T) {
	for name, c := range map[string]struct {
		tags []string
		wake func(t *testing.T, s *stage, first *player, lease string, waiting *player)
	}{
		"A_rejudge_of_one_submission": {nil, func(t *testing.T, s *stage, first *player, lease string, _ *player) {
			j := s.Snapshot().Jobs[0]
			first.want(200, "", first.post("jobs/"+j.ID+"/report", report(lease)))
			_, err := s.Rejudge(j.SubmissionID)
			must(t, err)
		}},
		"Reopening_after_a_drain": {nil, func(t *testing.T, s *stage, first *player, lease string, _ *player) {
			must(t, s.SetMaintenance(LevelDraining, ""))
			first.want(204, "", first.post("jobs/"+s.Snapshot().Jobs[0].ID+"/release", obj{"leaseToken": lease}))
			must(t, s.SetMaintenance(LevelOpen, ""))
		}},
		"Retagging_a_runner_into_a_pool": {[]string{"other"}, func(t *testing.T, s *stage, first *player, lease string, waiting *player) {
			first.want(204, "", first.post("jobs/"+s.Snapshot().Jobs[0].ID+"/release", obj{"leaseToken": lease}))
			must(t, s.SetTags(waiting.id, []string{"other", "default"}))
		}},
		"A_batch_release": {nil, func(t *testing.T, s *stage, first *player, lease string, _ *player) {
			first.want(200, "", first.post("jobs/releases", obj{"jobs": []obj{{"jobId": s.Snapshot().Jobs[0].ID, "leaseToken": lease}}}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, Options{})
			first := s.player(t).in()
			s.submit(t)
			lease := first.claim().text("leaseToken")
			waiting := s.player(t).in(func(r obj) { r["tags"] = c.tags })
			ch := waiting.later(20)
			c.wake(t, s, first, lease, waiting)
			if a := soon(t, ch); a.status != 200 {
				t.Errorf("%d %s", a.status, a.raw)
			}
		})
	}
}

func TestConformance_A_claim_held_across_a_drain_hands_out_nothing(t *testing.T) {
	s := newStage(t, Options{})
	p, other := s.player(t).in(), s.player(t).in()
	s.submit(t)
	lease := p.claim().text("leaseToken")
	ch := other.later(20)
	must(t, s.SetMaintenance(LevelDraining, "backup"))
	p.want(204, "", p.post("jobs/"+s.Snapshot().Jobs[0].ID+"/release", obj{"leaseToken": lease}))
	held(t, ch)
	p.none() // a claim of a draining Server is answered at once
	s.Advance(20 * time.Second)
	if a := soon(t, ch); a.status != 204 {
		t.Errorf("%d %s", a.status, a.raw)
	}
}

func TestConformance_A_waiting_runner_is_told_nothing_matched_when_the_wait_runs_out(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	ch := p.later(2)
	s.Advance(1999 * time.Millisecond)
	held(t, ch)
	s.Advance(time.Millisecond)
	if a := soon(t, ch); a.status != 204 {
		t.Errorf("%d %s", a.status, a.raw)
	}
	for _, wait := range []int{0, -5} {
		p.want(204, "", p.post("jobs/claim", obj{"waitSeconds": wait}))
	}
	ch = p.later(100_000)
	s.Advance(300 * time.Second) // the ceiling of a wait
	if a := soon(t, ch); a.status != 204 {
		t.Errorf("%d %s", a.status, a.raw)
	}
}

func TestConformance_A_hold_is_shortened_by_at_most_a_sixteenth(t *testing.T) {
	s := newStage(t, Options{Draw: func(n int64) int64 { return n - 1 }})
	ch := s.player(t).in().later(16)
	s.Advance(15*time.Second - time.Millisecond)
	held(t, ch)
	s.Advance(time.Millisecond)
	soon(t, ch)
}

func TestConformance_A_released_job_is_queued_again_at_once_and_costs_no_delivery(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	j := s.submit(t)
	for round := 1; round <= 4; round++ {
		lease := p.claim().text("leaseToken")
		if round%2 == 0 {
			a := p.want(200, "", p.post("jobs/releases", obj{"jobs": []obj{{"jobId": j.ID, "leaseToken": lease}}}))
			if strings.Contains(string(a.raw), "code") {
				t.Errorf("%s", a.raw)
			}
		} else {
			p.want(204, "", p.post("jobs/"+j.ID+"/release", obj{"leaseToken": lease}))
		}
		now := s.job(t, j.ID)
		releases, deliveries := min(round, 3), max(0, round-3)
		if now.State != Queued || now.Lease != "" || now.Holder != "" || now.Releases != releases || now.Deliveries != deliveries {
			t.Errorf("round %d: %+v", round, now)
		}
		p.want(403, "runner.lease.stale", p.post("jobs/"+j.ID+"/release", obj{"leaseToken": lease}))
	}
}

func TestConformance_A_batch_release_queues_every_job_at_once_and_costs_no_delivery(t *testing.T) {
	s := newStage(t, Options{})
	p := s.player(t).in()
	var jobs []obj
	for range 3 {
		s.submit(t)
		a := p.claim()
		jobs = append(jobs, obj{"jobId": a.text("jobId"), "leaseToken": a.text("leaseToken")})
	}
	a := p.want(200, "", p.post("jobs/releases", obj{"jobs": jobs}))
	if results := a.m["results"].([]any); len(results) != 3 || strings.Contains(string(a.raw), "code") {
		t.Errorf("%s", a.raw)
	}
	for _, j := range s.Snapshot().Jobs {
		if j.State != Queued || j.Deliveries != 0 || j.Releases != 1 {
			t.Errorf("%+v", j)
		}
	}
}

func TestConformance_A_runner_marking_out_of_one_is_not_read_as_a_hundredth(t *testing.T) {
	for _, c := range []struct {
		points            *float64
		score, of         float64
		wantScore, wantOf float64
	}{
		{ptr(50), 1, 1, 50, 50}, {ptr(50), 80, 100, 40, 50}, {nil, 70, 140, 70, 140}, {ptr(50), 0, 100, 0, 50},
	} {
		s := newStage(t, Options{})
		p := s.player(t).in()
		sub := BytesSubmission(s.problem(t, Package{}).ID, "main.py", "python3", nil)
		sub.MaxPoints = c.points
		j, err := s.Submit(sub)
		must(t, err)
		body := report(p.claim().text("leaseToken"))
		body["score"], body["maxScore"] = c.score, c.of
		p.want(200, "", p.post("jobs/"+j.ID+"/report", body))
		r := s.job(t, j.ID).Result
		if *r.Score != c.wantScore || *r.MaxScore != c.wantOf || r.Solved() != (c.wantScore == c.wantOf) {
			t.Errorf("%+v: %v of %v", c, *r.Score, *r.MaxScore)
		}
	}
}

func ptr(v float64) *float64 { return &v }
