package refserver

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/evalhost/evalhost/services/internal/identity"
	"github.com/evalhost/evalhost/services/internal/protocol"
)

// Prefix is the path of the contract's endpoints; a Runner's base URL ends in it.
const Prefix = "/api/v1"

// Numbers of the contract (Appendix A).
const (
	nonceLife      = 2 * time.Minute
	tokenLife      = 12 * time.Hour
	deliveryCap    = 5
	freeReleases   = 3
	freeRefunds    = 3
	drainForce     = 300 * time.Second
	drainTick      = 5 * time.Second
	sweepEvery     = time.Second
	maintenanceAsk = 30 // seconds of Retry-After
	jsonLimit      = 4 << 20
)

// Options make a Server.
type Options struct {
	// Dir keeps the state over a restart; empty keeps it in memory.
	Dir string
	// Clock is the Server's time; nil is the machine's.
	Clock *Clock
	// Log gets what happens; nil discards. It never holds a token or a nonce.
	Log *slog.Logger
	// ApproveAll approves every Runner as it registers.
	ApproveAll bool
	// Languages are offered on the page; nil offers a few.
	Languages []string
	// Draw replaces chance in tests: a number in [0, n).
	Draw func(n int64) int64
}

// Server is the reference server. It is an http.Handler and safe for use by many goroutines.
type Server struct {
	o     Options
	clock *Clock
	log   *slog.Logger
	store store
	mux   *http.ServeMux

	mu     sync.Mutex
	s      *state
	nonces map[string]nonce
	tokens map[string]bearer
	wake   chan struct{} // closed and replaced at every change
	epoch  int           // counts restarts; a call that began in an older one is cut off

	faults  faults
	journal journal
	page    page
}

type nonce struct {
	fingerprint identity.Fingerprint
	expires     time.Time
}

type bearer struct {
	runner  string
	expires time.Time
}

// New makes a Server. It fails only when the data directory cannot be used.
func New(o Options) (*Server, error) {
	if o.Clock == nil {
		o.Clock = NewClock()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Draw == nil {
		o.Draw = rand.Int64N
	}
	s := &Server{
		o: o, clock: o.Clock, log: o.Log, s: newState(), store: newMemory(),
		nonces: map[string]nonce{}, tokens: map[string]bearer{}, wake: make(chan struct{}),
	}
	if o.Dir != "" {
		dir, kept, err := openDirectory(o.Dir)
		if err != nil {
			return nil, err
		}
		s.store, s.s = dir, kept
	}
	s.page.init(o.Languages)
	s.mux = s.routes()
	return s, nil
}

// Close lets go of the data directory. Calls under way may fail afterwards.
func (s *Server) Close() error { return s.store.close() }

// Run sweeps every second until the context ends: it takes expired leases back and closes a finished drain. Without it,
// that happens at each claim and whenever Sweep is called.
func (s *Server) Run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.Sweep()
		}
	}
}

// Refusal is a call that was refused: what the contract's error envelope says (1.4).
type Refusal struct {
	Status int
	Code   protocol.Code
	Detail string
	// RetryAfter in seconds, 0 for none.
	RetryAfter int
}

// Error is the refusal in one line.
func (r *Refusal) Error() string {
	return http.StatusText(r.Status) + " (" + string(r.Code) + "): " + r.Detail
}

func refuse(status int, code protocol.Code, detail string) *Refusal {
	return &Refusal{Status: status, Code: code, Detail: detail}
}

func notFound(what string) *Refusal {
	return refuse(http.StatusNotFound, protocol.CodeNotFound, "there is no such "+what)
}

func malformed(err error) *Refusal {
	return refuse(http.StatusBadRequest, "malformed_request", err.Error())
}

// routes is every endpoint. What is outside the prefixes answers 404 with an empty body (1.1).
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	api := func(pattern string, needsToken bool, h handler) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.Handle(method+" "+Prefix+path, s.endpoint(needsToken, h))
	}
	api("GET /health", false, s.health)
	api("POST /runner/register", false, s.register)
	api("POST /runner/auth/challenge", false, s.challenge)
	api("POST /runner/auth/token", false, s.token)
	api("POST /runner/heartbeat", true, func(*exchange) (int, any) { return http.StatusNoContent, nil })
	api("POST /runner/jobs/claim", true, s.claim)
	api("POST /runner/jobs/{id}/lease", true, s.renew)
	api("POST /runner/jobs/leases", true, s.renewAll)
	api("POST /runner/jobs/{id}/progress", true, s.progress)
	api("POST /runner/jobs/{id}/release", true, s.release)
	api("POST /runner/jobs/releases", true, s.releaseAll)
	api("POST /runner/jobs/{id}/report", true, s.report)
	api("POST /runner/jobs/{id}/files", true, s.attach)
	api("GET /runner/files/{id}", true, s.download)
	api("POST /runner/files", true, s.upload)
	api("POST /runner/files/attach", true, s.attachToRunner)
	api("POST /runner/trials/claim", true, s.claimTrial)
	api("POST /runner/trials/{id}/lease", true, s.renewTrial)
	api("POST /runner/trials/{id}/report", true, s.reportTrial)
	mux.Handle(Prefix+"/", s.endpoint(false, func(*exchange) (int, any) { return 0, notFound("endpoint") }))
	s.controlRoutes(mux)
	s.pageRoutes(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	return mux
}

// ServeHTTP answers any call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// changed makes a change durable and wakes held claims. It is called with the lock held.
func (s *Server) changed() *Refusal {
	close(s.wake)
	s.wake = make(chan struct{})
	if err := s.store.save(s.s); err != nil {
		s.log.Error("the state could not be kept", "error", err)
		return refuse(http.StatusInternalServerError, "error", "the state could not be kept: "+err.Error())
	}
	return nil
}

// settle is the end of a handler that changed the state: its answer, unless the change could not be kept.
func (s *Server) settle(status int, body any) (int, any) {
	if r := s.changed(); r != nil {
		return 0, r
	}
	return status, body
}

// gate is the maintenance level's say about a call of the contract (4.7).
func (s *Server) gate(path string) *Refusal {
	s.mu.Lock()
	level := s.s.Maintenance.Level
	s.mu.Unlock()
	switch {
	case level == LevelOpen || path == "/health":
		return nil
	case level == LevelClosed || path == "/runner/register":
		return &Refusal{
			Status: http.StatusServiceUnavailable, Code: protocol.CodeMaintenance, Detail: "the Server is in maintenance: " + level,
			RetryAfter: maintenanceAsk,
		}
	}
	return nil
}

// authenticate finds the Runner behind a bearer token and notes that it was heard from.
func (s *Server) authenticate(r *http.Request) (string, *Refusal) {
	refused := refuse(http.StatusUnauthorized, protocol.CodeUnauthenticated, "no token, or one that is not known any more")
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	text = strings.TrimSpace(text)
	t, known := s.tokens[text]
	if !known {
		return "", refused
	}
	if !s.clock.Now().Before(t.expires) {
		delete(s.tokens, text)
		return "", refused
	}
	if r := s.approved(t.runner); r != nil {
		return "", r
	}
	s.s.Runners[t.runner].LastSeen = s.clock.Now()
	return t.runner, nil
}

// approved refuses a Runner that is not. It is called with the lock held.
func (s *Server) approved(id string) *Refusal {
	if r := s.s.Runners[id]; r == nil || r.State != protocol.Approved {
		return refuse(http.StatusForbidden, protocol.CodeNotApproved, "this Runner is not approved")
	}
	return nil
}

// health is 2.1: answered at every level.
func (s *Server) health(*exchange) (int, any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := map[string]any{"status": "ok", "storage": "ok"}
	if m := s.s.Maintenance; m.Level != LevelOpen {
		inner := map[string]any{"level": m.Level, "since": protocol.FormatInstant(m.Since)}
		if m.Reason != "" {
			inner["reason"] = m.Reason
		}
		body["maintenance"] = inner
	}
	return http.StatusOK, body
}

// errGone ends a held call without an answer: its connection or the Server's memory of it is gone.
var errGone = errors.New("refserver: the call is gone")
