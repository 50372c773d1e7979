package protocol_test

import (
	"bufio"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/refserver"
)

// withWire runs a test against a peer that writes what it likes, byte by byte, after it has read a request. reply is called
// once a request, on the peer's goroutine; the connection stays open when it returns, until the client closes it.
func withWire(t *testing.T, reply func(conn net.Conn, q *http.Request), test func(t *testing.T, c *protocol.Client)) {
	t.Helper()
	before := log.Writer()
	log.SetOutput(io.Discard) // net/http complains there
	defer log.SetOutput(before)
	synctest.Test(t, func(t *testing.T) {
		network := refserver.NewNetwork()
		var peers sync.WaitGroup
		peers.Go(func() {
			for {
				conn, err := network.Accept()
				if err != nil {
					return
				}
				peers.Go(func() {
					defer conn.Close()
					in := bufio.NewReader(conn)
					for {
						q, err := http.ReadRequest(in)
						if err != nil {
							return
						}
						_, _ = io.Copy(io.Discard, q.Body)
						reply(conn, q)
					}
				})
			}
		})
		c, err := protocol.New(protocol.Options{BaseURL: "http://127.0.0.1", Dial: network.Dial})
		must(t, err)
		protocol.SetToken(c, "t")
		defer func() {
			c.Close()
			_ = network.Close()
			peers.Wait() // every connection is closed by its client in the end: none is left behind
		}()
		test(t, c)
	})
}

// said replies with these bytes and nothing more.
func said(text string) func(net.Conn, *http.Request) {
	return func(conn net.Conn, _ *http.Request) { _, _ = io.WriteString(conn, text) }
}

// An answer that hands the connection over (101) has no body that ends: whoever reads it waits for ever, and no deadline of a
// call reaches a connection that was handed over.
func TestAnAnswerThatSwitchesProtocolsHoldsNobody(t *testing.T) {
	withWire(t, said("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), func(t *testing.T, c *protocol.Client) {
		for name, call := range everyCall(c) {
			began := time.Now()
			err := call(t.Context())
			if protocol.ClassOf(err) != protocol.Unreachable || time.Since(began) > time.Minute {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
		}
	})
}

// everyCall is every call that this client makes for a Runner that is admitted.
func everyCall(c *protocol.Client) map[string]func(context.Context) error {
	lease := protocol.Lease{ID: "j", Token: "l"}
	return map[string]func(context.Context) error{
		"health":    func(ctx context.Context) error { _, err := c.Health(ctx); return err },
		"heartbeat": c.Heartbeat,
		"claim": func(ctx context.Context) error {
			_, _, err := c.Claim(ctx, protocol.ClaimRequest{})
			return err
		},
		"held claim": func(ctx context.Context) error {
			_, _, err := c.Claim(ctx, protocol.ClaimRequest{Wait: 25 * time.Second})
			return err
		},
		"claim of a trial": func(ctx context.Context) error { _, _, err := c.ClaimTrial(ctx, 0); return err },
		"renew":            func(ctx context.Context) error { _, err := c.Renew(ctx, lease, 0); return err },
		"release":          func(ctx context.Context) error { return c.Release(ctx, lease) },
		"report": func(ctx context.Context) error {
			_, err := c.Report(ctx, lease, protocol.Failed{}.Report())
			return err
		},
		"attach": func(ctx context.Context) error { return c.Attach(ctx, lease, "f", "log") },
		"upload": func(ctx context.Context) error {
			_, err := c.Upload(ctx, protocol.BytesUpload("log.txt", "text/plain", []byte("x")))
			return err
		},
		"download": func(ctx context.Context) error {
			_, err := c.Download(ctx, protocol.Wanted{ID: "f", SHA256: "00", Max: 1 << 20}, io.Discard)
			return err
		},
	}
}

// A redirect, to wherever, is not followed by any call, and no other host ever hears of the token.
func TestNoCallFollowsARedirect(t *testing.T) {
	for _, status := range []int{300, 301, 302, 303, 304, 305, 307, 308} {
		var mu sync.Mutex
		var asked []string
		h := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			mu.Lock()
			asked = append(asked, q.Host+q.URL.Path)
			mu.Unlock()
			w.Header().Set("Location", "http://attacker.example/elsewhere")
			w.Header().Set("Set-Cookie", "a=b")
			w.WriteHeader(status)
		})
		withHandler(t, h, func(t *testing.T, c *protocol.Client) {
			for name, call := range everyCall(c) {
				before := len(asked)
				err := call(t.Context())
				if protocol.ClassOf(err) != protocol.Refused || len(asked) != before+1 {
					t.Errorf("%d to %s: %v, asked %q", status, name, err, asked[before:])
				}
			}
			for _, a := range asked {
				if !strings.HasPrefix(a, "127.0.0.1/") || strings.Contains(a, "elsewhere") {
					t.Errorf("%d: asked %s", status, a)
				}
			}
		})
	}
}

// Whatever a peer does with the frame of an answer, a call ends in its time, with an error or with exactly what was framed.
func TestWhateverTheFrameOfAnAnswerEveryCallEnds(t *testing.T) {
	const job = `{"jobId":"j","leaseToken":"l"}`
	for name, c := range map[string]struct {
		wire  string
		class protocol.Class
		got   bool
	}{
		"a length that is too short":    {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + job, protocol.Unreadable, false},
		"a length that is too long":     {"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + job, protocol.Unreachable, false},
		"a length below nothing":        {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n" + job, protocol.Unreachable, false},
		"a length of an exbibyte":       {"HTTP/1.1 200 OK\r\nContent-Length: 1152921504606846976\r\n\r\n" + job, protocol.Unreachable, false},
		"two lengths":                   {"HTTP/1.1 200 OK\r\nContent-Length: 30\r\nContent-Length: 31\r\n\r\n" + job, protocol.Unreachable, false},
		"a trailer behind chunks":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Retry-After\r\n\r\n1e\r\n" + job + "\r\n0\r\nRetry-After: 9\r\n\r\n", 0, true},
		"a trailer that does not end":   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1e\r\n" + job + "\r\n0\r\nX: y\r\n", protocol.Unreachable, false},
		"chunks without an end":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1e\r\n" + job + "\r\n", protocol.Unreachable, false},
		"a chunk of a wrong length":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n" + job + "\r\n0\r\n\r\n", protocol.Unreachable, false},
		"a few words before":            {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n" + job, 0, true},
		"words before without end":      {strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 5000), protocol.Unreachable, false},
		"nothing, with a body":          {"HTTP/1.1 204 No Content\r\nContent-Length: 30\r\n\r\n" + job, 0, false},
		"nothing, in chunks":            {"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n1e\r\n" + job + "\r\n0\r\n\r\n", 0, false},
		"another good status":           {"HTTP/1.1 201 Created\r\nContent-Length: 30\r\n\r\n" + job, 0, true},
		"a status of no meaning":        {"HTTP/1.1 999 What\r\nContent-Length: 30\r\n\r\n" + job, protocol.Busy, false},
		"a status of two digits":        {"HTTP/1.1 20 What\r\nContent-Length: 30\r\n\r\n" + job, protocol.Unreachable, false},
		"packed, although not asked":    {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00", protocol.Unreadable, false},
		"a header of a mebibyte":        {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 1<<20) + "\r\nContent-Length: 30\r\n\r\n" + job, protocol.Unreachable, false},
		"another protocol":              {"SSH-2.0-OpenSSH_9.6\r\n", protocol.Unreachable, false},
		"bytes behind the answer":       {"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n" + job + "HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n" + job, 0, true},
		"the answer before":             {"HTTP/1.0 200 OK\r\nContent-Length: 30\r\nConnection: keep-alive\r\n\r\n" + job, 0, true},
		"a refusal that never ends":     {"HTTP/1.1 503 Away\r\nContent-Length: 100\r\nRetry-After: 7\r\n\r\n{", protocol.Unavailable, false},
		"a refusal of a mebibyte":       {"HTTP/1.1 503 Away\r\nContent-Length: 1048576\r\n\r\n" + strings.Repeat("<", 1<<20), protocol.Unavailable, false},
		"nothing at all":                {"", protocol.Unreachable, false},
		"a member of a wrong encoding":  {"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n" + `{"jobId":"` + "\xff" + `","leaseToken":"l"}`, protocol.Unreadable, false},
		"the same member twice":         {"HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n" + `{"jobId":"a/b","jobId":"j","leaseToken":"l"}`[:42], protocol.Unreadable, false},
		"something behind the document": {"HTTP/1.1 200 OK\r\nContent-Length: 32\r\n\r\n" + job + "{}", protocol.Unreadable, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, wait := range []time.Duration{0, 25 * time.Second} {
				withWire(t, said(c.wire), func(t *testing.T, client *protocol.Client) {
					began := time.Now()
					_, got, err := client.Claim(t.Context(), protocol.ClaimRequest{Wait: wait})
					if protocol.ClassOf(err) != c.class || got != c.got {
						t.Errorf("with a hold of %v: got %v, %v", wait, got, err)
					}
					if took := time.Since(began); took > 61*time.Second {
						t.Errorf("with a hold of %v: it took %v", wait, took)
					}
				})
			}
		})
	}
}

// What came behind an answer whose length was wrong, here the rest of a token, is read as the next answer, and net/http quotes it in
// its error. So it does with a line of a header. None of it is in our error, nor does that grow with it.
func TestWhatIsNoAnswerIsSaidAndNotShown(t *testing.T) {
	const rest = `AndTheSecretGoesOn`
	for wire, says := range map[string]string{
		rest + `"}` + "\r\n\r\n":                                                       "malformed HTTP response",
		"HTTP/1.1 200 OK\r\n" + rest + "\r\n\r\n":                                      "malformed MIME header",
		"HTTP/1.1 200 OK\r\n " + rest + ": x\r\n\r\n":                                  "malformed MIME header",
		"HTTP/1.1 2" + rest + " OK\r\n\r\n":                                            "malformed HTTP status code",
		rest + " 200 OK\r\n\r\n":                                                       "malformed HTTP version",
		"HTTP/1.1 200 OK\r\nContent-Length: " + rest + "\r\n\r\n":                      "bad Content-Length",
		"HTTP/1.1 302 Found\r\nLocation: http://%" + rest + "\r\n\r\n":                 "failed to parse Location header",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: " + rest + "\r\n\r\n":                   "unsupported transfer encoding",
		strings.Repeat(rest, 1000) + "\r\n\r\n":                                        "malformed HTTP response",
		"HTTP/1.1 200 OK\r\n" + strings.Repeat(rest, 1000) + "\r\n\r\n":                "malformed MIME header",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: " + rest + "\r\n\r\n": "multiple Content-Length",
	} {
		asked := 0
		withWire(t, func(conn net.Conn, q *http.Request) {
			if asked++; asked == 1 {
				said("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n"+`{"token":"x"`)(conn, q)
				return
			}
			said(wire)(conn, q)
		}, func(t *testing.T, c *protocol.Client) {
			protocol.SetToken(c, "a token that is in no word of this")
			if _, err := c.Health(t.Context()); protocol.ClassOf(err) != protocol.Unreadable {
				t.Errorf("half a document was read: %v", err)
			}
			_, err := c.Health(t.Context())
			if protocol.ClassOf(err) != protocol.Unreachable || !strings.Contains(err.Error(), says) {
				t.Fatalf("%.60q: %.300v", wire, err)
			}
			if strings.Contains(err.Error(), "Secret") || len(err.Error()) > 300 {
				t.Errorf("%.60q is shown, in %d bytes: %.300v", wire, len(err.Error()), err)
			}
		})
	}
}

// A token that no header can carry, or that is none, is no token: it is not sent, cut or mended.
func TestATokenThatNoHeaderCanCarryIsNone(t *testing.T) {
	for text, ok := range map[string]bool{
		`"abc+/="`: true, `"a b"`: false, `"a\r\nX-Y: z"`: false, `"a\u0000"`: false, `"\u00e9"`: false, `"\u007f"`: false, `""`: false, `7`: false, `null`: false,
		`"` + strings.Repeat("x", 8<<10) + `"`: true, `"` + strings.Repeat("x", 8<<10+1) + `"`: false,
	} {
		if token, err := protocol.ReadToken([]byte(`{"token":` + text + `}`)); (err == nil) != ok || !ok && token != "" {
			t.Errorf("%.40s: %.40q, %v", text, token, err)
		}
	}
}
