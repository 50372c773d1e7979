package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Sizes of the contract (Appendix A).
const (
	// OpaqueLimit bounds props, problemVersionProps and config, as the Server serialises them.
	OpaqueLimit = 256 << 10
	// PackageLimit bounds a package and any upload of a Runner.
	PackageLimit = 128 * verdict.MiB
	// SubmissionLimit bounds a submission's file.
	SubmissionLimit = 8 * verdict.MiB
)

// Leases and held claims (4.5, 2.5).
const (
	LeaseMin     = 60 * time.Second
	LeaseMax     = 3600 * time.Second
	LeaseDefault = 600 * time.Second
	WaitMax      = 300 * time.Second
)

// GrantedLease is how long the Server will have granted when asked for this: clamped to a minute and an hour, ten
// minutes when nothing is asked for (4.5). The Runner reckons with it on its own clock.
func GrantedLease(asked time.Duration) time.Duration {
	if asked <= 0 {
		return LeaseDefault
	}
	return min(max(asked, LeaseMin), LeaseMax)
}

// RenewEvery is the interval at which a lease is renewed: a quarter of what was granted, at least 5 s (4.5).
func RenewEvery(granted time.Duration) time.Duration { return max(granted/4, 5*time.Second) }

// ClaimRequest asks for a job (2.5).
type ClaimRequest struct {
	// Lease is the duration asked for, in whole seconds; 0 leaves it to the Server.
	Lease time.Duration
	// Wait is how long the Server may hold the call open, in whole seconds, at most WaitMax; 0 asks for none.
	Wait time.Duration
}

// Job is one attempt to judge, as it was handed out (2.5).
type Job struct {
	Lease Lease
	// LeaseExpires is for display; see Instant.
	LeaseExpires     Instant
	SubmissionID     string
	Attempt          int
	ProblemType      string
	ProblemVersionID string
	// Package is empty when the problem's version has none: Check then fails.
	Package PackageRef
	Files   []JobFile
	// Props is the participant's declaration, ProblemVersionProps the version's identity, Config the assignment's
	// overlay. Each is a JSON object or nil.
	Props, ProblemVersionProps, Config json.RawMessage

	// faults are the parts of the answer that could not be read.
	faults []error
}

// PackageRef is a package on the Server and the checksum it must have.
type PackageRef struct {
	ID     FileID
	SHA256 string
}

// JobFile is one file of a submission.
type JobFile struct {
	// Role is what the file is for: "source". FileName is the upload's name; its extension counts.
	Role, FileName string
	ID             FileID
	SHA256         string
	Size           verdict.Bytes
}

// Check says whether the job can be worked on. A job that fails it still has a lease, so it is answered with an
// infrastructure failure that carries the reason; it never gets a verdict.
func (j Job) Check() error {
	faults := append([]error(nil), j.faults...)
	switch {
	case j.Package.ID == "" && j.Package.SHA256 == "":
		faults = append(faults, errors.New("the problem's version has no package"))
	default:
		faults = append(faults, j.Package.ID.Check(), checkName("the package's checksum", j.Package.SHA256))
	}
	if j.ProblemType == "" {
		faults = append(faults, errors.New("the job names no problem type"))
	}
	if file, err := j.Source(); err != nil {
		faults = append(faults, err)
	} else {
		faults = append(faults, file.ID.Check(), checkName("the submission's checksum", file.SHA256))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("the Server handed out a job that cannot be judged: %w", err)
	}
	return nil
}

// Source is the submission's file: the one with the role "source", else the first (4.4).
func (j Job) Source() (JobFile, error) {
	for _, f := range j.Files {
		if f.Role == "source" {
			return f, nil
		}
	}
	if len(j.Files) == 0 {
		return JobFile{}, errors.New("the job carries no file of the submission")
	}
	return j.Files[0], nil
}

// Language is the language the participant declared: the string props.language. It fails when there is none; a default
// is never guessed (4.4).
func (j Job) Language() (string, error) {
	if j.Props == nil {
		return "", errors.New("the job carries no props, so no language is declared")
	}
	m, err := readMembers(j.Props)
	if err != nil {
		return "", fmt.Errorf("props: %w", err)
	}
	var language string
	if err := m.need("language", &language); err != nil {
		return "", fmt.Errorf("props: %w", err)
	}
	if language == "" {
		return "", errors.New("props: the language is empty")
	}
	return language, nil
}

// readJob decodes an answer to a claim. Only what is needed to give an answer back must be right: the job's id and its
// lease. Everything else that is wrong becomes a fault that Check reports.
func readJob(body []byte) (Job, error) {
	m, err := readMembers(body)
	if err != nil {
		return Job{}, err
	}
	var j Job
	if j.Lease, err = readLease(m, "jobId"); err != nil {
		return Job{}, err
	}
	j.LeaseExpires = ParseInstant(m.text("leaseExpiresAt"))
	j.SubmissionID = m.text("submissionId")
	j.ProblemVersionID = m.text("problemVersionId")
	fault := func(err error) {
		if err != nil {
			j.faults = append(j.faults, err)
		}
	}
	fault(m.get("attempt", &j.Attempt))
	fault(m.get("problemType", &j.ProblemType))
	fault(m.get("packageFileId", &j.Package.ID))
	fault(m.get("packageSha256", &j.Package.SHA256))
	for name, into := range map[string]*json.RawMessage{
		"props": &j.Props, "problemVersionProps": &j.ProblemVersionProps, "config": &j.Config,
	} {
		doc, err := m.document(name)
		fault(err)
		*into = doc
	}
	var files []json.RawMessage
	fault(m.get("files", &files))
	for i, raw := range files {
		f, err := readJobFile(raw)
		if err != nil {
			fault(fmt.Errorf("files[%d]: %w", i, err))
			continue
		}
		j.Files = append(j.Files, f)
	}
	return j, nil
}

// readJobFile decodes one entry of files. Its member language is not read, by contract.
func readJobFile(raw []byte) (JobFile, error) {
	m, err := readMembers(raw)
	if err != nil {
		return JobFile{}, err
	}
	f := JobFile{Role: m.text("name"), FileName: m.text("fileName")}
	err = errors.Join(m.need("fileId", &f.ID), m.need("sha256", &f.SHA256), m.get("sizeBytes", &f.Size))
	if f.Size < 0 {
		err = errors.Join(err, fmt.Errorf("a size of %d bytes", int64(f.Size)))
	}
	return f, err
}

// readLease decodes the two members no work is possible without.
func readLease(m members, idName string) (Lease, error) {
	var l Lease
	if err := errors.Join(m.need(idName, &l.ID), m.need("leaseToken", &l.Token)); err != nil {
		return Lease{}, err
	}
	if err := l.ID.Check(); err != nil {
		return Lease{}, err
	}
	if l.Token == "" || len(l.Token) > maxName {
		return Lease{}, errors.New("the lease token is empty or too long")
	}
	return l, nil
}

// Trial is a package whose model solutions are to be timed (section 7).
type Trial struct {
	Lease        Lease
	LeaseExpires Instant
	ProblemType  string
	Package      PackageRef

	faults []error
}

// Check says whether the trial can be worked on; otherwise it is answered with the reason.
func (t Trial) Check() error {
	faults := append([]error(nil), t.faults...)
	faults = append(faults, t.Package.ID.Check(), checkName("the package's checksum", t.Package.SHA256))
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("the Server handed out a trial that cannot be measured: %w", err)
	}
	return nil
}

// readTrial decodes an answer to a trial claim, as readJob does.
func readTrial(body []byte) (Trial, error) {
	m, err := readMembers(body)
	if err != nil {
		return Trial{}, err
	}
	var t Trial
	if t.Lease, err = readLease(m, "trialId"); err != nil {
		return Trial{}, err
	}
	t.LeaseExpires = ParseInstant(m.text("leaseExpiresAt"))
	if err := errors.Join(
		m.get("problemType", &t.ProblemType), m.get("packageFileId", &t.Package.ID),
		m.get("packageSha256", &t.Package.SHA256),
	); err != nil {
		t.faults = append(t.faults, err)
	}
	return t, nil
}
