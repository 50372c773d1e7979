package protocol_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/refserver"
)

func TestBackOffDoublesWithinItsBands(t *testing.T) {
	b := protocol.NewBackoff(time.Second, 30*time.Second)
	for range 200 {
		for i, base := range []int{1, 2, 4, 8, 16, 30, 30, 30} {
			low, high := time.Duration(base)*800*time.Millisecond, time.Duration(base)*1200*time.Millisecond
			if d := b.Next(); d < low || d > high {
				t.Fatalf("step %d: %v is not within %v and %v", i, d, low, high)
			}
		}
		b.Reset()
	}
	for _, edge := range []int64{0, 1} { // both ends of the band are reached
		protocol.SetDraw(b, func(n int64) int64 { return edge * (n - 1) })
		if d := b.Next(); d != time.Duration(800+400*edge)*time.Millisecond {
			t.Errorf("edge %d: %v", edge, d)
		}
		b.Reset()
	}
}

func TestBackOffWithACeilingBelowItsFloorDoesNotSpin(t *testing.T) {
	for _, b := range []*protocol.Backoff{
		protocol.NewBackoff(0, 0), protocol.NewBackoff(time.Second, time.Millisecond), protocol.NewBackoff(-1, -1),
	} {
		for range 10 {
			if d := b.Next(); d < 80*time.Millisecond {
				t.Errorf("a wait of %v", d)
			}
		}
	}
}

func TestRetryAfterLengthensAWaitAndNeverShortensIt(t *testing.T) {
	for after, least := range map[time.Duration]time.Duration{0: 800 * time.Millisecond, 300 * time.Second: 300 * time.Second} {
		err := &protocol.Error{Class: protocol.Busy, RetryAfter: &after}
		if d := protocol.NewBackoff(time.Second, 30*time.Second).HowLong(err); d < least {
			t.Errorf("Retry-After %v: %v", after, d)
		}
	}
}

func TestAnInterruptedSleepSaysSoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		if err := protocol.Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := protocol.Sleep(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("a late listener hears %v", err)
		}
		if err := protocol.Sleep(t.Context(), time.Minute); err != nil {
			t.Error(err)
		}
	})
}

func TestALongWaitSaysThatItIsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var said []int
		ctx := protocol.WithAlive(t.Context(), func() { said = append(said, int(time.Since(start).Seconds())) })
		must(t, protocol.Sleep(ctx, 35*time.Second))
		if took := time.Since(start); took != 35*time.Second || len(said) != 4 || said[0] != 0 || said[3] != 30 {
			t.Errorf("said so at %v, waited %v", said, took)
		}
		away := &protocol.Error{Class: protocol.Unavailable}
		said = nil
		_ = protocol.Resend(ctx, 60*time.Second, func(context.Context) error { return away })
		if len(said) < 4 {
			t.Errorf("a resend said so at %v", said)
		}
	})
}

func TestGraceOutlivesAStopByItsTimeAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, cancel := context.WithCancel(t.Context())
		graced, done := protocol.WithGrace(stop, 2*time.Second)
		finished, finish := protocol.WithGrace(stop, 2*time.Second)
		finish()
		finish() // twice is no trouble
		time.Sleep(time.Minute)
		if graced.Err() != nil || finished.Err() == nil {
			t.Error("ended without a stop, or not ended at the end")
		}
		start := time.Now()
		cancel()
		<-graced.Done()
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("ended after %v", took)
		}
		done()
	})
}

func TestAnAnswerIsCarriedNoLongerThanItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := &protocol.Error{Op: "report", Class: protocol.Unavailable, Status: 503}
		start, tries := time.Now(), 0
		err := protocol.Resend(t.Context(), 60*time.Second, func(context.Context) error { tries++; return away })
		if took := time.Since(start); took >= 60*time.Second || !errors.Is(err, away) {
			t.Errorf("gave up after %v with %v", took, err)
		}
		if tries < 3 || tries > 5 { // 5, 10, 20, 30 seconds
			t.Errorf("%d attempts", tries)
		}
		tries = 0
		refused := &protocol.Error{Class: protocol.Revoked}
		err = protocol.Resend(t.Context(), time.Hour, func(context.Context) error { tries++; return refused })
		if tries != 1 || !errors.Is(err, refused) {
			t.Errorf("a final refusal was sent %d times", tries)
		}
		long := 300 * time.Second
		slow := &protocol.Error{Class: protocol.Unavailable, RetryAfter: &long}
		start, tries = time.Now(), 0
		_ = protocol.Resend(t.Context(), 600*time.Second, func(context.Context) error { tries++; return slow })
		if tries != 2 || time.Since(start) != long {
			t.Errorf("Retry-After of 300 s: %d attempts in %v", tries, time.Since(start))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		err = protocol.Resend(ctx, time.Hour, func(context.Context) error { return away })
		wantClass(t, err, protocol.Stopped, "")
	})
}

func TestAdmissionWaitsOutAServerThatIsAway(t *testing.T) {
	inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
		r.fault(t, refserver.Fault{Path: "/runner/register", Kind: refserver.FaultStatus, Status: 500, Times: 2})
		r.fault(t, refserver.Fault{Path: "/runner/register", Kind: refserver.FaultStatus, Status: 429, RetryAfter: "50", Times: 1})
		r.fault(t, refserver.Fault{Path: "/runner/register", Kind: refserver.FaultDropBefore, Times: 1})
		r.fault(t, refserver.Fault{Path: "/runner/auth/challenge", Kind: refserver.FaultHTML, Status: 502, Times: 1})
		waits := 0
		start := time.Now()
		_, err := r.client.Admit(t.Context(), r.key, registration, protocol.AdmitOptions{
			Waiting: func(phase protocol.Phase, _ time.Duration, _ error) {
				waits++
				if phase != protocol.WaitingForServer {
					t.Errorf("waited for %v", phase)
				}
			},
		})
		must(t, err)
		if waits != 5 || time.Since(start) < 50*time.Second {
			t.Errorf("%d waits in %v", waits, time.Since(start))
		}
	})
}

func TestAdmissionHearsAStopWhereverItWaits(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T, *rig){
		"for approval": func(*testing.T, *rig) {},
		"for a closed server": func(t *testing.T, r *rig) {
			must(t, r.server.SetMaintenance(refserver.LevelClosed, "backup"))
		},
		"for an answer": func(t *testing.T, r *rig) {
			r.fault(t, refserver.Fault{Path: "/runner/register", Kind: refserver.FaultHold})
		},
		"for a server that is broken": func(t *testing.T, r *rig) {
			r.fault(t, refserver.Fault{Path: "/runner/auth/challenge", Kind: refserver.FaultStatus, Status: 500})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
				prepare(t, r)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(45*time.Second, cancel)
				start := time.Now()
				_, err := r.client.Admit(ctx, r.key, registration, protocol.AdmitOptions{})
				wantClass(t, err, protocol.Stopped, "")
				if took := time.Since(start); took != 45*time.Second {
					t.Errorf("heard the stop after %v", took)
				}
			})
		})
	}
}

func TestAdmissionDuringADrainWaitsUntilTheServerIsOpen(t *testing.T) {
	inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
		must(t, r.server.SetMaintenance(refserver.LevelDraining, "nightly backup"))
		time.AfterFunc(10*time.Minute, func() { _ = r.server.SetMaintenance(refserver.LevelOpen, "") })
		start := time.Now()
		_, err := r.client.Admit(t.Context(), r.key, registration, protocol.AdmitOptions{})
		must(t, err)
		if took := time.Since(start); took < 10*time.Minute || took > 11*time.Minute {
			t.Errorf("admitted after %v", took)
		}
	})
}

func TestANonceThatIsRefusedIsTriedAgainAFewTimes(t *testing.T) {
	for times, want := range map[int]protocol.Class{1: 0, 2: 0, 0: protocol.Refused} {
		for _, path := range []string{"/runner/register", "/runner/auth/token"} {
			inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
				r.fault(t, refserver.Fault{
					Path: path, Kind: refserver.FaultStatus, Status: 403, Code: "runner.nonce.expired", Times: times,
				})
				_, err := r.client.Admit(t.Context(), r.key, registration, protocol.AdmitOptions{})
				if protocol.ClassOf(err) != want {
					t.Errorf("%s refused %d times: %v", path, times, err)
				}
			})
		}
	}
}

// A Server that is away at first has used up none of the attempts that a refused nonce has (10.20): it is the restarted Server, whose
// nonces are gone, that was away before.
func TestANonceThatIsRefusedAfterAnOutageIsTriedAgainAsOften(t *testing.T) {
	for times, want := range map[int]protocol.Class{2: 0, 0: protocol.Refused} {
		inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
			r.fault(t, refserver.Fault{Path: "/runner/register", Kind: refserver.FaultStatus, Status: 503, Times: 3})
			r.fault(t, refserver.Fault{Path: "/runner/register", Kind: refserver.FaultStatus, Status: 403, Code: "runner.nonce.unknown", Times: times})
			_, err := r.client.Admit(t.Context(), r.key, registration, protocol.AdmitOptions{})
			if hits := r.server.Faults()[1].Hits; protocol.ClassOf(err) != want || times == 0 && hits != 3 {
				t.Errorf("refused %d times: %v after %d refusals", times, err, hits)
			}
		})
	}
}

func TestARefusalForGoodEndsAnAdmission(t *testing.T) {
	for _, c := range []struct {
		path   string
		status int
		code   string
		want   protocol.Class
	}{
		{"/runner/register", 422, "runner.tags.count", protocol.Refused},
		{"/runner/register", 422, "runner.key.length", protocol.Refused},
		{"/runner/register", 409, "runner.revoked", protocol.Revoked},
		{"/runner/auth/token", 403, "runner.signature", protocol.Refused},
		{"/runner/auth/challenge", 400, "", protocol.Refused},
	} {
		inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
			r.fault(t, refserver.Fault{Path: c.path, Kind: refserver.FaultStatus, Status: c.status, Code: c.code})
			_, err := r.client.Admit(t.Context(), r.key, registration, protocol.AdmitOptions{})
			wantClass(t, err, c.want, protocol.Code(c.code))
		})
	}
}

func TestWaitingOutAServerDoesNotSpinWhenHealthSaysOpen(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		proxy := &protocol.Error{Op: "claim", Class: protocol.Unavailable, Status: 503}
		o := protocol.AdmitOptions{Backoff: protocol.NewBackoff(time.Second, 30*time.Second)}
		start := time.Now()
		for range 10 {
			must(t, r.client.WaitOut(t.Context(), proxy, o))
		}
		if took := time.Since(start); took < 100*time.Second {
			t.Errorf("ten refusals of a proxy were waited out in %v", took)
		}
		// Maintenance that is over by the time health is asked costs one step at the floor.
		over := &protocol.Error{Op: "claim", Class: protocol.Unavailable, Status: 503, Code: protocol.CodeMaintenance}
		start = time.Now()
		must(t, r.client.WaitOut(t.Context(), over, o))
		if took := time.Since(start); took < 800*time.Millisecond || took > 1200*time.Millisecond {
			t.Errorf("waited %v for a Server that is open again", took)
		}
		// A Server that is really closed is waited for as long as it asks.
		must(t, r.server.SetMaintenance(refserver.LevelClosed, ""))
		asked := 30 * time.Second
		over.RetryAfter = &asked
		start = time.Now()
		must(t, r.client.WaitOut(t.Context(), over, o))
		if took := time.Since(start); took != asked {
			t.Errorf("waited %v for a closed Server", took)
		}
	})
}
