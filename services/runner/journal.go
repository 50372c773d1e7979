package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/coreos/go-systemd/v22/journal"

	"github.com/evalhost/evalhost/services/internal/report"
)

// newLog logs to the journal, with every attribute as a field of its own (JOB=, ATTEMPT=, TEST=, CONTAINER=), where
// standard error is the journal; otherwise as text to standard error.
func newLog(stderr io.Writer, level slog.Level) *slog.Logger {
	if toJournal, err := journal.StderrIsJournalStream(); err == nil && toJournal {
		return slog.New(&journalHandler{level: level, send: journal.Send})
	}
	return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
}

// journalHandler writes records to the journal.
type journalHandler struct {
	level slog.Level
	send  func(message string, priority journal.Priority, fields map[string]string) error
	attrs []slog.Attr
	group string
}

// Enabled says whether records of a level are kept.
func (h *journalHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// WithAttrs is the handler whose records carry more.
func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	more := *h
	more.attrs = append(append([]slog.Attr(nil), h.attrs...), prefixed(h.group, attrs)...)
	return &more
}

// WithGroup is the handler whose attributes are named below a group.
func (h *journalHandler) WithGroup(name string) slog.Handler {
	more := *h
	more.group = h.group + name + "."
	return &more
}

func prefixed(group string, attrs []slog.Attr) []slog.Attr {
	if group == "" {
		return attrs
	}
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = slog.Attr{Key: group + a.Key, Value: a.Value}
	}
	return out
}

// Handle writes one record: its message followed by the attributes, for people; the attributes as fields, for queries.
func (h *journalHandler) Handle(_ context.Context, r slog.Record) error {
	var text strings.Builder
	text.WriteString(r.Message)
	fields := map[string]string{"SYSLOG_IDENTIFIER": "evalhost-runner", "EVALHOST_MESSAGE": r.Message}
	add := func(a slog.Attr) bool {
		value := a.Value.Resolve().String()
		fmt.Fprintf(&text, " %s=%s", a.Key, quoted(value))
		if key := fieldName(a.Key); key != "" {
			fields[key] = value
		}
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(func(a slog.Attr) bool { return add(slog.Attr{Key: h.group + a.Key, Value: a.Value}) })
	return h.send(text.String(), priorityOf(r.Level), fields)
}

// quoted is a value in a line for people. A character that the journal would not show, or a terminal would act on, hides no line.
func quoted(value string) string {
	if value == "" || strings.ContainsAny(value, " \"=") || report.Printable(value) != value {
		return fmt.Sprintf("%q", value)
	}
	return value
}

// fieldName is an attribute's name as the journal accepts one: capitals, digits and underscores, and no underscore first.
// It is empty for a name that would take the place of one of the journal's own.
func fieldName(key string) string {
	name := strings.TrimLeft(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, key), "_0123456789")
	if name == "MESSAGE" || name == "PRIORITY" || strings.HasPrefix(name, "SYSLOG_") {
		return ""
	}
	return name
}

func priorityOf(level slog.Level) journal.Priority {
	switch {
	case level >= slog.LevelError:
		return journal.PriErr
	case level >= slog.LevelWarn:
		return journal.PriWarning
	case level >= slog.LevelInfo:
		return journal.PriInfo
	}
	return journal.PriDebug
}
