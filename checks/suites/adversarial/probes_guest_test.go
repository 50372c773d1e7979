//go:build guest

package adversarial

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/sandboxlab"
)

// results reads what the attacking program said of its probes.
func results(output string) map[string]string {
	said := map[string]string{}
	for line := range strings.Lines(output) {
		if name, result, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			said[name] = result
		}
	}
	return said
}

// judged compares what was said of a group of probes with what is expected of each. A probe of which nothing was said
// fails, and so does one that nobody asked for.
func judged(t *testing.T, probes []probe, said map[string]string, inside bool) {
	t.Helper()
	for _, p := range probes {
		if p.lanes && runtime.NumCPU() < 2 {
			continue // TestALaneIsClosed and TestEveryProbeOfLanesCanComeToSomethingElse have two
		}
		want := p.want
		if !inside {
			if p.nowhere != "" {
				continue
			}
			if want = p.control; want == "" {
				want = "ok"
			}
		}
		t.Run(p.name, func(t *testing.T) {
			got, isThere := said[p.name]
			switch {
			case !isThere:
				t.Error("the attacking program said nothing of it")
			case !oneOf(got, want):
				t.Errorf("it came to %s, want %s", got, want)
			}
		})
	}
	for name := range said {
		if !slices.ContainsFunc(probes, func(p probe) bool { return p.name == name }) {
			t.Errorf("the attacking program tried %q, of which the table says nothing", name)
		}
	}
}

// group is what one start of the attacking program tries.
type group struct {
	name   string
	probes []probe
}

var groups = []group{
	{"files", fileProbes},
	{"kernel", kernelProbes},
	{"others", otherProbes},
	{"exhaust", exhaustProbes},
}

func (l *lab) probes(t *testing.T) {
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) { l.probeGroup(t, g) })
	}
}

func (l *lab) probeGroup(t *testing.T, g group) {
	r := l.run("probe", g.name)
	r.Limits.Memory = 256 << 20
	o, err := l.go1(t, r)
	if err != nil {
		t.Fatal(err)
	}
	if o.Stop.String() != "on its own" || o.ExitCode != 0 {
		t.Errorf("the container: %s", shown(o.Outcome))
	}
	judged(t, g.probes, results(r.Output.(*sink).String()), true)
	l.host.unchanged(t, nil)
}

// What only a host with two processors can show: a lane cannot be left, and nothing is found of what goes on in another one.
func TestALaneIsClosed(t *testing.T) {
	l := open(t, wallFactor(t))
	l.ready(t)
	t.Run("neighbours", l.neighbours)
	for _, g := range laneGroups(t) {
		t.Run(g.name, func(t *testing.T) { l.probeGroup(t, g) })
	}
}

// laneGroups are the groups with a probe that needs two processors.
func laneGroups(t *testing.T) []group {
	t.Helper()
	if runtime.NumCPU() < 2 {
		t.Fatal("this host has one processor")
	}
	of := slices.DeleteFunc(slices.Clone(groups), func(g group) bool {
		return !slices.ContainsFunc(g.probes, func(p probe) bool { return p.lanes })
	})
	if len(of) == 0 {
		t.Fatal("no probe is marked as one of lanes")
	}
	return of
}

// Two submissions at once, and one after the other in the same lane: neither finds anything of the other's.
func (l *lab) neighbours(t *testing.T) {
	marks := l.run("mark", "600")
	marks.Lane = 1
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	p, err := l.job.Prepare(t.Context(), marks)
	must(t, err)
	marked := make(chan error, 1)
	go func() {
		_, err := p.Go(ctx)
		marked <- err
	}()
	looks := l.run("probe", "neighbour")
	select {
	case <-marks.Output.(*sink).came:
	case err := <-marked:
		t.Fatalf("the first one ended before it had marked anything: %q, %v", marks.Output.(*sink), err)
	}
	t.Run("beside it", func(t *testing.T) {
		o, err := l.go1(t, looks)
		must(t, err)
		if o.Stop.String() != "on its own" || o.ExitCode != 0 {
			t.Errorf("the container: %s", shown(o.Outcome))
		}
		judged(t, neighbourProbes, results(looks.Output.(*sink).String()), true)
		select {
		case <-marked:
			t.Error("the other one was not there any more, so that nothing was shown")
		default:
		}
	})
	giveUp()
	if err := <-marked; err == nil {
		t.Error("a run that was given up has an outcome")
	}
	must(t, p.Close())
	if got := marks.Output.(*sink).String(); !strings.HasPrefix(got, "marks 1111111111\n") {
		t.Errorf("the first one said %q; what it did not leave cannot be found", got)
	}
	t.Run("after it in its lane", func(t *testing.T) {
		looks := l.run("probe", "neighbour")
		looks.Lane = 1
		_, err := l.go1(t, looks)
		must(t, err)
		judged(t, neighbourProbes, results(looks.Output.(*sink).String()), true)
	})
	l.host.unchanged(t, nil)
}

// forged is what the attacking program puts in the place of a nonce: what looks for nonces must find it.
const forged = "0123456789abcdef0123456789abcdef"

// While a checker beside it has the answers mounted, a submission reads everything that it can open.
func (l *lab) secrets(t *testing.T) {
	r := l.run("search", "0", "everywhere", "0", "forge", "0")
	o, err := l.go1(t, r)
	must(t, err)
	said := r.Output.(*sink).String()
	if o.Stop.String() != "on its own" || o.ExitCode != 0 || !strings.Contains(said, "read much\n") || !strings.HasSuffix(said, "done\n") {
		t.Errorf("the container: %s; it said %.2000q", shown(o.Outcome), said)
	}
	if want := "like a nonce in /program/attack: " + forged + "\n"; !strings.Contains(said, want) {
		t.Errorf("it did not say %q, so that it would not find a nonce either", want)
	}
	// What the daemon sets for everybody, and the image. The devices are those that every container has; all of them lead
	// nowhere.
	environment := []string{
		"environment PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n", "environment HOSTNAME=evalhost\n", "environment HOME=/root\n",
	}
	allowed := []string{"writable /dev/shm\n", "writable /dev/mqueue\n"}
	for _, device := range []string{"full", "null", "random", "urandom", "zero", "tty", "pts/ptmx"} {
		allowed = append(allowed, "writable /dev/"+device+"\n")
	}
	for line := range strings.Lines(said) {
		switch {
		case strings.HasPrefix(line, "secret in "), strings.HasPrefix(line, "opened "):
			t.Errorf("it said %q", line)
		case strings.HasPrefix(line, "writable ") && !slices.Contains(allowed, line):
			t.Errorf("it could write to %q", line)
		case strings.HasPrefix(line, "environment ") && !slices.Contains(environment, line):
			t.Errorf("its environment has %q", line)
		}
	}
	t.Logf("it said:\n%.6000s", said)
	l.host.unchanged(t, nil)

	// The same beside a checker, whose container has the whole package mounted. What the submission says goes to it. The
	// checker's program is copied into the job's scratch, where it stays: whoever comes next compares with that.
	beside := watch(t, l.eng, sandboxlab.DefaultLocks)
	r = l.run("search", "0", "forge", "0")
	r.Output = nil
	r.Judge = &sandboxlab.Judge{Kind: sandboxlab.Checker, Image: testImage, Command: []string{"/program/attack", "check"}, Program: l.program, Tests: l.tests, Group: 1}
	o, err = l.go1(t, r)
	must(t, err)
	if o.Stop.String() != "on its own" || o.ExitCode != 0 || o.Judge == nil || !strings.HasPrefix(string(o.Judge.Answer), "OK\nno secret of ") || o.OutputBytes < 10 {
		t.Errorf("beside a checker: %s; it was told %+v", shown(o.Outcome), o.Judge)
	} else if want := "like a nonce in what it was told: " + forged + "\n"; !strings.Contains(string(o.Judge.Answer), want) {
		t.Errorf("the checker did not say %q, so that it would not see a nonce either: %.2000q", want, o.Judge.Answer)
	}
	beside.unchanged(t, nil)
}
