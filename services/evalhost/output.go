package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/report"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// printed is standard output. Its first error stays and ends the command: nothing is judged for a reader that is gone, and
// half a document is no success. A reader that is gone counts as having been asked to stop, as elsewhere.
type printed struct {
	w    io.Writer
	stop context.CancelCauseFunc
	err  error
}

func (p *printed) Write(text []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.w.Write(text)
	if err != nil {
		p.err = fmt.Errorf("standard output did not take everything: %w", err)
		if errors.Is(err, syscall.EPIPE) {
			p.err = interrupted{syscall.SIGPIPE}
		}
		p.stop(p.err)
	}
	return n, p.err
}

// writeDocument prints the details document, in one line, and nothing else.
func writeDocument(w io.Writer, j *judge.Judged) error {
	document, err := j.Document.JSON()
	if err != nil {
		return err
	}
	_, err = w.Write(append(document, '\n'))
	return err
}

// writeJudged prints for people what came of a submission: what the compiler had to say, the tests, the score and the
// verdict.
func writeJudged(w io.Writer, j *judge.Judged, toolchain langimages.Toolchain, noPolicy bool) error {
	d := &j.Document
	language := toolchain.Label
	if j.Version != "" {
		language += ": " + report.Printable(j.Version)
	}
	if _, err := fmt.Fprintf(w, "%s, %s, limits %d ms and %s\n", d.Type, language, report.Millis(d.Limits.Time), d.Limits.Memory); err != nil {
		return err
	}
	if noPolicy {
		fmt.Fprintln(w, "the source rules were not applied (--no-policy)")
	}
	if j.Log != "" {
		fmt.Fprint(w, report.PrintableText(j.Log))
	}
	if err := report.Table(w, d); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "verdict %s\n", j.Verdict)
	return err
}

// writeMarked prints for people what came of answers.
func writeMarked(w io.Writer, j *judge.Judged) error {
	if _, err := fmt.Fprintf(w, "%s\n%s", j.Document.Type, report.PrintableText(j.Log)); err != nil {
		return err
	}
	if err := report.Table(w, &j.Document); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "verdict %s\n", j.Verdict)
	return err
}

// writeJSON prints a value over several lines.
func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// size is an amount of memory for people; a dash where none was measured.
func size(b *verdict.Bytes) string {
	if b == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f MiB", b.MiB())
}
