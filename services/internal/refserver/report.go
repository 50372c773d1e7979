package refserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/evalhost/evalhost/services/internal/protocol"
)

// Limits of a report (2.11).
const (
	verdictLimit = 64
	extraLimit   = 2 << 10
)

// reportBody is the body of 2.11; the implementation extra "files" is not read (10.12).
type reportBody struct {
	LeaseToken            string          `json:"leaseToken"`
	InfrastructureFailure bool            `json:"infrastructureFailure"`
	FailureReason         string          `json:"failureReason"`
	Score                 *float64        `json:"score"`
	MaxScore              *float64        `json:"maxScore"`
	Verdict               string          `json:"verdict"`
	RunnerVersion         string          `json:"runnerVersion"`
	Extra                 json.RawMessage `json:"extra"`
	Props                 json.RawMessage `json:"props"`
}

// report is 2.11: a repeat by the Runner whose result it is comes before the lease.
func (s *Server) report(x *exchange) (int, any) {
	var in reportBody
	if r := x.read(&in); r != nil {
		return 0, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.s.Jobs[x.PathValue("id")]
	if j == nil {
		return 0, notFound("job")
	}
	if !isID(in.LeaseToken) {
		return 0, refuse(http.StatusUnprocessableEntity, protocol.CodeLeaseMalformed, "the lease token is no UUID")
	}
	if j.Result != nil && j.Reporter == x.runner {
		return http.StatusOK, map[string]any{"resultId": j.Result.ID, "state": j.State, "duplicate": true}
	}
	if r := checkLease(&j.Holding, x.runner, in.LeaseToken, protocol.CodeJobState); r != nil {
		return 0, r
	}
	if r := checkReport(in); r != nil {
		return 0, r
	}
	j.FailureReason = ""
	if in.InfrastructureFailure {
		j.FailureReason = in.FailureReason
		if j.Deliveries < deliveryCap {
			requeue(&j.Holding)
			s.log.Info("a job could not be judged", "job", j.ID, "reason", in.FailureReason, "deliveries", j.Deliveries)
			return s.settle(http.StatusOK, map[string]any{"state": j.State, "duplicate": false})
		}
	}
	s.storeResult(j, x.runner, in)
	return s.settle(http.StatusOK, map[string]any{"resultId": j.Result.ID, "state": j.State, "duplicate": false})
}

// storeResult stores an answer for good. It is called with the lock held.
func (s *Server) storeResult(j *Job, runner string, in reportBody) {
	result := &Result{
		ID: newID(), Version: in.RunnerVersion, Props: in.Props, Extra: in.Extra, At: s.clock.Now(),
	}
	if result.Version == "" {
		result.Version = s.s.Runners[runner].Version
	}
	state := Failed
	if !in.InfrastructureFailure {
		state = Completed
		result.Verdict, result.RunnerScore, result.RunnerMax = in.Verdict, in.Score, in.MaxScore
		result.Score, result.MaxScore = rescale(in.Score, in.MaxScore, s.s.Submissions[j.SubmissionID].MaxPoints)
	}
	j.Result, j.Reporter = result, runner
	s.finish(&j.Holding, state)
	s.log.Info("a job is done", "job", j.ID, "state", state, "verdict", result.Verdict, "runner", runner)
}

// rescale puts a Runner's score on the assignment's scale (6.2); without one it stays as it is.
func rescale(score, scale, points *float64) (*float64, *float64) {
	if score == nil || scale == nil || points == nil || *scale <= 0 {
		return score, scale
	}
	scaled := *score / *scale * *points
	return &scaled, points
}

func checkReport(in reportBody) *Refusal {
	unprocessable := func(code protocol.Code, detail string) *Refusal {
		return refuse(http.StatusUnprocessableEntity, code, detail)
	}
	if !in.InfrastructureFailure {
		if strings.TrimSpace(in.Verdict) == "" {
			return unprocessable("result.verdict.missing", "a judged result needs a verdict")
		}
		if utf8.RuneCountInString(in.Verdict) > verdictLimit {
			return unprocessable("result.verdict.tooLong", "the verdict is longer than 64 characters")
		}
	}
	for _, doc := range []struct {
		name  string
		raw   json.RawMessage
		limit int
	}{{"extra", in.Extra, extraLimit}, {"props", in.Props, protocol.OpaqueLimit}} {
		switch raw := bytes.TrimSpace(doc.raw); {
		case len(raw) == 0 || bytes.Equal(raw, []byte("null")):
		case raw[0] != '{':
			return unprocessable("opaque.notAnObject", doc.name+" is no object")
		case len(raw) > doc.limit:
			return unprocessable("opaque.tooLarge", doc.name+" is too large")
		}
	}
	return nil
}

// firstDocument is the first of some opaque documents that is there.
func firstDocument(docs ...json.RawMessage) json.RawMessage {
	for _, d := range docs {
		if len(d) > 0 {
			return d
		}
	}
	return nil
}
