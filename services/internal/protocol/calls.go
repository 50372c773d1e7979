package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Health asks how the Server is (2.1); no token is needed.
func (c *Client) Health(ctx context.Context) (Health, error) {
	const op = "ask for the Server's health"
	a, err := c.get(ctx, op, "health")
	if err != nil {
		return Health{}, err
	}
	return decode(op, a, readHealth)
}

// Heartbeat says that this Runner is alive (2.16). It is never repeated faster than the caller's timer.
func (c *Client) Heartbeat(ctx context.Context) error {
	_, err := c.post(ctx, call{op: "send a heartbeat", path: "runner/heartbeat", bearer: true})
	return err
}

// Claim asks for a job (2.5); got is false when there is none, which is no error. A claim that asks to be held has no
// silence limit and ends 15 s after the wait at the latest. It is not safe to repeat: an answer that is lost may carry a
// job, which its lease then returns.
func (c *Client) Claim(ctx context.Context, r ClaimRequest) (job Job, got bool, err error) {
	const op = "claim a job"
	if r.Wait > WaitMax {
		return Job{}, false, &Error{Op: op, Class: Local, Detail: fmt.Sprintf("a wait of %s is longer than %s", r.Wait, WaitMax)}
	}
	body, err := json.Marshal(struct {
		LeaseSeconds int64 `json:"leaseSeconds,omitempty"`
		WaitSeconds  int64 `json:"waitSeconds,omitempty"`
	}{seconds(r.Lease), seconds(r.Wait)})
	if err != nil {
		return Job{}, false, &Error{Op: op, Class: Local, Cause: err}
	}
	a, err := c.post(ctx, call{op: op, path: "runner/jobs/claim", body: body, bearer: true, hold: r.Wait})
	if err != nil || a.status == http.StatusNoContent {
		return Job{}, false, err
	}
	job, err = decode(op, a, readJob)
	return job, err == nil, err
}

// ClaimTrial asks for a trial (section 7); it is never held. An older Server without trials answers NotFound.
func (c *Client) ClaimTrial(ctx context.Context, lease time.Duration) (trial Trial, got bool, err error) {
	const op = "claim a trial"
	body, err := json.Marshal(struct {
		LeaseSeconds int64 `json:"leaseSeconds,omitempty"`
	}{seconds(lease)})
	if err != nil {
		return Trial{}, false, &Error{Op: op, Class: Local, Cause: err}
	}
	a, err := c.post(ctx, call{op: op, path: "runner/trials/claim", body: body, bearer: true})
	if err != nil || a.status == http.StatusNoContent {
		return Trial{}, false, err
	}
	trial, err = decode(op, a, readTrial)
	return trial, err == nil, err
}

// Renew prolongs the lease of a job (2.6) and says until when; a lease is never shortened. See WorkLost for the failures
// that end the work.
func (c *Client) Renew(ctx context.Context, lease Lease, d time.Duration) (Instant, error) {
	return c.renew(ctx, "renew a job's lease", "jobs", lease, d)
}

// RenewTrial prolongs the lease of a trial, as Renew does.
func (c *Client) RenewTrial(ctx context.Context, lease Lease, d time.Duration) (Instant, error) {
	return c.renew(ctx, "renew a trial's lease", "trials", lease, d)
}

func (c *Client) renew(ctx context.Context, op, kind string, lease Lease, d time.Duration) (Instant, error) {
	a, err := c.withLease(ctx, op, kind, lease, "lease", map[string]any{"leaseSeconds": seconds(d)})
	if err != nil {
		return Instant{}, err
	}
	return decode(op, a, func(body []byte) (Instant, error) {
		m, err := readMembers(body)
		if err != nil {
			return Instant{}, err
		}
		return ParseInstant(m.text("leaseExpiresAt")), nil
	})
}

// Progress says that the work goes on (2.8). By contract it renews nothing.
func (c *Client) Progress(ctx context.Context, lease Lease) error {
	_, err := c.withLease(ctx, "report progress", "jobs", lease, "progress", nil)
	return err
}

// Release gives a job back because this Runner is stopping (2.9). A lost lease is a success: the job is back already.
func (c *Client) Release(ctx context.Context, lease Lease) error {
	_, err := c.withLease(ctx, "release a job", "jobs", lease, "release", nil)
	if ClassOf(err) == LeaseLost {
		return nil
	}
	return err
}

// Report answers a job (2.11). Sending the same report again is safe and answers Duplicate; see Resend.
func (c *Client) Report(ctx context.Context, lease Lease, r Report) (Reported, error) {
	const op = "report a result"
	body, err := r.body(lease.Token)
	if err != nil {
		return Reported{}, &Error{Op: op, Class: Local, Cause: err}
	}
	return c.report(ctx, op, "jobs", lease, body)
}

// ReportTrial answers a trial (section 7); repeating it is as safe.
func (c *Client) ReportTrial(ctx context.Context, lease Lease, r TrialReport) (Reported, error) {
	const op = "report a trial"
	body, err := r.body(lease.Token)
	if err != nil {
		return Reported{}, &Error{Op: op, Class: Local, Cause: err}
	}
	return c.report(ctx, op, "trials", lease, body)
}

func (c *Client) report(ctx context.Context, op, kind string, lease Lease, body []byte) (Reported, error) {
	path, err := workPath(op, kind, lease, "report")
	if err != nil {
		return Reported{}, err
	}
	a, err := c.post(ctx, call{op: op, path: path, body: body, bearer: true, secrets: []string{string(lease.Token)}})
	if err != nil {
		return Reported{}, err
	}
	return decode(op, a, readReported)
}

// Attach makes an uploaded file a part of an attempt under a role, "log" or "details" (2.14). It must happen before the
// report; a failure never stands in the report's way.
func (c *Client) Attach(ctx context.Context, lease Lease, file FileID, role string) error {
	_, err := c.withLease(ctx, "attach a file to a job", "jobs", lease, "files",
		map[string]any{"fileId": file, "name": trimText(role, 128)})
	return err
}

// AttachToRunner makes an uploaded file one of this Runner's own, replacing the one of that name (2.15).
func (c *Client) AttachToRunner(ctx context.Context, file FileID, name string) error {
	const op = "attach a file to the Runner"
	body, err := json.Marshal(map[string]any{"fileId": file, "name": trimText(name, 128)})
	if err != nil {
		return &Error{Op: op, Class: Local, Cause: err}
	}
	_, err = c.post(ctx, call{op: op, path: "runner/files/attach", body: body, bearer: true})
	return err
}

// withLease makes a call about held work: the lease token and what else the body holds.
func (c *Client) withLease(
	ctx context.Context, op, kind string, lease Lease, action string, extra map[string]any,
) (answer, error) {
	path, err := workPath(op, kind, lease, action)
	if err != nil {
		return answer{}, err
	}
	members := map[string]any{"leaseToken": string(lease.Token)}
	for name, value := range extra {
		if value != int64(0) { // a duration that was not asked for
			members[name] = value
		}
	}
	body, err := json.Marshal(members)
	if err != nil {
		return answer{}, &Error{Op: op, Class: Local, Cause: err}
	}
	return c.post(ctx, call{op: op, path: path, body: body, bearer: true, secrets: []string{string(lease.Token)}})
}

// workPath is the path of an action on a job or a trial. The id is checked, so that it cannot lead elsewhere.
func workPath(op, kind string, lease Lease, action string) (string, error) {
	if err := lease.ID.Check(); err != nil {
		return "", &Error{Op: op, Class: Local, Cause: err}
	}
	return "runner/" + kind + "/" + url.PathEscape(string(lease.ID)) + "/" + action, nil
}

// BatchLimit is how many jobs one batch call may name (2.7).
const BatchLimit = 512

// BatchAnswer is what a batch call says about one job: a code, or success.
type BatchAnswer struct {
	// Code is empty on success.
	Code Code
	// Expires is the new deadline; only a renewal has one.
	Expires Instant
}

// RenewAll prolongs many leases in one call (2.7). The answer is by job; a job the Server said nothing about is missing
// from it. An older Server without batch calls answers NotFound.
func (c *Client) RenewAll(ctx context.Context, leases []Lease, d time.Duration) (map[JobID]BatchAnswer, error) {
	return c.batch(ctx, "renew leases", "runner/jobs/leases", leases, d)
}

// ReleaseAll gives many jobs back in one call (2.10). No answer in it needs an action.
func (c *Client) ReleaseAll(ctx context.Context, leases []Lease) (map[JobID]BatchAnswer, error) {
	return c.batch(ctx, "release jobs", "runner/jobs/releases", leases, 0)
}

func (c *Client) batch(
	ctx context.Context, op, path string, leases []Lease, d time.Duration,
) (map[JobID]BatchAnswer, error) {
	type entry struct {
		JobID JobID  `json:"jobId"`
		Token string `json:"leaseToken"`
	}
	if len(leases) > BatchLimit {
		return nil, &Error{Op: op, Class: Local, Detail: fmt.Sprintf("%d jobs in one call, at most %d", len(leases), BatchLimit)}
	}
	entries, secrets := make([]entry, 0, len(leases)), make([]string, 0, len(leases))
	for _, l := range leases {
		entries, secrets = append(entries, entry{l.ID, string(l.Token)}), append(secrets, string(l.Token))
	}
	body, err := json.Marshal(struct {
		LeaseSeconds int64   `json:"leaseSeconds,omitempty"`
		Jobs         []entry `json:"jobs"`
	}{seconds(d), entries})
	if err != nil {
		return nil, &Error{Op: op, Class: Local, Cause: err}
	}
	a, err := c.post(ctx, call{op: op, path: path, body: body, bearer: true, secrets: secrets})
	if err != nil {
		return nil, err
	}
	return decode(op, a, readBatch)
}

func readBatch(body []byte) (map[JobID]BatchAnswer, error) {
	m, err := readMembers(body)
	if err != nil {
		return nil, err
	}
	var results []json.RawMessage
	if err := m.need("results", &results); err != nil {
		return nil, err
	}
	answers := make(map[JobID]BatchAnswer, len(results))
	for i, raw := range results {
		r, err := readMembers(raw)
		var id JobID
		var one BatchAnswer
		if err == nil {
			err = errors.Join(r.need("jobId", &id), r.get("code", &one.Code))
		}
		if err != nil {
			return nil, fmt.Errorf("results[%d]: %w", i, err)
		}
		one.Expires = ParseInstant(r.text("leaseExpiresAt"))
		answers[id] = one
	}
	return answers, nil
}

// seconds is a duration as the wire carries it: whole seconds, at least one unless it is nothing.
func seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return max(1, int64(d/time.Second))
}
