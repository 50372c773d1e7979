package refserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// handler answers one call: a status with a body to encode (nil for none), or 0 with a *Refusal or errGone. A handler
// that writes the answer itself returns 0 and nil.
type handler func(*exchange) (status int, body any)

// exchange is one call under way.
type exchange struct {
	*http.Request
	w http.ResponseWriter
	// runner is the caller's id on calls with a token.
	runner string
	// fault is what goes wrong with this call; nil for nothing.
	fault *Fault
	epoch int
}

// read decodes the request's JSON body into v; an empty body leaves v alone. Unknown members are ignored.
func (x *exchange) read(v any) *Refusal {
	raw, err := io.ReadAll(http.MaxBytesReader(x.w, x.Body, jsonLimit))
	if err != nil {
		return malformed(err)
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return refuse(http.StatusBadRequest, "malformed_json", err.Error())
	}
	return nil
}

// endpoint wraps a handler with what is common to all: the journal, the faults, the gate and the token.
func (s *Server) endpoint(needsToken bool, h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path[len(Prefix):]
		s.mu.Lock()
		epoch := s.epoch
		s.mu.Unlock()
		x := &exchange{Request: r, epoch: epoch}
		entry := s.journal.begin(s.clock.Now(), r.Method, path)
		record := &recorder{ResponseWriter: w}
		defer func() { s.journal.end(entry, record.status, x.runner) }()
		x.w = record
		fault := s.faults.take(r.Method, path)
		x.fault = fault
		s.inject(x, fault, func(w http.ResponseWriter) {
			x.w = w
			s.answer(x, path, needsToken, h)
		})
	})
}

// answer runs a handler behind the gate and writes what it says.
func (s *Server) answer(x *exchange, path string, needsToken bool, h handler) {
	if r := s.gate(path); r != nil {
		writeRefusal(x.w, r)
		return
	}
	if needsToken {
		runner, r := s.authenticate(x.Request)
		if r != nil {
			writeRefusal(x.w, r)
			return
		}
		x.runner = runner
	}
	switch status, body := h(x); body := body.(type) {
	case *Refusal:
		writeRefusal(x.w, body)
	case error:
		panic(http.ErrAbortHandler) // errGone: nobody is there to be answered
	case nil:
		if status != 0 {
			x.w.WriteHeader(status)
		}
	default:
		writeJSON(x.w, status, "application/json", body)
	}
}

func writeJSON(w http.ResponseWriter, status int, mime string, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", mime)
	w.Header().Set("Content-Length", fmt.Sprint(len(raw)))
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}

// writeRefusal writes the error envelope (1.4).
func writeRefusal(w http.ResponseWriter, r *Refusal) {
	if r.RetryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(r.RetryAfter))
	}
	body := map[string]any{"title": http.StatusText(r.Status), "status": r.Status}
	if r.Code != "" {
		body["code"] = r.Code
	}
	if r.Detail != "" {
		body["detail"] = r.Detail
	}
	writeJSON(w, r.Status, "application/problem+json", body)
}

// recorder remembers the status that was written.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader passes the status on.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write passes bytes on.
func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap lets the http package reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Call is one call of a Runner, as the journal keeps it.
type Call struct {
	// N counts calls from 1.
	N      int       `json:"n"`
	At     time.Time `json:"at"`
	Method string    `json:"method"`
	// Path is relative to Prefix.
	Path string `json:"path"`
	// Status is 0 while the call is under way, and -1 when it was cut off without an answer.
	Status int    `json:"status"`
	Runner string `json:"runner,omitempty"`
}

// journalLimit is how many calls are remembered.
const journalLimit = 10_000

// journal remembers the latest calls.
type journal struct {
	mu    sync.Mutex
	count int
	calls []Call
}

func (j *journal) begin(at time.Time, method, path string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.count++
	if len(j.calls) == journalLimit {
		j.calls = append(j.calls[:0], j.calls[journalLimit/2:]...)
	}
	j.calls = append(j.calls, Call{N: j.count, At: at, Method: method, Path: path})
	return j.count
}

func (j *journal) end(n, status int, runner string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if status == 0 {
		status = -1
	}
	if i := len(j.calls) - 1 - (j.count - n); i >= 0 {
		j.calls[i].Status, j.calls[i].Runner = status, runner
	}
}

// Calls are the calls of Runners after the n-th, oldest first; of a long history only the end.
func (s *Server) Calls(n int) []Call {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	var out []Call
	for _, c := range s.journal.calls {
		if c.N > n {
			out = append(out, c)
		}
	}
	return out
}
