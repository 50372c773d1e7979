package refserver

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evalhost/evalhost/services/internal/identity"
	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// WorkState is where a job or a trial is in its life.
type WorkState string

// The states of a job; a trial is never canceled or superseded.
const (
	Queued     WorkState = "queued"
	Running    WorkState = "running"
	Completed  WorkState = "completed"
	Failed     WorkState = "failed"
	Canceled   WorkState = "canceled"
	Superseded WorkState = "superseded"
)

// Final says that nothing more will happen to it.
func (s WorkState) Final() bool { return s != Queued && s != Running }

// Runner is a registered Runner.
type Runner struct {
	ID           string               `json:"id"`
	Fingerprint  identity.Fingerprint `json:"fingerprint"`
	PublicKey    string               `json:"publicKey"`
	Name         string               `json:"name"`
	Product      string               `json:"product,omitempty"`
	Version      string               `json:"version,omitempty"`
	State        protocol.RunnerState `json:"state"`
	ProblemTypes []string             `json:"problemTypes"`
	External     bool                 `json:"external"`
	Tags         []string             `json:"tags"`
	Machine      json.RawMessage      `json:"machine,omitempty"`
	RegisteredAt time.Time            `json:"registeredAt"`
	ApprovedAt   time.Time            `json:"approvedAt,omitzero"`
	LastSeen     time.Time            `json:"lastSeen"`
	// Files are those attached to the Runner itself, by name.
	Files map[string]string `json:"files,omitempty"`
}

// Problem is a package together with what the Server says about it.
type Problem struct {
	ID           string          `json:"id"`
	VersionID    string          `json:"versionId"`
	Name         string          `json:"name"`
	Type         string          `json:"type"`
	PackageID    string          `json:"packageId"`
	SHA256       string          `json:"sha256"`
	Size         verdict.Bytes   `json:"size"`
	External     bool            `json:"external"`
	Tags         []string        `json:"tags,omitempty"`
	VersionProps json.RawMessage `json:"versionProps,omitempty"`
	Config       json.RawMessage `json:"config,omitempty"`
}

// SubmissionRecord is what a participant handed in.
type SubmissionRecord struct {
	ID        string          `json:"id"`
	ProblemID string          `json:"problemId"`
	FileID    string          `json:"fileId"`
	FileName  string          `json:"fileName"`
	SHA256    string          `json:"sha256"`
	Size      verdict.Bytes   `json:"size"`
	Props     json.RawMessage `json:"props,omitempty"`
	Config    json.RawMessage `json:"config,omitempty"`
	// MaxPoints is what the assignment is worth; nil keeps the package's own scale.
	MaxPoints *float64  `json:"maxPoints,omitempty"`
	At        time.Time `json:"at"`
}

// Holding is what the Server remembers about handing work out.
type Holding struct {
	State         WorkState     `json:"state"`
	Lease         string        `json:"lease,omitempty"`
	LeaseExpires  time.Time     `json:"leaseExpires,omitzero"`
	Granted       time.Duration `json:"grantedNs,omitempty"`
	Holder        string        `json:"holder,omitempty"`
	Deliveries    int           `json:"deliveries"`
	Releases      int           `json:"releases"`
	Refunds       int           `json:"refunds"`
	Acknowledged  bool          `json:"acknowledged"`
	FailureReason string        `json:"failureReason,omitempty"`
	// Reporter is the Runner whose answer was stored.
	Reporter string    `json:"reporter,omitempty"`
	Created  time.Time `json:"created"`
	Finished time.Time `json:"finished,omitzero"`
}

// Job is one attempt at judging a submission.
type Job struct {
	ID           string `json:"id"`
	SubmissionID string `json:"submissionId"`
	Attempt      int    `json:"attempt"`
	Holding
	Result      *Result      `json:"result,omitempty"`
	Attachments []Attachment `json:"attachments,omitempty"`
}

// Result is a stored answer.
type Result struct {
	ID string `json:"id"`
	// Score of MaxScore on the assignment's scale; nil for a failure.
	Score    *float64 `json:"score,omitempty"`
	MaxScore *float64 `json:"maxScore,omitempty"`
	// RunnerScore of RunnerMax as they were reported.
	RunnerScore *float64        `json:"runnerScore,omitempty"`
	RunnerMax   *float64        `json:"runnerMax,omitempty"`
	Verdict     string          `json:"verdict,omitempty"`
	Version     string          `json:"runnerVersion,omitempty"`
	Props       json.RawMessage `json:"props,omitempty"`
	Extra       json.RawMessage `json:"extra,omitempty"`
	At          time.Time       `json:"at"`
}

// Solved says that the result has full marks.
func (r *Result) Solved() bool {
	return r != nil && r.Score != nil && r.MaxScore != nil && *r.Score >= *r.MaxScore
}

// Attachment is a file that belongs to an attempt, under a role.
type Attachment struct {
	Name   string `json:"name"`
	FileID string `json:"fileId"`
}

// Trial is a package whose model solutions are to be timed.
type Trial struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	PackageID string `json:"packageId,omitempty"`
	SHA256    string `json:"sha256"`
	Holding
	Measurement string `json:"measurement,omitempty"`
}

// File is a stored file; its bytes are in the blobs.
type File struct {
	ID     string        `json:"id"`
	Name   string        `json:"name"`
	MIME   string        `json:"mime"`
	SHA256 string        `json:"sha256"`
	Size   verdict.Bytes `json:"size"`
	// Owner is the Runner that uploaded it; empty for a person's file.
	Owner string `json:"owner,omitempty"`
	// Referenced says what refers to it; one upload is referenced once.
	Referenced string    `json:"referenced,omitempty"`
	At         time.Time `json:"at"`
}

// Maintenance is the Server's level and why.
type Maintenance struct {
	Level  string    `json:"level"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

// The levels of maintenance (4.7).
const (
	LevelOpen     = "open"
	LevelDraining = "draining"
	LevelClosed   = "closed"
)

// state is everything that survives a restart.
type state struct {
	Version     int                          `json:"version"`
	Runners     map[string]*Runner           `json:"runners"`
	Problems    map[string]*Problem          `json:"problems"`
	Submissions map[string]*SubmissionRecord `json:"submissions"`
	Jobs        map[string]*Job              `json:"jobs"`
	Trials      map[string]*Trial            `json:"trials"`
	Files       map[string]*File             `json:"files"`
	// Order lists jobs, trials, problems and runners in the order they came.
	Order       map[string][]string `json:"order"`
	Maintenance Maintenance         `json:"maintenance"`
	// ExternalOpen allows external Runners to be handed work.
	ExternalOpen bool `json:"externalOpen"`
}

const stateVersion = 1

func newState() *state {
	return &state{
		Version: stateVersion, Runners: map[string]*Runner{}, Problems: map[string]*Problem{},
		Submissions: map[string]*SubmissionRecord{}, Jobs: map[string]*Job{}, Trials: map[string]*Trial{},
		Files: map[string]*File{}, Order: map[string][]string{}, Maintenance: Maintenance{Level: LevelOpen},
	}
}

// check says what is wrong with a state that was read: what refers to something that is not there would be found by a call, in
// the middle of a change.
func (s *state) check() error {
	if s.Version != stateVersion {
		return fmt.Errorf("it has version %d, this program reads version %d", s.Version, stateVersion)
	}
	if s.Runners == nil || s.Problems == nil || s.Submissions == nil || s.Jobs == nil || s.Trials == nil || s.Files == nil || s.Order == nil {
		return errors.New("a member is null")
	}
	for id, r := range s.Runners {
		if r == nil {
			return fmt.Errorf("runner %s is null", id)
		}
	}
	for id, f := range s.Files {
		if f == nil {
			return fmt.Errorf("file %s is null", id)
		}
	}
	for id, t := range s.Trials {
		if t == nil {
			return fmt.Errorf("trial %s is null", id)
		}
	}
	for id, p := range s.Problems {
		if p == nil || s.Files[p.PackageID] == nil {
			return fmt.Errorf("problem %s has no package", id)
		}
	}
	for id, sub := range s.Submissions {
		if sub == nil || s.Problems[sub.ProblemID] == nil || s.Files[sub.FileID] == nil {
			return fmt.Errorf("submission %s has no problem or no file", id)
		}
	}
	for id, j := range s.Jobs {
		if j == nil || s.Submissions[j.SubmissionID] == nil {
			return fmt.Errorf("job %s has no submission", id)
		}
	}
	for kind, there := range map[string]func(string) bool{
		"jobs": func(id string) bool { return s.Jobs[id] != nil }, "trials": func(id string) bool { return s.Trials[id] != nil },
		"problems": func(id string) bool { return s.Problems[id] != nil }, "runners": func(id string) bool { return s.Runners[id] != nil },
	} {
		for _, id := range s.Order[kind] {
			if !there(id) {
				return fmt.Errorf("%s %s stands in the order and is not there", kind, id)
			}
		}
	}
	return nil
}

// append records that something came after everything of its kind.
func (s *state) append(kind, id string) { s.Order[kind] = append(s.Order[kind], id) }

// runnerBy finds a Runner by its fingerprint.
func (s *state) runnerBy(f identity.Fingerprint) *Runner {
	for _, r := range s.Runners {
		if r.Fingerprint == f {
			return r
		}
	}
	return nil
}

// problemOf is the problem a job belongs to.
func (s *state) problemOf(j *Job) *Problem {
	return s.Problems[s.Submissions[j.SubmissionID].ProblemID]
}

// busy says whether another attempt of a job's submission is running.
func (s *state) busy(j *Job) bool {
	for _, other := range s.Jobs {
		if other.ID != j.ID && other.SubmissionID == j.SubmissionID && other.State == Running {
			return true
		}
	}
	return false
}

// copyJob is a copy nobody else changes.
func copyJob(j *Job) Job {
	c := *j
	c.Attachments = slices.Clone(j.Attachments)
	if j.Result != nil {
		r := *j.Result
		c.Result = &r
	}
	return c
}

// newID is a random UUID in the form the contract uses.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// isID says whether text is a UUID in hyphenated form, of either case.
func isID(text string) bool {
	if len(text) != 36 {
		return false
	}
	for i, r := range text {
		hyphen := i == 8 || i == 13 || i == 18 || i == 23
		hex := r >= '0' && r <= '9' || r >= 'a' && r <= 'f' || r >= 'A' && r <= 'F'
		if hyphen != (r == '-') || !hyphen && !hex {
			return false
		}
	}
	return true
}
