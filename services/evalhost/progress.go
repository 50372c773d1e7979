package main

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/services/internal/judge"
)

// progress is one line on a terminal that says what is being done, and nothing at all where no terminal is.
type progress struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	shown    bool
}

func newProgress(w io.Writer) *progress { return &progress{w: w, terminal: isTerminal(w)} }

// isTerminal tells whether somebody is looking.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// say replaces the line.
func (p *progress) say(format string, arguments ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K"+format, arguments...)
		p.shown = true
	}
}

// of says where the judging of something is.
func (p *progress) of(name string) judge.Progress {
	return func(e judge.Event) {
		switch e.Stage {
		case judge.Compiling:
			p.say("%s: compiling", name)
		case judge.Testing:
			p.say("%s: test %s, %d of %d", name, e.Test, e.Number, e.Of)
		}
	}
}

// clear takes the line away, before anything else is written to the terminal.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
