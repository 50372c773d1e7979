package refserver

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// PagePrefix is the path of the page for people.
const PagePrefix = "/ui"

// Bounds of what the page reads and shows.
const (
	pageJobs   = 100
	pageForm   = 1 << 20 // bytes of a form kept in memory; files beyond go to a temporary file
	pageDetail = 4 * verdict.MiB
	pageLog    = 256 * verdict.KiB
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

// page is what the page needs beyond the Server's state.
type page struct {
	templates *template.Template
	// token is in every form and must come back with it; drawn anew at each start.
	token     string
	policy    string
	languages []string
}

func (p *page) init(languages []string) {
	if languages == nil {
		languages = []string{"cpp17-gcc", "cpp17-clang", "python3", "pypy3"}
	}
	style := pageCSS
	sum := sha256.Sum256([]byte(style))
	p.languages, p.token = languages, rand.Text()
	p.policy = "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	p.templates = template.Must(template.New("page").Funcs(template.FuncMap{
		"style":        func() template.HTML { return template.HTML("<style>" + style + "</style>") },
		"button":       newButton,
		"join":         func(list []string) string { return strings.Join(list, ", ") },
		"bytes":        verdict.Bytes.String,
		"reason":       reasonText,
		"points":       points,
		"stateClass":   stateClass,
		"statusClass":  statusClass,
		"verdictClass": verdictClass,
	}).Parse(pageHTML))
}

// button is a form of one button.
type button struct {
	Action, Token, Label string
	Fields               map[string]string
}

func newButton(action, token, label string, pairs ...string) button {
	b := button{action, token, label, map[string]string{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		b.Fields[pairs[i]] = pairs[i+1]
	}
	return b
}

// points prints a score of a scale.
func points(score, scale float64) string {
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	return f(score) + " of " + f(scale)
}

// reasonText says why a test did not pass, in the words of the verdict it leads to; an unknown reason stays as it is.
func reasonText(r verdict.Reason) string {
	if v, err := r.Verdict(); err == nil {
		return string(v)
	}
	return string(r)
}

func stateClass(state any) string {
	switch fmt.Sprint(state) {
	case string(Completed), string(protocol.Approved):
		return "good"
	case string(Failed), string(protocol.RunnerRevoked):
		return "bad"
	case string(Queued), string(Running), string(protocol.PendingApproval):
		return "wait"
	}
	return "faint"
}

func statusClass(s verdict.Status) string {
	if s == verdict.OK {
		return "good"
	}
	return "bad"
}

func verdictClass(v string) string {
	switch verdict.Verdict(v) {
	case verdict.Accepted:
		return "good"
	case verdict.Partial:
		return "wait"
	case "":
		return "faint"
	}
	return "bad"
}

// common is what every page shows.
type common struct {
	Title, Page, Token, Error string
	Live                      bool
	Snap                      Snapshot
	Form                      map[string]string
}

func (s *Server) pageRoutes(mux *http.ServeMux) {
	get := func(path string, h http.HandlerFunc) {
		mux.HandleFunc("GET "+PagePrefix+path, func(w http.ResponseWriter, r *http.Request) {
			if refused := localCaller(r); refused != nil {
				s.problemPage(w, refused)
				return
			}
			h(w, r)
		})
	}
	post := func(path string, h http.HandlerFunc) {
		mux.HandleFunc("POST "+PagePrefix+path, func(w http.ResponseWriter, r *http.Request) {
			if refused := s.ownForm(w, r); refused != nil {
				s.problemPage(w, refused)
				return
			}
			defer func() {
				if r.MultipartForm != nil {
					_ = r.MultipartForm.RemoveAll()
				}
			}()
			h(w, r)
		})
	}
	mux.HandleFunc("GET "+PagePrefix, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, PagePrefix+"/", http.StatusSeeOther)
	})
	get("/{$}", s.overviewPage)
	get("/packages", func(w http.ResponseWriter, r *http.Request) { s.packagesPage(w, http.StatusOK, "", nil) })
	get("/submit", func(w http.ResponseWriter, r *http.Request) {
		s.submitPage(w, http.StatusOK, "", map[string]string{"problem": r.URL.Query().Get("problem")})
	})
	get("/jobs/{id}", s.jobPage)
	get("/jobs/{id}/files/{name}", func(w http.ResponseWriter, r *http.Request) {
		j, _ := s.Job(r.PathValue("id"))
		s.serveAttachment(w, r, j, r.PathValue("name"))
	})
	post("/packages", s.postPackage)
	post("/submit", s.postSubmission)
	post("/jobs/{id}/cancel", s.act(func(r *http.Request) (string, error) {
		return PagePrefix + "/jobs/" + r.PathValue("id"), s.Cancel(r.PathValue("id"))
	}))
	post("/jobs/{id}/rejudge", s.act(func(r *http.Request) (string, error) {
		old, _ := s.Job(r.PathValue("id"))
		j, err := s.Rejudge(old.SubmissionID)
		return PagePrefix + "/jobs/" + j.ID, err
	}))
	post("/runners/{id}/approve", s.act(func(r *http.Request) (string, error) {
		return PagePrefix + "/", s.Approve(r.PathValue("id"))
	}))
	post("/runners/{id}/revoke", s.act(func(r *http.Request) (string, error) {
		return PagePrefix + "/", s.Revoke(r.PathValue("id"))
	}))
	post("/maintenance", s.act(func(r *http.Request) (string, error) {
		return PagePrefix + "/", s.SetMaintenance(r.PostFormValue("level"), "switched on the page")
	}))
}

// act makes a handler of something that leads to another page.
func (s *Server) act(do func(*http.Request) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		where, err := do(r)
		if err != nil {
			s.problemPage(w, err)
			return
		}
		http.Redirect(w, r, where, http.StatusSeeOther)
	}
}

// ownForm accepts a POST only from a form of this page: the host is a loopback one, the origin is this very host, and the
// token of this start is in it (any web page can reach loopback). It parses the form.
func (s *Server) ownForm(w http.ResponseWriter, r *http.Request) *Refusal {
	if refused := localCaller(r); refused != nil {
		return refused
	}
	origin, err := url.Parse(r.Header.Get("Origin"))
	if err != nil || origin.Scheme != "http" && origin.Scheme != "https" || !strings.EqualFold(origin.Host, r.Host) {
		return refuse(http.StatusForbidden, "origin", "this form was not sent from this page")
	}
	r.Body = http.MaxBytesReader(w, r.Body, int64(protocol.PackageLimit)+pageForm)
	err = r.ParseMultipartForm(pageForm)
	if errors.Is(err, http.ErrNotMultipart) {
		err = nil // an ordinary form; it is parsed
	}
	if err != nil {
		return bodyRefusal(err)
	}
	if subtle.ConstantTimeCompare([]byte(r.PostFormValue("token")), []byte(s.page.token)) != 1 {
		return refuse(http.StatusForbidden, "token", "this form is from before the server's last start; load the page again")
	}
	return nil
}

// render writes a page.
func (s *Server) render(w http.ResponseWriter, status int, name string, data any) {
	var b strings.Builder
	if err := s.page.templates.ExecuteTemplate(&b, name, data); err != nil {
		s.log.Error("a page cannot be made", "page", name, "error", err)
		http.Error(w, "the page cannot be made", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", s.page.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, b.String())
}

func (s *Server) common(title, name string) common {
	return common{Title: title, Page: name, Token: s.page.token, Snap: s.Snapshot(), Form: map[string]string{}}
}

// problemPage says what was refused.
func (s *Server) problemPage(w http.ResponseWriter, err error) {
	c, status := s.common("That did not work", ""), http.StatusInternalServerError
	var refused *Refusal
	c.Error = err.Error()
	if errors.As(err, &refused) {
		c.Error, status = refused.Detail, refused.Status
	}
	s.render(w, status, "problem", c)
}

func (s *Server) packagesPage(w http.ResponseWriter, status int, problem string, form map[string]string) {
	c := s.common("Packages", "packages")
	c.Error, c.Form = problem, form
	s.render(w, status, "packages", c)
}

func (s *Server) submitPage(w http.ResponseWriter, status int, problem string, form map[string]string) {
	c := s.common("Submit a file", "submit")
	c.Error, c.Form = problem, form
	s.render(w, status, "submit", struct {
		common
		Languages []string
	}{c, s.page.languages})
}

// formOf is what a person typed, to be shown again beside an error; what is too long for a page is left out.
func formOf(r *http.Request) map[string]string {
	form := map[string]string{}
	for name, values := range r.PostForm {
		if name != "token" && len(values) > 0 && len(values[0]) <= int(pageLog) {
			form[name] = values[0]
		}
	}
	return form
}

// told is an error in a form, for the person who sent it.
func told(err error) (int, string) {
	var refused *Refusal
	if errors.As(err, &refused) {
		return refused.Status, refused.Detail
	}
	return http.StatusUnprocessableEntity, err.Error()
}

func (s *Server) postPackage(w http.ResponseWriter, r *http.Request) {
	file, _, err := r.FormFile("file")
	if err == nil {
		defer func() { _ = file.Close() }()
		_, err = s.AddPackage(Package{Name: r.PostFormValue("name"), Type: r.PostFormValue("type"), Content: file})
	} else {
		err = errors.New("choose a package to upload")
	}
	if err != nil {
		status, text := told(err)
		s.packagesPage(w, status, text, formOf(r))
		return
	}
	http.Redirect(w, r, PagePrefix+"/packages", http.StatusSeeOther)
}

func (s *Server) postSubmission(w http.ResponseWriter, r *http.Request) {
	j, err := s.submitForm(r)
	if err != nil {
		status, text := told(err)
		s.submitPage(w, status, text, formOf(r))
		return
	}
	http.Redirect(w, r, PagePrefix+"/jobs/"+j.ID, http.StatusSeeOther)
}

// submitForm hands in the file of the form, or the pasted source.
func (s *Server) submitForm(r *http.Request) (Job, error) {
	sub := Submission{ProblemID: r.PostFormValue("problem"), Language: strings.TrimSpace(r.PostFormValue("language"))}
	if text := r.PostFormValue("maxPoints"); text != "" {
		worth, err := strconv.ParseFloat(text, 64)
		if err != nil || worth < 0 {
			return Job{}, errors.New("what the assignment is worth must be a number that is not negative")
		}
		sub.MaxPoints = &worth
	}
	file, header, err := r.FormFile("file")
	if err == nil {
		defer func(f multipart.File) { _ = f.Close() }(file)
		sub.FileName, sub.Content = filepath.Base(header.Filename), file
		return s.Submit(sub)
	}
	source := r.PostFormValue("source")
	if source == "" {
		return Job{}, errors.New("choose a file or paste a source")
	}
	if sub.FileName = strings.TrimSpace(r.PostFormValue("fileName")); sub.FileName == "" {
		return Job{}, errors.New("name the pasted source, for example main.py")
	}
	// Browsers send line ends as CR LF; a program means LF.
	sub.Content = strings.NewReader(strings.ReplaceAll(source, "\r\n", "\n"))
	return s.Submit(sub)
}
