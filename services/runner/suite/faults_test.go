//go:build guest

package suite

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/refserver"
)

// answers are what a Server, a proxy or a network does to a call, without those that take minutes of a clock that cannot be
// injected here: silence, and an answer that drips (services/internal/runner, TestWhateverHappensToACall…).
var answers = map[string]refserver.Fault{
	"500":                      {Kind: refserver.FaultStatus, Status: 500},
	"502":                      {Kind: refserver.FaultStatus, Status: 502},
	"503":                      {Kind: refserver.FaultStatus, Status: 503},
	"503 with Retry-After":     {Kind: refserver.FaultStatus, Status: 503, RetryAfter: "3"},
	"429":                      {Kind: refserver.FaultStatus, Status: 429, RetryAfter: "2"},
	"a page instead of JSON":   {Kind: refserver.FaultHTML},
	"a proxy's page":           {Kind: refserver.FaultHTML, Status: 502},
	"a call that is lost":      {Kind: refserver.FaultDropBefore},
	"an answer that is lost":   {Kind: refserver.FaultDropAfter},
	"an answer that is cut":    {Kind: refserver.FaultCut, Bytes: 5},
	"an answer that is short":  {Kind: refserver.FaultTruncate, Bytes: 5},
	"an answer that is harmed": {Kind: refserver.FaultCorrupt, Bytes: 0},
}

// afterwards are those that happen to a call when the Server has done what it asks.
var afterwards = []refserver.FaultKind{refserver.FaultDropAfter, refserver.FaultCut, refserver.FaultTruncate, refserver.FaultCorrupt}

// Each of them is done once to every call of one job, whose package is new, with real containers: the job is judged in the end,
// once, rightly, and by the same life.
func TestWhateverIsAnsweredAJobIsJudgedOnceAndRightly(t *testing.T) {
	soakOnly(t, "a dozen jobs, each with every call of it answered wrongly, take minutes")
	s := newStage(t)
	d := s.daemon("AJ_Lease__RequestSeconds=60")
	p := d.run()
	outcomes := []struct {
		source, verdict string
		score           float64
	}{{adds, "Accepted", 100}, {wrong, "Wrong answer", 40}}
	plain := s.problem
	for i, name := range slices.Sorted(maps.Keys(answers)) {
		var set []string
		harm := func(method, path string) string {
			f := answers[name]
			f.Method, f.Path, f.Times = method, path, 1
			set = append(set, s.fault(f))
			return set[len(set)-1]
		}
		// The job before is in its tests when this one is handed in: so that the next claim is for this one, and no earlier call of
		// either is harmed.
		s.problem = plain
		before := s.submit(adds)
		d.until("judging job " + before.ID + ": test 1a, 1 of 2")
		files := maps.Clone(sum)
		files["tests/1a.in"] = fmt.Sprintf("1 2%s\n", strings.Repeat(" ", i+1)) // another package
		var err error
		s.problem, err = s.AddPackage(refserver.Package{Name: fmt.Sprintf("sum %d", i), Content: bytes.NewReader(zipped(t, files))})
		must(t, err)
		want := outcomes[i%len(outcomes)]
		j := s.submit(want.source)
		harm("GET", "/runner/files/*")
		harm("POST", "/runner/jobs/"+j.ID+"/files")
		harm("POST", "/runner/jobs/"+j.ID+"/report")
		claim := harm("POST", "/runner/jobs/claim")
		s.eventually(name+": the claim goes wrong", func() bool { return s.hits(claim) > 0 })
		if slices.Contains(afterwards, answers[name].Kind) {
			// The Server gave the job away and nobody knows of it: the lease brings it back.
			s.eventually(name+": the job is given away", func() bool { return s.job(j.ID).Deliveries > 0 })
			s.Advance(2 * time.Minute)
			s.Sweep()
		}
		harm("POST", "/runner/files")
		harm("POST", "/runner/auth/challenge")
		harm("POST", "/runner/auth/token")
		s.Restart() // a handshake is needed
		began := time.Now()
		s.judged(before, "Accepted", 100)
		j = s.judged(j, want.verdict, want.score)
		t.Logf("%s: %s in %v after %d deliveries", name, want.verdict, time.Since(began).Round(time.Second), j.Deliveries)
		s.eventually(name+": the Runner hears that its report was taken", func() bool { return s.taken(j) > 0 })
		// One report for each delivery, and the one whose answer was wrong once more.
		if taken := s.taken(j); j.Deliveries > 3 || taken > j.Deliveries+1 {
			t.Errorf("%s: %d deliveries, %d reports answered with 200", name, j.Deliveries, taken)
		}
		for _, f := range s.Faults() {
			if f.Hits != 1 {
				t.Errorf("%s: %s %s went wrong %d times, so this shows nothing", name, f.Method, f.Path, f.Hits)
			}
		}
		for _, id := range set {
			s.ClearFault(id)
		}
		if p.hasEnded() {
			t.Fatalf("%s: the daemon has ended:\n%s", name, tail(p.text()))
		}
	}
	d.stop()
}

// taken is how many reports of a job were answered with 200, those of failures, those that came again, and a page that was answered in
// the Server's place included. The answer is there an instant before the call that brought it is written down.
func (s *stage) taken(j refserver.Job) (n int) {
	time.Sleep(time.Second)
	for _, c := range s.Calls(0) {
		if strings.Contains(c.Path, j.ID+"/report") && c.Status == http.StatusOK {
			n++
		}
	}
	return n
}

// The Server takes a lease back in the middle of a test: what was begun is dropped with its container, and the job is judged by the
// next delivery, once.
func TestALeaseThatIsLostDuringATestCostsNoJobAndNoSecondReport(t *testing.T) {
	soakOnly(t, "a lease is lost by waiting for its renewal")
	s := newStage(t)
	d := s.daemon("AJ_Lease__RequestSeconds=60")
	p := d.run()
	j := s.submit(adds)
	d.until("judging job " + j.ID + ": test 1a, 1 of 2")
	s.Advance(2 * time.Minute)
	s.Sweep()
	if got := s.job(j.ID); got.State != refserver.Queued {
		t.Fatalf("the job is %s, so that no lease was lost", got.State)
	}
	got := s.judged(j, "Accepted", 100)
	s.once(got)
	if got.Deliveries+got.Refunds != 2 || p.hasEnded() || !strings.Contains(p.text(), "ending=lost") {
		t.Errorf("%d deliveries, %d refunds, ended %v:\n%s", got.Deliveries, got.Refunds, p.hasEnded(), tail(p.text()))
	}
	d.stop()
}
