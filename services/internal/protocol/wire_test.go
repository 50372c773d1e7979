package protocol_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalhost/evalhost/services/internal/protocol"
)

const fullJob = `{"jobId":"j-1","submissionId":"s-1","attempt":2,"leaseToken":"secret-lease","leaseExpiresAt":"2026-08-08T10:00:00.1234567Z",
"problemType":"standard-io@1","problemVersionId":"v-1","packageFileId":"p-1","packageSha256":"ab","files":[
{"name":"notes","fileName":"n.txt","fileId":"f-0","sha256":"cd","sizeBytes":1},
{"name":"source","fileName":"main.py","fileId":"f-1","sha256":"ef","sizeBytes":15,"language":"never read"}],
"props":{"language":"python3"},"config":{"a":1}}`

func TestAJobIsReadWhole(t *testing.T) {
	job, err := protocol.ReadJob([]byte(fullJob))
	must(t, err)
	must(t, job.Check())
	source, err := job.Source()
	must(t, err)
	want := protocol.JobFile{Role: "source", FileName: "main.py", ID: "f-1", SHA256: "ef", Size: 15}
	if diff := cmp.Diff(want, source); diff != "" {
		t.Error(diff)
	}
	if job.Lease != (protocol.Lease{ID: "j-1", Token: "secret-lease"}) || job.Attempt != 2 || job.ProblemVersionProps != nil {
		t.Errorf("%+v", job)
	}
	if got := job.LeaseExpires.Time.Nanosecond(); got != 123456700 {
		t.Errorf("seven fractional digits were read as %d ns", got)
	}
}

func TestAClaimThatCannotBeAnsweredIsUnreadable(t *testing.T) {
	for name, body := range map[string]string{
		"empty": "", "null": "null", "array": "[]", "page": "<html>", "no id": `{"leaseToken":"t"}`, "no lease": `{"jobId":"j"}`,
		"null lease": `{"jobId":"j","leaseToken":null}`, "a number": `{"jobId":7,"leaseToken":"t"}`,
		"other spelling": `{"JobId":"j","leasetoken":"t"}`, "climbing id": `{"jobId":"..","leaseToken":"t"}`,
		"path id": `{"jobId":"a/b","leaseToken":"t"}`, "empty id": `{"jobId":"","leaseToken":"t"}`,
		"trailing": `{"jobId":"j","leaseToken":"t"} {}`, "truncated": fullJob[:len(fullJob)/2],
	} {
		if job, err := protocol.ReadJob([]byte(body)); err == nil {
			t.Errorf("%s: read as %+v", name, job)
		}
		if _, err := protocol.ReadTrial([]byte(strings.ReplaceAll(body, "jobId", "trialId"))); err == nil {
			t.Errorf("%s: read as a trial", name)
		}
	}
}

func TestAJobThatCannotBeJudgedSaysWhy(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"empty package":    {`"packageFileId":"p-1","packageSha256":"ab"`, `"packageFileId":"","packageSha256":""`, "no package"},
		"absent package":   {`"packageFileId":"p-1","packageSha256":"ab",`, ``, "no package"},
		"half a package":   {`"packageSha256":"ab"`, `"packageSha256":""`, "checksum is empty"},
		"climbing package": {`"p-1"`, `"../../.."`, "only letters"},
		"dots":             {`"p-1"`, `".."`, "directory"},
		"backslash":        {`"p-1"`, `"a\\b"`, "only letters"},
		"NUL":              {`"p-1"`, `"a\u0000"`, "only letters"},
		"space":            {`"p-1"`, `"a b"`, "only letters"},
		"config array":     {`"config":{"a":1}`, `"config":[1]`, `"config" is no JSON object`},
		"props text":       {`"props":{"language":"python3"}`, `"props":"x"`, `"props" is no JSON object`},
		"type number":      {`"standard-io@1"`, `1`, "problemType"},
		"no type":          {`"standard-io@1"`, `null`, "no problem type"},
		"files object":     {`"files":[`, `"files":{},"other":[`, "files"},
		"bad file":         {`"fileId":"f-1"`, `"fileId":7`, "files[1]"},
		"negative size":    {`"sizeBytes":15`, `"sizeBytes":-1`, "files[1]"},
		"climbing file":    {`"fileId":"f-1"`, `"fileId":"a/b"`, "only letters"},
		"attempt":          {`"attempt":2`, `"attempt":"two"`, "attempt"},
	} {
		t.Run(name, func(t *testing.T) {
			body := strings.Replace(fullJob, c.from, c.to, 1)
			if body == fullJob {
				t.Fatal("the case changes nothing")
			}
			job, err := protocol.ReadJob([]byte(body))
			must(t, err) // it has a lease, so it can be answered
			if err := job.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v does not say %q", err, c.want)
			}
		})
	}
}

func TestNullsUnknownMembersAndOtherSpellingsAreNoTrouble(t *testing.T) {
	body := strings.Replace(fullJob, `"config":{"a":1}`, `"config":null,"problemVersionProps":null,"addedLater":{"a":[1,null]},"JobId":7`, 1)
	job, err := protocol.ReadJob([]byte(body))
	must(t, err)
	must(t, job.Check())
	if job.Config != nil || job.ProblemVersionProps != nil || job.Lease.ID != "j-1" {
		t.Errorf("%+v", job)
	}
	empty, err := protocol.ReadJob([]byte(`{"jobId":"j","leaseToken":"t"}`))
	must(t, err)
	if err := empty.Check(); err == nil {
		t.Error("a job of nothing can be judged")
	}
}

func TestALanguageIsNeverGuessed(t *testing.T) {
	for props, want := range map[string]string{
		`{"language":"python3"}`: "python3", `{"language":""}`: "", `{"language":null}`: "", `{"language":7}`: "",
		`{"Language":"python3"}`: "", `{}`: "", ``: "",
	} {
		job := protocol.Job{Props: []byte(props)}
		if props == "" {
			job.Props = nil
		}
		got, err := job.Language()
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", props, got, err)
		}
	}
}

func TestAFailedReportHasNoScoreAndAJudgedOneHasAZero(t *testing.T) {
	failed, err := protocol.ReportBody(protocol.Failed{Reason: "a\x00b", Version: "1"}.Report(), "t")
	must(t, err)
	if want := `{"leaseToken":"t","infrastructureFailure":true,"failureReason":"ab","runnerVersion":"1"}`; failed != want {
		t.Errorf("got  %s\nwant %s", failed, want)
	}
	zero, err := protocol.Judged{MaxScore: 100, Verdict: "Wrong answer"}.Report()
	must(t, err)
	body, err := protocol.ReportBody(zero, "t")
	must(t, err)
	if want := `{"leaseToken":"t","infrastructureFailure":false,"score":0,"maxScore":100,"verdict":"Wrong answer"}`; body != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
	if blank, _ := protocol.ReportBody(protocol.Failed{Reason: " \x00"}.Report(), "t"); !strings.Contains(blank, "gave no reason") {
		t.Errorf("a blank reason is sent: %s", blank)
	}
	for name, j := range map[string]protocol.Judged{
		"blank verdict": {Verdict: "  "}, "none": {}, "long": {Verdict: "x" + protocol.Judged{}.Verdict + "012345678901234567890123456789012345678901234567890123456789abcd"},
		"NaN": {Score: math.NaN(), Verdict: "Accepted"}, "infinite": {MaxScore: math.Inf(1), Verdict: "Accepted"}, "negative": {Score: -1, Verdict: "Accepted"},
	} {
		if _, err := j.Report(); err == nil {
			t.Errorf("%s: can be reported", name)
		}
	}
	if _, err := protocol.ReportBody(protocol.Report{}, "t"); err == nil {
		t.Error("the zero report can be sent")
	}
}

func TestTagsAreOmittedWhenEmptyAndSentWhenNot(t *testing.T) {
	key := newKey(t)
	r := protocol.Registration{Name: "n", ProblemTypes: []string{"standard-io@1"}}
	body, err := protocol.RegistrationBody(r, key, "")
	must(t, err)
	want := `{"name":"n","publicKey":"` + key.PublicKey() + `","problemTypes":["standard-io@1"],"external":false}`
	if body != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
	r.Tags = []string{"lab-a"}
	body, err = protocol.RegistrationBody(r, key, "nonce")
	must(t, err)
	if !strings.Contains(body, `"tags":["lab-a"],"nonce":"nonce","signature":"`+key.Sign("nonce")) {
		t.Error(body)
	}
	r.ProblemTypes = nil
	if _, err := protocol.RegistrationBody(r, key, ""); err == nil {
		t.Error("a Runner without problem types registers")
	}
}

func TestRetryAfterIsAWholeNumberOfSeconds(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"300": 300 * time.Second, " 30 ": 30 * time.Second, "0": 0, "00007": 7 * time.Second,
		"99999999999999999999999999": protocol.MaxRetryAfter, "100000": protocol.MaxRetryAfter,
	} {
		if got := protocol.ParseRetryAfter(header); got == nil || *got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
	for _, header := range []string{"", "   ", "Wed, 21 Oct 2026 07:28:00 GMT", "-1", "+5", "1.5", "1e3", "5s", "٣"} {
		if got := protocol.ParseRetryAfter(header); got != nil {
			t.Errorf("%q: %v, want none", header, *got)
		}
	}
}

func TestHealthIsOpenWithoutMaintenanceAndNotOpenAtAnUnknownLevel(t *testing.T) {
	for body, want := range map[string]string{
		`{"status":"ok"}`: "open", `{"maintenance":null}`: "open", `{"maintenance":{"level":"open"}}`: "open",
		`{"maintenance":{"level":"draining","since":"rubbish"}}`: "draining", `{"maintenance":{"level":"purple"}}`: "purple",
	} {
		h, err := protocol.ReadHealth([]byte(body))
		if err != nil || h.Level != want || h.Open() != (want == "open") {
			t.Errorf("%s: %+v, %v", body, h, err)
		}
	}
}

func TestFailuresAreToldApart(t *testing.T) {
	for _, c := range []struct {
		status int
		code   protocol.Code
		want   protocol.Class
	}{
		{401, "unauthenticated", protocol.NeedsHandshake},
		{403, "runner.notApproved", protocol.NotApproved},
		{409, "runner.revoked", protocol.Revoked},
		{403, "runner.revoked", protocol.Revoked},
		{404, "not_found", protocol.NotFound},
		{404, "", protocol.NotFound},
		{403, "runner.lease.stale", protocol.LeaseLost},
		{403, "runner.lease.foreign", protocol.LeaseLost},
		{409, "job.state", protocol.LeaseLost},
		{409, "trial.state", protocol.LeaseLost},
		{503, "server.maintenance", protocol.Unavailable},
		{502, "", protocol.Unavailable},
		{504, "", protocol.Unavailable},
		{500, "error", protocol.Busy},
		{524, "", protocol.Busy},
		{429, "", protocol.Busy},
		{400, "malformed_json", protocol.Refused},
		{413, "payload_too_large", protocol.Refused},
		{422, "runner.key.length", protocol.Refused},
		{302, "", protocol.Refused},
	} {
		if got := protocol.Classify(c.status, c.code); got != c.want {
			t.Errorf("%d %s: %v, want %v", c.status, c.code, got, c.want)
		}
	}
	retryable := map[protocol.Class]bool{protocol.Unavailable: true, protocol.Busy: true, protocol.Unreachable: true}
	lost := map[protocol.Class]bool{protocol.LeaseLost: true, protocol.NotApproved: true, protocol.Revoked: true}
	for class := protocol.NeedsHandshake; class <= protocol.Stopped; class++ {
		err := fmt.Errorf("wrapped: %w", &protocol.Error{Op: "x", Class: class})
		if protocol.Retryable(err) != retryable[class] || protocol.WorkLost(err) != lost[class] {
			t.Errorf("%v: retryable %v, lost %v", class, protocol.Retryable(err), protocol.WorkLost(err))
		}
		if strings.Contains(class.String(), "invalid") {
			t.Errorf("class %d has no name", class)
		}
	}
	// Of a 404 the code tells whether it was the Server that does not know the work.
	for code, want := range map[protocol.Code]bool{protocol.CodeNotFound: true, "error": true, "": false} {
		if err := (&protocol.Error{Class: protocol.NotFound, Status: 404, Code: code}); protocol.WorkLost(err) != want || protocol.Between(err) == want {
			t.Errorf("404 %q: lost %v, between %v", code, protocol.WorkLost(err), protocol.Between(err))
		}
	}
	if protocol.Retryable(errors.New("x")) || protocol.ClassOf(nil) != 0 || !protocol.Retryable(fmt.Errorf("w: %w", vanished{})) {
		t.Error("foreign errors are classed wrongly")
	}
}

type vanished struct{}

func (vanished) Error() string   { return "the cache entry vanished" }
func (vanished) Retryable() bool { return true }

func TestAPageOfAProxyIsNoSecondFailure(t *testing.T) {
	for _, body := range []string{"", "<html>502 Bad Gateway</html>", "[]", "null", `"x"`, `{"code":7}`} {
		if code, _ := protocol.ReadProblem([]byte(body)); code != protocol.CodeNone {
			t.Errorf("%s: code %q", body, code)
		}
	}
	code, detail := protocol.ReadProblem([]byte(`{"code":"job.state","title":"Conflict"}`))
	if code != protocol.CodeJobState || detail != "Conflict" {
		t.Errorf("%q, %q", code, detail)
	}
}

func TestForeignTextIsMadeFitForALogLine(t *testing.T) {
	got := protocol.Clean("a\nb\x1b[31m\u2028c tok\xff "+strings.Repeat("x", 9000), "tok")
	if strings.ContainsAny(got, "\n\x1b\u2028") || strings.Contains(got, "tok") || len(got) > 520 || !strings.HasPrefix(got, "a b [31m c [secret]?") {
		t.Errorf("%q", got)
	}
	// A secret is found wherever the text is cut.
	for n := 3900; n < 4010; n++ {
		if got := protocol.Clean(strings.Repeat(" ", n)+"thesecret", "thesecret"); strings.Contains(got, "thesec") {
			t.Errorf("behind %d characters: %q", n, got)
		}
	}
}

// A Server that says a secret back, wherever in a refusal, does not get it into an error.
func TestNoPartOfARefusalShowsASecret(t *testing.T) {
	for status, location := range map[int]string{
		301: "thesecret://x", 302: "http://TheSecret.example/TheSecret", 303: "https://x/TheSecret", 400: "", 403: "", 404: "", 422: "", 500: "", 503: "",
	} {
		h := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			const secret = "TheSecret"
			w.Header().Set("Location", location)
			w.Header().Set("Retry-After", secret)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"code":"`+secret+`","title":"`+secret+`","detail":"`+strings.Repeat(" ", 3996)+secret+`"}`)
		})
		withHandler(t, h, func(t *testing.T, c *protocol.Client) {
			protocol.SetToken(c, "TheSecret")
			for name, call := range everyCall(c) {
				if name == "health" {
					continue // it carries none
				}
				if err := call(t.Context()); err == nil || strings.Contains(strings.ToLower(err.Error()), "these") {
					t.Errorf("%d to %s: %v", status, name, err)
				}
			}
		})
	}
}

func TestALeaseTokenIsNeverPrinted(t *testing.T) {
	job, err := protocol.ReadJob([]byte(fullJob))
	must(t, err)
	var b strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		fmt.Fprintf(&b, verb, job.Lease)
		fmt.Fprintf(&b, verb, job)
		fmt.Fprintf(&b, verb, protocol.Challenge{Nonce: "secret-nonce"})
	}
	log := slog.New(slog.NewTextHandler(&b, nil))
	log.Info("x", "lease", job.Lease, "token", job.Lease.Token, "challenge", protocol.Challenge{Nonce: "secret-nonce"})
	if strings.Contains(b.String(), "secret-") {
		t.Error(b.String())
	}
}

func TestOneURLWhateverTheSlashes(t *testing.T) {
	for _, base := range []string{"https://a.example/api/v1", "https://a.example/api/v1/", "https://a.example/api/v1///"} {
		c, err := protocol.New(protocol.Options{BaseURL: base})
		must(t, err)
		for _, path := range []string{"runner/files/x", "/runner/files/x", "//runner/files/x"} {
			if got := protocol.Join(c, path); got != "https://a.example/api/v1/runner/files/x" {
				t.Errorf("%s + %s = %s", base, path, got)
			}
		}
	}
	for _, base := range []string{"", "a.example/api/v1", "ftp://a/api", "https:///api", "https://u:hunter2@a/api", "https://a/api?x", "https://a/api#x", "https://a\x7f/"} {
		_, err := protocol.New(protocol.Options{BaseURL: base})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", base, err)
		}
	}
}

func TestTheProxyComesFromTheEnvironment(t *testing.T) {
	for _, c := range []struct{ server, env, want string }{
		{"https://a.example/", "", ""},
		{"https://a.example/", "HTTPS_PROXY=http://p:1", "http://p:1"},
		{"https://a.example/", "https_proxy=p:1", "http://p:1"},
		{"https://a.example/", "HTTP_PROXY=http://p:1", ""},
		{"http://a.example/", "HTTP_PROXY=http://p:1", "http://p:1"},
		{"https://a.example/", "ALL_PROXY=socks5://p:1", "socks5://p:1"},
		{"https://a.example/", "ALL_PROXY=http://p:1 HTTPS_PROXY=http://q:1", "http://q:1"},
		{"http://localhost:80/", "HTTP_PROXY=http://p:1", ""},
		{"http://127.3.0.1/", "HTTP_PROXY=http://p:1", ""},
		{"http://[::1]/", "HTTP_PROXY=http://p:1", ""},
		{"https://a.example/", "HTTPS_PROXY=http://p:1 NO_PROXY=*", ""},
		{"https://a.example/", "HTTPS_PROXY=http://p:1 NO_PROXY=x,a.example", ""},
		{"https://a.example/", "HTTPS_PROXY=http://p:1 NO_PROXY=example", ""},
		{"https://a.example/", "HTTPS_PROXY=http://p:1 NO_PROXY=.example", ""},
		{"https://a.example/", "HTTPS_PROXY=http://p:1 NO_PROXY=.a.example", "http://p:1"},
		{"https://a.example/", "HTTPS_PROXY=http://p:1 NO_PROXY=ample", "http://p:1"},
		{"https://a.example/", "HTTPS_PROXY=http://p:1 NO_PROXY=a.example:443", ""},
		{"https://a.example/", "HTTPS_PROXY=http://p:1 NO_PROXY=a.example:8443", "http://p:1"},
		{"https://10.1.2.3/", "HTTPS_PROXY=http://p:1 NO_PROXY=10.0.0.0/8", ""},
		{"https://10.1.2.3/", "HTTPS_PROXY=http://p:1 NO_PROXY=10.1.2.3", ""},
		{"https://10.1.2.3/", "HTTPS_PROXY=http://p:1 NO_PROXY=192.168.0.0/16,10.1.2.4", "http://p:1"},
		{"https://a.example/", "HTTPS_PROXY=gopher://p:1", "error"},
		{"https://a.example/", "HTTPS_PROXY=http://u:hunter2@:1", "error"},
	} {
		env := map[string]string{}
		for pair := range strings.FieldsSeq(c.env) {
			name, value, _ := strings.Cut(pair, "=")
			env[name] = value
		}
		server, err := url.Parse(c.server)
		must(t, err)
		proxy, err := protocol.ProxyFor(server, func(n string) string { return env[n] })
		got := ""
		if err != nil {
			got = "error"
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the proxy's password is shown: %v", err)
			}
		} else if proxy != nil {
			got = proxy.String()
		}
		if got != c.want {
			t.Errorf("%s with %q: %s, want %s (%v)", c.server, c.env, got, c.want, err)
		}
	}
}

func TestDurationsAndLeasesOnTheWire(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, -1: 0, time.Millisecond: 1, 90 * time.Second: 90} {
		if got := protocol.Seconds(d); got != want {
			t.Errorf("%v: %d", d, got)
		}
	}
	for asked, want := range map[time.Duration]time.Duration{
		7200 * time.Second: 3600 * time.Second, 600 * time.Second: 600 * time.Second, time.Second: 60 * time.Second, 0: 600 * time.Second,
	} {
		if got := protocol.GrantedLease(asked); got != want {
			t.Errorf("asked %v: granted %v", asked, got)
		}
	}
	if protocol.RenewEvery(600*time.Second) != 150*time.Second || protocol.RenewEvery(time.Second) != 5*time.Second {
		t.Error("the renewal interval")
	}
	at := time.Date(2026, 8, 8, 10, 0, 0, 123456789, time.FixedZone("x", 3600))
	if got := protocol.FormatInstant(at); got != "2026-08-08T09:00:00.1234567Z" {
		t.Error(got)
	}
	if i := protocol.ParseInstant("yesterday\n"); !i.Time.IsZero() || i.String() != "yesterday" {
		t.Errorf("%+v", i)
	}
}
