package refserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/evalhost/evalhost/services/internal/identity"
	"github.com/evalhost/evalhost/services/internal/protocol"
)

// Package is a problem to add.
type Package struct {
	// Name for people; Type is the problem type, "standard-io@1" when empty.
	Name, Type string
	// Tags of the problem's pool; none is "default".
	Tags     []string
	External bool
	Content  io.Reader
	// VersionProps and Config are JSON objects or nil; Config is the assignment's overlay for every submission that has
	// none of its own.
	VersionProps, Config json.RawMessage
}

// Submission is a file to be judged.
type Submission struct {
	ProblemID string
	// FileName counts: its extension is checked.
	FileName string
	Content  io.Reader
	// Language is put into Props when it is not empty.
	Language string
	// Props and Config are JSON objects or nil.
	Props, Config json.RawMessage
	// MaxPoints is what the assignment is worth; nil keeps the package's own scale.
	MaxPoints *float64
}

// open refuses what people do while the Server is not open. It is called with the lock held.
func (s *Server) open() *Refusal {
	if level := s.s.Maintenance.Level; level != LevelOpen {
		return &Refusal{
			Status: http.StatusServiceUnavailable, Code: protocol.CodeMaintenance, Detail: "the Server is in maintenance: " + level,
			RetryAfter: maintenanceAsk,
		}
	}
	return nil
}

// fail turns a refusal into an error, keeping nil nil.
func fail(r *Refusal) error {
	if r == nil {
		return nil
	}
	return r
}

// checkDocument accepts a JSON object or nothing, of at most 256 KiB (1.3).
func checkDocument(name string, raw json.RawMessage) *Refusal {
	if len(raw) == 0 {
		return nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		return refuse(http.StatusUnprocessableEntity, "opaque.notAnObject", name+" is no JSON object")
	}
	if len(raw) > protocol.OpaqueLimit {
		return refuse(http.StatusUnprocessableEntity, "opaque.tooLarge", name+" is larger than 256 KiB")
	}
	return nil
}

// AddPackage stores a package and makes a problem of it. Its error is a *Refusal or of the store.
func (s *Server) AddPackage(p Package) (Problem, error) {
	if p.Type == "" {
		p.Type = "standard-io@1"
	}
	for name, doc := range map[string]json.RawMessage{"versionProps": p.VersionProps, "config": p.Config} {
		if r := checkDocument(name, doc); r != nil {
			return Problem{}, r
		}
	}
	f, err := s.keepPackage(p.Content)
	if err != nil {
		return Problem{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.open(); r != nil {
		s.store.drop(f.ID)
		return Problem{}, r
	}
	problem := &Problem{
		ID: newID(), VersionID: newID(), Name: p.Name, Type: p.Type, PackageID: f.ID, SHA256: f.SHA256, Size: f.Size,
		External: p.External, Tags: p.Tags, VersionProps: p.VersionProps, Config: p.Config,
	}
	if problem.Name == "" {
		problem.Name = "Problem " + problem.ID[:8]
	}
	f.At, f.Referenced = s.clock.Now(), "problem "+problem.ID
	s.s.Files[f.ID] = f
	s.s.Problems[problem.ID] = problem
	s.s.append("problems", problem.ID)
	return *problem, fail(s.changed())
}

func (s *Server) keepPackage(content io.Reader) (*File, error) {
	f, err := s.keep("package.zip", "application/zip", content, protocol.PackageLimit)
	if errors.Is(err, errTooLarge) {
		return nil, refuse(http.StatusRequestEntityTooLarge, protocol.CodePayloadTooLarge, "a package is at most 128 MiB")
	}
	if err != nil {
		return nil, fmt.Errorf("refserver: store a package: %w", err)
	}
	if f.Size == 0 {
		s.store.drop(f.ID)
		return nil, refuse(http.StatusUnprocessableEntity, protocol.CodeFileRequired, "the package is empty")
	}
	return f, nil
}

// Submit stores a submission and queues its first attempt. Its error is a *Refusal or of the store.
func (s *Server) Submit(sub Submission) (Job, error) {
	props, r := withLanguage(sub.Props, sub.Language)
	if r == nil {
		r = checkDocument("config", sub.Config)
	}
	if r == nil && sub.FileName == "" {
		r = refuse(http.StatusUnprocessableEntity, protocol.CodeFileRequired, "the file has no name")
	}
	if r != nil {
		return Job{}, r
	}
	f, err := s.keep(sub.FileName, "application/octet-stream", sub.Content, protocol.SubmissionLimit)
	if errors.Is(err, errTooLarge) {
		return Job{}, refuse(http.StatusRequestEntityTooLarge, protocol.CodePayloadTooLarge, "a submission is at most 8 MiB")
	}
	if err != nil {
		return Job{}, fmt.Errorf("refserver: store a submission: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r = s.open()
	if p := s.s.Problems[sub.ProblemID]; r == nil && p == nil {
		r = notFound("problem")
	}
	if r != nil {
		s.store.drop(f.ID)
		return Job{}, r
	}
	record := &SubmissionRecord{
		ID: newID(), ProblemID: sub.ProblemID, FileID: f.ID, FileName: sub.FileName, SHA256: f.SHA256, Size: f.Size,
		Props: props, Config: sub.Config, MaxPoints: sub.MaxPoints, At: s.clock.Now(),
	}
	f.At, f.Referenced = record.At, "submission "+record.ID
	s.s.Files[f.ID] = f
	s.s.Submissions[record.ID] = record
	j := s.queue(record.ID, 1)
	return copyJob(j), fail(s.changed())
}

// withLanguage is the participant's declaration with a language in it.
func withLanguage(props json.RawMessage, language string) (json.RawMessage, *Refusal) {
	if r := checkDocument("props", props); r != nil || language == "" {
		return props, r
	}
	m := map[string]any{}
	if len(props) > 0 {
		_ = json.Unmarshal(props, &m) // checked
	}
	m["language"] = language
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, malformed(err)
	}
	return raw, nil
}

// queue makes a new attempt. It is called with the lock held.
func (s *Server) queue(submission string, attempt int) *Job {
	j := &Job{
		ID: newID(), SubmissionID: submission, Attempt: attempt, Holding: Holding{State: Queued, Created: s.clock.Now()},
	}
	s.s.Jobs[j.ID] = j
	s.s.append("jobs", j.ID)
	return j
}

// Rejudge queues another attempt of a submission and supersedes one that nobody has taken; a running one goes on.
func (s *Server) Rejudge(submission string) (Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.s.Submissions[submission] == nil {
		return Job{}, notFound("submission")
	}
	last := 0
	for _, j := range s.s.Jobs {
		if j.SubmissionID != submission {
			continue
		}
		last = max(last, j.Attempt)
		if j.State == Queued {
			s.finish(&j.Holding, Superseded)
		}
	}
	j := s.queue(submission, last+1)
	return copyJob(j), fail(s.changed())
}

// Cancel ends a job that is not final; its Runner's lease is gone at once.
func (s *Server) Cancel(job string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.s.Jobs[job]
	if j == nil {
		return notFound("job")
	}
	if j.State.Final() {
		return refuse(http.StatusConflict, protocol.CodeJobState, "the job is "+string(j.State))
	}
	s.finish(&j.Holding, Canceled)
	return fail(s.changed())
}

// AddTrial queues a package whose model solutions are to be timed.
func (s *Server) AddTrial(problemType string, content io.Reader) (Trial, error) {
	f, err := s.keepPackage(content)
	if err != nil {
		return Trial{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &Trial{
		ID: newID(), Type: problemType, PackageID: f.ID, SHA256: f.SHA256, Holding: Holding{State: Queued, Created: s.clock.Now()},
	}
	f.At, f.Referenced = t.Created, "trial "+t.ID
	s.s.Files[f.ID] = f
	s.s.Trials[t.ID] = t
	s.s.append("trials", t.ID)
	return *t, fail(s.changed())
}

// withRunner changes a Runner, found by its id or its fingerprint.
func (s *Server) withRunner(id string, change func(*Runner) *Refusal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.s.Runners[id]
	if r == nil {
		r = s.s.runnerBy(identity.Fingerprint(id))
	}
	if r == nil {
		return notFound("Runner")
	}
	if refused := change(r); refused != nil {
		return refused
	}
	return fail(s.changed())
}

// Approve lets a Runner, named by id or fingerprint, take tokens and work. A revoked one stays revoked.
func (s *Server) Approve(id string) error {
	return s.withRunner(id, func(r *Runner) *Refusal {
		if r.State == protocol.RunnerRevoked {
			return refuse(http.StatusConflict, protocol.CodeRevoked, "a revocation is for ever")
		}
		r.State, r.ApprovedAt = protocol.Approved, s.clock.Now()
		return nil
	})
}

// Revoke shuts a Runner out for ever and queues what it holds.
func (s *Server) Revoke(id string) error {
	return s.withRunner(id, func(r *Runner) *Refusal {
		r.State = protocol.RunnerRevoked
		for _, j := range s.s.Jobs {
			if j.State == Running && j.Holder == r.ID {
				requeue(&j.Holding)
			}
		}
		for _, t := range s.s.Trials {
			if t.State == Running && t.Holder == r.ID {
				requeue(&t.Holding)
			}
		}
		return nil
	})
}

// SetTags moves a Runner into other pools.
func (s *Server) SetTags(id string, tags []string) error {
	return s.withRunner(id, func(r *Runner) *Refusal {
		if refused := checkTags(tags); refused != nil {
			return refused
		}
		r.Tags = slices.Clone(tags)
		return nil
	})
}

// SetExternal switches handing work to external Runners.
func (s *Server) SetExternal(open bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.s.ExternalOpen = open
	return fail(s.changed())
}

// SetMaintenance sets the level: LevelOpen, LevelDraining or LevelClosed.
func (s *Server) SetMaintenance(level, reason string) error {
	if !slices.Contains([]string{LevelOpen, LevelDraining, LevelClosed}, level) {
		return malformed(fmt.Errorf("the level is %q; expected open, draining or closed", level))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.s.Maintenance = Maintenance{Level: level}
	if level != LevelOpen {
		s.s.Maintenance = Maintenance{Level: level, Reason: reason, Since: s.clock.Now()}
	}
	return fail(s.changed())
}

// Restart forgets what a restarted Server forgets, all tokens and nonces, and cuts off held calls.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	s.nonces, s.tokens = map[string]nonce{}, map[string]bearer{}
	close(s.wake)
	s.wake = make(chan struct{})
}

// Advance moves the Server's clock and sweeps.
func (s *Server) Advance(d time.Duration) {
	s.clock.Advance(d)
	s.Sweep()
}

// Job is a copy of a job; false if there is none.
func (s *Server) Job(id string) (Job, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.s.Jobs[id]
	if j == nil {
		return Job{}, false
	}
	return copyJob(j), true
}

// Trial is a copy of a trial; false if there is none.
func (s *Server) Trial(id string) (Trial, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.s.Trials[id]
	if t == nil {
		return Trial{}, false
	}
	return *t, true
}

// Attachment is the content of a file attached to a job, at most 16 MiB of it; nil if there is none of that name.
func (s *Server) Attachment(job, name string) []byte {
	j, _ := s.Job(job)
	for _, a := range j.Attachments {
		if a.Name == name {
			b, err := s.contents(a.FileID, 16<<20)
			if err != nil {
				s.log.Error("an attachment cannot be read", "job", job, "error", err)
			}
			return b
		}
	}
	return nil
}

// Snapshot is everything the Server knows, for people and tests. It holds no token and no nonce; leases are blanked.
type Snapshot struct {
	Now         time.Time                   `json:"now"`
	Runners     []Runner                    `json:"runners"`
	Problems    []Problem                   `json:"problems"`
	Submissions map[string]SubmissionRecord `json:"submissions"`
	Jobs        []Job                       `json:"jobs"`
	Trials      []Trial                     `json:"trials"`
	Maintenance Maintenance                 `json:"maintenance"`
	Faults      []Fault                     `json:"faults"`
}

// Snapshot copies the state, each kind in the order it came.
func (s *Server) Snapshot() Snapshot {
	faults := s.Faults()
	s.mu.Lock()
	defer s.mu.Unlock()
	v := Snapshot{
		Now: s.clock.Now(), Maintenance: s.s.Maintenance, Faults: faults, Submissions: map[string]SubmissionRecord{},
		Runners: []Runner{}, Problems: []Problem{}, Jobs: []Job{}, Trials: []Trial{},
	}
	for _, id := range s.s.Order["runners"] {
		v.Runners = append(v.Runners, *s.s.Runners[id])
	}
	for _, id := range s.s.Order["problems"] {
		v.Problems = append(v.Problems, *s.s.Problems[id])
	}
	for id, sub := range s.s.Submissions {
		v.Submissions[id] = *sub
	}
	for _, id := range s.s.Order["jobs"] {
		j := copyJob(s.s.Jobs[id])
		j.Lease = ""
		v.Jobs = append(v.Jobs, j)
	}
	for _, id := range s.s.Order["trials"] {
		t := *s.s.Trials[id]
		t.Lease = ""
		v.Trials = append(v.Trials, t)
	}
	return v
}

// BytesSubmission is a submission of bytes in memory.
func BytesSubmission(problem, fileName, language string, content []byte) Submission {
	return Submission{ProblemID: problem, FileName: fileName, Language: language, Content: bytes.NewReader(content)}
}
