package protocol_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/refserver"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// content is a file that no shift or repetition maps onto itself.
var content = func() []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < 150_000; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.Bytes()
}()

// held is a rig whose Runner holds a job with a package of the content.
func heldPackage(t *testing.T, r *rig) protocol.Wanted {
	t.Helper()
	r.admit(t)
	p, err := r.server.AddPackage(refserver.Package{Content: bytes.NewReader(content)})
	must(t, err)
	_, err = r.server.Submit(refserver.BytesSubmission(p.ID, "main.py", "python3", []byte("x")))
	must(t, err)
	job := r.claim(t)
	return protocol.Wanted{ID: job.Package.ID, SHA256: job.Package.SHA256, Max: protocol.PackageLimit, What: "the package"}
}

func TestADownloadSurvivesWhatGoesWrongOnceOnTheWay(t *testing.T) {
	for name, faults := range map[string][]refserver.Fault{
		"nothing":                  nil,
		"refused for the moment":   {{Kind: refserver.FaultStatus, Status: 500, Times: 1}},
		"away with Retry-After":    {{Kind: refserver.FaultStatus, Status: 503, RetryAfter: "20", Times: 2}},
		"a page of a proxy":        {{Kind: refserver.FaultHTML, Status: 502, Times: 1}},
		"too many":                 {{Kind: refserver.FaultStatus, Status: 429, Times: 3}},
		"no answer":                {{Kind: refserver.FaultDropBefore, Times: 2}},
		"an answer that is lost":   {{Kind: refserver.FaultDropAfter, Times: 1}},
		"cut at the start":         {{Kind: refserver.FaultCut, Bytes: 0, Times: 1}},
		"cut in the middle":        {{Kind: refserver.FaultCut, Bytes: 100_000, Times: 1}},
		"cut twice":                {{Kind: refserver.FaultCut, Bytes: 100_000, Times: 2}},
		"cut before the last byte": {{Kind: refserver.FaultCut, Bytes: int64(len(content)) - 1, Times: 1}},
		"stalled in the middle":    {{Kind: refserver.FaultStall, Bytes: 100_000, Times: 1}},
		"everything": {
			{Kind: refserver.FaultCut, Bytes: 1000, Times: 1},
			{Kind: refserver.FaultStatus, Status: 503, Times: 1},
			{Kind: refserver.FaultCut, Bytes: 1000, Times: 1},
			{Kind: refserver.FaultDropBefore, Times: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
				wanted := heldPackage(t, r)
				for _, f := range faults {
					f.Path = "/runner/files/*"
					r.fault(t, f)
				}
				var b bytes.Buffer
				n, err := r.client.Download(t.Context(), wanted, &b)
				if err != nil || n != verdict.Bytes(len(content)) || !bytes.Equal(b.Bytes(), content) {
					t.Errorf("%d bytes, %v", n, err)
				}
			})
		})
	}
}

func TestADownloadThatCannotSucceedSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		fault refserver.Fault
		class protocol.Class
		away  bool
		calls int
	}{
		"away for good":   {refserver.Fault{Kind: refserver.FaultStatus, Status: 503}, protocol.Unavailable, true, protocol.LongestAttempts},
		"broken for good": {refserver.Fault{Kind: refserver.FaultStatus, Status: 500}, protocol.Busy, true, protocol.LongestAttempts},
		// One more: net/http itself repeats a GET whose reused connection turns out to be closed.
		"silent for good":     {refserver.Fault{Kind: refserver.FaultDropBefore}, protocol.Unreachable, true, protocol.LongestAttempts + 1},
		"cut for good":        {refserver.Fault{Kind: refserver.FaultCut, Bytes: 1000}, protocol.Unreachable, true, protocol.LongestAttempts},
		"away for long":       {refserver.Fault{Kind: refserver.FaultStatus, Status: 503, RetryAfter: "300"}, protocol.Unavailable, true, 1},
		"not ours":            {refserver.Fault{Kind: refserver.FaultStatus, Status: 404, Code: "not_found"}, protocol.NotFound, false, 1},
		"forbidden":           {refserver.Fault{Kind: refserver.FaultStatus, Status: 403, Code: "runner.notApproved"}, protocol.NotApproved, false, 1},
		"corrupted":           {refserver.Fault{Kind: refserver.FaultCorrupt, Bytes: 12345}, protocol.Checksum, false, 1},
		"truncated":           {refserver.Fault{Kind: refserver.FaultTruncate, Bytes: 1000}, protocol.Checksum, false, 1},
		"truncated to naught": {refserver.Fault{Kind: refserver.FaultTruncate, Bytes: 0}, protocol.Checksum, false, 1},
		"a page":              {refserver.Fault{Kind: refserver.FaultHTML, Status: 200}, protocol.Checksum, false, 1},
		"no content":          {refserver.Fault{Kind: refserver.FaultStatus, Status: 204}, protocol.Unreadable, false, 1},
		"a redirect":          {refserver.Fault{Kind: refserver.FaultStatus, Status: 302}, protocol.Refused, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
				wanted := heldPackage(t, r)
				c.fault.Path = "/runner/files/*"
				r.fault(t, c.fault)
				before := len(r.server.Calls(0))
				_, err := r.client.Download(t.Context(), wanted, io.Discard)
				if protocol.ClassOf(err) != c.class || protocol.Retryable(err) != c.away {
					t.Errorf("class %v, retryable %v: %v", protocol.ClassOf(err), protocol.Retryable(err), err)
				}
				if calls := len(r.server.Calls(before)); calls != c.calls {
					t.Errorf("%d calls, want %d", calls, c.calls)
				}
			})
		})
	}
}

func TestADownloadNeverWritesMoreThanIsAllowed(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		wanted := heldPackage(t, r)
		wanted.Max = 1000
		var b bytes.Buffer
		n, err := r.client.Download(t.Context(), wanted, &b)
		wantClass(t, err, protocol.TooLarge, "")
		if n != 0 || b.Len() != 0 {
			t.Errorf("%d bytes of an announced excess were written", b.Len())
		}
		wanted.Max = verdict.Bytes(len(content))
		_, err = r.client.Download(t.Context(), wanted, io.Discard)
		must(t, err)
		for _, bad := range []protocol.Wanted{
			{ID: "../x", SHA256: "aa", Max: 1}, {ID: "x", SHA256: "a/b", Max: 1}, {ID: "x", SHA256: "aa"}, {SHA256: "aa", Max: 1},
		} {
			_, err := r.client.Download(t.Context(), bad, io.Discard)
			wantClass(t, err, protocol.Local, "")
		}
	})
}

func TestADownloadWithoutAnAnnouncedLengthIsBoundedToo(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 100 {
			_, _ = w.Write(content[:1000])
			_ = http.NewResponseController(w).Flush()
		}
	})
	withHandler(t, h, func(t *testing.T, c *protocol.Client) {
		var b bytes.Buffer
		_, err := c.Download(t.Context(), protocol.Wanted{ID: "x", SHA256: "aa", Max: 5000}, &b)
		wantClass(t, err, protocol.TooLarge, "")
		if b.Len() > 5000 {
			t.Errorf("%d bytes were written", b.Len())
		}
	})
}

// full is a disk without space.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	n := min(f.left, len(p))
	f.left -= n
	if n < len(p) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

func TestAFullDiskIsThisMachinesFault(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		wanted := heldPackage(t, r)
		n, err := r.client.Download(t.Context(), wanted, &full{left: 70_000})
		wantClass(t, err, protocol.Local, "")
		if n != 70_000 || protocol.Retryable(err) || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

func TestAServerWithoutRangesIsSkippedForward(t *testing.T) {
	for name, second := range map[string]http.HandlerFunc{
		"whole again": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) },
		"another part": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 5-%d/%d", len(content)-1, len(content)))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(content[5:])
		},
		"a part of nothing known": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(content)
		},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if requests++; requests > 1 {
					second(w, r)
					return
				}
				w.Header().Set("Content-Length", fmt.Sprint(len(content)))
				_, _ = w.Write(content[:1000])
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			})
			withHandler(t, h, func(t *testing.T, c *protocol.Client) {
				sum := sha256.Sum256(content)
				var b bytes.Buffer
				wanted := protocol.Wanted{ID: "x", SHA256: hex.EncodeToString(sum[:]), Max: protocol.PackageLimit}
				_, err := c.Download(t.Context(), wanted, &b)
				if name == "whole again" {
					if err != nil || !bytes.Equal(b.Bytes(), content) {
						t.Errorf("%d bytes, %v", b.Len(), err)
					}
					return
				}
				wantClass(t, err, protocol.Unreadable, "")
			})
		})
	}
	for header, want := range map[string]verdict.Bytes{"bytes 5-9/10": 5, "bytes 0-0/*": 0, "bytes */10": -1, "": -1, "bytes -5-9/10": -1, "lines 5-9/10": -1, "bytes 5": -1} {
		got, ok := protocol.RangeStart(header)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %v, %v", header, got, ok)
		}
	}
}

func TestAStopEndsADownload(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		wanted := heldPackage(t, r)
		r.fault(t, refserver.Fault{Path: "/runner/files/*", Kind: refserver.FaultStall, Bytes: 10})
		ctx, cancel := contextWithStop(t, 5*time.Second)
		defer cancel()
		start := time.Now()
		_, err := r.client.Download(ctx, wanted, io.Discard)
		wantClass(t, err, protocol.Stopped, "")
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("ended after %v", took)
		}
	})
}

func TestAFileIsUploadedWhole(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	got, err := r.client.Upload(t.Context(), protocol.BytesUpload("details.txt", "application/json", content))
	sum := sha256.Sum256(content)
	if err != nil || got.Size != verdict.Bytes(len(content)) || got.SHA256 != hex.EncodeToString(sum[:]) || got.ID.Check() != nil {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = r.client.Upload(t.Context(), protocol.BytesUpload("log.txt", "text/plain", nil))
	wantClass(t, err, protocol.Local, "")
	_, err = r.client.Upload(t.Context(), protocol.Outgoing{Open: func() (io.ReadCloser, error) { return nil, errors.New("gone") }})
	wantClass(t, err, protocol.Local, "")
	endless := protocol.Outgoing{Name: "big", Open: func() (io.ReadCloser, error) { return io.NopCloser(zeros{}), nil }}
	_, err = r.client.Upload(t.Context(), endless)
	wantClass(t, err, protocol.TooLarge, "")
	id := r.fault(t, refserver.Fault{Path: "/runner/files", Kind: refserver.FaultStatus, Status: 413, Code: "payload_too_large"})
	_, err = r.client.Upload(t.Context(), protocol.BytesUpload("log.txt", "text/plain", []byte("x")))
	wantClass(t, err, protocol.Refused, protocol.CodePayloadTooLarge)
	r.server.ClearFault(id)
	r.fault(t, refserver.Fault{
		Path: "/runner/files", Kind: refserver.FaultStatus, Status: 201, Body: `{"id":"a","sizeBytes":2,"sha256":"00"}`,
	})
	_, err = r.client.Upload(t.Context(), protocol.BytesUpload("log.txt", "text/plain", []byte("x")))
	wantClass(t, err, protocol.Checksum, "")
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestAFileThatChangesWhileItIsSentIsNotStored(t *testing.T) {
	r := newRig(t, refserver.Options{})
	r.admit(t)
	opened := 0
	changing := protocol.Outgoing{Name: "log.txt", MIME: "text/plain", Open: func() (io.ReadCloser, error) {
		opened++
		return io.NopCloser(strings.NewReader([]string{"first!", "second", "x"}[opened-1])), nil
	}}
	_, err := r.client.Upload(t.Context(), changing)
	wantClass(t, err, protocol.Refused, protocol.CodeChecksumMismatch)
	opened = 1
	changing.Open = func() (io.ReadCloser, error) { // shorter the second time
		opened++
		return io.NopCloser(strings.NewReader([]string{"first!", "x"}[opened%2])), nil
	}
	if _, err = r.client.Upload(t.Context(), changing); err == nil {
		t.Error("a file that shrank was stored")
	}
}

func TestAnUploadsFrameIsWhatAServerExpects(t *testing.T) {
	var got []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || kind != "multipart/form-data" || r.ContentLength <= 0 {
			t.Errorf("%s, %v, length %d", kind, err, r.ContentLength)
		}
		parts := multipart.NewReader(r.Body, params["boundary"])
		for {
			p, err := parts.NextPart()
			if err != nil {
				break
			}
			b, _ := io.ReadAll(p)
			got = append(got, p.FormName()+"|"+p.FileName()+"|"+p.Header.Get("Content-Type")+"|"+string(b))
		}
	}))
	defer web.Close()
	c, err := protocol.New(protocol.Options{BaseURL: web.URL})
	must(t, err)
	defer c.Close()
	protocol.SetToken(c, "t")
	_, _ = c.Upload(t.Context(), protocol.BytesUpload("a \"b\"\r\nX: y\x00.txt", "text/plain\r\nX: y", []byte("hello")))
	want := []string{
		"sha256|||2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
		`file|a "b"X: y.txt|text/plainX: y|hello`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q", got)
	}
}

// drip writes a byte of text after another, one every so often and blanks behind it, until the caller has had enough.
func drip(w http.ResponseWriter, q *http.Request, text string, every time.Duration) {
	for {
		next := " "
		if text != "" {
			next, text = text[:1], text[1:]
		}
		_, _ = io.WriteString(w, next)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(every):
		case <-q.Context().Done():
			return
		}
	}
}

// What an answer that is tried again says is nobody's business: one that drips would be read for as long as an answer may take.
func TestARefusalThatDripsCostsADownloadItsWaitsAndNoMore(t *testing.T) {
	const content = "a package of some bytes"
	sum := sha256.Sum256([]byte(content))
	asked := 0
	h := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if asked++; asked <= 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			drip(w, q, "", 50*time.Second)
			return
		}
		_, _ = io.WriteString(w, content)
	})
	withHandler(t, h, func(t *testing.T, c *protocol.Client) {
		began := time.Now()
		var b bytes.Buffer
		_, err := c.Download(t.Context(), protocol.Wanted{ID: "f", SHA256: hex.EncodeToString(sum[:]), Max: 1 << 20}, &b)
		if took := time.Since(began); err != nil || b.String() != content || asked != 4 || took > 10*time.Second {
			t.Errorf("%q and %v after %v and %d calls", b.String(), err, took, asked)
		}
	})
}

// A download without a new byte ends, however alive its calls are: here the file begins again and again, and what is here already
// drips. A new byte gives it all of its time again.
func TestADownloadWithoutANewByteEndsInItsTime(t *testing.T) {
	content := strings.Repeat("p", 20)
	sum := sha256.Sum256([]byte(content))
	asked := 0
	h := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if asked++; asked == 1 { // a byte, and another after 50 s, and then nothing more
			w.Header().Set("Content-Length", "20")
			_, _ = io.WriteString(w, content[:1])
			_ = http.NewResponseController(w).Flush()
			time.Sleep(50 * time.Second)
			_, _ = io.WriteString(w, content[1:19])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		drip(w, q, content, 50*time.Second)
	})
	withHandler(t, h, func(t *testing.T, c *protocol.Client) {
		began := time.Now()
		n, err := c.Download(t.Context(), protocol.Wanted{ID: "f", SHA256: hex.EncodeToString(sum[:]), Max: 1 << 20}, io.Discard)
		took := time.Since(began)
		if protocol.ClassOf(err) != protocol.Unreachable || !protocol.Retryable(err) || n != 19 || took != 50*time.Second+protocol.QuietTimeout {
			t.Errorf("%d bytes and %v after %v and %d calls", n, err, took, asked)
		}
	})
}
