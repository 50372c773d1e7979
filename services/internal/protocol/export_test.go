package protocol

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/evalhost/evalhost/services/internal/identity"
)

// What tests outside of the package need from inside it.

// RawPost posts a body as it is.
func RawPost(ctx context.Context, c *Client, path string, body string) (int, error) {
	a, err := c.post(ctx, call{op: "post", path: path, body: []byte(body)})
	return a.status, err
}

// Progress says that the work goes on (2.8); a Runner that renews on a timer has no use for it.
func Progress(ctx context.Context, c *Client, lease Lease) error {
	_, err := c.withLease(ctx, "report progress", "jobs", lease, "progress", nil)
	return err
}

// Batch makes a call about several leases (2.7, 2.10); a Runner with one job has no use for it. The code of each job, empty on
// success, is by its id.
func Batch(ctx context.Context, c *Client, path string, leases ...Lease) (map[JobID]Code, error) {
	jobs := []map[string]any{}
	for _, l := range leases {
		jobs = append(jobs, map[string]any{"jobId": l.ID, "leaseToken": string(l.Token)})
	}
	body, err := json.Marshal(map[string]any{"leaseSeconds": 3600, "jobs": jobs})
	if err != nil {
		return nil, err
	}
	a, err := c.post(ctx, call{op: "post a batch", path: path, body: body, bearer: true})
	if err != nil {
		return nil, err
	}
	var said struct {
		Results []struct {
			JobID          JobID
			Code           Code
			LeaseExpiresAt string
		}
	}
	if err := json.Unmarshal(a.body, &said); err != nil || said.Results == nil {
		return nil, fmt.Errorf("%s: %w", a.body, err)
	}
	codes := map[JobID]Code{}
	for _, r := range said.Results {
		if path == "runner/jobs/leases" && (r.Code == "") != (r.LeaseExpiresAt != "") {
			return nil, fmt.Errorf("%s has a code and a deadline, or neither", r.JobID)
		}
		codes[r.JobID] = r.Code
	}
	return codes, nil
}

// ExchangeToken trades a challenge, signed by any key, for a token of the key's fingerprint.
func ExchangeToken(ctx context.Context, c *Client, key *identity.Key, challenge Challenge) error {
	_, err := c.exchangeToken(ctx, key, challenge)
	return err
}

// SignedBody is the token request for one key's fingerprint, signed by another.
func SignedBody(fingerprint identity.Fingerprint, signer *identity.Key, challenge Challenge) string {
	return `{"fingerprint":"` + string(fingerprint) + `","nonce":"` + challenge.Nonce + `","signature":"` + signer.Sign(challenge.Nonce) + `"}`
}

// Token is the client's bearer token.
func Token(c *Client) string { return c.session.current() }

// SetToken replaces the client's bearer token.
func SetToken(c *Client, secret string) {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	c.session.token.secret = secret
}

// Fetch makes a GET with the client's transport.
func Fetch(c *Client, url string) (*http.Response, error) { return c.http.Get(url) }

// ProxyOf is the proxy the client uses.
func ProxyOf(c *Client) *url.URL {
	if c.transport.Proxy == nil {
		return nil
	}
	p, _ := c.transport.Proxy(nil)
	return p
}

// SetDraw replaces chance in a back-off.
func SetDraw(b *Backoff, draw func(int64) int64) { b.draw = draw }

// Inner functions under test.
var (
	Join            = (*Client).join
	ParseRetryAfter = parseRetryAfter
	ReadJob         = readJob
	ReadTrial       = readTrial
	ReadHealth      = readHealth
	ReadProblem     = readProblem
	ReadReported    = readReported
	ReadRegistered  = readRegistered
	ReadChallenge   = readChallenge
	ReadUploaded    = readUploaded
	Classify        = classify
	Clean           = clean
	RangeStart      = rangeStart
)

// ReadToken reads a token's secret.
func ReadToken(body []byte) (string, error) {
	t, err := readToken(body)
	return t.secret, err
}

// ReportBody is the body of a report.
func ReportBody(r Report, token LeaseToken) (string, error) {
	b, err := r.body(token)
	return string(b), err
}

// RegistrationBody is the body of a registration.
func RegistrationBody(r Registration, key *identity.Key, nonce string) (string, error) {
	b, err := r.body(key, nonce)
	return string(b), err
}

// LongestAttempts is how many requests one download makes at most.
const LongestAttempts = 1 + downloadRetries

// ErrSilence is why a silent call ends.
var ErrSilence = errSilence

// Seconds is a duration on the wire.
func Seconds(d time.Duration) int64 { return seconds(d) }
