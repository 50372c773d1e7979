//go:build guest

package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// judgedBy makes a run of the test program be judged by another verb of it.
func (g *guest) judgedBy(kind JudgeKind, verb string, words ...string) Run {
	g.t.Helper()
	r := g.actor(words...)
	tests := g.t.TempDir()
	for name, content := range map[string]string{"1a.in": "the input\n", "1a.out": "reference\n"} {
		if err := os.WriteFile(filepath.Join(tests, name), []byte(content), 0o644); err != nil {
			g.t.Fatal(err)
		}
	}
	if err := os.Chmod(tests, 0o755); err != nil {
		g.t.Fatal(err)
	}
	r.Output = nil
	r.Judge = &Judge{Kind: kind, Image: testImage, Command: []string{"/program/actor", verb}, Program: r.Program, Tests: tests, Group: 1}
	if kind == Interactor {
		r.Input = nil
	}
	return r
}

func TestACheckerAcceptsRejectsAndCrashes(t *testing.T) {
	g := onAHost(t)
	o := g.mustRun(g.judgedBy(Checker, "check-ok", "copy"))
	ended(t, o, 0)
	if got, want := string(o.Judge.Answer), "OK\n1a 1 15 reference stream\n"; got != want {
		t.Errorf("the checker said %q, want %q", got, want)
	}
	if o.Judge.Stop != OnItsOwn || o.Judge.ExitCode != 0 || o.Judge.CPU == nil || o.Judge.Peak == nil {
		t.Errorf("the checker: %s", shown(o.Judge.Outcome))
	}
	o = g.mustRun(g.judgedBy(Checker, "check-wrong", "exit", "0"))
	ended(t, o, 0)
	if !strings.HasPrefix(string(o.Judge.Answer), "WRONG\n1a 1 0 ") {
		t.Errorf("the checker of an empty output said %q", o.Judge.Answer)
	}
	// C7: a checker that is gone stops nothing, and its crash is its own.
	o = g.mustRun(g.judgedBy(Checker, "check-crash", "burst", "4"))
	ended(t, o, 0)
	if o.OutputBytes != 4<<20 || o.Judge.Stop != OnItsOwn || o.Judge.ExitCode != 134 && o.Judge.ExitCode != 139 {
		t.Errorf("beside a crashed checker: %v read; the checker %s", o.OutputBytes, shown(o.Judge.Outcome))
	}
	o = g.mustRun(g.judgedBy(Checker, "check-leave", "burst", "4"))
	ended(t, o, 0)
	if o.OutputBytes != 4<<20 || !strings.HasPrefix(string(o.Judge.Answer), "OK\n") {
		t.Errorf("beside a checker that left: %v read, %q", o.OutputBytes, o.Judge.Answer)
	}
}

func TestAnInteractorTalksWithASubmission(t *testing.T) {
	g := onAHost(t)
	o := g.mustRun(g.judgedBy(Interactor, "interact", "play"))
	ended(t, o, 0)
	if string(o.Judge.Answer) != "OK\nanswers 3\n" || o.Judge.ExitCode != 0 || o.Judge.Stop != OnItsOwn {
		t.Errorf("the interactor said %q: %s", o.Judge.Answer, shown(o.Judge.Outcome))
	}
	// C34: a submission that leaves at once breaks nothing.
	o = g.mustRun(g.judgedBy(Interactor, "interact", "exit", "0"))
	ended(t, o, 0)
	if string(o.Judge.Answer) != "WRONG\nanswers 0\n" || o.Judge.ExitCode != 0 {
		t.Errorf("the interactor of one who left said %q: %s", o.Judge.Answer, shown(o.Judge.Outcome))
	}
}

func TestAJobThatIsGivenUpIsCleanedUp(t *testing.T) {
	g := onAHost(t)
	p, err := g.job.Prepare(t.Context(), g.judgedBy(Checker, "check-ok", "sleep", "3600"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if o, err := p.Go(ctx); err == nil {
		t.Errorf("a run that was given up has an outcome: %s", shown(o.Outcome))
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
