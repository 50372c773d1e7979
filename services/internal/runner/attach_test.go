package runner_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/refserver"
	"github.com/evalhost/evalhost/services/internal/runner"
)

// stands is the line that says that a file is an earlier delivery's.
const stands = "a file of an earlier delivery stands beside this answer"

// A job that is queued again keeps its attempt, and the attempt its files (2.5): the log that gave a failure's reason is not the
// compiler's, and nobody is left to believe that it is (6.4).
func TestAFileOfAnEarlierFailureBesideAVerdictIsSaid(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		e := &evaluator{}
		e.judge = func(context.Context, protocol.Job, func(runner.Step)) (runner.Answer, error) {
			if e.times() == 1 {
				return runner.Answer{}, &runner.Failure{Kind: runner.BadDownload, Err: errMachine}
			}
			return runner.Answer{Max: 100, Verdict: "Compilation error", Log: "main.c:1: error\n", Details: []byte(`{"score":0}`)}, nil
		}
		p := r.run(e)
		j := r.final(r.submit().ID, time.Minute)
		p.stops()
		if j.State != refserver.Completed || j.Result.Verdict != "Compilation error" || j.Deliveries != 2 {
			t.Fatalf("ended as %s with %+v after %d deliveries", j.State, j.Result, j.Deliveries)
		}
		if got := string(r.Attachment(j.ID, "log")); got != errMachine.Error()+"\n" {
			t.Fatalf("the log is %q, so this shows nothing", got)
		}
		if got := string(r.Attachment(j.ID, "details")); got != `{"score":0}` {
			t.Errorf("the details are %q", got)
		}
		if !p.said("level=WARN", stands, "file=log", "job="+j.ID) || p.said(stands, "file=details") || p.said("could not be attached") {
			t.Error("it was not said that the log is an earlier delivery's, or more than that")
		}
	})
}

// A stop after the files were attached and before the report was taken gives the job back with its files.
func TestFilesOfADeliveryThatWasGivenBackAreSaidBesideTheNextAnswer(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		first := r.run(&evaluator{})
		id := r.fault(refserver.Fault{Path: "/runner/jobs/*/report", Kind: refserver.FaultStatus, Status: 503, RetryAfter: "300"})
		j := r.submit()
		time.Sleep(time.Minute)
		first.stops()
		r.ClearFault(id)
		if got := r.job(j.ID); got.State != refserver.Queued || len(got.Attachments) != 2 || first.said(stands) {
			t.Fatalf("the job is %+v, so this shows nothing", got)
		}
		second := r.run(&evaluator{})
		r.accepted(j.ID, time.Minute)
		second.stops()
		if !second.said("level=WARN", stands, "file=log") || !second.said("level=WARN", stands, "file=details") {
			t.Error("it was not said that the files are an earlier delivery's")
		}
	})
}

// A lease that is lost while an answer waits for the Server is found out by the renewals: the answer is not even sent.
func TestALeaseThatIsLostWhileAnAnswerWaitsSilencesIt(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		p := r.run(&evaluator{}, func(o *runner.Options) { o.Lease = 2 * time.Minute })
		r.fault(refserver.Fault{Method: "POST", Path: "/runner/files", Kind: refserver.FaultStatus, Status: 503})
		j := r.submit()
		time.Sleep(10 * time.Second)
		must(t, r.Cancel(j.ID))
		time.Sleep(10 * time.Minute)
		if n := len(r.calls("/report")); n != 0 || !slices.Equal(p.endings(), []runner.Ending{runner.Lost}) {
			t.Errorf("%d reports, ended as %v", n, p.endings())
		}
		if p.said("the answer is sent without it") {
			t.Error("an answer was said to be sent, and none was")
		}
	})
}
