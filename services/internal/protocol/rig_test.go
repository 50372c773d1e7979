package protocol_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evalhost/evalhost/services/internal/identity"
	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/refserver"
)

// rig is a reference server and one client of it.
type rig struct {
	server *refserver.Server
	client *protocol.Client
	key    *identity.Key
	base   string
	log    *logBuffer
	dial   func(o *protocol.Options)
}

var registration = protocol.Registration{
	Name: "runner-01", Product: "evalhost-runner", Version: "0.1.0", ProblemTypes: []string{"standard-io@1"},
	Machine: protocol.Machine{OS: "linux", CPU: "x86_64", Cores: 2, Memory: 1 << 30},
}

// logBuffer collects log records, debug ones too.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newKey(t testing.TB) *identity.Key {
	t.Helper()
	key, _, err := identity.LoadOrCreate(filepath.Join(t.TempDir(), "identity.key"))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// newRig runs a reference server on loopback.
func newRig(t *testing.T, o refserver.Options) *rig {
	t.Helper()
	server, err := refserver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(server)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		_ = server.Close()
	})
	r := &rig{server: server, key: newKey(t), base: web.URL + refserver.Prefix, log: &logBuffer{}, dial: func(*protocol.Options) {}}
	r.client = r.another(t)
	return r
}

// another is one more client of the rig's server.
func (r *rig) another(t *testing.T) *protocol.Client {
	t.Helper()
	o := protocol.Options{
		BaseURL: r.base, UserAgent: "evalhost-runner/0.1.0", Getenv: func(string) string { return "" },
		Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	r.dial(&o)
	c, err := protocol.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// inBubble runs a test against a reference server on a network in memory, where waiting takes no time.
func inBubble(t *testing.T, o refserver.Options, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, err := refserver.New(o)
		if err != nil {
			t.Fatal(err)
		}
		network := refserver.NewNetwork()
		web := &http.Server{Handler: server}
		served := make(chan error, 1)
		go func() { served <- web.Serve(network) }()
		r := &rig{
			server: server, key: newKey(t), base: "http://127.0.0.1" + refserver.Prefix, log: &logBuffer{},
			dial: func(o *protocol.Options) { o.Dial = network.Dial },
		}
		r.client = r.another(t)
		defer func() {
			r.client.Close()
			_ = web.Close()
			_ = network.Close()
			<-served
		}()
		test(t, r)
	})
}

// admit approves the rig's Runner and admits its client.
func (r *rig) admit(t *testing.T) {
	t.Helper()
	if _, err := r.client.Challenge(t.Context(), r.key.Fingerprint()); protocol.ClassOf(err) == protocol.NotFound {
		if _, err := r.client.Register(t.Context(), r.key, registration, nil); err != nil {
			t.Fatal(err)
		}
	}
	must(t, r.server.Approve(string(r.key.Fingerprint())))
	if _, err := r.client.Admit(t.Context(), r.key, registration, protocol.AdmitOptions{}); err != nil {
		t.Fatal(err)
	}
}

// submit publishes a package and hands in one file for it.
func (r *rig) submit(t *testing.T) refserver.Job {
	t.Helper()
	p, err := r.server.AddPackage(refserver.Package{Name: "sum", Content: strings.NewReader("a package")})
	must(t, err)
	j, err := r.server.Submit(refserver.BytesSubmission(p.ID, "main.py", "python3", []byte("print('lease')\n")))
	must(t, err)
	return j
}

// claim takes the job that must be there.
func (r *rig) claim(t *testing.T) protocol.Job {
	t.Helper()
	job, got, err := r.client.Claim(t.Context(), protocol.ClaimRequest{})
	if err != nil || !got {
		t.Fatalf("claim: got %v, %v", got, err)
	}
	if err := job.Check(); err != nil {
		t.Fatal(err)
	}
	return job
}

// fault sets a fault that must be possible.
func (r *rig) fault(t *testing.T, f refserver.Fault) string {
	t.Helper()
	id, err := r.server.SetFault(f)
	must(t, err)
	return id
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantClass fails unless the error has the class and the code.
func wantClass(t testing.TB, err error, class protocol.Class, code protocol.Code) {
	t.Helper()
	if protocol.ClassOf(err) != class || protocol.CodeOf(err) != code {
		t.Fatalf("error %v: class %v, code %q; want %v, %q", err, protocol.ClassOf(err), protocol.CodeOf(err), class, code)
	}
}

func accepted(t testing.TB) protocol.Report {
	t.Helper()
	r, err := protocol.Judged{Score: 100, MaxScore: 100, Verdict: "Accepted", Version: "0.1.0"}.Report()
	must(t, err)
	return r
}

// contextWithStop is a context that is stopped after a while.
func contextWithStop(t *testing.T, after time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(after, cancel)
	return ctx, cancel
}

// withHandler runs a test against any handler on a network in memory, with a client that has a token.
func withHandler(t *testing.T, h http.Handler, test func(t *testing.T, c *protocol.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := refserver.NewNetwork()
		web := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
		served := make(chan error, 1)
		go func() { served <- web.Serve(network) }()
		c, err := protocol.New(protocol.Options{BaseURL: "http://127.0.0.1", Dial: network.Dial})
		must(t, err)
		protocol.SetToken(c, "t")
		defer func() {
			c.Close()
			_ = web.Close()
			_ = network.Close()
			<-served
		}()
		test(t, c)
	})
}
