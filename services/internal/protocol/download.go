package protocol

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Bounds of what one download does before it hands its trouble to the caller, who then leaves the job to its lease.
const (
	// downloadRetries is how many requests may follow the first one, whether to begin again or to go on from the middle.
	downloadRetries = 4
	// downloadRetryAfter bounds how long one wait inside a download may be: a longer request of the Server is answered
	// by giving up, because the caller's rules know what to do about a Server that is away.
	downloadRetryAfter = 30 * time.Second
	// QuietTimeout is how long a download goes on without a new byte of its file, whatever its calls, their answers, the waits
	// between them and a handshake take: then the Server counts as away. A Runner's watchdog is set by it.
	QuietTimeout = 10 * time.Minute
)

// errQuiet ends a download at its QuietTimeout.
var errQuiet = errors.New("no new byte of the file came for too long")

// Wanted is a file to download and what it must be.
type Wanted struct {
	ID FileID
	// SHA256 is the checksum the bytes must have, in hex of either case.
	SHA256 string
	// Max is the most bytes that are accepted; more than 0.
	Max verdict.Bytes
	// What names the file in errors: "the package".
	What string
}

// Download streams a file to w, counting and hashing on the way, and returns how many bytes were written (2.12). It
// succeeds only if the bytes have the announced checksum; until then the caller must not trust what was written.
//
// A failure before the first byte and a connection that breaks in the middle are tried again a few times with growing,
// spread waits; in the middle the file is taken up where it broke off, by Range. A 200 to such a request is skipped
// forward. What was written is never written twice, so w need not seek.
//
// Errors: Checksum, TooLarge (nothing beyond Max is ever written), Local (w failed, or the names cannot be used), NotFound
// and Refused are final. Retryable ones mean that the Server is away.
func (c *Client) Download(ctx context.Context, f Wanted, w io.Writer) (n verdict.Bytes, err error) {
	attend(ctx, func(ctx context.Context) { n, err = c.download(ctx, f, w) })
	return n, err
}

func (c *Client) download(ctx context.Context, f Wanted, w io.Writer) (verdict.Bytes, error) {
	if f.What == "" {
		f.What = "a file"
	}
	d := download{client: c, file: f, op: "download " + f.What, w: w, sum: sha256.New(), tries: downloadRetries}
	if err := errors.Join(f.ID.Check(), checkName("the checksum", f.SHA256)); err != nil {
		return 0, &Error{Op: d.op, Class: Local, Cause: err}
	}
	if f.Max <= 0 {
		return 0, &Error{Op: d.op, Class: Local, Detail: "no size is allowed"}
	}
	d.backoff = NewBackoff(PollMin, PollMax)
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.quiet = time.AfterFunc(QuietTimeout, func() { cancel(errQuiet) })
	defer d.quiet.Stop()
	err := d.whole(bounded)
	if ClassOf(err) == Stopped && !wasStopped(ctx) {
		err = &Error{Op: d.op, Class: Unreachable, Detail: fmt.Sprintf("no new byte of the file came for %s", QuietTimeout)}
	}
	return d.done, err
}

// whole makes attempts until the file is here and is what was announced.
func (d *download) whole(ctx context.Context) error {
	for {
		err := d.attempt(ctx)
		if err == nil {
			return d.verify()
		}
		if ClassOf(err) != Unreachable || !d.broke || d.tries <= 0 {
			return err
		}
		d.tries--
		if err := Sleep(ctx, d.backoff.Next()); err != nil {
			return &Error{Op: d.op, Class: Stopped, Cause: context.Cause(ctx)}
		}
	}
}

// download is one file on its way.
type download struct {
	client *Client
	file   Wanted
	op     string
	w      io.Writer
	sum    hash.Hash
	done   verdict.Bytes
	// total is the whole file's size once a response has told it, else 0.
	total   verdict.Bytes
	tries   int // requests left beyond the one under way
	backoff *Backoff
	broke   bool        // the latest attempt failed after its response had begun
	quiet   *time.Timer // ends the download
}

// attempt asks for what is still missing and copies it.
func (d *download) attempt(ctx context.Context) error {
	d.broke = false
	resp, err := d.request(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	skip, err := d.position(resp)
	if err != nil {
		return err
	}
	if skip < 0 { // nothing is missing
		return nil
	}
	if resp.ContentLength >= 0 {
		d.total = d.done - skip + verdict.Bytes(resp.ContentLength)
		if d.total > d.file.Max {
			return d.tooLarge()
		}
	}
	d.broke = true
	if _, err := io.CopyN(io.Discard, resp.Body, int64(skip)); err != nil {
		return d.client.broken(ctx, call{op: d.op}, err)
	}
	return d.copy(ctx, resp.Body)
}

// position says how many bytes of the response are already here: 0 for an exact continuation, what is done for a whole
// file, -1 when the Server says that there is nothing beyond what is done.
func (d *download) position(resp *http.Response) (skip verdict.Bytes, err error) {
	switch resp.StatusCode {
	case http.StatusOK:
		return d.done, nil
	case http.StatusPartialContent:
		from, ok := rangeStart(resp.Header.Get("Content-Range"))
		if ok && from == d.done && d.done > 0 {
			return 0, nil
		}
		return 0, &Error{Op: d.op, Class: Unreadable, Status: resp.StatusCode, Detail: "the Server sent another part than the one asked for"}
	case http.StatusRequestedRangeNotSatisfiable:
		return -1, nil
	}
	return 0, &Error{Op: d.op, Class: Unreadable, Status: resp.StatusCode, Detail: "the Server answered a download without a file"}
}

// rangeStart reads the first position of a Content-Range.
func rangeStart(header string) (verdict.Bytes, bool) {
	rest, ok := strings.CutPrefix(header, "bytes ")
	first, _, dash := strings.Cut(rest, "-")
	n, err := strconv.ParseInt(first, 10, 64)
	return verdict.Bytes(n), ok && dash && err == nil && n >= 0
}

// copy moves the rest of the file, never more than allowed.
func (d *download) copy(ctx context.Context, body io.Reader) error {
	buffer := make([]byte, 64<<10)
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			if d.done+verdict.Bytes(n) > d.file.Max {
				return d.tooLarge()
			}
			d.quiet.Stop() // a disk that is slow is not the Server's silence
			written, werr := d.w.Write(buffer[:n])
			d.quiet.Reset(QuietTimeout)
			d.sum.Write(buffer[:written])
			d.done += verdict.Bytes(written)
			if werr != nil {
				return &Error{Op: d.op, Class: Local, Detail: "could not keep the bytes", Cause: werr}
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return d.client.broken(ctx, call{op: d.op}, err)
		}
	}
}

func (d *download) tooLarge() error {
	return &Error{Op: d.op, Class: TooLarge, Detail: fmt.Sprintf("it is larger than the %s that are allowed", d.file.Max)}
}

// verify compares the checksum of everything that was written.
func (d *download) verify() error {
	if got := hex.EncodeToString(d.sum.Sum(nil)); !strings.EqualFold(got, d.file.SHA256) {
		return &Error{
			Op: d.op, Class: Checksum,
			Detail: fmt.Sprintf("%s of %s has the checksum %s, announced was %s", d.file.What, d.done, got, strings.ToLower(d.file.SHA256)),
		}
	}
	return nil
}

// request gets a response to copy from: the retries before the first byte are go-retryablehttp's, with the contract's
// policy and back-off; a refused token shakes hands once (docs/decisions/0040-http-retries.md).
func (d *download) request(ctx context.Context) (*http.Response, error) {
	c, shaken := d.client, false
	for {
		used := c.session.current()
		if used == "" {
			if err := c.shakeAgain(ctx, used); err != nil {
				return nil, rename(d.op, err)
			}
			used = c.session.current()
		}
		k := call{op: d.op, method: http.MethodGet, path: "runner/files/" + string(d.file.ID)}
		if d.done > 0 {
			k.headers = map[string]string{"Range": fmt.Sprintf("bytes=%d-", d.done), "If-Range": `"` + strings.ToLower(d.file.SHA256) + `"`}
		}
		plain, err := c.request(file(ctx), k, used)
		if err != nil {
			return nil, err
		}
		again, err := retryablehttp.FromRequest(plain)
		if err != nil {
			return nil, &Error{Op: d.op, Class: Local, Cause: err}
		}
		resp, err := d.retrying().Do(again)
		if err != nil {
			if resp != nil {
				_ = resp.Body.Close()
			}
			return nil, c.broken(ctx, k, err)
		}
		if resp.StatusCode >= 200 && resp.StatusCode <= 299 ||
			resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && d.done > 0 {
			return resp, nil
		}
		err = refusal(k, resp, used)
		if ClassOf(err) != NeedsHandshake || shaken {
			return nil, err
		}
		shaken = true
		if err := c.shakeAgain(ctx, used); err != nil {
			return nil, rename(d.op, err)
		}
	}
}

// retrying is the retrying client for one request of this download. It shares the download's budget and back-off.
func (d *download) retrying() *retryablehttp.Client {
	return &retryablehttp.Client{
		HTTPClient: d.client.http,
		RetryMax:   d.tries,
		CheckRetry: func(ctx context.Context, resp *http.Response, err error) (bool, error) {
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			if d.tries <= 0 {
				return false, err
			}
			if err != nil {
				d.tries--
				return true, nil
			}
			// The body is not read here, so a code cannot be told; the codes that change a class come with 401, 403,
			// 404 and 409, none of which is retried.
			class := classify(resp.StatusCode, CodeNone)
			wait := parseRetryAfter(resp.Header.Get("Retry-After"))
			if class != Unavailable && class != Busy || wait != nil && *wait > downloadRetryAfter {
				return false, nil
			}
			d.tries--
			_ = resp.Body.Close() // which would be drained first, and one that drips takes as long as an answer may
			return true, nil
		},
		Backoff: func(_, _ time.Duration, _ int, resp *http.Response) time.Duration {
			wait := d.backoff.Next()
			if resp != nil {
				if asked := parseRetryAfter(resp.Header.Get("Retry-After")); asked != nil {
					wait = max(wait, *asked)
				}
			}
			return wait
		},
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
}
