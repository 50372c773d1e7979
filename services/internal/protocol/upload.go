package protocol

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Outgoing is a file to upload. Its content is opened twice: once to be hashed and measured, once to be sent; nothing is
// held in memory.
type Outgoing struct {
	// Name is the file's name, at most 255 bytes; MIME its type, at most 128.
	Name, MIME string
	// Open gives the content from its beginning. It must give the same bytes every time.
	Open func() (io.ReadCloser, error)
}

// BytesUpload is an upload of bytes that are in memory already. They must not change until it is done.
func BytesUpload(name, mime string, content []byte) Outgoing {
	return Outgoing{Name: name, MIME: mime, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}}
}

// Uploaded is a file as the Server stored it (2.13).
type Uploaded struct {
	ID     FileID
	Size   verdict.Bytes
	SHA256 string
}

// Upload stores a file on the Server, to be attached afterwards (2.13). A file of no bytes and one of more than 128 MiB
// are refused here (class Local, TooLarge), as the Server would refuse them. It is not repeated: each upload stores
// another file. The Server's checksum and size must be ours.
func (c *Client) Upload(ctx context.Context, f Outgoing) (Uploaded, error) {
	const op = "upload a file"
	size, sum, err := measure(f)
	if err != nil {
		return Uploaded{}, &Error{Op: op, Class: Local, Detail: "could not read " + clean(f.Name), Cause: err}
	}
	switch {
	case size == 0:
		return Uploaded{}, &Error{Op: op, Class: Local, Detail: "it is empty, which the Server does not store"}
	case size > PackageLimit:
		return Uploaded{}, &Error{Op: op, Class: TooLarge, Detail: fmt.Sprintf("it is larger than the %s the Server stores", PackageLimit)}
	}
	head, tail, mime := multipartFrame(f, sum)
	a, err := c.post(ctx, call{
		op: op, path: "runner/files", mime: mime, bearer: true,
		size: int64(len(head)) + int64(size) + int64(len(tail)),
		open: func() (io.ReadCloser, error) {
			content, err := f.Open()
			if err != nil {
				return nil, err
			}
			return framed{io.MultiReader(strings.NewReader(head), content, strings.NewReader(tail)), content}, nil
		},
	})
	if err != nil {
		return Uploaded{}, err
	}
	stored, err := decode(op, a, readUploaded)
	if err != nil {
		return Uploaded{}, err
	}
	if stored.Size != size || !strings.EqualFold(stored.SHA256, sum) {
		return Uploaded{}, &Error{
			Op: op, Class: Checksum, Status: http.StatusCreated,
			Detail: fmt.Sprintf("sent were %d bytes with the checksum %s, stored were %d with %s",
				int64(size), sum, int64(stored.Size), clean(stored.SHA256)),
		}
	}
	return stored, nil
}

// measure reads the content once, but no further than needed to see that it is too large.
func measure(f Outgoing) (verdict.Bytes, string, error) {
	content, err := f.Open()
	if err != nil {
		return 0, "", err
	}
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(content, int64(PackageLimit)+1))
	return verdict.Bytes(n), hex.EncodeToString(sum.Sum(nil)), errors.Join(err, content.Close())
}

// multipartFrame is what stands before and behind the content in a multipart body, and the body's media type. The
// checksum comes first, so that a Server can check while it reads.
func multipartFrame(f Outgoing, sum string) (head, tail, mime string) {
	boundary := rand.Text()
	quote := strings.NewReplacer("\\", "\\\\", `"`, "\\\"", "\r", "", "\n", "")
	kind := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, trimText(f.MIME, 128))
	if kind == "" {
		kind = "application/octet-stream"
	}
	head = "--" + boundary + "\r\nContent-Disposition: form-data; name=\"sha256\"\r\n\r\n" + sum + "\r\n" +
		"--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" +
		quote.Replace(trimText(f.Name, 255)) + "\"\r\nContent-Type: " + kind + "\r\n\r\n"
	return head, "\r\n--" + boundary + "--\r\n", "multipart/form-data; boundary=" + boundary
}

// framed is a multipart body that closes its content.
type framed struct {
	io.Reader
	io.Closer
}

func readUploaded(body []byte) (Uploaded, error) {
	m, err := readMembers(body)
	if err != nil {
		return Uploaded{}, err
	}
	var u Uploaded
	err = errors.Join(m.need("id", &u.ID), m.need("sizeBytes", &u.Size), m.need("sha256", &u.SHA256))
	if err == nil {
		err = u.ID.Check()
	}
	return u, err
}
