package protocol

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// JobID names a job or a trial. It becomes part of a path and of a URL, so it is checked on arrival (5.3).
type JobID string

// FileID names a file on the Server. It becomes part of a path and of a URL; call Check before using it as one (5.3).
type FileID string

// maxName bounds an id or a checksum from the Server. A UUID has 36 characters, a checksum 64.
const maxName = 128

// checkName accepts what may become part of a path: one to 128 of [A-Za-z0-9._-], and neither "." nor "..".
func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty", what)
	case name == ".", name == "..":
		return fmt.Errorf("%s is %q, which names a directory", what, name)
	case len(name) > maxName:
		return fmt.Errorf("%s is %d characters long, more than %d", what, len(name), maxName)
	}
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
		default:
			return fmt.Errorf("%s %q holds %q; only letters, digits, '.', '_' and '-' may stand in one", what, name, r)
		}
	}
	return nil
}

// Check says whether the id may become part of a path or a URL.
func (id JobID) Check() error { return checkName("the job id", string(id)) }

// Check says whether the id may become part of a path or a URL.
func (id FileID) Check() error { return checkName("the file id", string(id)) }

// LeaseToken proves that this Runner holds a job. It prints as a placeholder: together with a bearer token it would let
// somebody answer in this Runner's place.
type LeaseToken string

// String is a placeholder, never the token.
func (LeaseToken) String() string { return "[lease token]" }

// GoString is a placeholder, never the token.
func (LeaseToken) GoString() string { return "[lease token]" }

// LogValue is a placeholder, never the token.
func (LeaseToken) LogValue() slog.Value { return slog.StringValue("[lease token]") }

// Lease is what a Runner holds while it works on a job or a trial. Every call about the work carries it.
type Lease struct {
	ID    JobID
	Token LeaseToken
}

// Instant is a moment as the Server wrote it (1.3): for people to read, never to compute with, because the two clocks
// need not agree.
type Instant struct {
	// Text is what was sent.
	Text string
	// Time is what it means, the zero Time when it could not be read.
	Time time.Time
}

// ParseInstant reads ISO-8601 with any number of fractional digits. It never fails.
func ParseInstant(text string) Instant {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return Instant{Text: text}
	}
	return Instant{Text: text, Time: t.UTC()}
}

// FormatInstant writes an instant as the contract does: UTC, seven fractional digits.
func FormatInstant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.0000000Z") }

// String is what the Server wrote, made safe to log.
func (i Instant) String() string { return clean(i.Text) }

// trimText makes a string fit to be sent: without U+0000, which the Server's database refuses, valid, at most limit
// bytes (10.24).
func trimText(text string, limit int) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	return text
}
