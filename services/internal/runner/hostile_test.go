package runner_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/refserver"
	"github.com/evalhost/evalhost/services/internal/runner"
)

// The tests in this file put somebody between the Runner and the reference server who answers what no Server should. No job is
// lost, none is answered twice, and no verdict is another than the judging's.

// on answers the calls whose path ends so, times of them, with what answer makes of the Server's; the others are the Server's.
func (r *rig) on(end string, times int, answer func(w http.ResponseWriter, q *http.Request, said *httptest.ResponseRecorder)) *atomic.Int64 {
	var hits atomic.Int64
	r.stand(func(w http.ResponseWriter, q *http.Request, server http.Handler) {
		if !strings.HasSuffix(q.URL.Path, end) {
			server.ServeHTTP(w, q)
			return
		}
		said := httptest.NewRecorder()
		server.ServeHTTP(said, q)
		if said.Code != http.StatusOK || hits.Add(1) > int64(times) {
			copyTo(w, said)
			return
		}
		answer(w, q, said)
	})
	return &hits
}

func copyTo(w http.ResponseWriter, said *httptest.ResponseRecorder) {
	for name, values := range said.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(said.Code)
	_, _ = w.Write(said.Body.Bytes())
}

// replaced is a JSON object with some members replaced by other text; a member replaced by nothing is left out.
func replaced(t *testing.T, object []byte, members map[string]string) string {
	t.Helper()
	var m map[string]json.RawMessage
	must(t, json.Unmarshal(object, &m))
	var parts []string
	for name, raw := range m {
		if _, other := members[name]; !other {
			parts = append(parts, fmt.Sprintf("%q:%s", name, raw))
		}
	}
	for name, text := range members {
		if text != "" {
			parts = append(parts, fmt.Sprintf("%q:%s", name, text))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// A claim whose answer is valid JSON and no sane job. Either it can be judged all the same, or it is an infrastructure failure, or
// its lease returns it: the job is judged in the end, once, and the process goes on.
func TestWhateverAClaimIsAnsweredWithTheJobIsJudgedOnce(t *testing.T) {
	const judged, failed, lost = "judged", "failed", "lost"
	deep := strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)
	for name, c := range map[string]struct {
		members map[string]string
		want    string
	}{
		"a deadline in the year 1":        {map[string]string{"leaseExpiresAt": `"0001-01-01T00:00:00.0000000Z"`}, judged},
		"a deadline in the year 9999":     {map[string]string{"leaseExpiresAt": `"9999-12-31T23:59:59.9999999Z"`}, judged},
		"a deadline in the year 10000":    {map[string]string{"leaseExpiresAt": `"10000-01-01T00:00:00Z"`}, judged},
		"a deadline that has passed":      {map[string]string{"leaseExpiresAt": `"1999-12-31T23:59:59Z"`}, judged},
		"a deadline that is a number":     {map[string]string{"leaseExpiresAt": `-1e300`}, judged},
		"a deadline that is a document":   {map[string]string{"leaseExpiresAt": `{}`}, judged},
		"no deadline":                     {map[string]string{"leaseExpiresAt": ""}, judged},
		"an attempt below nothing":        {map[string]string{"attempt": "-9223372036854775808"}, judged},
		"an attempt that is no number":    {map[string]string{"attempt": `"one"`}, failed},
		"an attempt beyond all numbers":   {map[string]string{"attempt": "1e999"}, failed},
		"a size below nothing":            {map[string]string{"files": `[{"name":"source","fileId":"f","sha256":"00","sizeBytes":-1}]`}, failed},
		"files that are a document":       {map[string]string{"files": `{"0":{}}`}, failed},
		"files of nulls":                  {map[string]string{"files": `[null,null]`}, failed},
		"a file whose id leads elsewhere": {map[string]string{"files": `[{"name":"source","fileId":"../../heartbeat","sha256":"00"}]`}, failed},
		"a package whose id leads away":   {map[string]string{"packageFileId": `"..%2F..%2Fx"`}, failed},
		"a package id of a line break":    {map[string]string{"packageFileId": `"a\r\nX-Y: z"`}, failed},
		"a package without a checksum":    {map[string]string{"packageSha256": `""`}, failed},
		"a checksum that is a number":     {map[string]string{"packageSha256": `7`}, failed},
		"a type that is a list":           {map[string]string{"problemType": `["standard-io@1"]`}, failed},
		"no type":                         {map[string]string{"problemType": ""}, failed},
		"props that are a list":           {map[string]string{"props": `["python3"]`}, failed},
		"a config that is a word":         {map[string]string{"config": `"{}"`}, failed},
		"a config without a bottom":       {map[string]string{"config": deep}, judged}, // whoever reads it decides; this judge does not
		"a config of two mebibytes":       {map[string]string{"config": `{"a":"` + strings.Repeat("x", 2<<20) + `"}`}, failed},
		"a submission's name of commands": {map[string]string{"submissionId": `"\u001b[2J\u0000\r\nMESSAGE=x"`}, judged},
		"a submission's name without end": {map[string]string{"submissionId": `"` + strings.Repeat("x", 1<<20) + `"`}, judged},
		"a job id that leads elsewhere":   {map[string]string{"jobId": `"../../runner/heartbeat"`}, lost},
		"a job id of 129 characters":      {map[string]string{"jobId": `"` + strings.Repeat("x", 129) + `"`}, lost},
		"a job id that is a number":       {map[string]string{"jobId": `1`}, lost},
		"a job id of dots":                {map[string]string{"jobId": `".."`}, lost},
		"no lease token":                  {map[string]string{"leaseToken": ""}, lost},
		"a lease token of nothing":        {map[string]string{"leaseToken": `""`}, lost},
		"a lease token without end":       {map[string]string{"leaseToken": `"` + strings.Repeat("x", 129) + `"`}, lost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
				hits := r.on("/jobs/claim", 1, func(w http.ResponseWriter, _ *http.Request, said *httptest.ResponseRecorder) {
					_, _ = io.WriteString(w, replaced(t, said.Body.Bytes(), c.members))
				})
				p := r.runFetching(time.Second)
				j := r.submit()
				got := r.accepted(j.ID, 20*time.Minute)
				p.stops()
				ends := map[string][]runner.Ending{
					judged: {runner.Reported}, failed: {runner.Failed, runner.Reported}, lost: {runner.Reported},
				}[c.want]
				if hits.Load() == 0 || !slices.Equal(p.endings(), ends) {
					t.Errorf("ended as %v, want %v", p.endings(), ends)
				}
				if reports := len(r.calls("/report")); reports != len(ends) {
					t.Errorf("%d reports", reports)
				}
				if c.want == judged && got.Deliveries != 1 {
					t.Errorf("%d deliveries", got.Deliveries)
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				for line := range strings.Lines(p.log.String()) {
					if len(line) > 3000 || strings.Contains(line, "\x1b") || strings.Contains(line, "\x00") {
						t.Errorf("a line of the log has %d bytes: %.200q", len(line), line)
					}
				}
			})
		})
	}
}

// Of a member that comes twice the last counts, for every member, and nobody mixes them.
func TestOfAMemberThatComesTwiceTheLastCounts(t *testing.T) {
	inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
		r.on("/jobs/claim", 1, func(w http.ResponseWriter, _ *http.Request, said *httptest.ResponseRecorder) {
			first := `"jobId":"other","leaseToken":"other","packageFileId":"other","packageSha256":"00","files":[],"attempt":7,`
			_, _ = io.WriteString(w, "{"+first+strings.TrimPrefix(said.Body.String(), "{"))
		})
		p := r.runFetching(time.Second)
		if got := r.accepted(r.submit().ID, time.Minute); got.Deliveries != 1 {
			t.Errorf("%d deliveries", got.Deliveries)
		}
		p.stops()
	})
}

// A checksum in capitals is the same checksum.
func TestAChecksumInCapitalsIsTheSame(t *testing.T) {
	inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
		r.on("/jobs/claim", 1, func(w http.ResponseWriter, _ *http.Request, said *httptest.ResponseRecorder) {
			var m map[string]any
			must(t, json.Unmarshal(said.Body.Bytes(), &m))
			m["packageSha256"] = strings.ToUpper(m["packageSha256"].(string))
			must(t, json.NewEncoder(w).Encode(m))
		})
		p := r.runFetching(time.Second)
		if got := r.accepted(r.submit().ID, time.Minute); got.Deliveries != 1 {
			t.Errorf("%d deliveries", got.Deliveries)
		}
		p.stops()
	})
}

// A Server that hands the same job out again, with the same lease, after it was answered: it is judged again and answered with what
// was answered, and stored is one result.
func TestAJobThatIsHandedOutTwiceHasOneResult(t *testing.T) {
	inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
		var claimed atomic.Pointer[httptest.ResponseRecorder]
		var claims atomic.Int64
		r.stand(func(w http.ResponseWriter, q *http.Request, server http.Handler) {
			if !strings.HasSuffix(q.URL.Path, "/jobs/claim") {
				server.ServeHTTP(w, q)
				return
			}
			if again := claimed.Load(); again != nil && claims.Add(1) <= 3 {
				copyTo(w, again)
				return
			}
			said := httptest.NewRecorder()
			server.ServeHTTP(said, q)
			if said.Code == http.StatusOK {
				claimed.Store(said)
			}
			copyTo(w, said)
		})
		e := &evaluator{judge: takes(time.Second)}
		p := r.run(e)
		j := r.submit()
		first := r.accepted(j.ID, time.Minute)
		time.Sleep(10 * time.Minute)
		if again := r.job(j.ID); again.Result.ID != first.Result.ID || !again.Result.At.Equal(first.Result.At) || e.times() != 4 {
			t.Errorf("judged %d times, %+v, then %+v", e.times(), first.Result, again.Result)
		}
		r.accepted(r.submit().ID, time.Minute)
		p.stops()
		if len(slices.DeleteFunc(p.endings(), func(e runner.Ending) bool { return e == runner.Reported })) != 0 {
			t.Errorf("ended as %v", p.endings())
		}
	})
}

// A job that is handed out in the instant in which the Server begins to drain is judged and answered while it drains.
func TestAJobThatIsHandedOutDuringADrainIsJudged(t *testing.T) {
	inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
		r.on("/jobs/claim", 1, func(w http.ResponseWriter, _ *http.Request, said *httptest.ResponseRecorder) {
			must(t, r.SetMaintenance(refserver.LevelDraining, "an update"))
			copyTo(w, said)
		})
		p := r.runFetching(2 * time.Minute)
		if got := r.accepted(r.submit().ID, 3*time.Minute); got.Deliveries != 1 || len(got.Attachments) != 2 {
			t.Errorf("%+v", got)
		}
		p.stops()
	})
}

// A Server that forgets every token as soon as it was used once is worked with, one handshake a call.
func TestATokenThatIsGoodForOneCallIsEnough(t *testing.T) {
	inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
		p := r.runFetching(19*time.Minute + 23*time.Second) // so that neither a heart beats nor a lease is renewed while it is answered
		r.stand(func(w http.ResponseWriter, q *http.Request, server http.Handler) {
			said := httptest.NewRecorder()
			server.ServeHTTP(said, q)
			if q.Header.Get("Authorization") != "" && said.Code < 300 && !strings.HasSuffix(q.URL.Path, "/claim") {
				r.Restart()
			}
			copyTo(w, said)
		})
		if got := r.accepted(r.submit().ID, 30*time.Minute); got.Deliveries != 1 || len(got.Attachments) != 2 {
			t.Errorf("%+v", got)
		}
		p.stops()
		if n := len(r.calls("auth/token")); n < 10 || n > 100 {
			t.Errorf("%d handshakes", n)
		}
	})
}

// An attempt that is canceled between the last file and the report is not reported as anything.
func TestACancelationInTheInstantBeforeTheReportSilencesIt(t *testing.T) {
	inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
		p := r.run(&evaluator{})
		j := r.submit()
		var done atomic.Bool
		r.stand(func(w http.ResponseWriter, q *http.Request, server http.Handler) {
			if strings.HasSuffix(q.URL.Path, "/report") && !done.Swap(true) {
				must(t, r.Cancel(j.ID))
			}
			server.ServeHTTP(w, q)
		})
		r.eventually("the work has ended", time.Minute, func() bool { return len(p.endings()) == 1 })
		time.Sleep(time.Hour)
		if got := r.job(j.ID); got.State != refserver.Canceled || got.Result != nil || !slices.Equal(p.endings(), []runner.Ending{runner.Lost}) {
			t.Errorf("%+v, ended as %v", got, p.endings())
		}
		if n := len(r.calls("/report")); n != 1 {
			t.Errorf("%d reports", n)
		}
		r.accepted(r.submit().ID, time.Minute)
		p.stops()
	})
}

// Whatever a Retry-After says, a Runner neither spins nor is switched off by it.
func TestNoRetryAfterSwitchesARunnerOffOrLetsItSpin(t *testing.T) {
	for _, after := range []string{
		"-1", "1e9", "99999999999999999999999999", "Wed, 21 Oct 2099 07:28:00 GMT", "0x10", "5 5", " 3 ", "+4", "∞", "\t", "1.5",
	} {
		inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
			p := r.run(&evaluator{})
			time.Sleep(30 * time.Second)
			before := len(r.calls("jobs/claim"))
			r.fault(refserver.Fault{Path: "/runner/jobs/claim", Kind: refserver.FaultStatus, Status: 503, RetryAfter: after, Times: 20})
			time.Sleep(time.Minute)
			if n := len(r.calls("jobs/claim")) - before; n > 12 {
				t.Errorf("%q: %d claims in a minute", after, n)
			}
			time.Sleep(6 * time.Hour)
			r.accepted(r.submit().ID, 10*time.Minute)
			p.stops()
		})
	}
}

// A Server whose clock is a year off, in either direction, is worked with.
func TestAServerWhoseClockIsAYearOffIsWorkedWith(t *testing.T) {
	for _, off := range []time.Duration{-365 * 24 * time.Hour, 365 * 24 * time.Hour} {
		clock := refserver.NewClock()
		clock.Advance(off)
		inBubble(t, refserver.Options{Clock: clock, ApproveAll: true}, func(t *testing.T, r *rig) {
			p := r.runFetching(20 * time.Minute)
			if j := r.accepted(r.submit().ID, 30*time.Minute); j.Deliveries != 1 {
				t.Errorf("%v: %d deliveries", off, j.Deliveries)
			}
			p.stops()
		})
	}
}

// Renewals that hang: as many as may fail may hang, even with the shortest lease there is.
func TestTwoRenewalsThatHangAreSurvived(t *testing.T) {
	for _, lease := range []time.Duration{time.Minute, 10 * time.Minute} {
		inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
			p := r.run(&evaluator{judge: takes(30 * time.Minute)}, func(o *runner.Options) { o.Lease = lease })
			id := r.fault(refserver.Fault{Path: "/runner/jobs/*/lease", Kind: refserver.FaultHold, Times: 2})
			if got := r.accepted(r.submit().ID, 40*time.Minute); got.Deliveries != 1 {
				t.Errorf("a lease of %v: %d deliveries", lease, got.Deliveries)
			}
			r.ClearFault(id)
			p.stops()
			if !slices.Equal(p.endings(), []runner.Ending{runner.Reported}) {
				t.Errorf("a lease of %v: ended as %v", lease, p.endings())
			}
		})
	}
}

// A proxy that does not know where the Server is for a while says 404, 403 or sends elsewhere, in a page of its own. The Server said
// nothing of the kind: work goes on, and an answer is held.
func TestAPageOfAProxyThatFindsNothingLosesNoJob(t *testing.T) {
	for _, status := range []int{302, 307, 403, 404, 405, 408} {
		for _, path := range []string{"/runner/jobs/*/lease", "/runner/jobs/*/report"} {
			t.Run(fmt.Sprint(status, path), func(t *testing.T) {
				inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
					p := r.run(&evaluator{judge: takes(20 * time.Minute)})
					r.fault(refserver.Fault{Path: path, Kind: refserver.FaultHTML, Status: status, Times: 2})
					if got := r.accepted(r.submit().ID, 25*time.Minute); got.Deliveries != 1 {
						t.Errorf("%d deliveries", got.Deliveries)
					}
					p.stops()
					if !slices.Equal(p.endings(), []runner.Ending{runner.Reported}) {
						t.Errorf("ended as %v", p.endings())
					}
				})
			})
		}
	}
}

// What the Server itself refuses is not held: its codes say so at once.
func TestWhatTheServerRefusesWithACodeIsNotSentAgain(t *testing.T) {
	for code, status := range map[string]int{"not_found": 404, "result.verdict.missing": 422, "malformed_json": 400, "runner.lease.foreign": 403} {
		inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
			p := r.run(&evaluator{})
			r.fault(refserver.Fault{Path: "/runner/jobs/*/report", Kind: refserver.FaultStatus, Status: status, Code: code, Times: 1})
			r.submit()
			r.eventually("the work has ended", time.Minute, func() bool { return len(p.endings()) > 0 })
			if got := p.endings()[0]; got != runner.Undelivered && got != runner.Lost || len(r.calls("/report")) != 1 {
				t.Errorf("%s: ended as %v after %d reports", code, got, len(r.calls("/report")))
			}
			p.stops()
		})
	}
}

// A page that says 404 to a claim of a trial does not end trials for good.
func TestTrialsAreAskedForAgainAfterAnHour(t *testing.T) {
	inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
		r.fault(refserver.Fault{Path: "/runner/trials/claim", Kind: refserver.FaultHTML, Status: 404, Times: 1})
		p := r.run(&evaluator{}, func(o *runner.Options) { o.Measurer = measurer{takes: time.Second} })
		time.Sleep(30 * time.Minute)
		trial := r.trial()
		if n := len(r.calls("trials/claim")); n != 1 {
			t.Errorf("%d claims of trials within half an hour", n)
		}
		r.eventually("the trial is measured", time.Hour, func() bool {
			got, _ := r.Trial(trial.ID)
			return got.State == refserver.Completed
		})
		p.stops()
	})
}

// A source that is too large is a verdict whatever its size (4.4), once its bytes are proved to be the participant's.
func TestASourceThatIsFarTooLargeIsAPolicyViolation(t *testing.T) {
	inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
		large := bytes.Repeat([]byte("ADDS\n"), 5<<20)
		sum := protocolSum(large)
		for _, whole := range []bool{true, false} {
			court := r.court()
			r.stand(func(w http.ResponseWriter, q *http.Request, server http.Handler) {
				said := httptest.NewRecorder()
				server.ServeHTTP(said, q)
				switch {
				case said.Code == http.StatusOK && strings.HasSuffix(q.URL.Path, "/jobs/claim"):
					var m map[string]any
					must(t, json.Unmarshal(said.Body.Bytes(), &m))
					m["files"].([]any)[0].(map[string]any)["sha256"] = sum
					must(t, json.NewEncoder(w).Encode(m))
				case said.Body.String() == "SMALL":
					sent := large
					if !whole {
						sent = large[:len(large)-1]
					}
					_, _ = w.Write(sent)
				default:
					copyTo(w, said)
				}
			})
			j := r.final(r.hand("", zipped(t, adder), "main.c", "c11-gcc", "SMALL", "").ID, 20*time.Minute)
			if whole && (j.State != refserver.Completed || j.Result.Verdict != "PolicyViolation") {
				t.Errorf("ended as %s with %+v, reason %q", j.State, j.Result, j.FailureReason)
			}
			if !whole && (j.State != refserver.Failed || j.Result.Verdict != "") {
				t.Errorf("bytes that are not the participant's: %s with %+v", j.State, j.Result)
			}
			court.stops()
			r.leave()
		}
	})
}

// No cookie that somebody sets is ever sent back: who a Runner is, its key says.
func TestNoCookieIsKept(t *testing.T) {
	inBubble(t, refserver.Options{ApproveAll: true}, func(t *testing.T, r *rig) {
		var cookies atomic.Int64
		r.stand(func(w http.ResponseWriter, q *http.Request, server http.Handler) {
			if len(q.Cookies()) > 0 {
				cookies.Add(1)
			}
			w.Header().Set("Set-Cookie", "session=x; Path=/")
			server.ServeHTTP(w, q)
		})
		p := r.runFetching(time.Minute)
		r.accepted(r.submit().ID, 2*time.Minute)
		p.stops()
		if cookies.Load() != 0 {
			t.Errorf("%d calls carried a cookie", cookies.Load())
		}
	})
}

func protocolSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
