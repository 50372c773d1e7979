package refserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

// FaultKind is what goes wrong with a call. The zero FaultKind is invalid.
type FaultKind string

// The faults. Those of the second group change a good answer; the others replace or withhold it.
const (
	// FaultStatus answers Status with Code, and with Body if there is one, without doing anything.
	FaultStatus FaultKind = "status"
	// FaultHTML answers Status (200 if none) with a page, as a proxy does.
	FaultHTML FaultKind = "html"
	// FaultDropBefore cuts the connection without doing anything; FaultDropAfter does the work and loses the answer.
	FaultDropBefore FaultKind = "dropBefore"
	FaultDropAfter  FaultKind = "dropAfter"
	// FaultDelay answers later by Seconds; FaultHold when the fault is cleared.
	FaultDelay FaultKind = "delay"
	FaultHold  FaultKind = "hold"
	// FaultOverHold holds a claim longer than asked by Seconds; FaultIgnoreWait never holds one.
	FaultOverHold   FaultKind = "overHold"
	FaultIgnoreWait FaultKind = "ignoreWait"

	// FaultStall sends Bytes of the body, then nothing more while the connection stays open.
	FaultStall FaultKind = "stall"
	// FaultTrickle sends a byte of the body every Seconds.
	FaultTrickle FaultKind = "trickle"
	// FaultCut sends Bytes of the body, then cuts the connection.
	FaultCut FaultKind = "cut"
	// FaultTruncate sends Bytes of the body and says that this is all.
	FaultTruncate FaultKind = "truncate"
	// FaultCorrupt changes the byte at position Bytes of the body.
	FaultCorrupt FaultKind = "corrupt"
	// FaultNulls adds null members where optional ones are absent; FaultUnknown adds members nobody knows.
	FaultNulls   FaultKind = "nulls"
	FaultUnknown FaultKind = "unknown"
	// FaultWrongSHA announces another checksum of the package; FaultNoPackage no package; FaultNoFiles no submission;
	// FaultNoLanguage no language.
	FaultWrongSHA   FaultKind = "wrongPackageSha256"
	FaultNoPackage  FaultKind = "noPackage"
	FaultNoFiles    FaultKind = "noFiles"
	FaultNoLanguage FaultKind = "noLanguage"
	// FaultLevel lets health say Body as its level.
	FaultLevel FaultKind = "level"
)

var faultKinds = map[FaultKind]bool{
	FaultStatus: true, FaultHTML: true, FaultDropBefore: true, FaultDropAfter: true, FaultDelay: true, FaultHold: true,
	FaultOverHold: true, FaultIgnoreWait: true, FaultStall: true, FaultTrickle: true, FaultCut: true, FaultTruncate: true, FaultCorrupt: true,
	FaultNulls: true, FaultUnknown: true, FaultWrongSHA: true, FaultNoPackage: true, FaultNoFiles: true,
	FaultNoLanguage: true, FaultLevel: true,
}

// Fault is something that goes wrong with the calls it matches.
type Fault struct {
	ID string `json:"id"`
	// Method matches any when empty. Path is relative to Prefix, where * stands for one element: "/runner/jobs/*/report".
	Method string `json:"method,omitempty"`
	Path   string `json:"path"`
	// Skip lets that many calls pass first; Times is how many are then hit, 0 for all until the fault is cleared.
	Skip  int       `json:"skip,omitempty"`
	Times int       `json:"times,omitempty"`
	Kind  FaultKind `json:"kind"`

	Status int    `json:"status,omitempty"`
	Code   string `json:"code,omitempty"`
	Body   string `json:"body,omitempty"`
	// RetryAfter is sent as it is, unless empty.
	RetryAfter string  `json:"retryAfter,omitempty"`
	Seconds    float64 `json:"seconds,omitempty"`
	Bytes      int64   `json:"bytes,omitempty"`

	// Hits counts the calls that were hit.
	Hits int `json:"hits"`

	cleared chan struct{}
}

// Delay is Seconds as a duration.
func (f *Fault) Delay() time.Duration { return time.Duration(f.Seconds * float64(time.Second)) }

func (f *Fault) kind() FaultKind {
	if f == nil {
		return ""
	}
	return f.Kind
}

// faults are those that are set, in the order they were.
type faults struct {
	mu  sync.Mutex
	all []*Fault
}

// SetFault sets a fault and returns its id. Of several that match a call the oldest hits. It fails on an unknown kind
// and on a path that cannot match.
func (s *Server) SetFault(f Fault) (string, error) {
	if !faultKinds[f.Kind] {
		return "", fmt.Errorf("refserver: there is no fault of the kind %q", f.Kind)
	}
	if _, err := path.Match(f.Path, "/"); err != nil || !strings.HasPrefix(f.Path, "/") {
		return "", fmt.Errorf("refserver: a fault's path begins with / and may hold *, this one is %q", f.Path)
	}
	f.ID, f.Hits, f.cleared = newID(), 0, make(chan struct{})
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.all = append(s.faults.all, &f)
	return f.ID, nil
}

// ClearFault removes a fault and lets the calls it holds go on; false if there is none of that id.
func (s *Server) ClearFault(id string) bool {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	for i, f := range s.faults.all {
		if f.ID == id {
			close(f.cleared)
			s.faults.all = append(s.faults.all[:i:i], s.faults.all[i+1:]...)
			return true
		}
	}
	return false
}

// Faults are those that are set, spent ones included.
func (s *Server) Faults() []Fault {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	out := make([]Fault, 0, len(s.faults.all))
	for _, f := range s.faults.all {
		out = append(out, *f)
	}
	return out
}

// take finds the fault that hits a call, a copy, and counts it; nil for none.
func (f *faults) take(method, where string) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.all {
		matches, _ := path.Match(one.Path, where)
		if !matches || one.Method != "" && one.Method != method || one.Times > 0 && one.Hits >= one.Times {
			continue
		}
		if one.Skip > 0 {
			one.Skip--
			continue
		}
		one.Hits++
		hit := *one
		return &hit
	}
	return nil
}

// inject lets a call be answered by next, with what a fault does to it.
func (s *Server) inject(x *exchange, f *Fault, next func(http.ResponseWriter)) {
	w, r := x.w, x.Request
	if f.kind() == FaultDelay || f.kind() == FaultHold {
		// The http package notices a client that went away only once the request's body has been read.
		head, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(head), r.Body))
	}
	switch f.kind() {
	case FaultStatus, FaultHTML:
		f.replace(w)
	case FaultDropBefore:
		panic(http.ErrAbortHandler)
	case FaultDropAfter:
		lost := newBuffer()
		next(lost)
		panic(http.ErrAbortHandler)
	case FaultDelay:
		timer := time.NewTimer(f.Delay())
		defer timer.Stop()
		select {
		case <-timer.C:
			next(w)
		case <-r.Context().Done():
		}
	case FaultHold:
		select {
		case <-f.cleared:
			next(w)
		case <-r.Context().Done():
		}
	case FaultStall, FaultCut, FaultTruncate, FaultCorrupt:
		next(&spoiler{ResponseWriter: w, f: f, left: f.Bytes, request: r})
	case "", FaultOverHold, FaultIgnoreWait:
		next(w)
	case FaultTrickle:
		good := newBuffer()
		next(good)
		good.trickle(r, w, f.Delay())
	default:
		good := newBuffer()
		next(good)
		good.rewrite(f)
		good.flush(w)
	}
}

// replace answers in a handler's stead.
func (f *Fault) replace(w http.ResponseWriter) {
	status, mime, body := f.Status, "application/problem+json", f.Body
	if status == 0 {
		status = http.StatusOK
	}
	switch {
	case f.Kind == FaultHTML:
		mime = "text/html"
		if body == "" {
			body = "<html><body><h1>A page of a proxy</h1></body></html>"
		}
	case body == "":
		raw, _ := json.Marshal(map[string]any{"title": http.StatusText(status), "status": status, "code": f.Code})
		body = string(raw)
	}
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	w.Header().Set("Content-Type", mime)
	w.WriteHeader(status)
	if status != http.StatusNoContent && status != http.StatusNotModified {
		_, _ = w.Write([]byte(body))
	}
}

// spoiler harms a body on its way.
type spoiler struct {
	http.ResponseWriter
	f       *Fault
	left    int64
	request *http.Request
	started bool
}

// WriteHeader announces the harmed length of a truncated body.
func (s *spoiler) WriteHeader(status int) {
	s.started = true
	if s.f.Kind == FaultTruncate {
		s.Header().Set("Content-Length", fmt.Sprint(s.f.Bytes))
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write passes bytes on until the harm is done.
func (s *spoiler) Write(p []byte) (int, error) {
	if !s.started {
		s.WriteHeader(http.StatusOK)
	}
	if s.f.Kind == FaultCorrupt {
		if s.left >= 0 && s.left < int64(len(p)) {
			p = bytes.Clone(p)
			p[s.left] ^= 0xff
		}
		s.left -= int64(len(p))
		return s.ResponseWriter.Write(p)
	}
	n := min(s.left, int64(len(p)))
	if n > 0 {
		if _, err := s.ResponseWriter.Write(p[:n]); err != nil {
			return 0, err
		}
		s.left -= n
	}
	if n == int64(len(p)) || s.f.Kind == FaultTruncate {
		return len(p), nil
	}
	_ = http.NewResponseController(s.ResponseWriter).Flush()
	if s.f.Kind == FaultStall {
		select {
		case <-s.request.Context().Done():
		case <-s.f.cleared:
		}
	}
	panic(http.ErrAbortHandler)
}

// buffer holds an answer back.
type buffer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newBuffer() *buffer { return &buffer{header: http.Header{}, status: http.StatusOK} }

// Header is the answer's.
func (b *buffer) Header() http.Header { return b.header }

// WriteHeader keeps the status.
func (b *buffer) WriteHeader(status int) { b.status = status }

// Write keeps bytes.
func (b *buffer) Write(p []byte) (int, error) { return b.body.Write(p) }

// flush sends the answer.
func (b *buffer) flush(w http.ResponseWriter) {
	for name, values := range b.header {
		if name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(b.status)
	_, _ = w.Write(b.body.Bytes())
}

// trickle sends the answer a byte at a time, until the caller has had enough.
func (b *buffer) trickle(r *http.Request, w http.ResponseWriter, every time.Duration) {
	w.WriteHeader(b.status)
	tick := time.NewTicker(max(every, time.Millisecond))
	defer tick.Stop()
	for _, c := range b.body.Bytes() {
		if _, err := w.Write([]byte{c}); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// rewrite changes a good JSON answer; any other stays.
func (b *buffer) rewrite(f *Fault) {
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(b.body.Bytes()))
	d.UseNumber()
	if b.status != http.StatusOK || d.Decode(&m) != nil {
		return
	}
	switch f.Kind {
	case FaultNulls:
		for _, name := range []string{
			"props", "config", "problemVersionProps", "resultId", "maintenance", "code", "detail",
		} {
			if _, there := m[name]; !there {
				m[name] = nil
			}
		}
	case FaultUnknown:
		m["addedLater"] = map[string]any{"a": []any{1, nil, "x"}}
		m["JobID"], m["LEASETOKEN"] = 7, 7 // other spellings are other members
	case FaultWrongSHA:
		m["packageSha256"] = strings.Repeat("0", 64)
	case FaultNoPackage:
		m["packageFileId"], m["packageSha256"] = "", ""
	case FaultNoFiles:
		m["files"] = []any{}
	case FaultNoLanguage:
		if props, ok := m["props"].(map[string]any); ok {
			delete(props, "language")
		}
	case FaultLevel:
		m["maintenance"] = map[string]any{"level": f.Body}
	}
	raw, err := json.Marshal(m)
	if err == nil {
		b.body.Reset()
		b.body.Write(raw)
	}
}
