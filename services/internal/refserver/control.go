package refserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
)

// ControlPrefix is the path of the control surface for scripts: the Go API as JSON.
//
//	GET    /_test/state                              the Snapshot
//	GET    /_test/jobs/{id}?waitSeconds=30           a job; with a wait, once it is final or the wait is over
//	GET    /_test/trials/{id}                        a trial
//	GET    /_test/jobs/{id}/files/{name}             an attachment's bytes
//	GET    /_test/calls?after=N                      the journal
//	POST   /_test/packages?name=&type=&tags=a,b&config={}          body: the archive
//	POST   /_test/submissions?problem=&fileName=&language=&props={}&config={}&maxPoints=   body: the file
//	POST   /_test/submissions/{id}/rejudge           POST /_test/jobs/{id}/cancel
//	POST   /_test/trials?type=                       body: the archive
//	POST   /_test/runners/{id}/approve               also …/revoke, …/tags?tags=a,b; {id} may be a fingerprint
//	POST   /_test/maintenance?level=&reason=         POST /_test/external?open=true
//	POST   /_test/restart   /_test/sweep             POST /_test/clock/advance?seconds=
//	POST   /_test/faults (a Fault)                   DELETE /_test/faults/{id}
//
// Any web page can reach loopback, and this surface runs programs: every call must name a loopback host, and every one
// that changes something must carry the header ControlHeader, which a page of another origin cannot send unasked.
const ControlPrefix = "/_test"

// ControlHeader must be on every call of the control surface that changes something; its value does not matter.
const ControlHeader = "X-Evalhost-Control"

func (s *Server) controlRoutes(mux *http.ServeMux) {
	route := func(pattern string, h func(*http.Request) (any, error)) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+ControlPrefix+path, func(w http.ResponseWriter, r *http.Request) {
			if refused := localCaller(r); refused != nil {
				writeRefusal(w, refused)
				return
			}
			if r.Method != http.MethodGet && r.Header.Get(ControlHeader) == "" {
				writeRefusal(w, refuse(http.StatusForbidden, "control.header", "the header "+ControlHeader+" is missing"))
				return
			}
			body, err := h(r)
			var refused *Refusal
			switch {
			case errors.As(err, &refused):
				writeRefusal(w, refused)
			case err != nil:
				writeRefusal(w, malformed(err))
			case body == nil:
				w.WriteHeader(http.StatusNoContent)
			default:
				writeJSON(w, http.StatusOK, "application/json", body)
			}
		})
	}
	route("GET /state", func(*http.Request) (any, error) { return s.Snapshot(), nil })
	route("GET /jobs/{id}", s.controlJob)
	route("GET /trials/{id}", func(r *http.Request) (any, error) {
		t, ok := s.Trial(r.PathValue("id"))
		if !ok {
			return nil, notFound("trial")
		}
		t.Lease = ""
		return t, nil
	})
	route("GET /calls", func(r *http.Request) (any, error) {
		after, _ := strconv.Atoi(r.URL.Query().Get("after"))
		return s.Calls(after), nil
	})
	route("POST /packages", s.controlPackage)
	route("POST /submissions", s.controlSubmit)
	route("POST /submissions/{id}/rejudge", func(r *http.Request) (any, error) { return answerOf(s.Rejudge(r.PathValue("id"))) })
	route("POST /jobs/{id}/cancel", func(r *http.Request) (any, error) { return nil, s.Cancel(r.PathValue("id")) })
	route("POST /trials", func(r *http.Request) (any, error) {
		return answerOf(s.AddTrial(r.URL.Query().Get("type"), limited(r, int64(protocol.PackageLimit))))
	})
	route("POST /runners/{id}/approve", func(r *http.Request) (any, error) { return nil, s.Approve(r.PathValue("id")) })
	route("POST /runners/{id}/revoke", func(r *http.Request) (any, error) { return nil, s.Revoke(r.PathValue("id")) })
	route("POST /runners/{id}/tags", func(r *http.Request) (any, error) {
		return nil, s.SetTags(r.PathValue("id"), splitList(r.URL.Query().Get("tags")))
	})
	route("POST /maintenance", func(r *http.Request) (any, error) {
		q := r.URL.Query()
		return nil, s.SetMaintenance(q.Get("level"), q.Get("reason"))
	})
	route("POST /external", func(r *http.Request) (any, error) {
		return nil, s.SetExternal(r.URL.Query().Get("open") == "true")
	})
	route("POST /restart", func(*http.Request) (any, error) { s.Restart(); return nil, nil })
	route("POST /sweep", func(*http.Request) (any, error) { s.Sweep(); return nil, nil })
	route("POST /clock/advance", func(r *http.Request) (any, error) {
		seconds, err := strconv.ParseFloat(r.URL.Query().Get("seconds"), 64)
		if err != nil {
			return nil, fmt.Errorf("seconds: %w", err)
		}
		s.Advance(time.Duration(seconds * float64(time.Second)))
		return nil, nil
	})
	route("POST /faults", func(r *http.Request) (any, error) {
		var f Fault
		if err := json.NewDecoder(limited(r, jsonLimit)).Decode(&f); err != nil {
			return nil, err
		}
		id, err := s.SetFault(f)
		return map[string]string{"id": id}, err
	})
	route("DELETE /faults/{id}", func(r *http.Request) (any, error) {
		if !s.ClearFault(r.PathValue("id")) {
			return nil, notFound("fault")
		}
		return nil, nil
	})
	mux.HandleFunc("GET "+ControlPrefix+"/jobs/{id}/files/{name}", func(w http.ResponseWriter, r *http.Request) {
		if refused := localCaller(r); refused != nil {
			writeRefusal(w, refused)
			return
		}
		j, _ := s.Job(r.PathValue("id"))
		s.serveAttachment(w, r, j, r.PathValue("name"))
	})
}

// serveAttachment writes a file of a job.
func (s *Server) serveAttachment(w http.ResponseWriter, r *http.Request, j Job, name string) {
	for _, a := range j.Attachments {
		if a.Name != name {
			continue
		}
		s.mu.Lock()
		f := s.s.Files[a.FileID]
		s.mu.Unlock()
		if f != nil {
			if refused := s.serveFile(w, r, *f); refused != nil {
				writeRefusal(w, refused)
			}
			return
		}
	}
	writeRefusal(w, notFound("file"))
}

// answerOf gives a value only if there is no error.
func answerOf[T any](v T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

// controlJob is a job, at once or when it is final.
func (s *Server) controlJob(r *http.Request) (any, error) {
	seconds, _ := strconv.Atoi(r.URL.Query().Get("waitSeconds"))
	timer := time.NewTimer(time.Duration(min(max(seconds, 0), 300)) * time.Second)
	defer timer.Stop()
	for {
		s.mu.Lock()
		wake := s.wake
		j := s.s.Jobs[r.PathValue("id")]
		if j == nil {
			s.mu.Unlock()
			return nil, notFound("job")
		}
		out := copyJob(j)
		s.mu.Unlock()
		out.Lease = ""
		if seconds <= 0 || out.State.Final() {
			return out, nil
		}
		select {
		case <-wake:
		case <-timer.C:
			return out, nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

func (s *Server) controlPackage(r *http.Request) (any, error) {
	q := r.URL.Query()
	return answerOf(s.AddPackage(Package{
		Name: q.Get("name"), Type: q.Get("type"), Tags: splitList(q.Get("tags")), External: q.Get("external") == "true",
		Config: document(q, "config"), VersionProps: document(q, "versionProps"),
		Content: limited(r, int64(protocol.PackageLimit)),
	}))
}

func (s *Server) controlSubmit(r *http.Request) (any, error) {
	q := r.URL.Query()
	sub := Submission{
		ProblemID: q.Get("problem"), FileName: q.Get("fileName"), Language: q.Get("language"), Props: document(q, "props"),
		Config: document(q, "config"), Content: limited(r, int64(protocol.SubmissionLimit)),
	}
	if text := q.Get("maxPoints"); text != "" {
		points, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("maxPoints: %w", err)
		}
		sub.MaxPoints = &points
	}
	return answerOf(s.Submit(sub))
}

func document(q url.Values, name string) json.RawMessage {
	if text := q.Get(name); text != "" {
		return json.RawMessage(text)
	}
	return nil
}

// limited is a request's body, one byte longer than allowed at most, so that excess is noticed.
func limited(r *http.Request, limit int64) io.Reader { return io.LimitReader(r.Body, limit+1) }

func splitList(text string) []string {
	var out []string
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			out = append(out, one)
		}
	}
	return out
}

// localCaller refuses a call that does not name a loopback host: a page whose name was made to lead here (DNS rebinding)
// cannot pretend to be one of ours.
func localCaller(r *http.Request) *Refusal {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return refuse(http.StatusForbidden, "host", "this page answers to a loopback host only")
}
