package runner

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// steps says what begins, and remembers it, so that it can be said again after a wait.
type steps struct {
	say func(Step)

	mu  sync.Mutex
	now Step
}

// begin says a step.
func (s *steps) begin(step Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = step
	s.say(step)
}

// wait says that the step under way waits for somebody else. over says the step again, with all of its time.
func (s *steps) wait(doing string) (over func()) {
	s.mu.Lock()
	before := s.now
	s.mu.Unlock()
	s.begin(Step{Doing: doing, AtMost: waitForHost})
	return func() { s.begin(before) }
}

// waits is wait for who says both its beginning and its end.
func (s *steps) waits(doing string) func(waiting bool) {
	over := func() {}
	return func(waiting bool) {
		if waiting {
			over = s.wait(doing)
			return
		}
		over()
	}
}

// patient says that waiting for the machine is no step that hangs: somebody may judge here by hand (decisions 20).
type patient struct {
	judge.Box
	s *steps
}

// OpenJob waits for the machine.
func (p patient) OpenJob(ctx context.Context) (judge.Job, error) {
	over := p.s.wait("waiting for the machine")
	defer over()
	return p.Box.OpenJob(ctx)
}

// quietDownload is how long a download may take without a byte of its file, and what follows its last byte.
const quietDownload = protocol.QuietTimeout + slack

// moving is a source whose every byte says that the download goes on.
type moving struct {
	Source
	step func(Step)
}

// Download passes bytes on and says so, once in a while.
func (m moving) Download(ctx context.Context, f protocol.Wanted, w io.Writer) (verdict.Bytes, error) {
	s := Step{Doing: "downloading " + f.What, AtMost: quietDownload}
	m.step(s)
	said := time.Now()
	return m.Source.Download(ctx, f, writing(func(b []byte) (int, error) {
		if now := time.Now(); now.Sub(said) > aliveEvery {
			said = now
			m.step(s)
		}
		return w.Write(b)
	}))
}

type writing func([]byte) (int, error)

func (w writing) Write(b []byte) (int, error) { return w(b) }
