package runner

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// Current is what a Runner works on now, put into every line that is logged meanwhile by what knows nothing of jobs. A
// Runner works on one thing at a time, so there is one. The zero Current is nothing.
type Current struct{ attrs atomic.Pointer[[]slog.Attr] }

// set names the work; no attributes for none.
func (c *Current) set(attrs ...slog.Attr) {
	if c != nil {
		c.attrs.Store(&attrs)
	}
}

// Log is a logger whose lines carry the current work.
func (c *Current) Log(base *slog.Logger) *slog.Logger {
	return slog.New(currentHandler{base.Handler(), c})
}

type currentHandler struct {
	slog.Handler
	c *Current
}

// Handle adds what is worked on.
func (h currentHandler) Handle(ctx context.Context, r slog.Record) error {
	if attrs := h.c.attrs.Load(); attrs != nil && len(*attrs) > 0 {
		r = r.Clone()
		r.AddAttrs(*attrs...)
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs keeps the current work.
func (h currentHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return currentHandler{h.Handler.WithAttrs(attrs), h.c}
}

// WithGroup keeps the current work.
func (h currentHandler) WithGroup(name string) slog.Handler {
	return currentHandler{h.Handler.WithGroup(name), h.c}
}
