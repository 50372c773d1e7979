package protocol_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/identity"
	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/refserver"
)

// The tests in this file are the cases of spec/protocol.md 9.4, by their names: a client against a live Server.

func TestConformance_the_server_and_the_runner_name_the_key_the_same_way(t *testing.T) {
	r := newRig(t, refserver.Options{})
	got, err := r.client.Register(t.Context(), r.key, registration, nil)
	must(t, err)
	if got.Fingerprint != r.key.Fingerprint() || got.State != protocol.PendingApproval || got.RunnerID == "" {
		t.Errorf("registered as %+v", got)
	}
}

func TestConformance_registering_again_is_the_same_runner(t *testing.T) {
	r := newRig(t, refserver.Options{})
	first, err := r.client.Register(t.Context(), r.key, registration, nil)
	must(t, err)
	must(t, r.server.Approve(first.RunnerID))
	challenge, err := r.client.Challenge(t.Context(), r.key.Fingerprint())
	must(t, err)
	renamed := registration
	renamed.Name = "renamed"
	second, err := r.client.Register(t.Context(), r.key, renamed, &challenge)
	must(t, err)
	if second.RunnerID != first.RunnerID || second.State != protocol.Approved {
		t.Errorf("registered again as %+v, was %+v", second, first)
	}
	if name := r.server.Snapshot().Runners[0].Name; name != "renamed" {
		t.Errorf("the name is %q", name)
	}
}

func TestConformance_a_registered_but_unapproved_runner_is_refused_a_token(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		asked := 0
		o := protocol.AdmitOptions{Waiting: func(phase protocol.Phase, wait time.Duration, after error) {
			wantClass(t, after, protocol.NotApproved, protocol.CodeNotApproved)
			if protocol.Retryable(after) {
				t.Error("an unapproved Runner's refusal counts as retryable")
			}
			if phase != protocol.WaitingForApproval {
				t.Errorf("phase %v", phase)
			}
			if asked++; asked == 12 { // more than any bound: it must not give up
				must(t, r.server.Approve(string(r.key.Fingerprint())))
			}
		}}
		start := time.Now()
		registered, err := r.client.Admit(t.Context(), r.key, registration, o)
		must(t, err)
		if asked != 12 || registered.State != protocol.PendingApproval {
			t.Errorf("admitted after %d refusals as %+v", asked, registered)
		}
		// 1+2+4+8+16 and seven times 30 seconds, a fifth either way.
		if took := time.Since(start); took < 190*time.Second || took > 290*time.Second {
			t.Errorf("the refusals were not backed off: %v", took)
		}
		_, _, err = r.client.Claim(t.Context(), protocol.ClaimRequest{})
		must(t, err)
	})
}

func TestConformance_an_empty_queue_is_not_an_error(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	_, got, err := r.client.Claim(t.Context(), protocol.ClaimRequest{Lease: 600 * time.Second})
	if got || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	_, got, err = r.client.ClaimTrial(t.Context(), 600*time.Second)
	if got || err != nil {
		t.Errorf("trial: got %v, %v", got, err)
	}
}

func TestConformance_the_lease_deadline_comes_from_the_server_not_from_the_request(t *testing.T) {
	r := newRig(t, refserver.Options{Clock: refserver.NewFrozenClock(time.Date(2026, 9, 20, 10, 0, 0, 0, time.UTC))})
	r.admit(t)
	r.submit(t)
	job := r.claim(t)
	if job.LeaseExpires.Time.IsZero() || job.LeaseExpires.String() != "2026-09-20T10:10:00.0000000Z" {
		t.Fatalf("the deadline is %v", job.LeaseExpires)
	}
	shorter, err := r.client.Renew(t.Context(), job.Lease, time.Second)
	must(t, err)
	if shorter.Time.Before(job.LeaseExpires.Time) {
		t.Errorf("renewing for a second moved the deadline back to %v", shorter)
	}
	longer, err := r.client.Renew(t.Context(), job.Lease, time.Hour)
	must(t, err)
	if !longer.Time.After(job.LeaseExpires.Time) {
		t.Errorf("renewing for an hour left the deadline at %v", longer)
	}
}

func TestConformance_a_lease_that_is_not_held_is_refused(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	j := r.submit(t)
	nobody := protocol.Lease{ID: protocol.JobID(j.ID), Token: "00000000-0000-0000-0000-000000000000"}
	_, err := r.client.Report(t.Context(), nobody, accepted(t))
	wantClass(t, err, protocol.LeaseLost, protocol.CodeLeaseStale)
	if !protocol.WorkLost(err) || protocol.Retryable(err) {
		t.Error("a lost lease is not lost, or retryable")
	}
	unknown := protocol.Lease{ID: "11111111-0000-0000-0000-000000000000", Token: nobody.Token}
	_, err = r.client.Renew(t.Context(), unknown, time.Minute)
	wantClass(t, err, protocol.NotFound, protocol.CodeNotFound)
	if !protocol.WorkLost(err) {
		t.Error("a job the Server does not know is not lost (10.10)")
	}
}

func TestConformance_reporting_twice_answers_the_same_result_and_says_it_is_a_repeat(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	r.submit(t)
	job := r.claim(t)
	first, err := r.client.Report(t.Context(), job.Lease, accepted(t))
	must(t, err)
	second, err := r.client.Report(t.Context(), job.Lease, accepted(t))
	must(t, err)
	if first.Duplicate || !second.Duplicate || first.ResultID == "" || first.ResultID != second.ResultID {
		t.Errorf("first %+v, second %+v", first, second)
	}
}

func TestConformance_an_infrastructure_failure_carries_no_score(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	j := r.submit(t)
	failed := protocol.Failed{Reason: "the checker did not build"}.Report()
	for delivery := 1; delivery <= 5; delivery++ {
		got, err := r.client.Report(t.Context(), r.claim(t).Lease, failed)
		must(t, err)
		last := delivery == 5
		if got.Duplicate || (got.ResultID != "") != last || got.State != map[bool]string{false: "queued", true: "failed"}[last] {
			t.Errorf("delivery %d: %+v", delivery, got)
		}
	}
	end, _ := r.server.Job(j.ID)
	if end.Result == nil || end.Result.Score != nil || end.Result.MaxScore != nil || end.Result.Verdict != "" ||
		end.FailureReason != "the checker did not build" {
		t.Errorf("the job ended as %+v with %+v", end, end.Result)
	}
}

func TestConformance_a_runner_that_is_stopping_gives_the_job_back(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	r.submit(t)
	job := r.claim(t)
	must(t, r.client.Release(t.Context(), job.Lease))
	again := r.claim(t)
	if again.Lease.ID != job.Lease.ID || again.Lease.Token == job.Lease.Token {
		t.Error("not the same job, or the same lease")
	}
	_, err := r.client.Renew(t.Context(), job.Lease, time.Minute)
	wantClass(t, err, protocol.LeaseLost, protocol.CodeLeaseStale)
	must(t, r.client.Release(t.Context(), job.Lease)) // somebody else has it: just as good
}

func TestConformance_a_batch_of_leases_is_renewed_and_answers_per_job(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	r.submit(t)
	job := r.claim(t)
	unknown := protocol.Lease{ID: "11111111-0000-0000-0000-000000000000", Token: "22222222-0000-0000-0000-000000000000"}
	got, err := protocol.Batch(t.Context(), r.client, "runner/jobs/leases", job.Lease, unknown)
	must(t, err)
	if code, said := got[job.Lease.ID]; code != "" || !said || got[unknown.ID] != protocol.CodeNotFound || len(got) != 2 {
		t.Errorf("answers %+v", got)
	}
	none, err := protocol.Batch(t.Context(), r.client, "runner/jobs/leases")
	if err != nil || len(none) != 0 {
		t.Errorf("an empty batch: %v, %v", none, err)
	}
	_, err = protocol.Batch(t.Context(), r.client, "runner/jobs/leases", make([]protocol.Lease, 513)...)
	wantClass(t, err, protocol.Refused, protocol.CodeBatchSize)
}

func TestConformance_a_stopping_runner_gives_every_job_back_in_one_call(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	r.submit(t)
	job := r.claim(t)
	got, err := protocol.Batch(t.Context(), r.client, "runner/jobs/releases", job.Lease)
	must(t, err)
	if code, said := got[job.Lease.ID]; code != "" || !said {
		t.Errorf("answers %+v", got)
	}
	r.claim(t)
}

func TestConformance_a_log_attaches_before_the_report_and_not_after(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	j := r.submit(t)
	job := r.claim(t)
	log, err := r.client.Upload(t.Context(), protocol.BytesUpload(`a "log".txt`, "text/plain", []byte("warning\n")))
	must(t, err)
	must(t, r.client.Attach(t.Context(), job.Lease, log.ID, "log"))
	if got := r.server.Attachment(j.ID, "log"); string(got) != "warning\n" {
		t.Errorf("the log arrived as %q", got)
	}
	_, err = r.client.Report(t.Context(), job.Lease, accepted(t))
	must(t, err)
	late, err := r.client.Upload(t.Context(), protocol.BytesUpload("details.txt", "application/json", []byte("{}")))
	must(t, err)
	err = r.client.Attach(t.Context(), job.Lease, late.ID, "details")
	wantClass(t, err, protocol.LeaseLost, protocol.CodeLeaseStale)
}

func TestConformance_a_package_that_does_not_verify_is_refused(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	r.submit(t)
	job := r.claim(t)
	var b bytes.Buffer
	wrong := protocol.Wanted{ID: job.Package.ID, SHA256: strings.Repeat("0", 64), Max: protocol.PackageLimit, What: "the package"}
	_, err := r.client.Download(t.Context(), wrong, &b)
	wantClass(t, err, protocol.Checksum, "")
	if !strings.Contains(err.Error(), "the package") || !strings.Contains(err.Error(), job.Package.SHA256) ||
		!strings.Contains(err.Error(), wrong.SHA256) || protocol.Retryable(err) {
		t.Errorf("the error does not name what, expected and actual: %v", err)
	}
	b.Reset()
	right := protocol.Wanted{ID: job.Package.ID, SHA256: strings.ToUpper(job.Package.SHA256), Max: protocol.PackageLimit}
	n, err := r.client.Download(t.Context(), right, &b)
	if err != nil || n != 9 || b.String() != "a package" {
		t.Errorf("%d bytes %q, %v", n, b.String(), err)
	}
}

func TestConformance_a_heartbeat_is_accepted(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	must(t, r.client.Heartbeat(t.Context()))
}

func TestConformance_a_job_carries_everything_a_runner_reads(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	p, err := r.server.AddPackage(refserver.Package{
		Content: strings.NewReader("p"), VersionProps: []byte(`{"id":"x"}`), Config: []byte(`{"limits":{"timeMs":10}}`),
	})
	must(t, err)
	_, err = r.server.Submit(refserver.Submission{
		ProblemID: p.ID, FileName: "main.cpp", Content: strings.NewReader("int main(){}"), Language: "cpp17-gcc",
		Props: []byte(`{"type":"standard-io@1"}`),
	})
	must(t, err)
	job := r.claim(t)
	if string(job.Config) != `{"limits":{"timeMs":10}}` || string(job.ProblemVersionProps) != `{"id":"x"}` {
		t.Errorf("config %s, version props %s", job.Config, job.ProblemVersionProps)
	}
	if language, err := job.Language(); language != "cpp17-gcc" || err != nil {
		t.Errorf("language %q, %v", language, err)
	}
	source, err := job.Source()
	if err != nil || source.FileName != "main.cpp" || source.Size != 12 || job.Attempt != 1 {
		t.Errorf("source %+v, %v", source, err)
	}
}

func TestConformance_a_trial_is_measured_and_its_package_does_not_survive_it(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	added, err := r.server.AddTrial("standard-io@1", strings.NewReader("a package"))
	must(t, err)
	trial, got, err := r.client.ClaimTrial(t.Context(), 600*time.Second)
	if err != nil || !got || trial.Check() != nil {
		t.Fatalf("got %v, %v, %v", got, err, trial.Check())
	}
	wanted := protocol.Wanted{ID: trial.Package.ID, SHA256: trial.Package.SHA256, Max: protocol.PackageLimit}
	if _, err := r.client.Download(t.Context(), wanted, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	_, err = r.client.RenewTrial(t.Context(), trial.Lease, time.Hour)
	must(t, err)
	memory := protocol.SubmissionLimit
	report := protocol.TrialReport{Rows: []protocol.Measured{{Group: 1, Language: "cpp", TimeMs: 240, MemoryBytes: &memory}, {Group: 2, TimeMs: 1}}}
	first, err := r.client.ReportTrial(t.Context(), trial.Lease, report)
	must(t, err)
	second, err := r.client.ReportTrial(t.Context(), trial.Lease, report)
	must(t, err)
	if first.Duplicate || !second.Duplicate {
		t.Errorf("first %+v, second %+v", first, second)
	}
	end, _ := r.server.Trial(added.ID)
	const want = `{"measured":[{"group":1,"language":"cpp","timeMs":240,"memoryBytes":8388608},{"group":2,"timeMs":1}]}`
	if end.Measurement != want || end.State != refserver.Completed {
		t.Errorf("measured %s", end.Measurement)
	}
	_, err = r.client.Download(t.Context(), wanted, &bytes.Buffer{})
	wantClass(t, err, protocol.NotFound, protocol.CodeNotFound)
	if _, err := r.client.ReportTrial(t.Context(), trial.Lease, protocol.TrialReport{}); protocol.ClassOf(err) != protocol.Local {
		t.Errorf("an empty trial report: %v", err)
	}
}

func TestConformance_a_revoked_runner_is_told_so_at_registration(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	must(t, r.server.Revoke(string(r.key.Fingerprint())))
	_, _, err := r.client.Claim(t.Context(), protocol.ClaimRequest{})
	wantClass(t, err, protocol.NotApproved, protocol.CodeNotApproved)
	if !protocol.WorkLost(err) {
		t.Error("the work of a revoked Runner is not lost (10.7)")
	}
	_, err = r.client.Admit(t.Context(), r.key, registration, protocol.AdmitOptions{})
	wantClass(t, err, protocol.Revoked, protocol.CodeRevoked)
	var e *protocol.Error
	if !errors.As(err, &e) || e.Status != 409 {
		t.Errorf("status of %v", err)
	}
}

func TestConformance_a_signature_from_the_wrong_key_is_refused(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	other := newKey(t)
	// The nonce was issued to the rig's key; another key signs it for its own registration.
	challenge, err := r.client.Challenge(t.Context(), r.key.Fingerprint())
	must(t, err)
	_, err = r.client.Register(t.Context(), other, registration, nil)
	must(t, err)
	_, err = r.client.Register(t.Context(), other, registration, &challenge)
	wantClass(t, err, protocol.Refused, protocol.CodeNonceMismatch)
	// Spent by that.
	_, err = r.client.Register(t.Context(), r.key, registration, &challenge)
	wantClass(t, err, protocol.Refused, protocol.CodeNonceUnknown)
}

func TestConformance_a_key_the_server_names_otherwise_is_refused(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.fault(t, refserver.Fault{
		Path: "/runner/register", Kind: refserver.FaultStatus, Status: 200,
		Body: `{"runnerId":"x","fingerprint":"` + string(identity.FingerprintOf(nil)) + `","state":"approved"}`,
	})
	_, err := r.client.Admit(t.Context(), r.key, registration, protocol.AdmitOptions{})
	wantClass(t, err, protocol.Refused, "")
	if !strings.Contains(err.Error(), "changed on the way") {
		t.Error(err)
	}
}
