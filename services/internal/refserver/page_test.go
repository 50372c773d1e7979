package refserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"html"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// person is somebody at the page.
type person struct {
	t testing.TB
	s *stage
}

// get loads a page.
func (p person) get(path string, header ...string) answer {
	p.t.Helper()
	return (&player{t: p.t, s: p.s}).do("GET", path, nil, header...)
}

// post sends a form as a browser does; header may override what a browser sends.
func (p person) post(path string, fields map[string]string, header ...string) answer {
	p.t.Helper()
	form := url.Values{}
	for name, value := range fields {
		form.Set(name, value)
	}
	h := append([]string{"Origin", p.s.web.URL, "Content-Type", "application/x-www-form-urlencoded"}, header...)
	return (&player{t: p.t, s: p.s}).do("POST", path, form.Encode(), h...)
}

// send sends a form with a file as a browser does.
func (p person) send(path string, fields map[string]string, fileName, content string) answer {
	p.t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for name, value := range fields {
		_ = w.WriteField(name, value)
	}
	if fileName != "" {
		f, _ := w.CreateFormFile("file", fileName)
		_, _ = io.WriteString(f, content)
	}
	_ = w.Close()
	return (&player{t: p.t, s: p.s}).do("POST", path, b.String(), "Origin", p.s.web.URL, "Content-Type", w.FormDataContentType())
}

var hidden = regexp.MustCompile(`name="token" value="([^"]+)"`)

// token is the one in the form of a page.
func (p person) token(path string) string {
	p.t.Helper()
	m := hidden.FindSubmatch(p.get(path).raw)
	if m == nil {
		p.t.Fatalf("no form on %s", path)
	}
	return string(m[1])
}

func (p person) sees(path string, texts ...string) string {
	p.t.Helper()
	a := p.get(path)
	page := html.UnescapeString(string(a.raw))
	for _, text := range texts {
		if a.status != 200 || !strings.Contains(page, text) {
			p.t.Errorf("%s (%d) does not show %q:\n%s", path, a.status, text, page)
		}
	}
	return page
}

const detailsOfAJob = `{"type":"standard-io@1","limits":{"timeMs":1000,"memoryBytes":268435456},"score":70,"maxScore":100,
"compilation":{"status":"OK","log":"warning: <b>unused</b>"},
"groups":[{"group":1,"points":70,"maxPoints":70,"status":"OK"},{"group":2,"points":0,"maxPoints":30,"status":"ERROR"}],
"tests":[{"no":"1a","group":1,"status":"OK","timeMs":20,"memoryBytes":12582912,"score":70,"maxScore":70,"note":""},
{"no":"2a","group":2,"status":"ERROR","timeMs":1001,"score":0,"maxScore":30,"note":"<script>alert(1)</script>","reason":"timeLimit"}]}`

func TestAPersonUploadsAPackageSubmitsAFileAndReadsThePerTestTable(t *testing.T) {
	s := newStage(t, Options{})
	me := person{t, s}
	me.sees("/ui/", "No Runner has registered yet", s.web.URL+Prefix, "Not for production", "Nothing has been submitted")
	me.sees("/ui/submit", "Upload a package")

	a := me.send("/ui/packages", map[string]string{"token": me.token("/ui/packages"), "name": "A & B", "type": "standard-io@1"}, "p.zip", "a package")
	if a.status != 303 {
		t.Fatalf("upload: %d %s", a.status, a.raw)
	}
	me.sees("/ui/packages", "A & B", "9 B", "standard-io@1")
	problem := s.Snapshot().Problems[0]

	runner := s.player(t)
	runner.id = runner.want(200, "", runner.post("register", runner.registration())).text("runnerId")
	me.sees("/ui/", "player", "pendingApproval", "default", "Approve")
	if a := me.post("/ui/runners/"+runner.id+"/approve", map[string]string{"token": me.token("/ui/")}); a.status != 303 {
		t.Fatalf("approve: %d %s", a.status, a.raw)
	}
	runner.shake()

	token := me.token("/ui/submit?problem=" + problem.ID)
	a = me.send("/ui/submit", map[string]string{
		"token": token, "problem": problem.ID, "language": "python3", "maxPoints": "50",
	}, "main.py", "print(1)\n")
	where := a.header.Get("Location")
	if a.status != 303 || !strings.HasPrefix(where, "/ui/jobs/") {
		t.Fatalf("submit: %d %s", a.status, a.raw)
	}
	if page := me.sees(where, "queued", "main.py", "python3"); !strings.Contains(page, `http-equiv="refresh"`) {
		t.Error("a job that is not done does not renew itself")
	}
	job := runner.claim()
	me.sees("/ui/", "running", "a job")
	lease := job.text("leaseToken")
	for name, content := range map[string]string{"details": detailsOfAJob, "log": "the <i>log</i>"} {
		sum := sha256.Sum256([]byte(content))
		body, kind := upload([]string{"file", "sha256"}, content, hexOf(sum[:]))
		id := runner.want(201, "", runner.do("POST", Prefix+"/runner/files", body, "Content-Type", kind)).text("id")
		runner.want(204, "", runner.post("jobs/"+job.text("jobId")+"/files", obj{"leaseToken": lease, "fileId": id, "name": name}))
	}
	runner.want(200, "", runner.post("jobs/"+job.text("jobId")+"/report", report(lease)))

	page := me.sees(where, "completed", "Partial", "35 of 50", "1a", "20 ms", "12 MiB", "2a", "Time limit exceeded", "1 of 2 tests passed", "1001 ms", "not measured",
		"0 of 30", "warning: <b>unused</b>", "the <i>log</i>", "1000 ms of processor time", "256 MiB")
	raw := string(me.get(where).raw)
	for _, alive := range []string{"<script>", "<b>unused", "<i>log", `http-equiv="refresh"`} {
		if strings.Contains(raw, alive) {
			t.Errorf("%q is in the page of a finished job", alive)
		}
	}
	_ = page
	me.sees("/ui/", "completed", "35 of 50", "A & B")
	if a := me.get(where + "/files/details"); string(a.raw) != detailsOfAJob || !strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%v %s", a.header, a.raw)
	}
	a = me.post(where+"/rejudge", map[string]string{"token": token})
	again := a.header.Get("Location")
	if a.status != 303 || again == where {
		t.Fatalf("rejudge: %d %s", a.status, again)
	}
	me.sees("/ui/", "attempt 2")
	if a := me.post(again+"/cancel", map[string]string{"token": token}); a.status != 303 {
		t.Errorf("cancel: %d", a.status)
	}
	me.sees(again, "canceled")
	if a := me.post("/ui/runners/"+runner.id+"/revoke", map[string]string{"token": token}); a.status != 303 {
		t.Errorf("revoke: %d", a.status)
	}
	me.sees("/ui/", "revoked")
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var out strings.Builder
	for _, x := range b {
		out.WriteByte(digits[x>>4])
		out.WriteByte(digits[x&15])
	}
	return out.String()
}

func TestAPersonPastesASource(t *testing.T) {
	s := newStage(t, Options{})
	me := person{t, s}
	problem := s.problem(t, Package{Name: "sum"})
	fields := map[string]string{
		"token": me.token("/ui/submit"), "problem": problem.ID, "language": "cpp17-gcc", "fileName": "main.cpp", "source": "int main()\r\n{}\r\n",
	}
	if a := me.post("/ui/submit", fields); a.status != 303 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	j := s.Snapshot().Jobs[0]
	got, err := s.contents(s.s.Submissions[j.SubmissionID].FileID, 100)
	if string(got) != "int main()\n{}\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestWhatIsWrongInAFormIsSaidBesideWhatWasTyped(t *testing.T) {
	s := newStage(t, Options{})
	me := person{t, s}
	problem := s.problem(t, Package{Name: "sum"})
	token := me.token("/ui/submit")
	for want, change := range map[string]map[string]string{
		"choose a file or paste a source":     {"source": ""},
		"name the pasted source":              {"fileName": " "},
		"must be a number":                    {"maxPoints": "many"},
		"there is no such problem":            {"problem": "x"},
		"the Server is in maintenance: clos":  {},
		"must be a number that is not negat…": nil,
	} {
		fields := map[string]string{
			"token": token, "problem": problem.ID, "language": "python3", "fileName": "main.py", "source": "print(1)",
		}
		if change == nil {
			want, change = "not negative", map[string]string{"maxPoints": "-1"}
		}
		if len(change) == 0 {
			must(t, s.SetMaintenance(LevelClosed, ""))
		}
		for name, value := range change {
			fields[name] = value
		}
		a := me.post("/ui/submit", fields)
		if a.status < 400 || !strings.Contains(string(a.raw), want) || !strings.Contains(string(a.raw), `value="python3"`) {
			t.Errorf("%s: %d", want, a.status)
		}
		must(t, s.SetMaintenance(LevelOpen, ""))
	}
	for name, a := range map[string]answer{
		"no file":    me.send("/ui/packages", map[string]string{"token": token, "name": "typed"}, "", ""),
		"empty file": me.send("/ui/packages", map[string]string{"token": token, "name": "typed"}, "p.zip", ""),
	} {
		if a.status != 422 || !strings.Contains(string(a.raw), `value="typed"`) || !strings.Contains(string(a.raw), `role="alert"`) {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
	if len(s.Snapshot().Jobs) != 0 {
		t.Error("something was submitted")
	}
	if a := me.get("/ui/jobs/none"); a.status != 404 {
		t.Errorf("an unknown job: %d", a.status)
	}
}

func TestEveryPostOfThePageChecksHostOriginAndToken(t *testing.T) {
	s := newStage(t, Options{})
	me := person{t, s}
	runner := s.player(t)
	id := runner.want(200, "", runner.post("register", runner.registration())).text("runnerId")
	j := s.submit(t)
	token := me.token("/ui/packages")
	own := strings.TrimPrefix(s.web.URL, "http://")
	before := dump(s.Snapshot())
	for _, path := range []string{
		"/ui/packages", "/ui/submit", "/ui/maintenance", "/ui/jobs/" + j.ID + "/cancel", "/ui/jobs/" + j.ID + "/rejudge",
		"/ui/runners/" + id + "/approve", "/ui/runners/" + id + "/revoke",
	} {
		good := map[string]string{"token": token, "level": LevelClosed}
		for name, a := range map[string]answer{
			"no token":         me.post(path, map[string]string{"level": LevelClosed}),
			"another token":    me.post(path, map[string]string{"token": token + "x"}),
			"token in the URL": me.post(path+"?token="+token, map[string]string{"level": LevelClosed}),
			"another origin":   me.post(path, good, "Origin", "http://evil.example"),
			"no origin":        me.post(path, good, "Origin", ""),
			"a null origin":    me.post(path, good, "Origin", "null"),
			"another port":     me.post(path, good, "Origin", "http://127.0.0.1:1"),
			"rebound name":     me.post(path, good, "Host", "evil.example", "Origin", "http://evil.example"),
			"a file's origin":  me.post(path, good, "Origin", "file://"+own),
		} {
			if a.status != http.StatusForbidden {
				t.Errorf("%s, %s: %d", path, name, a.status)
			}
		}
	}
	if after := dump(s.Snapshot()); after != before {
		t.Error("a refused form changed something")
	}
	for _, path := range []string{"/ui/", "/ui/submit", "/ui/packages", "/ui/jobs/" + j.ID, "/_test/state"} {
		if a := me.get(path, "Host", "evil.example"); a.status != http.StatusForbidden || strings.Contains(string(a.raw), token) {
			t.Errorf("%s under another name: %d", path, a.status)
		}
		if a := me.get(path, "Host", "localhost:8080"); a.status != 200 {
			t.Errorf("%s as localhost: %d", path, a.status)
		}
	}
	if a := me.post("/ui/maintenance", map[string]string{"token": token, "level": LevelDraining}); a.status != 303 {
		t.Errorf("the page's own form: %d %s", a.status, a.raw)
	}
}

func TestThePageNeedsNoScriptAndAllowsNone(t *testing.T) {
	s := newStage(t, Options{})
	me := person{t, s}
	j := s.submit(t)
	sum := sha256.Sum256([]byte(pageCSS))
	for _, path := range []string{"/ui/", "/ui/submit", "/ui/packages", "/ui/jobs/" + j.ID} {
		a := me.get(path)
		page, policy := string(a.raw), a.header.Get("Content-Security-Policy")
		if strings.Contains(page, "<script") || strings.Contains(page, "javascript:") || !strings.HasPrefix(policy, "default-src 'none'") {
			t.Errorf("%s: a script, or a policy that allows one: %s", path, policy)
		}
		if !strings.Contains(policy, base64.StdEncoding.EncodeToString(sum[:])) || !strings.Contains(page, "<style>"+pageCSS+"</style>") {
			t.Errorf("%s: the style is not the one the policy allows", path)
		}
		for _, must := range []string{`<html lang="en">`, "<title>", `name="viewport"`, `href="#content"`, `aria-label="Pages"`, "<h1>"} {
			if !strings.Contains(page, must) {
				t.Errorf("%s: no %s", path, must)
			}
		}
		ids := regexp.MustCompile(`<(?:input|select|textarea)[^>]* id="([^"]+)"`).FindAllStringSubmatch(page, -1)
		for _, id := range ids {
			if !strings.Contains(page, `<label for="`+id[1]+`"`) {
				t.Errorf("%s: the field %s has no label", path, id[1])
			}
		}
		for _, ref := range regexp.MustCompile(`aria-(?:labelledby|describedby)="([^"]+)"`).FindAllStringSubmatch(page, -1) {
			if !strings.Contains(page, ` id="`+ref[1]+`"`) {
				t.Errorf("%s: %s is described by nothing", path, ref[1])
			}
		}
	}
	if strings.Contains(me.sees("/ui/?live=0", "Renew"), `http-equiv="refresh"`) {
		t.Error("a paused page renews itself")
	}
	if a := me.get("/ui"); a.status != 303 || a.header.Get("Location") != "/ui/" {
		t.Errorf("/ui: %d", a.status)
	}
}

func TestDetailsThatCannotBeReadAreSaidToBe(t *testing.T) {
	s := newStage(t, Options{})
	me := person{t, s}
	p := s.player(t).in()
	j := s.submit(t)
	lease := p.claim().text("leaseToken")
	p.want(204, "", p.post("jobs/"+j.ID+"/files", obj{"leaseToken": lease, "fileId": p.uploaded(), "name": "details"}))
	me.sees("/ui/jobs/"+j.ID, "The details document cannot be read")
}

func TestManyJobsAreShownTheNewestFirst(t *testing.T) {
	s := newStage(t, Options{})
	problem := s.problem(t, Package{})
	var last Job
	for range pageJobs + 7 {
		last = s.submitTo(t, problem.ID)
	}
	page := person{t, s}.sees("/ui/", "7 older jobs are not shown")
	if strings.Count(page, `href="/ui/jobs/`) != pageJobs || !strings.Contains(page, last.ID) {
		t.Errorf("%d jobs", strings.Count(page, `href="/ui/jobs/`))
	}
}
