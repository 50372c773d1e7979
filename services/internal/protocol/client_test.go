package protocol_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/refserver"
)

func TestConformance_a_key_that_is_not_thirty_two_bytes_is_refused(t *testing.T) {
	r := newRig(t, refserver.Options{})
	for key, code := range map[string]protocol.Code{
		"dG9vLXNob3J0": protocol.CodeKeyLength, "not base64 at all !!": protocol.CodeKeyMalformed,
	} {
		_, err := protocol.RawPost(t.Context(), r.client, "runner/register", `{"name":"x","problemTypes":[],"publicKey":"`+key+`"}`)
		wantClass(t, err, protocol.Refused, code)
		var e *protocol.Error
		if !errors.As(err, &e) || e.Status != 422 {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestConformance_a_nonce_is_single_use(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	challenge, err := r.client.Challenge(t.Context(), r.key.Fingerprint())
	must(t, err)
	must(t, protocol.ExchangeToken(t.Context(), r.client, r.key, challenge))
	err = protocol.ExchangeToken(t.Context(), r.client, r.key, challenge)
	wantClass(t, err, protocol.Refused, protocol.CodeNonceUnknown)
}

func TestConformance_a_token_signed_by_the_wrong_key_is_refused(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	challenge, err := r.client.Challenge(t.Context(), r.key.Fingerprint())
	must(t, err)
	body := protocol.SignedBody(r.key.Fingerprint(), newKey(t), challenge)
	_, err = protocol.RawPost(t.Context(), r.client, "runner/auth/token", body)
	wantClass(t, err, protocol.Refused, protocol.CodeSignature)
}

func TestATokenTheServerForgotIsReplacedOnceAndTheCallSentAgain(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	r.submit(t)
	job := r.claim(t)
	r.server.Restart()
	// Lease tokens survive a restart of the Server, so the answer can still be delivered (10.6).
	got, err := r.client.Report(t.Context(), job.Lease, accepted(t))
	if err != nil || got.State != "completed" {
		t.Fatalf("%+v, %v", got, err)
	}
	before := len(r.server.Calls(0))
	r.fault(t, refserver.Fault{Path: "/runner/heartbeat", Kind: refserver.FaultStatus, Status: 401, Code: "unauthenticated"})
	err = r.client.Heartbeat(t.Context())
	wantClass(t, err, protocol.NeedsHandshake, protocol.CodeUnauthenticated)
	var paths []string
	for _, c := range r.server.Calls(before) {
		paths = append(paths, c.Path)
	}
	if got := strings.Join(paths, " "); got != "/runner/heartbeat /runner/auth/challenge /runner/auth/token /runner/heartbeat" {
		t.Errorf("calls: %s", got)
	}
}

func TestEveryBearerCallSurvivesAForgottenToken(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	r.submit(t)
	job := r.claim(t)
	trial, err := r.server.AddTrial("standard-io@1", strings.NewReader("p"))
	must(t, err)
	_ = trial
	var file protocol.Uploaded
	wanted := protocol.Wanted{ID: job.Package.ID, SHA256: job.Package.SHA256, Max: 100}
	for _, step := range []struct {
		name string
		call func() error
	}{
		{"renew", func() error { _, err := r.client.Renew(t.Context(), job.Lease, 0); return err }},
		{"download", func() error { _, err := r.client.Download(t.Context(), wanted, &bytes.Buffer{}); return err }},
		{"upload", func() (err error) {
			file, err = r.client.Upload(t.Context(), protocol.BytesUpload("log.txt", "text/plain", []byte("x")))
			return err
		}},
		{"attach", func() error { return r.client.Attach(t.Context(), job.Lease, file.ID, "log") }},
		{"heartbeat", func() error { return r.client.Heartbeat(t.Context()) }},
		{"release", func() error { return r.client.Release(t.Context(), job.Lease) }},
		{"claim", func() error { job = r.claim(t); return nil }},
		{"report", func() error { _, err := r.client.Report(t.Context(), job.Lease, accepted(t)); return err }},
		{"claim trial", func() error { _, _, err := r.client.ClaimTrial(t.Context(), 0); return err }},
	} {
		r.server.Restart()
		if err := step.call(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
	}
}

func TestManyCallsThatLoseTheirTokenShakeHandsOnce(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	r.server.Restart()
	before := len(r.server.Calls(0))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := r.client.Heartbeat(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	tokens := 0
	for _, c := range r.server.Calls(before) {
		if c.Path == "/runner/auth/token" {
			tokens++
		}
	}
	if tokens != 1 {
		t.Errorf("%d handshakes", tokens)
	}
}

func TestAFailedHandshakeIsSharedByThoseWhoWaitedForIt(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		r.admit(t)
		r.server.Restart()
		r.fault(t, refserver.Fault{Path: "/runner/heartbeat", Kind: refserver.FaultDelay, Seconds: 1})
		r.fault(t, refserver.Fault{Path: "/runner/auth/challenge", Kind: refserver.FaultHold, Times: 1})
		r.fault(t, refserver.Fault{Path: "/runner/auth/challenge", Kind: refserver.FaultStatus, Status: 503})
		before := len(r.server.Calls(0))
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				err := r.client.Heartbeat(t.Context())
				if !protocol.Retryable(err) {
					t.Errorf("a handshake that failed for the moment is final: %v", err)
				}
			})
		}
		wg.Wait() // the held challenge ends by silence after a minute
		challenges := 0
		for _, c := range r.server.Calls(before) {
			if c.Path == "/runner/auth/challenge" {
				challenges++
			}
		}
		if challenges != 1 {
			t.Errorf("%d challenges", challenges)
		}
	})
}

func TestARunnerTheServerForgotAltogetherHasToBeAdmittedAgain(t *testing.T) {
	r := newRig(t, refserver.Options{ApproveAll: true})
	r.admit(t)
	protocol.SetToken(r.client, "forgotten")
	id := r.fault(t, refserver.Fault{Path: "/runner/auth/challenge", Kind: refserver.FaultStatus, Status: 404, Code: "not_found"})
	_, _, err := r.client.Claim(t.Context(), protocol.ClaimRequest{})
	wantClass(t, err, protocol.NeedsHandshake, protocol.CodeNotFound)
	r.server.ClearFault(id)
	_, err = r.client.Admit(t.Context(), r.key, registration, protocol.AdmitOptions{})
	must(t, err)
	r.client.Forget()
	must(t, r.client.Heartbeat(t.Context()))
	fresh := r.another(t)
	wantClass(t, fresh.Heartbeat(t.Context()), protocol.NeedsHandshake, "")
}

func TestAHeldClaimMayBeSilentForLongerThanAMinute(t *testing.T) {
	inBubble(t, refserver.Options{Draw: func(int64) int64 { return 0 }}, func(t *testing.T, r *rig) {
		r.admit(t)
		start := time.Now()
		_, got, err := r.client.Claim(t.Context(), protocol.ClaimRequest{Wait: 300 * time.Second})
		if got || err != nil || time.Since(start) != 300*time.Second {
			t.Errorf("got %v, %v after %v", got, err, time.Since(start))
		}
		r.fault(t, refserver.Fault{Path: "/runner/jobs/claim", Kind: refserver.FaultOverHold, Seconds: 60})
		start = time.Now()
		_, _, err = r.client.Claim(t.Context(), protocol.ClaimRequest{Wait: 25 * time.Second})
		wantClass(t, err, protocol.Unreachable, "")
		if took := time.Since(start); took != 40*time.Second || !strings.Contains(err.Error(), "longer than it was asked") {
			t.Errorf("%v after %v", err, took)
		}
		_, _, err = r.client.Claim(t.Context(), protocol.ClaimRequest{Wait: 301 * time.Second})
		wantClass(t, err, protocol.Local, "")
	})
}

func TestACallSaysThatItIsAliveForAsLongAsItLasts(t *testing.T) {
	inBubble(t, refserver.Options{Draw: func(int64) int64 { return 0 }}, func(t *testing.T, r *rig) {
		r.admit(t)
		start := time.Now()
		var said []time.Duration // written without a lock: the race detector sees a word from another goroutine
		ctx := protocol.WithAlive(t.Context(), func() { said = append(said, time.Since(start)) })
		steady := func(what string, want time.Duration) {
			t.Helper()
			if len(said) == 0 {
				t.Errorf("%s: said nothing", what)
			}
			for last := time.Duration(0); len(said) > 0; said = said[1:] {
				if said[0]-last > 10*time.Second {
					t.Errorf("%s: silent from %v to %v", what, last, said[0])
				}
				last = said[0]
				if len(said) == 1 && (want-last > 10*time.Second || last > want) {
					t.Errorf("%s: the last word came after %v of %v", what, last, want)
				}
			}
		}
		_, _, err := r.client.Claim(ctx, protocol.ClaimRequest{Wait: 300 * time.Second})
		must(t, err)
		steady("a held claim", 300*time.Second)
		r.fault(t, refserver.Fault{Path: "/runner/heartbeat", Kind: refserver.FaultHold})
		start = time.Now()
		wantClass(t, r.client.Heartbeat(ctx), protocol.Unreachable, "")
		steady("a silent call", 60*time.Second)
		r.submit(t)
		job := r.claim(t)
		r.fault(t, refserver.Fault{Path: "/runner/files/*", Kind: refserver.FaultStatus, Status: 503, RetryAfter: "30", Times: 2})
		start = time.Now()
		var b bytes.Buffer
		_, err = r.client.Download(ctx, protocol.Wanted{ID: job.Package.ID, SHA256: job.Package.SHA256, Max: protocol.PackageLimit}, &b)
		must(t, err)
		steady("a download that waits", 60*time.Second)
		time.Sleep(time.Minute)
		if len(said) != 0 {
			t.Errorf("said so at %v, when nothing was waited for", said)
		}
	})
}

func TestAnOrdinaryCallThatFallsSilentEndsAfterAMinute(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		r.admit(t)
		r.fault(t, refserver.Fault{Path: "/runner/heartbeat", Kind: refserver.FaultHold})
		start := time.Now()
		err := r.client.Heartbeat(t.Context())
		wantClass(t, err, protocol.Unreachable, "")
		if took := time.Since(start); took != 60*time.Second || !errors.Is(err, protocol.ErrSilence) {
			t.Errorf("%v after %v", err, took)
		}
		r.fault(t, refserver.Fault{Path: "/health", Kind: refserver.FaultStall, Bytes: 5})
		start = time.Now()
		_, err = r.client.Health(t.Context())
		wantClass(t, err, protocol.Unreachable, "")
		if took := time.Since(start); took != 60*time.Second || !errors.Is(err, protocol.ErrSilence) {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// A byte now and then is no silence, and must not hold a Runner for ever either; a file may take its time.
func TestAnAnswerThatDripsEndsAfterFiveMinutesAndAFileDoesNot(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		r.admit(t)
		r.fault(t, refserver.Fault{Path: "/health", Kind: refserver.FaultTrickle, Seconds: 50})
		start := time.Now()
		_, err := r.client.Health(t.Context())
		wantClass(t, err, protocol.Unreachable, "")
		if took := time.Since(start); took != protocol.AnswerTimeout || !strings.Contains(err.Error(), "whole within") {
			t.Errorf("%v after %v", err, took)
		}
		synctest.Wait()
		refused := r.fault(t, refserver.Fault{Path: "/runner/files/*", Kind: refserver.FaultTrickle, Seconds: 50})
		start = time.Now()
		_, err = r.client.Download(t.Context(), protocol.Wanted{ID: "0198c5a1-0000-7000-8000-000000000000", SHA256: strings.Repeat("0", 64), Max: 100}, io.Discard)
		wantClass(t, err, protocol.NotFound, "")
		if took := time.Since(start); took != protocol.AnswerTimeout {
			t.Errorf("a refusal that drips: %v after %v", err, took)
		}
		r.server.ClearFault(refused)
		r.submit(t)
		job := r.claim(t)
		r.fault(t, refserver.Fault{Path: "/runner/files/*", Kind: refserver.FaultTrickle, Seconds: 50})
		start = time.Now()
		n, err := r.client.Download(t.Context(), protocol.Wanted{ID: job.Package.ID, SHA256: job.Package.SHA256, Max: 100}, io.Discard)
		if took := time.Since(start); err != nil || took < protocol.AnswerTimeout {
			t.Errorf("a file of %v: %v after %v", n, err, took)
		}
	})
}

func TestAStopDuringAClaimLetsItSettleAndThenEndsIt(t *testing.T) {
	inBubble(t, refserver.Options{Draw: func(int64) int64 { return 0 }}, func(t *testing.T, r *rig) {
		r.admit(t)
		stop, cancel := context.WithCancel(t.Context())
		ctx, done := protocol.WithGrace(stop, 2*time.Second)
		defer done()
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, _, err := r.client.Claim(ctx, protocol.ClaimRequest{Wait: 25 * time.Second})
		wantClass(t, err, protocol.Stopped, "")
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("ended after %v", took)
		}
		synctest.Wait() // until the Server has noticed
		// A job that was committed before the stop still arrives within the grace.
		stop, cancel = context.WithCancel(t.Context())
		ctx, done2 := protocol.WithGrace(stop, 2*time.Second)
		defer done2()
		r.fault(t, refserver.Fault{Path: "/runner/jobs/claim", Kind: refserver.FaultDelay, Seconds: 2})
		time.AfterFunc(time.Second, cancel)
		r.submit(t)
		_, got, err := r.client.Claim(ctx, protocol.ClaimRequest{Wait: 25 * time.Second})
		if !got || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

func TestARedirectIsAnAnswerAndIsNotFollowed(t *testing.T) {
	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer other.Close()
	web := httptest.NewServer(http.RedirectHandler(other.URL+"/elsewhere", http.StatusTemporaryRedirect))
	defer web.Close()
	c, err := protocol.New(protocol.Options{BaseURL: web.URL + "/api/v1"})
	must(t, err)
	defer c.Close()
	_, err = c.Health(t.Context())
	wantClass(t, err, protocol.Refused, "")
	if reached || !strings.Contains(err.Error(), other.URL) {
		t.Errorf("reached %v, %v", reached, err)
	}
}

func TestWhatIsNoContractIsUnreadableAndWhatIsNoAnswerUnreachable(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	for kind, want := range map[refserver.FaultKind]protocol.Class{
		refserver.FaultHTML: protocol.Unreadable, refserver.FaultDropBefore: protocol.Unreachable,
		refserver.FaultDropAfter: protocol.Unreachable, refserver.FaultCut: protocol.Unreachable,
		refserver.FaultTruncate: protocol.Unreadable,
	} {
		id := r.fault(t, refserver.Fault{Path: "/health", Kind: kind, Bytes: 7})
		_, err := r.client.Health(t.Context())
		if protocol.ClassOf(err) != want {
			t.Errorf("%s: %v", kind, err)
		}
		r.server.ClearFault(id)
	}
	big := r.fault(t, refserver.Fault{Path: "/health", Kind: refserver.FaultStatus, Status: 200, Body: `{"x":"` + strings.Repeat("y", 4<<20) + `"}`})
	_, err := r.client.Health(t.Context())
	wantClass(t, err, protocol.Unreadable, "")
	r.server.ClearFault(big)
	r.fault(t, refserver.Fault{Path: "/*", Kind: refserver.FaultNulls, Times: 1})
	r.fault(t, refserver.Fault{Path: "/*", Kind: refserver.FaultUnknown, Times: 1})
	for range 2 {
		if h, err := r.client.Health(t.Context()); err != nil || !h.Open() {
			t.Errorf("%+v, %v", h, err)
		}
	}
	r.fault(t, refserver.Fault{Path: "/health", Kind: refserver.FaultLevel, Body: "purple"})
	if h, err := r.client.Health(t.Context()); err != nil || h.Open() || h.Level != "purple" {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestATrustedPrivateCAIsEnoughAndNoOtherIs(t *testing.T) {
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"status":"ok"}`))
	}))
	defer web.Close()
	web.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600))
	trusting, err := protocol.New(protocol.Options{BaseURL: web.URL + "/api/v1", CAFile: ca})
	must(t, err)
	defer trusting.Close()
	if _, err := trusting.Health(t.Context()); err != nil {
		t.Error(err)
	}
	wary, err := protocol.New(protocol.Options{BaseURL: web.URL + "/api/v1"})
	must(t, err)
	defer wary.Close()
	_, err = wary.Health(t.Context())
	wantClass(t, err, protocol.Unreachable, "")
	if !strings.Contains(err.Error(), "private CA") {
		t.Errorf("no cure in %v", err)
	}
	for _, file := range []string{filepath.Join(t.TempDir(), "absent"), os.Args[0]} {
		if _, err := protocol.New(protocol.Options{BaseURL: web.URL, CAFile: file}); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("CA file %s: %v", file, err)
		}
	}
}

func TestARequestGoesThroughTheProxy(t *testing.T) {
	var asked string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		_, _ = w.Write([]byte(`{"status":"ok"}`))
	}))
	defer proxy.Close()
	c, err := protocol.New(protocol.Options{BaseURL: "http://judge.invalid/api/v1", Getenv: func(name string) string {
		return map[string]string{"ALL_PROXY": proxy.URL}[name]
	}})
	must(t, err)
	defer c.Close()
	if _, err := c.Health(t.Context()); err != nil || asked != "http://judge.invalid/api/v1/health" {
		t.Errorf("asked for %q, %v", asked, err)
	}
}

func TestNothingSecretIsLoggedOrPutIntoAnError(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	r.submit(t)
	job := r.claim(t)
	bearer := protocol.Token(r.client)
	challenge, err := r.client.Challenge(t.Context(), r.key.Fingerprint())
	must(t, err)
	secrets := []string{bearer, string(job.Lease.Token), challenge.Nonce, r.key.Sign(challenge.Nonce)}
	echo := strings.Join(secrets, " ")
	// A Server that repeats everything it was told.
	for _, status := range []int{200, 400, 409, 503} {
		id := r.fault(t, refserver.Fault{
			Path: "/runner/*/*", Kind: refserver.FaultStatus, Status: status, Body: `{"code":"x","detail":"` + echo + `"}`,
		})
		deep := r.fault(t, refserver.Fault{
			Path: "/runner/*/*/*", Kind: refserver.FaultStatus, Status: status, Body: `{"code":"x","detail":"` + echo + `"}`,
		})
		_, tokenErr := protocol.RawPost(t.Context(), r.client, "runner/auth/token", "{}")
		errs := []error{protocol.ExchangeToken(t.Context(), r.client, r.key, challenge), protocol.Progress(t.Context(), r.client, job.Lease)}
		_ = tokenErr // without its secrets known the client cannot hide them; nothing secret was sent either
		_, err := r.client.Report(t.Context(), job.Lease, accepted(t))
		errs = append(errs, err)
		for i, err := range errs {
			for n, secret := range secrets {
				own := map[int][]int{0: {2, 3}, 1: {0, 1}, 2: {0, 1}}[i] // what this call carried
				for _, o := range own {
					if n == o && err != nil && strings.Contains(err.Error(), secret) {
						t.Errorf("status %d: secret %d is shown: %v", status, n, err)
					}
				}
			}
		}
		r.server.ClearFault(id)
		r.server.ClearFault(deep)
	}
	for n, secret := range secrets {
		if strings.Contains(r.log.String(), secret) {
			t.Errorf("secret %d is logged", n)
		}
	}
	if !strings.Contains(r.log.String(), "call to the Server") {
		t.Error("nothing was logged at all")
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	server, err := refserver.New(refserver.Options{ApproveAll: true})
	must(t, err)
	var opened atomic.Int32
	web := httptest.NewUnstartedServer(server)
	web.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	web.Start()
	defer web.Close()
	c, err := protocol.New(protocol.Options{BaseURL: web.URL + refserver.Prefix})
	must(t, err)
	defer c.Close()
	_, err = c.Admit(t.Context(), newKey(t), registration, protocol.AdmitOptions{})
	must(t, err)
	for range 20 {
		must(t, c.Heartbeat(t.Context()))
		_, _, err := c.Claim(t.Context(), protocol.ClaimRequest{})
		must(t, err)
		_ = c.Release(t.Context(), protocol.Lease{ID: "x", Token: "y"}) // refused
	}
	// net/http gives up a connection whose last write it does not see the end of within 50 ms, which a busy machine can make of it.
	if n := opened.Load(); n > 5 {
		t.Errorf("%d connections for sixty calls one after the other", n)
	}
}
