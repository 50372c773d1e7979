package refserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/identity"
)

var began = time.Date(2026, 9, 20, 10, 0, 0, 0, time.UTC)

// stage is a Server on loopback.
type stage struct {
	*Server
	web *httptest.Server
}

// newStage runs a Server whose clock stands still and whose claims are held for exactly what was asked.
func newStage(t testing.TB, o Options) *stage {
	t.Helper()
	if o.Clock == nil {
		o.Clock = NewFrozenClock(began)
	}
	if o.Draw == nil {
		o.Draw = func(int64) int64 { return 0 }
	}
	s, err := New(o)
	must(t, err)
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		_ = s.Close()
	})
	return &stage{s, web}
}

// player is a Runner that says exactly what a test wants.
type player struct {
	t     testing.TB
	s     *stage
	key   *identity.Key
	token string
	id    string
}

func (s *stage) player(t testing.TB) *player {
	t.Helper()
	seed := make([]byte, identity.SeedSize)
	_, _ = rand.Read(seed)
	key, err := identity.FromSeed(seed)
	must(t, err)
	return &player{t: t, s: s, key: key}
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	raw    []byte
	m      map[string]any
}

func (a answer) text(name string) string {
	v, _ := a.m[name].(string)
	return v
}

// do makes a call; a body that is no reader is encoded.
func (p *player) do(method, path string, body any, header ...string) answer {
	p.t.Helper()
	a, err := p.try(method, path, body, header...)
	must(p.t, err)
	return a
}

func (p *player) try(method, path string, body any, header ...string) (answer, error) {
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case io.Reader:
		r = b
	case string:
		r = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		must(p.t, err)
		r = bytes.NewReader(raw)
	}
	req, err := http.NewRequest(method, p.s.web.URL+path, r)
	must(p.t, err)
	if p.token != "" {
		req.Header.Set("Authorization", "bearer  "+p.token) // any case, trimmed
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if a.raw, err = io.ReadAll(resp.Body); err != nil {
		return a, err
	}
	_ = json.Unmarshal(a.raw, &a.m)
	return a, nil
}

// post calls an endpoint of a Runner.
func (p *player) post(path string, body any) answer {
	p.t.Helper()
	return p.do("POST", Prefix+"/runner/"+path, body)
}

type obj = map[string]any

// registration is the body of a first registration.
func (p *player) registration() obj {
	return obj{"name": "player", "version": "9", "publicKey": p.key.PublicKey(), "problemTypes": []string{"standard-io@1"}, "external": false}
}

func (p *player) challenge() string {
	p.t.Helper()
	return p.want(200, "", p.post("auth/challenge", obj{"fingerprint": p.key.Fingerprint()})).text("nonce")
}

// signed adds a signed nonce to a registration.
func (p *player) signed(r obj) obj {
	r["nonce"] = p.challenge()
	r["signature"] = p.key.Sign(r["nonce"].(string))
	return r
}

// in registers, is approved and takes a token.
func (p *player) in(change ...func(obj)) *player {
	p.t.Helper()
	r := p.registration()
	for _, c := range change {
		c(r)
	}
	p.id = p.want(200, "", p.post("register", r)).text("runnerId")
	must(p.t, p.s.Approve(p.id))
	p.shake()
	return p
}

func (p *player) shake() {
	p.t.Helper()
	nonce := p.challenge()
	p.token = p.want(200, "", p.post("auth/token", obj{
		"fingerprint": p.key.Fingerprint(), "nonce": nonce, "signature": p.key.Sign(nonce),
	})).text("token")
}

// want fails unless an answer has a status and a code.
func (p *player) want(status int, code string, a answer) answer {
	p.t.Helper()
	if a.status != status || a.text("code") != code {
		p.t.Fatalf("answered %d %s, want %d %q", a.status, a.raw, status, code)
	}
	if status >= 400 && a.header.Get("Content-Type") != "application/problem+json" {
		p.t.Fatalf("a refusal of type %q", a.header.Get("Content-Type"))
	}
	return a
}

// claim takes the job that must be there.
func (p *player) claim() answer {
	p.t.Helper()
	return p.want(200, "", p.post("jobs/claim", obj{"leaseSeconds": 600}))
}

// none fails if a claim finds a job.
func (p *player) none() {
	p.t.Helper()
	p.want(204, "", p.post("jobs/claim", obj{}))
}

// later makes a held claim and gives its answer when it comes.
func (p *player) later(seconds int) <-chan answer {
	p.t.Helper()
	before := p.s.waiting()
	ch := make(chan answer, 1)
	go func() {
		a, err := p.try("POST", Prefix+"/runner/jobs/claim", obj{"waitSeconds": seconds})
		if err != nil {
			a.status = -1
		}
		ch <- a
	}()
	eventually(p.t, "the claim is held", func() bool { return p.s.waiting() > before })
	return ch
}

// waiting counts the alarms of held claims.
func (s *Server) waiting() int {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	return len(s.clock.waiting)
}

// soon is the answer of a held claim, which must come now.
func soon(t testing.TB, ch <-chan answer) answer {
	t.Helper()
	select {
	case a := <-ch:
		return a
	case <-time.After(10 * time.Second):
		t.Fatal("the held claim was not answered")
		return answer{}
	}
}

// held fails if a held claim has been answered.
func held(t testing.TB, ch <-chan answer) {
	t.Helper()
	select {
	case a := <-ch:
		t.Fatalf("the held claim was answered %d", a.status)
	case <-time.After(50 * time.Millisecond):
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not seen within 10 s: %s", what)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// problem adds a package.
func (s *stage) problem(t testing.TB, p Package) Problem {
	t.Helper()
	if p.Content == nil {
		p.Content = strings.NewReader("a package")
	}
	out, err := s.AddPackage(p)
	must(t, err)
	return out
}

// submit hands in a file for a problem of its own.
func (s *stage) submit(t testing.TB) Job {
	t.Helper()
	return s.submitTo(t, s.problem(t, Package{}).ID)
}

func (s *stage) submitTo(t testing.TB, problem string) Job {
	t.Helper()
	j, err := s.Submit(BytesSubmission(problem, "main.py", "python3", []byte("print(1)\n")))
	must(t, err)
	return j
}

// job is a job as it stands.
func (s *stage) job(t testing.TB, id string) Job {
	t.Helper()
	j, ok := s.Job(id)
	if !ok {
		t.Fatalf("there is no job %s", id)
	}
	return j
}

// report is a judged result.
func report(lease string) obj {
	return obj{"leaseToken": lease, "infrastructureFailure": false, "score": 70, "maxScore": 100, "verdict": "Partial"}
}

// upload is a multipart body; order names its parts.
func upload(order []string, content, sum string) (string, string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, part := range order {
		switch part {
		case "file":
			f, _ := w.CreateFormFile("file", "log.txt")
			_, _ = io.WriteString(f, content)
		default:
			_ = w.WriteField("sha256", sum)
		}
	}
	_ = w.Close()
	return b.String(), w.FormDataContentType()
}

const sumOfHello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

// uploaded stores a file and gives its id.
func (p *player) uploaded() string {
	p.t.Helper()
	body, kind := upload([]string{"file", "sha256"}, "hello", sumOfHello)
	return p.want(201, "", p.do("POST", Prefix+"/runner/files", body, "Content-Type", kind)).text("id")
}

func dump(v any) string { return fmt.Sprintf("%+v", v) }

func contextWithCancel(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}
