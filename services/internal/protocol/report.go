package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Report is the answer to one job, ready to be sent. Sent twice it is the same bytes (6.6). Make one with
// Judged.Report or Failed.Report; the zero Report is refused by Client.Report.
type Report struct{ wire reportWire }

// reportWire is the body of 2.11. Score and maxScore are pointers: 0 is a score, absent is none.
type reportWire struct {
	LeaseToken            string   `json:"leaseToken"`
	InfrastructureFailure bool     `json:"infrastructureFailure"`
	FailureReason         string   `json:"failureReason,omitempty"`
	Score                 *float64 `json:"score,omitempty"`
	MaxScore              *float64 `json:"maxScore,omitempty"`
	Verdict               string   `json:"verdict,omitempty"`
	RunnerVersion         string   `json:"runnerVersion,omitempty"`
}

// Bounds of what a report says.
const (
	verdictLimit = 64      // characters (2.11)
	reasonLimit  = 4 << 10 // bytes of a failure's reason; the contract sets none, a log line is enough
	versionLimit = 64      // characters (10.24)
)

// Judged is a result: the submission's score on the package's own scale and its verdict.
type Judged struct {
	Score, MaxScore float64
	Verdict         verdict.Verdict
	// Version of this Runner; may be empty.
	Version string
}

// Report makes the answer. It fails on a score that is no finite number and on a verdict that is blank or longer than 64
// characters: nothing doubtful is ever sent as a result.
func (j Judged) Report() (Report, error) {
	for name, v := range map[string]float64{"score": j.Score, "maxScore": j.MaxScore} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return Report{}, fmt.Errorf("protocol: a %s of %v cannot be reported", name, v)
		}
	}
	if strings.TrimSpace(string(j.Verdict)) == "" {
		return Report{}, errors.New("protocol: a result without a verdict cannot be reported")
	}
	if len(j.Verdict) > verdictLimit {
		return Report{}, fmt.Errorf("protocol: the verdict %q is longer than %d characters", j.Verdict, verdictLimit)
	}
	return Report{reportWire{
		Score: &j.Score, MaxScore: &j.MaxScore, Verdict: string(j.Verdict), RunnerVersion: trimText(j.Version, versionLimit),
	}}, nil
}

// Failed is an infrastructure failure: the machinery could not judge, and nothing is said about the submission.
type Failed struct {
	// Reason for the operator. An empty one is replaced by a sentence that says so; it is cut at 4 KiB.
	Reason  string
	Version string
}

// Report makes the answer. It carries no score, no scale and no verdict (6.1).
func (f Failed) Report() Report {
	reason := strings.TrimSpace(trimText(f.Reason, reasonLimit))
	if reason == "" {
		reason = "the Runner gave no reason"
	}
	return Report{reportWire{
		InfrastructureFailure: true, FailureReason: reason, RunnerVersion: trimText(f.Version, versionLimit),
	}}
}

// body is the request for the holder of a lease.
func (r Report) body(token LeaseToken) ([]byte, error) {
	w := r.wire
	if !w.InfrastructureFailure && w.Verdict == "" {
		return nil, errors.New("the report is neither a result nor a failure")
	}
	w.LeaseToken = string(token)
	return json.Marshal(w)
}

// Reported is what the Server made of a report (2.11).
type Reported struct {
	// ResultID is empty when nothing was stored: a failure that will be tried again.
	ResultID string
	// State is for logs only; its words differ between Servers (10.16).
	State string
	// Duplicate says that this answer had already arrived. It is a success.
	Duplicate bool
}

// readReported decodes an answer to a report. An object without any of its members is somebody else's answer, and to believe
// it would be to drop the result.
func readReported(body []byte) (Reported, error) {
	m, err := readMembers(body)
	if err != nil {
		return Reported{}, err
	}
	if !m.has("state") && !m.has("duplicate") && !m.has("resultId") {
		return Reported{}, errors.New("it says neither a state nor a result")
	}
	r := Reported{ResultID: clean(m.text("resultId")), State: clean(m.text("state"))}
	return r, m.get("duplicate", &r.Duplicate)
}

// Measured is one row of a trial's measurement: the slowest and largest run of one model solution on one group.
type Measured struct {
	Group int `json:"group"`
	// Language is empty unless the package declares more than one model solution.
	Language    string         `json:"language,omitempty"`
	TimeMs      int64          `json:"timeMs"`
	MemoryBytes *verdict.Bytes `json:"memoryBytes,omitempty"`
}

// TrialReport is the answer to a trial: either rows or, when Failure is not blank, the reason why there are none.
type TrialReport struct {
	Rows    []Measured
	Failure string
}

// body is the request for the holder of a lease; never both members (section 7).
func (t TrialReport) body(token LeaseToken) ([]byte, error) {
	w := struct {
		LeaseToken    string `json:"leaseToken"`
		Measurement   string `json:"measurement,omitempty"`
		FailureReason string `json:"failureReason,omitempty"`
	}{LeaseToken: string(token)}
	if strings.TrimSpace(t.Failure) != "" {
		w.FailureReason = trimText(t.Failure, reasonLimit)
		return json.Marshal(w)
	}
	if len(t.Rows) == 0 {
		return nil, errors.New("the trial's report has neither rows nor a reason")
	}
	var err error
	if w.Measurement, err = Measurement(t.Rows); err != nil {
		return nil, err
	}
	return json.Marshal(w)
}

// Measurement is the text in which a trial's rows travel (section 7).
func Measurement(rows []Measured) (string, error) {
	text, err := json.Marshal(struct {
		Measured []Measured `json:"measured"`
	}{rows})
	return string(text), err
}
