package refserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// download is 2.12. What the caller may not read does not exist for it.
func (s *Server) download(x *exchange) (int, any) {
	s.mu.Lock()
	f := s.s.Files[x.PathValue("id")]
	if f == nil || !s.readable(f.ID, x.runner) {
		s.mu.Unlock()
		return 0, notFound("file")
	}
	file := *f
	s.mu.Unlock()
	if r := s.serveFile(x.w, x.Request, file); r != nil {
		return 0, r
	}
	return 0, nil
}

// serveFile writes a file, with Range and If-None-Match.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request, file File) *Refusal {
	content, err := s.store.open(file.ID)
	if err != nil {
		return refuse(http.StatusServiceUnavailable, protocol.CodeStorage, "the file's bytes cannot be reached")
	}
	defer func() { _ = content.Close() }()
	h := w.Header()
	h.Set("Content-Type", file.MIME)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": file.Name}))
	h.Set("ETag", `"`+file.SHA256+`"`)
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", time.Time{}, content)
	return nil
}

// readable says whether a Runner may read a file: through a job or a trial it holds, while the lease lasts. It is called
// with the lock held.
func (s *Server) readable(file, runner string) bool {
	now := s.clock.Now()
	holds := func(h Holding) bool { return h.State == Running && h.Holder == runner && now.Before(h.LeaseExpires) }
	for _, j := range s.s.Jobs {
		if !holds(j.Holding) {
			continue
		}
		sub := s.s.Submissions[j.SubmissionID]
		if file == sub.FileID || file == s.s.Problems[sub.ProblemID].PackageID {
			return true
		}
		for _, a := range j.Attachments {
			if a.FileID == file {
				return true
			}
		}
	}
	for _, t := range s.s.Trials {
		if holds(t.Holding) && t.PackageID == file {
			return true
		}
	}
	return false
}

// upload is 2.13: the parts come in either order, and what is not what it claims leaves nothing.
func (s *Server) upload(x *exchange) (int, any) {
	x.Body = http.MaxBytesReader(x.w, x.Body, int64(protocol.PackageLimit)+2<<20)
	parts, err := x.MultipartReader()
	if err != nil {
		return 0, refuse(http.StatusUnprocessableEntity, "request.notMultipart", err.Error())
	}
	f, claimed, r := s.readUpload(parts)
	if r == nil && f == nil {
		r = refuse(http.StatusUnprocessableEntity, protocol.CodeFileRequired, "there is no file, or it is empty")
	}
	if r == nil && !strings.EqualFold(claimed, f.SHA256) {
		r = refuse(http.StatusUnprocessableEntity, protocol.CodeChecksumMismatch, "the file is not what it claims to be")
	}
	if r != nil {
		if f != nil {
			s.store.drop(f.ID)
		}
		return 0, r
	}
	f.Owner = x.runner
	s.mu.Lock()
	defer s.mu.Unlock()
	f.At = s.clock.Now()
	s.s.Files[f.ID] = f
	x.w.Header().Set("Location", Prefix+"/runner/files/"+f.ID)
	return s.settle(http.StatusCreated, map[string]any{
		"id": f.ID, "name": f.Name, "mimeType": f.MIME, "sizeBytes": f.Size, "sha256": f.SHA256,
		"createdAt": protocol.FormatInstant(f.At),
	})
}

// readUpload reads the parts of an upload and stores its file, which it returns together with a refusal if both happen.
func (s *Server) readUpload(parts *multipart.Reader) (f *File, claimed string, refused *Refusal) {
	for {
		part, err := parts.NextPart()
		if err == io.EOF {
			return f, claimed, nil
		}
		if err != nil {
			return f, "", bodyRefusal(err)
		}
		switch part.FormName() {
		case "sha256":
			text, err := io.ReadAll(io.LimitReader(part, 1<<20))
			if err != nil {
				return f, "", bodyRefusal(err)
			}
			claimed = strings.TrimSpace(string(text))
		case "file":
			if f != nil {
				return f, "", refuse(http.StatusUnprocessableEntity, "file.tooMany", "more than one file")
			}
			kind := part.Header.Get("Content-Type")
			if kind == "" {
				kind = "application/octet-stream"
			}
			stored, err := s.keep(part.FileName(), kind, part, protocol.PackageLimit)
			if err != nil {
				return nil, "", bodyRefusal(err)
			}
			if stored.Size == 0 {
				s.store.drop(stored.ID)
				return nil, "", refuse(http.StatusUnprocessableEntity, protocol.CodeFileRequired, "the file is empty")
			}
			f = stored
		}
	}
}

func bodyRefusal(err error) *Refusal {
	var tooLarge *http.MaxBytesError
	if errors.Is(err, errTooLarge) || errors.As(err, &tooLarge) {
		return refuse(http.StatusRequestEntityTooLarge, protocol.CodePayloadTooLarge, "the file is larger than 128 MiB")
	}
	return refuse(http.StatusUnprocessableEntity, "request.malformed", err.Error())
}

// keep stores bytes and describes them; the caller records the description in the state.
func (s *Server) keep(name, kind string, content io.Reader, limit verdict.Bytes) (*File, error) {
	f := &File{ID: newID(), Name: name, MIME: kind}
	var err error
	f.Size, f.SHA256, err = s.store.put(f.ID, content, limit)
	return f, err
}

// contents reads a stored file whole, up to a limit; the rest is left out.
func (s *Server) contents(id string, limit verdict.Bytes) ([]byte, error) {
	content, err := s.store.open(id)
	if err != nil {
		return nil, fmt.Errorf("open the file %s: %w", id, err)
	}
	defer func() { _ = content.Close() }()
	var b bytes.Buffer
	_, err = io.CopyN(&b, content, int64(limit))
	if err == io.EOF {
		err = nil
	}
	return b.Bytes(), err
}

// attach is 2.14, with its order of checks.
func (s *Server) attach(x *exchange) (int, any) {
	var in leaseBody
	if r := x.read(&in); r != nil {
		return 0, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j, r := s.heldJob(x, x.PathValue("id"), in.LeaseToken)
	if r != nil {
		return 0, r
	}
	for _, a := range j.Attachments {
		if a.Name == in.Name {
			return 0, refuse(http.StatusConflict, protocol.CodeFileDuplicate, "this attempt has a file of that name")
		}
	}
	f, r := s.ownUpload(x.runner, in)
	if r != nil {
		return 0, r
	}
	f.Referenced = "job " + j.ID
	j.Attachments = append(j.Attachments, Attachment{in.Name, f.ID})
	j.Acknowledged = true
	return s.settle(http.StatusNoContent, nil)
}

// ownUpload finds a file the caller uploaded and nothing refers to yet. It is called with the lock held.
func (s *Server) ownUpload(runner string, in leaseBody) (*File, *Refusal) {
	if !isID(in.FileID) || in.Name == "" {
		return nil, refuse(http.StatusUnprocessableEntity, protocol.CodeFileRequired, "fileId is no UUID or name is empty")
	}
	f := s.s.Files[in.FileID]
	if f == nil || f.Owner != runner || f.Referenced != "" {
		return nil, refuse(http.StatusUnprocessableEntity, protocol.CodeFileMissing, "there is no such upload of this Runner")
	}
	return f, nil
}

// attachToRunner is 2.15.
func (s *Server) attachToRunner(x *exchange) (int, any) {
	var in leaseBody
	if r := x.read(&in); r != nil {
		return 0, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f, r := s.ownUpload(x.runner, in)
	if r != nil {
		return 0, r
	}
	runner := s.s.Runners[x.runner]
	if old := s.s.Files[runner.Files[in.Name]]; old != nil {
		old.Referenced = "superseded"
	}
	if runner.Files == nil {
		runner.Files = map[string]string{}
	}
	runner.Files[in.Name] = f.ID
	f.Referenced = "runner " + x.runner
	return s.settle(http.StatusNoContent, nil)
}
