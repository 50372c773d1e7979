package protocol

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Class is what a failed call means to a Runner (spec/protocol.md 1.5). The classes exclude each other; the contract's
// predicates that overlap are functions over them. The zero Class is invalid.
type Class int

const (
	_ Class = iota
	// NeedsHandshake: 401, the token is unknown or expired and a new handshake did not help.
	NeedsHandshake
	// NotApproved: code runner.notApproved; pending before admission, revoked after it.
	NotApproved
	// Revoked: code runner.revoked; for ever.
	Revoked
	// LeaseLost: the work belongs to somebody else or is no longer wanted.
	LeaseLost
	// NotFound: 404 without a more exact code.
	NotFound
	// Unavailable: 502, 503 or 504.
	Unavailable
	// Busy: 429, or any other status of 500 and above.
	Busy
	// Unreachable: no answer; the connection failed, fell silent or broke off.
	Unreachable
	// Refused: any other refusal, redirects included; repeating it is pointless.
	Refused
	// Unreadable: the Server said yes in words that are not the contract's.
	Unreadable
	// Checksum: the bytes are not the announced ones.
	Checksum
	// TooLarge: more bytes than allowed, on either side.
	TooLarge
	// Local: this machine could not do its part (disk full, a file vanished, a value that may not be sent).
	Local
	// Stopped: the caller's context ended.
	Stopped
)

// String names the class for logs.
func (c Class) String() string {
	switch c {
	case NeedsHandshake:
		return "needs handshake"
	case NotApproved:
		return "not approved"
	case Revoked:
		return "revoked"
	case LeaseLost:
		return "lease lost"
	case NotFound:
		return "not found"
	case Unavailable:
		return "unavailable"
	case Busy:
		return "busy"
	case Unreachable:
		return "unreachable"
	case Refused:
		return "refused"
	case Unreadable:
		return "unreadable"
	case Checksum:
		return "checksum"
	case TooLarge:
		return "too large"
	case Local:
		return "local"
	case Stopped:
		return "stopped"
	}
	return "invalid class"
}

// Code is the Server's stable word for a refusal (spec/protocol.md 1.4); empty when it gave none.
type Code string

// The codes a Runner acts upon or a reference server answers with.
const (
	CodeNone             Code = ""
	CodeUnauthenticated  Code = "unauthenticated"
	CodeNotFound         Code = "not_found"
	CodeNotApproved      Code = "runner.notApproved"
	CodeRevoked          Code = "runner.revoked"
	CodeKeyMalformed     Code = "runner.key.malformed"
	CodeKeyLength        Code = "runner.key.length"
	CodeTagsCount        Code = "runner.tags.count"
	CodeTagsLength       Code = "runner.tags.length"
	CodeNonceUnknown     Code = "runner.nonce.unknown"
	CodeNonceExpired     Code = "runner.nonce.expired"
	CodeNonceMismatch    Code = "runner.nonce.mismatch"
	CodeSignature        Code = "runner.signature"
	CodeLeaseStale       Code = "runner.lease.stale"
	CodeLeaseForeign     Code = "runner.lease.foreign"
	CodeLeaseMalformed   Code = "runner.lease.malformed"
	CodeJobState         Code = "job.state"
	CodeTrialState       Code = "trial.state"
	CodeBatchSize        Code = "runner.batch.size"
	CodeMaintenance      Code = "server.maintenance"
	CodeStorage          Code = "storage.unavailable"
	CodeChecksumMismatch Code = "checksum_mismatch"
	CodePayloadTooLarge  Code = "payload_too_large"
	CodeFileDuplicate    Code = "attempt.file.duplicate"
	CodeFileMissing      Code = "file.missing"
	CodeFileRequired     Code = "file.required"
)

// lostCodes are the refusals that mean that the work is somebody else's (1.5; trial.state by section 7).
var lostCodes = map[Code]bool{CodeLeaseStale: true, CodeLeaseForeign: true, CodeJobState: true, CodeTrialState: true}

// nonceCodes are refusals that plain slowness or a restarted Server can cause; a fresh challenge may cure them (10.20).
var nonceCodes = map[Code]bool{CodeNonceUnknown: true, CodeNonceExpired: true, CodeNonceMismatch: true}

// classify reads a refusal: the code first, then the status (1.4, 1.5).
func classify(status int, code Code) Class {
	switch {
	case status == 401:
		return NeedsHandshake
	case code == CodeNotApproved:
		return NotApproved
	case code == CodeRevoked:
		return Revoked
	case lostCodes[code]:
		return LeaseLost
	case status == 404:
		return NotFound
	case status == 502, status == 503, status == 504:
		return Unavailable
	case status >= 500, status == 429:
		return Busy
	}
	return Refused
}

// Error is a failed call. Its text says what was attempted, what came back and, where there is one, the cure; it holds
// nothing secret.
type Error struct {
	// Op is what was attempted: "claim a job".
	Op    string
	Class Class
	// Status is the HTTP status, 0 when nothing was answered.
	Status int
	// Code is the Server's word, empty when it gave none.
	Code Code
	// Detail is a sentence: the Server's, cleaned and bounded, or ours.
	Detail string
	// RetryAfter is how long the Server asked to wait, nil when it did not ask; never more than MaxRetryAfter.
	RetryAfter *time.Duration
	// Cause is the underlying error, nil when the Server answered.
	Cause error
}

// Error renders the failure in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	b.WriteString(": ")
	b.WriteString(e.Class.String())
	if e.Status != 0 {
		fmt.Fprintf(&b, ": the Server answered %d", e.Status)
		if e.Code != "" {
			fmt.Fprintf(&b, " (%s)", e.Code)
		}
	}
	if e.Detail != "" {
		b.WriteString(": ")
		b.WriteString(e.Detail)
	}
	if e.Cause != nil {
		b.WriteString(": ")
		b.WriteString(e.Cause.Error())
	}
	return b.String()
}

// Unwrap gives the underlying error.
func (e *Error) Unwrap() error { return e.Cause }

// ClassOf is the class of an error of this package, wrapped or not; 0 for any other error.
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return 0
}

// CodeOf is the Server's word for the failure, CodeNone when there is none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeNone
}

// RetryAfterOf is the wait the Server asked for, 0 when it asked for none.
func RetryAfterOf(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) && e.RetryAfter != nil {
		return *e.RetryAfter
	}
	return 0
}

// Retryable says that the same call may succeed later: nothing was answered, or the Server was busy or away (1.5). An
// error of another package counts when it says so itself with a method Retryable() bool (a vanished cache entry).
func Retryable(err error) bool {
	switch ClassOf(err) {
	case Unavailable, Busy, Unreachable:
		return true
	case 0:
		var other interface{ Retryable() bool }
		return errors.As(err, &other) && other.Retryable()
	}
	return false
}

// InMaintenance says that the Server is closed or draining; it changes only the words of a log line (1.5).
func InMaintenance(err error) bool { return CodeOf(err) == CodeMaintenance }

// WorkLost says that the job or trial a lease stands for is no longer this Runner's to work on: the lease is lost, the
// Server does not know the work (10.10), or this Runner is no longer wanted at all (10.7). A 404 without a code is a page of
// somebody between, who knows nothing of the work: that is a renewal that failed.
func WorkLost(err error) bool {
	switch ClassOf(err) {
	case LeaseLost, NotApproved, Revoked:
		return true
	case NotFound:
		return CodeOf(err) != CodeNone
	}
	return false
}

// Between says that a refusal is not the Server's, but that of a proxy or a portal on the way: it sends elsewhere, forbids or
// does not find, and has none of the Server's codes, which every refusal of that kind has (2.6, 2.11). A call that is safe to
// repeat may be repeated after it.
func Between(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeNone {
		return false
	}
	return e.Status >= 300 && e.Status <= 399 || e.Status == 403 || e.Status == 404 || e.Status == 405 || e.Status == 408
}

// wasStopped says that the caller's context, and not a timeout of ours, ended the call.
func wasStopped(ctx context.Context) bool { return ctx.Err() != nil }

// clean makes foreign text fit for one log line: printable, without line breaks, at most 500 bytes, and without any of
// the secrets.
func clean(text string, secrets ...string) string {
	const limit = 500
	for _, s := range secrets { // before anything is cut: a part of a secret is not found
		if s != "" {
			text = strings.ReplaceAll(text, s, "[secret]")
		}
	}
	if len(text) > 8*limit {
		text = text[:8*limit]
	}
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool {
		return r <= ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == 0x2028 || r == 0x2029
	}), " ")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}
