package protocol_test

import (
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/internal/protocol"
)

// seeds are answers of every kind, and what is none.
var seeds = []string{
	fullJob, `{"status":"ok","maintenance":{"level":"draining","since":"2026-08-09T18:00:00Z","reason":"x"}}`,
	`{"trialId":"t","leaseToken":"l","packageFileId":"p","packageSha256":"ab"}`, `{"resultId":"r","state":"completed","duplicate":true}`,
	`{"results":[{"jobId":"a","leaseExpiresAt":"x"},{"jobId":"b","code":"not_found"}]}`, `{"nonce":"n","expiresAt":"x"}`,
	`{"token":"t","expiresAt":"x"}`, `{"id":"f","sizeBytes":5,"sha256":"ab"}`, `{"runnerId":"r","fingerprint":"f","state":"approved"}`,
	`{"title":"x","code":"job.state","status":409}`, `<html>`, ``, `null`, `[]`, `{"jobId":null}`, `{"a":` + strings.Repeat("[", 200),
	`{"jobId":"a","jobId":"b","leaseToken":"x"}`, "\xff\xfe", `{"files":[null,7,{"fileId":{}}],"jobId":"j","leaseToken":"t"}`,
}

// FuzzAnswers feeds every decoder: none may panic, and what is accepted must be fit for paths and headers.
func FuzzAnswers(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if job, err := protocol.ReadJob(body); err == nil {
			if job.Lease.ID.Check() != nil || job.Lease.Token == "" {
				t.Fatalf("accepted %+v", job)
			}
			_, _ = job.Language()
			if job.Check() == nil {
				source, err := job.Source()
				if err != nil || source.ID.Check() != nil || job.Package.ID.Check() != nil || source.Size < 0 {
					t.Fatalf("can be judged: %+v", job)
				}
				for _, doc := range [][]byte{job.Props, job.Config, job.ProblemVersionProps} {
					if doc != nil && doc[0] != '{' {
						t.Fatalf("a document is %q", doc)
					}
				}
			}
		}
		if trial, err := protocol.ReadTrial(body); err == nil && trial.Lease.ID.Check() != nil {
			t.Fatalf("accepted %+v", trial)
		}
		if token, err := protocol.ReadToken(body); err == nil && strings.ContainsAny(token, "\r\n\x00 ") {
			t.Fatalf("accepted the token %q", token)
		}
		if u, err := protocol.ReadUploaded(body); err == nil && u.ID.Check() != nil {
			t.Fatalf("accepted %+v", u)
		}
		if h, err := protocol.ReadHealth(body); err == nil && strings.ContainsAny(h.Level+h.Reason, "\n\x1b") {
			t.Fatalf("health %+v", h)
		}
		_, _ = protocol.ReadReported(body)
		_, _ = protocol.ReadRegistered(body)
		_, _ = protocol.ReadChallenge(body)
		protocol.ReadProblem(body)
	})
}

// FuzzRetryAfter: a wait is never negative and never beyond its bound.
func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"300", " 30 ", "0", "", "-1", "9999999999999999999999", "Wed, 21 Oct 2026 07:28:00 GMT", "1e9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		if d := protocol.ParseRetryAfter(header); d != nil && (*d < 0 || *d > protocol.MaxRetryAfter) {
			t.Fatalf("%q: %v", header, *d)
		}
	})
}

// FuzzClean: foreign text never breaks a log line and never shows a secret.
func FuzzClean(f *testing.F) {
	f.Add("a\nb secret \x1b[0m", "secret")
	f.Fuzz(func(t *testing.T, text, secret string) {
		got := protocol.Clean(text, secret)
		if strings.ContainsAny(got, "\n\r\x1b\x00") || len(got) > 520 {
			t.Fatalf("%q", got)
		}
	})
}
