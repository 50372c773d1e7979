package protocol

import (
	"context"
	"encoding/json"
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
	const op = "send a heartbeat"
	a, err := c.post(ctx, call{op: op, path: "runner/heartbeat", bearer: true})
	return taken(op, a, err)
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

// Release gives a job back because this Runner is stopping (2.9). A lost lease is a success: the job is back already.
func (c *Client) Release(ctx context.Context, lease Lease) error {
	const op = "release a job"
	a, err := c.withLease(ctx, op, "jobs", lease, "release", nil)
	if ClassOf(err) == LeaseLost {
		return nil
	}
	return taken(op, a, err)
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
	const op = "attach a file to a job"
	a, err := c.withLease(ctx, op, "jobs", lease, "files", map[string]any{"fileId": file, "name": trimText(role, 128)})
	return taken(op, a, err)
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

// seconds is a duration as the wire carries it: whole seconds, at least one unless it is nothing.
func seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return max(1, int64(d/time.Second))
}
