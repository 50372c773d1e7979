package protocol_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evalhost/evalhost/services/internal/identity"
	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/refserver"
)

// What every request carries (1.2, 1.3, 2): HTTP/1.1 and no compression, our product, the token where the call needs one and
// nowhere else, the media type of a body where there is one, no null, and nothing that was not asked for.
func TestEveryCallCarriesWhatTheContractNames(t *testing.T) {
	const json = "application/json"
	want := map[string]string{
		"GET /api/v1/health":                 " ",
		"POST /api/v1/runner/auth/challenge": json + ` {"fingerprint":"F"}`,
		"POST /api/v1/runner/heartbeat":      "Bearer t  ",
		"POST /api/v1/runner/jobs/claim":     "Bearer t " + json + " {}",
		"POST /api/v1/runner/trials/claim":   "Bearer t " + json + " {}",
		"POST /api/v1/runner/jobs/j/lease":   "Bearer t " + json + ` {"leaseToken":"l"}`,
		"POST /api/v1/runner/jobs/j/release": "Bearer t " + json + ` {"leaseToken":"l"}`,
		"POST /api/v1/runner/jobs/j/files":   "Bearer t " + json + ` {"fileId":"f","leaseToken":"l","name":"log"}`,
		"POST /api/v1/runner/jobs/j/report":  "Bearer t " + json + ` {"leaseToken":"l","infrastructureFailure":true,"failureReason":"the Runner gave no reason"}`,
		"POST /api/v1/runner/files":          "Bearer t multipart/form-data; boundary=B ",
		"GET /api/v1/runner/files/f":         "Bearer t  ",
	}
	var mu sync.Mutex
	got := map[string]string{}
	var claims []string
	h := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		mu.Lock()
		defer mu.Unlock()
		name := q.Method + " " + q.URL.Path
		kind, _, multi := strings.Cut(q.Header.Get("Content-Type"), "boundary=")
		if multi {
			kind, body = kind+"boundary=B", nil
		}
		if got[name] == "" {
			got[name] = strings.TrimPrefix(q.Header.Get("Authorization")+" "+kind+" "+string(body), " ")
		}
		if strings.HasSuffix(q.URL.Path, "jobs/claim") {
			claims = append(claims, string(body))
		}
		if q.Proto != "HTTP/1.1" || q.Header.Get("Accept-Encoding") != "" || q.Header.Get("User-Agent") != "evalhost-runner/1" ||
			strings.Contains(string(body), "null") || q.Header.Get("Cookie") != "" || q.Header.Get("Referer") != "" {
			t.Errorf("%s: %s, %v, %s", name, q.Proto, q.Header, body)
		}
		w.WriteHeader(http.StatusTeapot)
	})
	synctest.Test(t, func(t *testing.T) {
		network := refserver.NewNetwork()
		web := &http.Server{Handler: h}
		served := make(chan error, 1)
		go func() { served <- web.Serve(network) }()
		c, err := protocol.New(protocol.Options{BaseURL: "http://127.0.0.1/api/v1//", Dial: network.Dial, UserAgent: "evalhost-runner/1"})
		must(t, err)
		defer func() {
			c.Close()
			_ = web.Close()
			_ = network.Close()
			<-served
		}()
		protocol.SetToken(c, "t")
		_, _ = c.Challenge(t.Context(), identity.Fingerprint("F"))
		for _, call := range everyCall(c) {
			wantClass(t, call(t.Context()), protocol.Refused, "")
		}
		_, _, err = c.Claim(t.Context(), protocol.ClaimRequest{Lease: 90 * time.Second, Wait: 25500 * time.Millisecond})
		wantClass(t, err, protocol.Refused, "")
	})
	for name, carried := range want {
		if name == "POST /api/v1/runner/jobs/claim" {
			continue // held or not, in any order
		}
		if got[name] != carried {
			t.Errorf("%s carried %q, want %q", name, got[name], carried)
		}
	}
	for name := range got {
		if _, known := want[name]; !known {
			t.Errorf("%s is nobody's call", name)
		}
	}
	for _, body := range []string{`{}`, `{"waitSeconds":25}`, `{"leaseSeconds":90,"waitSeconds":25}`} {
		if !strings.Contains(strings.Join(claims, "\n")+"\n", body+"\n") {
			t.Errorf("no claim carried %s: %q", body, claims)
		}
	}
}

// A connection whose TLS does not come about is given up after ten seconds (1.6), a held claim's too.
func TestAHandshakeOfTLSThatHangsEndsAfterTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := refserver.NewNetwork()
		var peers sync.WaitGroup
		peers.Go(func() {
			for {
				conn, err := network.Accept()
				if err != nil {
					return
				}
				peers.Go(func() { _, _ = io.Copy(io.Discard, conn); _ = conn.Close() })
			}
		})
		c, err := protocol.New(protocol.Options{BaseURL: "https://127.0.0.1", Dial: network.Dial})
		must(t, err)
		protocol.SetToken(c, "t")
		for _, wait := range []time.Duration{0, 300 * time.Second} {
			began := time.Now()
			_, _, err = c.Claim(t.Context(), protocol.ClaimRequest{Wait: wait})
			wantClass(t, err, protocol.Unreachable, "")
			if took := time.Since(began); took != protocol.ConnectTimeout {
				t.Errorf("with a hold of %v it took %v", wait, took)
			}
		}
		c.Close()
		_ = network.Close()
		peers.Wait()
	})
}

// What is older than TLS 1.2 is nothing to send a token over.
func TestOldTLSIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := refserver.NewNetwork()
		var versions []uint16
		config := &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) { //nolint:gosec // what is refused
			versions = h.SupportedVersions
			return nil, nil
		}}
		var peers sync.WaitGroup
		peers.Go(func() {
			conn, err := network.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_ = tls.Server(net.Conn(conn), config).Handshake()
		})
		c, err := protocol.New(protocol.Options{BaseURL: "https://127.0.0.1", Dial: network.Dial})
		must(t, err)
		_, err = c.Health(t.Context())
		wantClass(t, err, protocol.Unreachable, "")
		c.Close()
		_ = network.Close()
		peers.Wait()
		for _, v := range versions {
			if v < tls.VersionTLS12 {
				t.Errorf("version %x was offered", v)
			}
		}
		if len(versions) == 0 {
			t.Error("nothing was offered, so this shows nothing")
		}
	})
}
