package protocol_test

import (
	"context"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/refserver"
)

// The tests in this file script scenarios of spec/protocol.md section 11 that a client alone can show.

func TestScenario_an_answer_computed_before_the_server_closed_is_delivered_after_it_reopened(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		r.admit(t)
		j := r.submit(t)
		job := r.claim(t)
		must(t, r.server.SetMaintenance(refserver.LevelClosed, "backup"))
		time.AfterFunc(5*time.Minute, func() { _ = r.server.SetMaintenance(refserver.LevelOpen, "") })
		start := time.Now()
		err := protocol.Resend(t.Context(), protocol.GrantedLease(0), func(ctx context.Context) error {
			_, err := r.client.Report(ctx, job.Lease, accepted(t))
			return err
		})
		must(t, err)
		if took := time.Since(start); took < 5*time.Minute || took > 6*time.Minute {
			t.Errorf("delivered after %v", took)
		}
		if end, _ := r.server.Job(j.ID); end.Result == nil || end.Result.Verdict != "Accepted" {
			t.Errorf("%+v", end)
		}
	})
}

func TestScenario_a_report_whose_answer_is_lost_is_stored_once(t *testing.T) {
	for _, kind := range []refserver.FaultKind{
		refserver.FaultDropAfter, refserver.FaultDropBefore, refserver.FaultCut, refserver.FaultStall,
	} {
		inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
			r.admit(t)
			j := r.submit(t)
			job := r.claim(t)
			r.fault(t, refserver.Fault{Path: "/runner/jobs/*/report", Kind: kind, Bytes: 5, Times: 3})
			var got protocol.Reported
			err := protocol.Resend(t.Context(), protocol.GrantedLease(0), func(ctx context.Context) (err error) {
				got, err = r.client.Report(ctx, job.Lease, accepted(t))
				return err
			})
			must(t, err)
			end, _ := r.server.Job(j.ID)
			if end.Result == nil || end.Result.ID != got.ResultID || got.Duplicate != (kind != refserver.FaultDropBefore) {
				t.Errorf("%s: %+v, stored %+v", kind, got, end.Result)
			}
		})
	}
}

func TestScenario_a_claim_whose_answer_is_lost_returns_by_its_lease_and_costs_nothing(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		r.admit(t)
		j := r.submit(t)
		r.fault(t, refserver.Fault{Path: "/runner/jobs/claim", Kind: refserver.FaultDropAfter, Times: 1})
		_, _, err := r.client.Claim(t.Context(), protocol.ClaimRequest{Lease: time.Minute})
		wantClass(t, err, protocol.Unreachable, "")
		if lost, _ := r.server.Job(j.ID); lost.State != refserver.Running {
			t.Fatalf("%+v", lost)
		}
		time.Sleep(time.Minute)
		again := r.claim(t)
		end, _ := r.server.Job(j.ID)
		if string(again.Lease.ID) != j.ID || end.Deliveries != 1 || end.Refunds != 1 {
			t.Errorf("%+v", end)
		}
	})
}

func TestScenario_Retry_After_0_does_not_spin_and_Retry_After_5_is_honoured(t *testing.T) {
	for header, least := range map[string]time.Duration{"0": 800 * time.Millisecond, "5": 5 * time.Second, "soon": 800 * time.Millisecond} {
		inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
			r.admit(t)
			r.fault(t, refserver.Fault{Path: "/runner/jobs/claim", Kind: refserver.FaultStatus, Status: 503, RetryAfter: header})
			_, _, err := r.client.Claim(t.Context(), protocol.ClaimRequest{})
			wantClass(t, err, protocol.Unavailable, "")
			start := time.Now()
			must(t, r.client.WaitOut(t.Context(), err, protocol.AdmitOptions{}))
			if took := time.Since(start); took < least || took > least+time.Second {
				t.Errorf("Retry-After %s: waited %v", header, took)
			}
		})
	}
}

func TestScenario_a_renewed_lease_outlives_the_deadline_it_was_granted(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		r.admit(t)
		r.submit(t)
		job, got, err := r.client.Claim(t.Context(), protocol.ClaimRequest{Lease: time.Minute})
		if !got || err != nil {
			t.Fatal(got, err)
		}
		granted := protocol.GrantedLease(time.Minute)
		for range 8 { // two minutes
			time.Sleep(protocol.RenewEvery(granted))
			r.server.Sweep()
			_, err := r.client.Renew(t.Context(), job.Lease, time.Minute)
			must(t, err)
		}
		must(t, protocol.Progress(t.Context(), r.client, job.Lease))
		time.Sleep(granted)
		r.server.Sweep()
		_, err = r.client.Renew(t.Context(), job.Lease, time.Minute)
		wantClass(t, err, protocol.LeaseLost, protocol.CodeLeaseStale)
	})
}

func TestScenario_an_older_server_without_the_newer_calls_is_no_trouble(t *testing.T) {
	// Section 10.2: release answers 404 there, a held claim answers at once, trials may be missing.
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		r.admit(t)
		r.submit(t)
		for _, path := range []string{"/runner/jobs/*/release", "/runner/trials/claim"} {
			r.fault(t, refserver.Fault{Path: path, Kind: refserver.FaultStatus, Status: 404, Code: "not_found"})
		}
		r.fault(t, refserver.Fault{Path: "/runner/jobs/claim", Kind: refserver.FaultIgnoreWait})
		job := r.claim(t)
		wantClass(t, r.client.Release(t.Context(), job.Lease), protocol.NotFound, protocol.CodeNotFound)
		_, _, err := r.client.ClaimTrial(t.Context(), 0)
		wantClass(t, err, protocol.NotFound, protocol.CodeNotFound)
		start := time.Now()
		_, got, err := r.client.Claim(t.Context(), protocol.ClaimRequest{Wait: 25 * time.Second})
		if got || err != nil || time.Since(start) != 0 {
			t.Errorf("got %v, %v after %v", got, err, time.Since(start))
		}
	})
}

func TestScenario_every_answer_may_carry_nulls_and_members_nobody_knows(t *testing.T) {
	for _, kind := range []refserver.FaultKind{refserver.FaultNulls, refserver.FaultUnknown} {
		inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
			for _, path := range []string{"/*", "/*/*", "/*/*/*", "/*/*/*/*"} {
				r.fault(t, refserver.Fault{Path: path, Kind: kind})
			}
			r.admit(t)
			r.submit(t)
			job := r.claim(t)
			_, err := r.client.Renew(t.Context(), job.Lease, 0)
			must(t, err)
			_, err = r.client.Report(t.Context(), job.Lease, protocol.Failed{Reason: "x"}.Report())
			must(t, err)
			if h, err := r.client.Health(t.Context()); err != nil || !h.Open() {
				t.Errorf("%+v, %v", h, err)
			}
		})
	}
}
