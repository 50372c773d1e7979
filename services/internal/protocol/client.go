package protocol

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Bounds of what is read from an answer.
const (
	answerLimit = 4 * verdict.MiB // a claim can carry three opaque documents; 512 leases are far less
	errorLimit  = 64 * verdict.KiB
)

// Options say how to reach the Server.
type Options struct {
	// BaseURL of the API, including /api/v1; trailing slashes are ignored (1.1). No user, query or fragment.
	BaseURL string
	// UserAgent is "product/version".
	UserAgent string
	// CAFile holds a private CA's certificates in PEM form, trusted beside the system's; empty for none.
	CAFile string
	// Getenv looks up the proxy variables; nil is os.Getenv.
	Getenv func(string) string
	// Log gets one debug record a call; nil discards.
	Log *slog.Logger
	// Dial replaces the network in tests; nil is the network.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Idle replaces IdleTimeout in tests; 0 is IdleTimeout.
	Idle time.Duration
}

// Client makes calls to one Server. It is safe for use by many goroutines. It holds the bearer token in memory only.
type Client struct {
	base      string
	userAgent string
	log       *slog.Logger
	http      *http.Client
	transport *http.Transport
	session   session
}

// New makes a client. It fails on a base URL, CA file or proxy that cannot be used; it contacts nobody.
func New(o Options) (*Client, error) {
	base, err := ParseBaseURL(o.BaseURL)
	if err != nil {
		return nil, err
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Idle <= 0 {
		o.Idle = IdleTimeout
	}
	transport, err := newTransport(o, base)
	if err != nil {
		return nil, err
	}
	return &Client{
		base: base.String(), userAgent: o.UserAgent, log: o.Log, transport: transport,
		http: &http.Client{
			Transport: guard{transport, o.Idle},
			// A redirect is an answer, never followed: nothing but the Server is ever contacted, and a POST must not
			// silently become a GET.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		session: newSession(),
	}, nil
}

// Close drops pooled connections. Calls under way go on.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// ParseBaseURL checks the API root: http or https, a host, no user, query or fragment. Trailing slashes are dropped. The
// text of its error never holds a password.
func ParseBaseURL(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(strings.TrimSpace(text), "/"))
	if err != nil {
		return nil, errors.New("protocol: the Server's base URL cannot be parsed; expected https://server.example/api/v1")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		err = fmt.Errorf("the scheme is %q; expected http or https", u.Scheme)
	case u.Hostname() == "":
		err = errors.New("it names no host")
	case u.User != nil:
		err = errors.New("it holds a user; a Runner proves itself with its key")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		err = errors.New("it holds a query or a fragment")
	}
	if err != nil {
		said := u.Redacted()
		if u.Opaque != "" { // without slashes nothing is told apart: what stands there may be a password
			said = u.Scheme + ":..."
		}
		return nil, fmt.Errorf("protocol: the Server's base URL %s: %w", said, err)
	}
	return u, nil
}

// join appends a path to the base without resolving it, so that the base's own path stays (1.1).
func (c *Client) join(path string) string { return c.base + "/" + strings.TrimLeft(path, "/") }

// call describes one request.
type call struct {
	op     string
	method string
	path   string
	body   []byte
	mime   string // of the body; empty for none
	// open makes a body that is streamed instead of body; size is its exact length.
	open func() (io.ReadCloser, error)
	size int64
	// headers beyond the usual ones.
	headers map[string]string
	// bearer calls carry the token and may shake hands again.
	bearer bool
	// hold is how long the Server was asked to hold the call; 0 for an ordinary one.
	hold time.Duration
	// secrets that the body holds and that no error may show.
	secrets []string
}

// answer is a successful response, read whole.
type answer struct {
	status int
	body   []byte
}

// do makes a call and reads the answer. A status outside 200–299 is an *Error.
func (c *Client) do(ctx context.Context, k call) (a answer, err error) {
	attend(ctx, func(ctx context.Context) { a, err = c.attended(ctx, k) })
	return a, err
}

func (c *Client) attended(ctx context.Context, k call) (answer, error) {
	resp, err := c.send(ctx, k)
	if err != nil {
		return answer{}, err
	}
	defer finish(resp.Body)
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(answerLimit)+1))
	if err != nil {
		return answer{}, c.broken(ctx, k, err)
	}
	if len(body) > int(answerLimit) {
		return answer{}, &Error{
			Op: k.op, Class: Unreadable, Status: resp.StatusCode, Detail: fmt.Sprintf("the answer is longer than %s", answerLimit),
		}
	}
	return answer{resp.StatusCode, body}, nil
}

// send makes a call and gives its response with an unread body, after at most one new handshake (10.6). A status outside
// 200–299 is an *Error and the body is closed.
func (c *Client) send(ctx context.Context, k call) (*http.Response, error) {
	if !k.bearer {
		return c.once(ctx, k, "")
	}
	used := c.session.current()
	if used == "" {
		if err := c.shakeAgain(ctx, used); err != nil {
			return nil, rename(k.op, err)
		}
		used = c.session.current()
	}
	resp, err := c.once(ctx, k, used)
	if ClassOf(err) != NeedsHandshake {
		return resp, err
	}
	if again := c.shakeAgain(ctx, used); again != nil {
		return nil, rename(k.op, again)
	}
	return c.once(ctx, k, c.session.current())
}

// once makes a call exactly once. The bound of a held call counts from here: a handshake before it, however long, must not
// be taken from the time that the Server was asked to hold it for.
func (c *Client) once(ctx context.Context, k call, bearer string) (*http.Response, error) {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if k.hold > 0 {
		limited, cancel = context.WithTimeout(held(ctx), k.hold+HoldMargin)
	}
	start := time.Now()
	resp, err := c.roundTrip(limited, k, bearer)
	if err != nil {
		cancel()
		var local *Error
		if errors.As(err, &local) {
			return nil, err
		}
		return nil, c.broken(ctx, k, err)
	}
	resp.Body = bounded{resp.Body, cancel}
	c.log.LogAttrs(ctx, slog.LevelDebug, "call to the Server", slog.String("call", k.op), slog.String("path", k.path),
		slog.Int("status", resp.StatusCode), slog.Duration("took", time.Since(start)))
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return resp, nil
	}
	return nil, refusal(k, resp, bearer)
}

// bounded is a body whose end gives the bound of its call back.
type bounded struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close ends the call.
func (b bounded) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

func (c *Client) roundTrip(ctx context.Context, k call, bearer string) (*http.Response, error) {
	req, err := c.request(ctx, k, bearer)
	if err != nil {
		return nil, err
	}
	return c.http.Do(req)
}

// request builds the request of a call.
func (c *Client) request(ctx context.Context, k call, bearer string) (*http.Request, error) {
	var body io.Reader
	if k.body != nil {
		body = bytes.NewReader(k.body)
	}
	req, err := http.NewRequestWithContext(ctx, k.method, c.join(k.path), body)
	if err != nil {
		return nil, &Error{Op: k.op, Class: Local, Detail: "could not make the request", Cause: err}
	}
	if k.open != nil {
		if req.Body, err = k.open(); err != nil {
			return nil, &Error{Op: k.op, Class: Local, Detail: "could not read what was to be sent", Cause: err}
		}
		req.ContentLength = k.size
	}
	if c.userAgent != "" {
		req.Header.Set("User-Agent", c.userAgent)
	}
	if k.mime != "" {
		req.Header.Set("Content-Type", k.mime)
	}
	for name, value := range k.headers {
		req.Header.Set(name, value)
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	return req, nil
}

// refusal reads an answer that is no success, whatever its body is, and closes it.
func refusal(k call, resp *http.Response, bearer string) error {
	wait := parseRetryAfter(resp.Header.Get("Retry-After")) // before the body, which may be anything (1.4)
	defer finish(resp.Body)
	body, _ := io.ReadAll(io.LimitReader(resp.Body, int64(errorLimit)))
	code, detail := readProblem(body)
	secrets := append([]string{bearer}, k.secrets...)
	e := &Error{
		Op: k.op, Class: classify(resp.StatusCode, code), Status: resp.StatusCode, RetryAfter: wait,
		Code: Code(clean(string(code), secrets...)), Detail: clean(detail, secrets...),
	}
	if resp.StatusCode >= 300 && resp.StatusCode <= 399 {
		e.Detail = "redirects are not followed"
		if to, err := resp.Location(); err == nil && (to.Scheme == "http" || to.Scheme == "https") {
			e.Detail += "; if the Server has moved, set its base URL to where it is, on " + clean(to.Scheme+"://"+to.Host, secrets...)
		}
	}
	return e
}

// broken is a call that got no answer, or only a part of one.
func (c *Client) broken(caller context.Context, k call, err error) *Error {
	e := &Error{Op: k.op, Class: Unreachable, Cause: err}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		e.Cause = wrapped.Err // without the URL, which says nothing new and holds ids
	}
	e.Cause = retold(e.Cause, append([]string{c.session.current()}, k.secrets...)...)
	var unknown x509.UnknownAuthorityError
	switch {
	case wasStopped(caller):
		e.Class, e.Cause = Stopped, context.Cause(caller)
	case errors.Is(err, errSilence):
		e.Detail = "the connection fell silent"
	case errors.Is(err, errTrickle):
		e.Detail = fmt.Sprintf("an answer must arrive whole within %s", AnswerTimeout)
	case errors.Is(err, context.DeadlineExceeded):
		e.Detail = "the Server held the call for longer than it was asked to"
	case errors.As(err, &unknown):
		e.Detail = "the Server's certificate is signed by nobody this host trusts; if that is a private CA, configure its certificate"
	}
	return e
}

// retold is what a library says of a broken answer, up to what it quotes of it. That is the other side's, as long as a header may
// be; and where the length of the answer before was wrong, it is what came behind that one, which can be the rest of a token. What
// is said of a certificate stays.
func retold(err error, secrets ...string) error {
	text := err.Error()
	var certificate *tls.CertificateVerificationError
	if !errors.As(err, &certificate) {
		text, _, _ = strings.Cut(text, `"`)
	}
	if text = clean(strings.TrimRight(text, ": ["), secrets...); text == "" {
		text = "the answer makes no sense"
	}
	return inOtherWords{text, err}
}

// inOtherWords is an error whose own words are not shown.
type inOtherWords struct {
	text string
	err  error
}

// Error gives the words that may be shown.
func (i inOtherWords) Error() string { return i.text }

// Unwrap is the error itself, to be compared and not to be shown.
func (i inOtherWords) Unwrap() error { return i.err }

// rename says that a handshake failed on behalf of a call.
func rename(op string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	renamed := *e
	renamed.Op = op + " (" + e.Op + ")"
	return &renamed
}

// finish drains a little of a body, so that its connection can be used again, and closes it.
func finish(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, int64(errorLimit))
	_ = body.Close()
}

// get makes an ordinary GET.
func (c *Client) get(ctx context.Context, op, path string) (answer, error) {
	return c.do(ctx, call{op: op, method: http.MethodGet, path: path})
}

// taken reads the answer to a call that needs none: the Server says 204. Whatever else says yes must at least be the words of
// a Server: a proxy's page is none, and what it stands for was not done.
func taken(op string, a answer, err error) error {
	if err != nil || len(bytes.TrimSpace(a.body)) == 0 {
		return err
	}
	_, err = decode(op, a, readMembers)
	return err
}

// decode reads a good answer's body; failing is an Unreadable error.
func decode[T any](op string, a answer, read func([]byte) (T, error)) (T, error) {
	v, err := read(a.body)
	if err != nil {
		var none T
		return none, &Error{Op: op, Class: Unreadable, Status: a.status, Detail: clean(err.Error())}
	}
	return v, nil
}
