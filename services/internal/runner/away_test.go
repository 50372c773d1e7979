package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/refserver"
	"github.com/evalhost/evalhost/services/internal/runner"
)

// fetching is a judge that downloads its package, judges for a while and answers.
func (p *play) fetching(d time.Duration) func(context.Context, protocol.Job, func(runner.Step)) (runner.Answer, error) {
	return func(ctx context.Context, job protocol.Job, step func(runner.Step)) (runner.Answer, error) {
		step(runner.Step{Doing: "downloading", AtMost: time.Hour})
		var b bytes.Buffer
		_, err := p.client.Download(ctx, protocol.Wanted{
			ID: job.Package.ID, SHA256: job.Package.SHA256, Max: protocol.PackageLimit, What: "the package",
		}, &b)
		if err != nil {
			if protocol.Retryable(err) {
				return runner.Answer{}, &runner.Away{Err: err}
			}
			return runner.Answer{}, &runner.Failure{Kind: runner.BadDownload, Err: err}
		}
		return takes(d)(ctx, job, step)
	}
}

// runFetching runs a Runner whose judge downloads.
func (r *rig) runFetching(d time.Duration, change ...func(*runner.Options)) *play {
	e := &evaluator{}
	p := r.newPlay(e, change...)
	e.judge = p.fetching(d)
	p.start()
	r.approve(p)
	return p
}

// Every call of a job's life, and everything that a Server, a proxy or a network can do to it: the job is judged in the end,
// once, by the same process.
func TestWhateverHappensToACallTheJobIsJudgedOnce(t *testing.T) {
	paths := map[string]string{
		"claim": "/runner/jobs/claim", "download": "/runner/files/*", "renew": "/runner/jobs/*/lease", "upload": "/runner/files",
		"attach": "/runner/jobs/*/files", "report": "/runner/jobs/*/report", "challenge": "/runner/auth/challenge", "token": "/runner/auth/token",
		"register": "/runner/register",
	}
	troubles := map[string]refserver.Fault{
		"500":                      {Kind: refserver.FaultStatus, Status: 500},
		"502":                      {Kind: refserver.FaultStatus, Status: 502},
		"503":                      {Kind: refserver.FaultStatus, Status: 503},
		"503 with Retry-After":     {Kind: refserver.FaultStatus, Status: 503, RetryAfter: "5"},
		"504":                      {Kind: refserver.FaultStatus, Status: 504},
		"429":                      {Kind: refserver.FaultStatus, Status: 429, RetryAfter: "2"},
		"a proxy's page":           {Kind: refserver.FaultHTML, Status: 502},
		"a page that says 200":     {Kind: refserver.FaultHTML},
		"an answer that is lost":   {Kind: refserver.FaultDropAfter},
		"a call that is lost":      {Kind: refserver.FaultDropBefore},
		"an answer that is cut":    {Kind: refserver.FaultCut, Bytes: 5},
		"an answer that is short":  {Kind: refserver.FaultTruncate, Bytes: 5},
		"an answer that is harmed": {Kind: refserver.FaultCorrupt, Bytes: 0},
		"silence":                  {Kind: refserver.FaultHold},
		"an answer that drips":     {Kind: refserver.FaultTrickle, Seconds: 50},
		"an answer of other types": {Kind: refserver.FaultStatus, Status: 200, Body: `{"jobId":7,"leaseToken":[],"nonce":{},"token":1,"id":false,"state":{},"duplicate":"x"}`},
		"an answer without end":    {Kind: refserver.FaultStatus, Status: 200, Body: `{"jobId":"` + strings.Repeat("7", 8<<20) + `"}`},
	}
	for stage, path := range paths {
		for name, trouble := range troubles {
			t.Run(stage+"/"+name, func(t *testing.T) {
				t.Parallel()
				inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
					e := &evaluator{}
					p := r.newPlay(e)
					e.judge = p.fetching(3 * time.Minute)
					trouble.Path, trouble.Times = path, 2
					switch stage {
					case "download":
						trouble.Method = "GET"
					case "upload":
						trouble.Method = "POST"
					}
					if stage != "register" {
						p.start()
						time.Sleep(time.Second)
					}
					began := time.Now()
					id := r.fault(trouble)
					switch stage {
					case "register":
						p.start()
					case "challenge", "token":
						r.Restart() // so that a handshake is needed
					}
					j := r.submit()
					time.Sleep(20 * time.Minute)
					if f := r.Faults()[0]; f.Hits == 0 {
						t.Error("nothing went wrong, so this shows nothing")
					}
					r.ClearFault(id)
					got := r.accepted(j.ID, time.Hour)
					if got.Deliveries > 4 {
						t.Errorf("it took %d deliveries", got.Deliveries)
					}
					p.stops()
					want := runner.Reported
					if stage == "report" && name == "an answer that drips" {
						// The Server took the report, and a renewal learned before its answer was here that the work is over: whoever
						// is told so says nothing more, not even what it has said already.
						want = runner.Lost
					}
					if n := len(slices.DeleteFunc(p.endings(), func(e runner.Ending) bool { return e != want })); n != 1 {
						t.Errorf("ended as %v", p.endings())
					}
					if silent := p.silences(began, 11*time.Second); silent != nil {
						t.Errorf("the watchdog was not fed: %v", silent)
					}
				})
			})
		}
	}
}

// A Server that is gone altogether, for two minutes, at every stage.
func TestAServerThatIsGoneForTwoMinutesCostsNoJob(t *testing.T) {
	for _, at := range []time.Duration{0, time.Second, 90 * time.Second, 179 * time.Second, 180*time.Second + time.Millisecond} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
				p := r.runFetching(3 * time.Minute)
				j := r.submit()
				time.Sleep(at)
				r.away(2 * time.Minute)
				got := r.accepted(j.ID, 20*time.Minute)
				p.stops()
				if n := len(p.endings()); n > 2 || p.endings()[n-1] != runner.Reported {
					t.Errorf("ended as %v", p.endings())
				}
				if at > time.Minute && len(got.Attachments) != 2 {
					t.Errorf("the attachments did not survive: %+v", got.Attachments)
				}
			})
		})
	}
}

// away refuses every connection for a while.
func (r *rig) away(d time.Duration) {
	id := r.fault(refserver.Fault{Path: "/*", Kind: refserver.FaultDropBefore})
	ids := []string{id}
	for _, path := range []string{"/*/*", "/*/*/*", "/*/*/*/*"} {
		ids = append(ids, r.fault(refserver.Fault{Path: path, Kind: refserver.FaultDropBefore}))
	}
	time.Sleep(d)
	for _, id := range ids {
		r.ClearFault(id)
	}
}

func TestScenario_a_token_forgotten_in_the_middle_of_a_job(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.runFetching(10 * time.Minute)
		j := r.submit()
		for range 5 {
			time.Sleep(2 * time.Minute)
			r.Restart()
		}
		got := r.accepted(j.ID, 5*time.Minute)
		if got.Deliveries != 1 || len(got.Attachments) != 2 {
			t.Errorf("%+v", got)
		}
		p.stops()
	})
}

func TestScenario_a_drain_before_the_package_was_downloaded(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.runFetching(time.Minute)
		r.fault(refserver.Fault{Method: "GET", Path: "/runner/files/*", Kind: refserver.FaultStatus, Status: 503, Code: "server.maintenance", RetryAfter: "60", Times: 1})
		j := r.submit()
		time.Sleep(2 * time.Second)
		must(t, r.SetMaintenance(refserver.LevelClosed, "backup"))
		time.Sleep(5 * time.Minute)
		if len(r.calls("/report")) != 0 || !slices.Equal(p.endings(), []runner.Ending{runner.Abandoned}) {
			t.Errorf("ended as %v", p.endings())
		}
		must(t, r.SetMaintenance(refserver.LevelOpen, ""))
		r.accepted(j.ID, 15*time.Minute)
		if !p.said("the Server is in maintenance", "backup") {
			t.Error("the reason of the maintenance was not said")
		}
	})
}

// The answer and its files wait for the Server to open again.
func TestScenario_closed_in_the_middle_of_a_report(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.runFetching(time.Minute)
		j := r.submit()
		time.Sleep(59 * time.Second)
		must(t, r.SetMaintenance(refserver.LevelClosed, ""))
		time.Sleep(3 * time.Minute)
		must(t, r.SetMaintenance(refserver.LevelOpen, ""))
		got := r.accepted(j.ID, time.Minute)
		if got.Deliveries != 1 || len(got.Attachments) != 2 {
			t.Errorf("%+v", got)
		}
		p.stops()
		if !slices.Equal(p.endings(), []runner.Ending{runner.Reported}) {
			t.Errorf("ended as %v", p.endings())
		}
	})
}

// A participant's submission survives a window: the drain waits for the job, and the same process judges afterwards (9.5).
func TestScenario_a_window_does_not_cost_a_participant_their_submission(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		r.runFetching(2 * time.Minute)
		j := r.submit()
		time.Sleep(time.Minute)
		must(t, r.SetMaintenance(refserver.LevelDraining, "an update"))
		r.eventually("the Server is closed", 10*time.Minute, func() bool {
			return r.Snapshot().Maintenance.Level == refserver.LevelClosed
		})
		if got := r.job(j.ID); got.State != refserver.Completed {
			t.Errorf("closed over a job that is %s", got.State)
		}
		time.Sleep(10 * time.Minute)
		must(t, r.SetMaintenance(refserver.LevelOpen, ""))
		r.accepted(r.submit().ID, 5*time.Minute)
	})
}

func TestScenario_Retry_After_is_heeded_and_does_not_spin(t *testing.T) {
	for _, c := range []struct {
		after    string
		min, max int // claims in ten minutes
	}{{"0", 18, 40}, {"60", 8, 12}} {
		inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
			r.run(&evaluator{})
			r.fault(refserver.Fault{Path: "/runner/jobs/claim", Kind: refserver.FaultStatus, Status: 503, RetryAfter: c.after})
			time.Sleep(time.Minute)
			before := len(r.calls("jobs/claim"))
			time.Sleep(10 * time.Minute)
			if n := len(r.calls("jobs/claim")) - before; n < c.min || n > c.max {
				t.Errorf("Retry-After %s: %d claims in ten minutes", c.after, n)
			}
		})
	}
}

// A lease that is lost ends the judging at the next renewal, and nothing is reported, whatever lost it.
func TestScenario_a_lease_lost_while_judging(t *testing.T) {
	for name, lose := range map[string]func(*rig, refserver.Job){
		"canceled":        func(r *rig, j refserver.Job) { must(r.t, r.Cancel(j.ID)) },
		"expired":         func(r *rig, _ refserver.Job) { r.Advance(time.Hour); r.Sweep() },
		"job.state":       func(r *rig, _ refserver.Job) { r.refuseRenewal(409, "job.state") },
		"foreign":         func(r *rig, _ refserver.Job) { r.refuseRenewal(403, "runner.lease.foreign") },
		"unknown (10.10)": func(r *rig, _ refserver.Job) { r.refuseRenewal(404, "not_found") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
				ended := make(chan time.Time, 1)
				e := &evaluator{}
				e.judge = func(ctx context.Context, job protocol.Job, step func(runner.Step)) (runner.Answer, error) {
					if e.times() > 1 {
						return accepted(), nil
					}
					step(runner.Step{Doing: "judging", AtMost: time.Hour})
					<-ctx.Done()
					ended <- time.Now()
					return accepted(), nil // even a good answer is dropped
				}
				p := r.run(e)
				j := r.submit()
				time.Sleep(10 * time.Second)
				began := time.Now()
				lose(r, j)
				select {
				case at := <-ended:
					if took := at.Sub(began); took > 151*time.Second {
						t.Errorf("judging ended %v after the lease was lost", took)
					}
				case <-time.After(time.Hour):
					t.Fatal("judging goes on an hour after the lease was lost")
				}
				time.Sleep(time.Second)
				if got := p.endings(); len(got) == 0 || got[0] != runner.Lost {
					t.Errorf("ended as %v", got)
				}
				for _, c := range r.calls("/report") {
					if c.At.Sub(began) < 0 || name == "canceled" {
						t.Errorf("something was reported: %+v", c)
					}
				}
			})
		})
	}
}

func (r *rig) refuseRenewal(status int, code string) {
	r.fault(refserver.Fault{Path: "/runner/jobs/*/lease", Kind: refserver.FaultStatus, Status: status, Code: code, Times: 1})
}

// Renewals that fail for a while lose nothing: two in a row are survivable (4.5).
func TestTwoRenewalsThatFailAreSurvived(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.run(&evaluator{judge: takes(20 * time.Minute)})
		r.fault(refserver.Fault{Path: "/runner/jobs/*/lease", Kind: refserver.FaultStatus, Status: 503, Times: 2})
		j := r.submit()
		got := r.accepted(j.ID, 30*time.Minute)
		if got.Deliveries != 1 {
			t.Errorf("%d deliveries", got.Deliveries)
		}
		missed := slices.DeleteFunc(slices.Clone(p.renewals), func(r runner.Renewal) bool { return r != runner.RenewalMissed })
		if len(missed) != 2 || len(p.renewals) < 7 {
			t.Errorf("renewals %v", p.renewals)
		}
	})
}

// 600 s are renewed every 150 s, 60 s every 15 s, for as long as judging lasts.
func TestALeaseIsRenewedEveryQuarter(t *testing.T) {
	for lease, every := range map[time.Duration]time.Duration{
		600 * time.Second: 150 * time.Second, 60 * time.Second: 15 * time.Second, 0: 150 * time.Second, 2 * time.Hour: 15 * time.Minute,
	} {
		inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
			r.run(&evaluator{judge: takes(5 * every / 2)}, func(o *runner.Options) { o.Lease = lease })
			j := r.accepted(r.submit().ID, time.Hour)
			if n := len(r.calls("/lease")); n != 2 || j.Deliveries != 1 {
				t.Errorf("a lease of %v: %d renewals in two and a half times %v", lease, n, every)
			}
		})
	}
}

// An answer is carried for as long as the lease lasts and no longer; afterwards the job is judged again.
func TestAnAnswerNobodyTakesIsCarriedNoLongerThanTheLease(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.run(&evaluator{})
		id := r.fault(refserver.Fault{Path: "/runner/jobs/*/report", Kind: refserver.FaultStatus, Status: 503})
		j := r.submit()
		r.eventually("the answer is given up", 11*time.Minute, func() bool { return p.endings() != nil })
		if got := p.endings(); got[0] != runner.Undelivered {
			t.Errorf("ended as %v", got)
		}
		r.ClearFault(id)
		r.accepted(j.ID, 15*time.Minute)
	})
}

// What the Server refuses for good is not sent again, and an attachment never stands in the answer's way.
func TestScenario_uploads_are_refused(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		r.fault(refserver.Fault{Method: "POST", Path: "/runner/files", Kind: refserver.FaultStatus, Status: 413, Code: "payload_too_large"})
		p := r.run(&evaluator{})
		j := r.accepted(r.submit().ID, time.Minute)
		if len(j.Attachments) != 0 || len(r.calls("/runner/files")) != 2 || !p.said("could not be attached", "file=details") {
			t.Errorf("%+v, %d uploads", j, len(r.calls("/runner/files")))
		}
	})
}

// An attachment whose answers are lost is attached once.
func TestALostAnswerToAnAttachmentAttachesItOnce(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		r.fault(refserver.Fault{Path: "/runner/jobs/*/files", Kind: refserver.FaultDropAfter, Times: 2})
		p := r.run(&evaluator{})
		j := r.accepted(r.submit().ID, 5*time.Minute)
		if len(j.Attachments) != 2 || p.said("could not be attached") || p.said(stands) {
			t.Errorf("%+v", j.Attachments)
		}
		uploads := slices.DeleteFunc(r.calls("/runner/files"), func(c refserver.Call) bool { return c.Method != "POST" })
		if len(uploads) != 2 {
			t.Errorf("two files were uploaded %d times", len(uploads))
		}
	})
}

func TestABlankLogIsNotAttached(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.run(&evaluator{judge: func(context.Context, protocol.Job, func(runner.Step)) (runner.Answer, error) {
			a := accepted()
			a.Log = " \n\t\n"
			return a, nil
		}})
		j := r.accepted(r.submit().ID, time.Minute)
		if len(j.Attachments) != 1 || j.Attachments[0].Name != "details" || p.said("could not be attached") {
			t.Errorf("%+v", j.Attachments)
		}
	})
}

// Two Runners race for every job: each is judged once.
func TestTwoRunnersRacingJudgeEveryJobOnce(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		one, two := &evaluator{judge: takes(time.Second)}, &evaluator{judge: takes(time.Second)}
		r.run(one)
		r.run(two)
		var jobs []refserver.Job
		for range 40 {
			jobs = append(jobs, r.submit())
		}
		for _, j := range jobs {
			if got := r.accepted(j.ID, 5*time.Minute); got.Deliveries != 1 {
				t.Errorf("%d deliveries", got.Deliveries)
			}
		}
		if one.times()+two.times() != 40 || one.times() == 0 || two.times() == 0 {
			t.Errorf("judged %d and %d", one.times(), two.times())
		}
	})
}

// A Server whose answers carry nulls and members nobody knows, and an unknown level, is worked with.
func TestAForeignServersWordsAreTolerated(t *testing.T) {
	for _, kind := range []refserver.FaultKind{refserver.FaultNulls, refserver.FaultUnknown} {
		inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
			for _, path := range []string{"/*", "/*/*", "/*/*/*", "/*/*/*/*"} {
				r.fault(refserver.Fault{Method: "POST", Path: path, Kind: kind})
			}
			r.newPlay(&evaluator{}).start()
			r.accepted(r.submit().ID, time.Minute)
		})
	}
}

// A clock that is set by an hour moves no deadline of this Runner: it reckons with its own, which nobody sets.
func TestTheServersClockIsNeverComputedWith(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		clock := refserver.NewClock()
		clock.Advance(step)
		inBubble(t, refserver.Options{Clock: clock}, func(t *testing.T, r *rig) {
			r.run(&evaluator{judge: takes(15 * time.Minute)})
			if j := r.accepted(r.submit().ID, 20*time.Minute); j.Deliveries != 1 {
				t.Errorf("the Server's clock %v off: %d deliveries", step, j.Deliveries)
			}
		})
	}
}

// An older Server ([M], 10.2) knows neither release nor trials nor holds.
func TestAnOlderServerIsWorkedWith(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		r.fault(refserver.Fault{Path: "/runner/jobs/claim", Kind: refserver.FaultIgnoreWait})
		for _, path := range []string{"/runner/jobs/*/release", "/runner/trials/claim"} {
			r.fault(refserver.Fault{Path: path, Kind: refserver.FaultStatus, Status: 404, Code: "not_found"})
		}
		p := r.run(&evaluator{judge: takes(10 * time.Second)}, func(o *runner.Options) { o.Measurer = measurer{} })
		r.accepted(r.submit().ID, time.Minute)
		time.Sleep(10 * time.Minute)
		if n := len(r.calls("trials/claim")); n != 1 {
			t.Errorf("%d claims of trials of a Server without any", n)
		}
		j := r.submit()
		r.eventually("the job is running", time.Minute, func() bool { return r.job(j.ID).State == refserver.Running })
		p.stops()
		if !strings.Contains(fmt.Sprint(p.endings()), "abandoned") {
			t.Errorf("ended as %v", p.endings())
		}
	})
}

// A revocation that a download meets is no infrastructure failure: nothing is reported (10.7).
func TestScenario_revoked_while_downloading(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.runFetching(time.Minute)
		r.fault(refserver.Fault{Method: "GET", Path: "/runner/files/*", Kind: refserver.FaultDelay, Seconds: 10})
		r.submit()
		time.Sleep(5 * time.Second)
		must(t, r.Revoke(string(p.key.Fingerprint())))
		if err := p.ends(20 * time.Second); !errors.Is(err, runner.ErrRevoked) {
			t.Errorf("ended with %v", err)
		}
		if n := len(r.calls("/report")); n != 0 || !slices.Equal(p.endings(), []runner.Ending{runner.Lost}) {
			t.Errorf("%d reports, ended as %v", n, p.endings())
		}
	})
}
