package runner

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/report"
)

// attachment is a file that goes with an answer (6.4). One without content is not sent.
type attachment struct {
	role, file, mime string
	content          []byte
}

// logAttachment is the log, unless it is blank.
func logAttachment(text string) attachment {
	a := attachment{role: "log", file: "log.txt", mime: "text/plain"}
	if strings.TrimSpace(text) != "" {
		a.content = []byte(report.Log(text))
	}
	return a
}

// detailsAttachment is the details document.
func detailsAttachment(document []byte) attachment {
	return attachment{role: "details", file: "details.txt", mime: "application/json", content: document}
}

// again makes a failure one that is tried again. Nothing that it hides is needed for that.
type again struct{ err error }

func (a again) Error() string   { return a.err.Error() }
func (a again) Retryable() bool { return true }

// repeat makes an answer that makes no sense one that is tried again: for calls that are safe to repeat, a proxy's page is
// like no answer.
func repeat(err error) error {
	if protocol.ClassOf(err) == protocol.Unreadable {
		return again{err}
	}
	return err
}

// deliver sends an answer: its attachments first, because a finished job takes none, then the report (6.4, 6.6). All of it
// is bounded by the granted lease from now on. It ends as Reported, Lost, Released, or Undelivered.
func (r *Runner) deliver(ctx context.Context, k *keeper, t task, d delivery) (Ending, error) {
	r.become(Reporting, "reporting "+t.kind.String()+" "+string(t.lease.ID))
	began := time.Now()
	for _, a := range d.attachments {
		if len(a.content) > 0 {
			r.attach(k.ctx, t, a, max(r.granted/2-time.Since(began), r.granted/10))
		}
	}
	err := protocol.Resend(k.ctx, r.granted-time.Since(began), func(work context.Context) error {
		if lost := k.lost(); lost != nil {
			return lost
		}
		graced, done := protocol.WithGrace(work, reportGrace)
		defer done()
		reported, err := d.send(graced)
		if err == nil {
			t.log.InfoContext(ctx, "the answer was taken", "state", reported.State, "duplicate", reported.Duplicate, "result", reported.ResultID)
		} else if protocol.ClassOf(err) != protocol.Stopped {
			t.log.DebugContext(ctx, "the answer was not taken", "error", err)
		}
		if protocol.Between(err) {
			return again{err} // the answer is held until the Server itself refuses it, or the lease is over
		}
		return repeat(err)
	})
	lost := k.lost()
	switch class := protocol.ClassOf(err); {
	case err == nil:
		return Reported, nil
	case lost != nil:
		return Lost, wanted(lost)
	case unwanted(err):
		t.log.WarnContext(ctx, "the Server stopped knowing this Runner before it took the answer; the answer is dropped", "error", err)
		return Lost, err
	case class == protocol.LeaseLost:
		t.log.WarnContext(ctx, "the answer is dropped: the work is no longer this Runner's", "error", err)
		return Lost, nil
	case ctx.Err() != nil:
		t.log.WarnContext(ctx, "stopping before the Server took the answer; the work is given back", "error", err)
		k.stop()
		return r.giveBack(ctx, t), nil
	case protocol.Retryable(err):
		t.log.ErrorContext(ctx, "the Server did not take the answer for as long as the lease lasts; the work will be judged again", "error", err)
	default:
		t.log.ErrorContext(ctx, "the Server refused the answer; the work will be judged again", "error", err)
	}
	return Undelivered, nil
}

// errAttach ends the attaching of a file that has used up its time.
var errAttach = errors.New("it took so long that the answer has to go first")

// attach uploads a file and attaches it to a job. A Server that is away is waited for, no longer than bound, and neither may a
// call last longer; any other failure costs the attachment and never the answer.
func (r *Runner) attach(ctx context.Context, t task, a attachment, bound time.Duration) {
	var file protocol.FileID
	unsure := false // whether a call whose answer was none may have attached it all the same
	bounded, cancel := context.WithTimeoutCause(ctx, bound, errAttach)
	defer cancel()
	err := protocol.Resend(bounded, bound, func(ctx context.Context) error {
		if file == "" {
			stored, err := r.client.Upload(ctx, protocol.BytesUpload(a.file, a.mime, a.content))
			if err != nil {
				return repeat(err)
			}
			file = stored.ID
		}
		err := repeat(r.client.Attach(ctx, t.lease, file, a.role))
		if unsure && protocol.CodeOf(err) == protocol.CodeFileDuplicate {
			return nil // it was attached, and the answer that said so was lost
		}
		unsure = unsure || protocol.Retryable(err)
		return err
	})
	switch {
	case err == nil:
	case protocol.CodeOf(err) == protocol.CodeFileDuplicate:
		// A job that is handed out again keeps its attempt and the attempt its files (2.5, 2.14); none can be replaced.
		t.log.WarnContext(ctx, "a file of an earlier delivery stands beside this answer, because it cannot be replaced", "file", a.role, "error", err)
	case !isLost(ctx): // then there is no answer either
		t.log.WarnContext(ctx, "a file could not be attached; the answer is sent without it", "file", a.role, "error", err)
	}
}
