package protocol

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"
)

// The timeouts of the contract (1.6).
const (
	ConnectTimeout = 10 * time.Second
	IdleTimeout    = 60 * time.Second // of silence, in either direction; held claims are exempt
	HoldMargin     = 15 * time.Second // a held claim may take this much longer than asked
	// AnswerTimeout bounds an answer that is no file, from its first line to its end. The contract has no such bound, because a
	// file may take as long as it moves; an answer is a few MiB at most, and one that drips must not hold a Runner for ever.
	AnswerTimeout = 5 * time.Minute
	poolIdle      = 600 * time.Second
	keepAlive     = 30 * time.Second
)

// errSilence ends a call during which no byte moved for IdleTimeout.
var errSilence = errors.New("no byte moved for too long")

// newTransport is the only way to the Server: HTTP/1.1 without compression, the system's roots and one optional private
// CA, one fixed proxy or none. HTTP/2 is off so that a held claim and a download never share a connection's fate.
func newTransport(o Options, base *url.URL) (*http.Transport, error) {
	roots, err := rootCAs(o.CAFile)
	if err != nil {
		return nil, err
	}
	proxy, err := ProxyFor(base, o.Getenv)
	if err != nil {
		return nil, err
	}
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: ConnectTimeout, KeepAlive: keepAlive}).DialContext
	}
	t := &http.Transport{
		DialContext:            dial,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    ConnectTimeout,
		IdleConnTimeout:        poolIdle,
		MaxIdleConnsPerHost:    8,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	if proxy != nil {
		t.Proxy = http.ProxyURL(proxy)
	}
	return t, nil
}

// rootCAs is the system's pool and the certificates of one file beside it; nil (the system's own choice) without a file.
func rootCAs(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("protocol: read the private CA's certificate: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // no system roots at all: the private CA is then the only one trusted
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("protocol: %s holds no certificate in PEM form; expected the private CA's", file)
	}
	return pool, nil
}

// errTrickle ends an answer that takes longer than AnswerTimeout.
var errTrickle = errors.New("the answer took too long to arrive whole")

type fileKey struct{}

// file marks the calls whose answer is a file, which may take as long as it moves.
func file(ctx context.Context) context.Context { return context.WithValue(ctx, fileKey{}, true) }

type heldKey struct{}

// held marks the calls that may be silent: a claim the Server was asked to hold.
func held(ctx context.Context) context.Context { return context.WithValue(ctx, heldKey{}, true) }

// guard ends a call that has fallen silent: no byte of the request taken and no byte of the answer come for the idle
// time. A file may take as long as it moves; any other answer, a refusal of a file among them, has AnswerTimeout.
type guard struct {
	next http.RoundTripper
	idle time.Duration
}

// errHandedOver ends a call whose answer hands the connection over (101). Nobody asked for that, and no deadline reaches the
// body of such an answer: whoever read it would wait for as long as the other side likes.
var errHandedOver = errors.New("the answer switches to another protocol, which was not asked for")

// answered sends one request and gives an answer that ends with its context.
func (g guard) answered(req *http.Request) (*http.Response, error) {
	resp, err := g.next.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close()
		return nil, errHandedOver
	}
	return resp, err
}

// RoundTrip sends one request under the guard.
func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Context().Value(heldKey{}) != nil {
		return g.answered(req)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	w := &watch{idle: g.idle, ctx: ctx, cancel: cancel}
	w.timer = time.AfterFunc(g.idle, func() { cancel(errSilence) })
	sent := req.Clone(ctx)
	if req.Body != nil && req.Body != http.NoBody {
		sent.Body = watched{req.Body, w, false}
	}
	resp, err := g.answered(sent)
	if err != nil {
		err = w.reason(err)
		w.end()
		return nil, err
	}
	w.moved()
	if req.Context().Value(fileKey{}) == nil || resp.StatusCode < 200 || resp.StatusCode > 299 {
		w.whole = time.AfterFunc(AnswerTimeout, func() { cancel(errTrickle) })
	}
	resp.Body = watched{resp.Body, w, true}
	return resp, nil
}

// watch is one call's silence timer.
type watch struct {
	idle   time.Duration
	timer  *time.Timer
	whole  *time.Timer // of the whole answer; nil for a file
	ctx    context.Context
	cancel context.CancelCauseFunc
	once   sync.Once
}

func (w *watch) moved() { w.timer.Reset(w.idle) }

// reason is why the call failed: the silence or the slowness that ended it, and not the cancellation that came of it.
func (w *watch) reason(err error) error {
	if cause := context.Cause(w.ctx); cause == errSilence || cause == errTrickle {
		return cause
	}
	return err
}

func (w *watch) end() {
	w.once.Do(func() {
		w.timer.Stop()
		if w.whole != nil {
			w.whole.Stop()
		}
		w.cancel(nil)
	})
}

// watched is a body whose every byte proves that the call is alive. The answer's body ends the watch when closed.
type watched struct {
	io.ReadCloser
	w      *watch
	answer bool
}

// Read passes bytes on and resets the timer.
func (b watched) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.w.moved()
	}
	if err != nil && err != io.EOF {
		err = b.w.reason(err)
	}
	return n, err
}

// Close ends the call.
func (b watched) Close() error {
	err := b.ReadCloser.Close()
	if b.answer {
		b.w.end()
	}
	return err
}
