package protocol_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/refserver"
)

// What a handshake before a held claim takes, and the refusal that asked for it, is not taken from the hold: a claim that this
// side cuts short may have been a job already.
func TestASlowHandshakeDoesNotCutTheHoldThatFollowsIt(t *testing.T) {
	inBubble(t, refserver.Options{Draw: func(int64) int64 { return 0 }}, func(t *testing.T, r *rig) {
		r.admit(t)
		for name, forget := range map[string]func(){"without a token": r.client.Forget, "with one that is refused": r.server.Restart} {
			forget()
			id := r.fault(t, refserver.Fault{Path: "/runner/auth/token", Kind: refserver.FaultDelay, Seconds: 35})
			start := time.Now()
			_, got, err := r.client.Claim(t.Context(), protocol.ClaimRequest{Wait: 25 * time.Second})
			if got || err != nil || time.Since(start) != time.Minute {
				t.Errorf("%s: got %v, %v after %v", name, got, err, time.Since(start))
			}
			r.server.ClearFault(id)
		}
	})
}

// A call that needs no answer has 204. A page that says 200 comes from somebody between: nothing was attached or given back. An
// object of the Server's is an answer all the same.
func TestAPageIsNoAnswerToACallThatNeedsNone(t *testing.T) {
	for body, class := range map[string]protocol.Class{"<html>welcome</html>": protocol.Unreadable, "[]": protocol.Unreadable, `{"ok":true}`: 0, "  \n": 0} {
		withHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }), func(t *testing.T, c *protocol.Client) {
			lease := protocol.Lease{ID: "j", Token: "l"}
			for name, err := range map[string]error{
				"release": c.Release(t.Context(), lease), "heartbeat": c.Heartbeat(t.Context()), "attach": c.Attach(t.Context(), lease, "f", "log"),
			} {
				if protocol.ClassOf(err) != class {
					t.Errorf("%s answered by %q: %v", name, body, err)
				}
			}
		})
	}
}

// An object that is no answer to a report must not drop the result.
func TestAReportIsTakenWhenTheServerSaysSo(t *testing.T) {
	for body, ok := range map[string]bool{
		`{}`: false, `{"status":"ok"}`: false, `{"state":null}`: false, `{"state":"completed"}`: true, `{"duplicate":true}`: true, `{"resultId":"r"}`: true,
	} {
		if _, err := protocol.ReadReported([]byte(body)); (err == nil) != ok {
			t.Errorf("%s: %v", body, err)
		}
	}
	// What it says is for one line of the log.
	long := strings.Repeat("x", 1<<20)
	if r, err := protocol.ReadReported([]byte(`{"resultId":"a\nb` + long + `","state":"` + long + `"}`)); err != nil || len(r.ResultID) > 520 || len(r.State) > 520 || strings.Contains(r.ResultID, "\n") {
		t.Errorf("%d and %d bytes, %v", len(r.ResultID), len(r.State), err)
	}
}
