//go:build guest

package adversarial

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/sandboxlab"
)

// TestAttacks is one sandbox that everything is tried on, so that what it costs to open one is paid once. Each container is
// followed by a look at the machine.
func TestAttacks(t *testing.T) {
	l := open(t, wallFactor(t))
	l.ready(t)
	t.Run("probes", l.probes)
	t.Run("secrets", l.secrets)
	l.host = watch(t, l.eng, scratchDir, sandboxlab.DefaultLocks) // the checker's program of the last stays
	for _, family := range []struct {
		name    string
		attacks []attack
	}{{"memory", memoryRuns}, {"processor", processorRuns}, {"processes", processRuns}, {"output", outputRuns}} {
		t.Run(family.name, func(t *testing.T) { l.attackAll(t, family.attacks) })
	}
	l.besideBuilds(t)
	t.Run("files that are no programs", func(t *testing.T) { l.attackAll(t, fileRuns) })
	t.Run("compilers", l.compilers)
	t.Run("builds", func(t *testing.T) { l.attackBuilds(t, false) })
}

func (l *lab) attackAll(t *testing.T, attacks []attack) {
	began, n := time.Now(), 0
	for _, a := range attacks {
		if !a.driver && !everything() {
			continue
		}
		n++
		t.Run(a.name, func(t *testing.T) { l.attack(t, a) })
	}
	t.Logf("%d of %d attacks in %v", n, len(attacks), time.Since(began).Round(time.Second))
}

func (l *lab) attack(t *testing.T, a attack) {
	words := a.words
	s := newSink()
	if words[0] == "settled" {
		s.settle, words = true, words[1:]
	}
	r := l.run(words...)
	r.Output = s
	r.Limits = sandboxlab.Limits{Time: time.Duration(a.limit.ms) * time.Millisecond, Memory: sandboxlab.Bytes(a.limit.mib) << 20}
	if a.input > 0 {
		r.Input = bytes.NewReader(bytes.Repeat([]byte("a line of an input that is long\n"), a.input<<15))
	}
	if a.program != nil {
		content, err := os.ReadFile(l.program.Path())
		must(t, err)
		path := filepath.Join(t.TempDir(), "attack")
		must(t, os.WriteFile(path, a.program(content), 0o755))
		r.Program, err = sandboxlab.ProgramAt(path)
		must(t, err)
	}
	began := time.Now()
	o, err := l.go1(t, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v: %s", time.Since(began).Round(time.Millisecond), shown(o.Outcome))
	a.want.check(t, o.Outcome, s.String())
	var allowed []string
	if oneOf("memory", a.want.stop) {
		allowed = []string{memoryKill}
	}
	l.host.unchanged(t, allowed)
}

// check compares an outcome with what must come of the attack.
func (want expected) check(t *testing.T, o sandboxlab.Outcome, output string) {
	t.Helper()
	if !oneOf(o.Stop.String(), want.stop) {
		t.Errorf("it ended as %q, want %q: %s", o.Stop, want.stop, shown(o))
	}
	saying(t, output, want.says, want.silent)
	exits := want.exits
	if exits == nil {
		exits = []int{want.exit}
	}
	if o.Stop.String() == "on its own" && !slices.Contains(exits, o.ExitCode) {
		t.Errorf("its exit code is %d, want %v", o.ExitCode, exits)
	}
	if o.CPU == nil || o.Home == nil {
		t.Fatalf("it was not measured: %s", shown(o))
	}
	if *o.CPU < want.atLeast || want.atMost > 0 && *o.CPU > want.atMost {
		t.Errorf("it was charged %v, want %v to %v", *o.CPU, want.atLeast, want.atMost)
	}
	if want.unloaded {
		return
	}
	if o.Peak == nil {
		t.Fatalf("its peak was not measured: %s", shown(o))
	}
	peak := float64(*o.Peak) / (1 << 20)
	if peak < want.peakFrom || want.peakTo > 0 && peak > want.peakTo {
		t.Errorf("its peak is %.2f MiB, want %v to %v", peak, want.peakFrom, want.peakTo)
	}
	if o.Wall < want.wall {
		t.Errorf("it took %v, want at least %v", o.Wall, want.wall)
	}
	if o.Capped != want.capped {
		t.Errorf("over the cap on output: %v, want %v", o.Capped, want.capped)
	}
}

func saying(t *testing.T, output string, says, silent []string) {
	t.Helper()
	for _, s := range says {
		if !strings.Contains(output, s) {
			t.Errorf("it did not say %q; it said %.2000q", s, output)
		}
	}
	for _, s := range silent {
		if strings.Contains(output, s) {
			t.Errorf("it said %q", s)
		}
	}
}
