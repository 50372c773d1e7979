//go:build !guest

package sandbox

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/verdict"
	"github.com/evalhost/evalhost/shim/wire"
)

// plain describes an ordinary batch run into a sink.
func (l *lab) plain(into Sink) Run {
	path := filepath.Join(l.dir, "program")
	if err := os.WriteFile(path, []byte("a program"), 0o755); err != nil {
		l.t.Fatal(err)
	}
	p, err := ProgramAt(path)
	if err != nil {
		l.t.Fatal(err)
	}
	return Run{
		Image: "lang", Command: []string{"/program/program"}, Program: p, Test: "1a", Input: strings.NewReader("the input\n"),
		Limits: Limits{Time: time.Second, Memory: 64 * verdict.MiB}, Output: into,
	}
}

// judge prepares, goes and closes.
func (l *lab) judge(r Run) (RunOutcome, error) {
	l.t.Helper()
	p, err := l.job.Prepare(l.t.Context(), r)
	if err != nil {
		return RunOutcome{}, err
	}
	o, err := p.Go(l.t.Context())
	if e := p.Close(); e != nil {
		l.t.Error(e)
	}
	return o, err
}

func TestARunReadsItsInputAndItsOutputArrives(t *testing.T) {
	l := newLab(t, &fakeDaemon{judged: underShim(func(_ context.Context, c *box, in, out *os.File) int {
		io.Copy(out, in)
		return 3
	})})
	s := &sink{}
	o, err := l.judge(l.plain(s))
	if err != nil {
		t.Fatal(err)
	}
	if o.Stop != OnItsOwn || o.ExitCode != 3 || string(s.got) != "the input\n" || o.OutputBytes != 10 || o.Capped {
		t.Errorf("outcome %+v, output %q", o, s.got)
	}
	if *o.Report != 5*ms || *o.Home != 10*ms || *o.CPU != 5*ms || *o.Peak != 300_000 {
		t.Errorf("report %v, home since go %v, charged %v, peak %v", *o.Report, *o.Home, *o.CPU, *o.Peak)
	}
	if o.Deadlines != DeadlinesFor(time.Second) || o.Wall <= 0 {
		t.Errorf("deadlines %+v, wall %v", o.Deadlines, o.Wall)
	}
}

func TestEachRunHasItsOwnInodesAndTheShimIsClosedToNobody(t *testing.T) {
	modes := map[string]os.FileMode{}
	inodes := make(chan string, 2)
	l := newLab(t, &fakeDaemon{judged: underShim(func(_ context.Context, c *box, _, _ *os.File) int {
		for _, path := range []string{"/in/1a.in", "/program/program", "/aj-out", "/aj-out/stdout", "/aj-out/report", wire.ShimPath} {
			if info, err := os.Lstat(c.host(path)); err == nil {
				modes[path] = info.Mode()
			}
		}
		inodes <- c.host("/in/1a.in") + " " + c.host("/program/program")
		return 0
	})})
	for lane := range 2 {
		r := l.plain(&sink{})
		r.Lane = lane
		if _, err := l.judge(r); err != nil {
			t.Fatal(err)
		}
	}
	a, b := strings.Fields(<-inodes), strings.Fields(<-inodes)
	for i := range a {
		if a[i] == b[i] {
			t.Errorf("two runs in two lanes mount %s", a[i])
		}
	}
	want := map[string]os.FileMode{
		"/in/1a.in": 0o444, "/program/program": 0o555, "/aj-out": os.ModeDir | 0o755,
		"/aj-out/stdout": os.ModeNamedPipe | 0o600, "/aj-out/report": os.ModeNamedPipe | 0o600, wire.ShimPath: 0o500,
	}
	for path, mode := range want {
		if modes[path] != mode {
			t.Errorf("%s has mode %v, want %v", path, modes[path], mode)
		}
	}
}

func TestAFloodIsStoppedOnceTheAnswerIsSettled(t *testing.T) {
	l := newLab(t, &fakeDaemon{judged: underShim(func(ctx context.Context, _ *box, _, out *os.File) int {
		for ctx.Err() == nil {
			out.Write(make([]byte, 1000))
		}
		return 0
	})})
	o, err := l.judge(l.plain(&sink{at: 1}))
	if err != nil || o.Stop != Decided || o.Capped {
		t.Errorf("outcome %v, capped %v, %v; want decided", o.Stop, o.Capped, err)
	}
}

func TestAProgramWithAWrongAnswerMayStillEndByItself(t *testing.T) {
	l := newLab(t, &fakeDaemon{judged: underShim(func(_ context.Context, _ *box, _, out *os.File) int {
		out.WriteString("wrong")
		time.Sleep(20 * ms)
		return 9
	})})
	o, err := l.judge(l.plain(&sink{at: 1}))
	if err != nil || o.Stop != OnItsOwn || o.ExitCode != 9 || o.Report == nil {
		t.Errorf("outcome %v with code %d, %v; want its own end", o.Stop, o.ExitCode, err)
	}
}

func TestC37ABurstPastTheCapAndAnImmediateExitIsNoticed(t *testing.T) {
	l := newLab(t, &fakeDaemon{judged: underShim(func(_ context.Context, _ *box, _, out *os.File) int {
		out.Write(make([]byte, labCap+1))
		return 0
	})})
	s := &sink{}
	o, err := l.judge(l.plain(s))
	if err != nil || !o.Capped || o.Stop != OnItsOwn && o.Stop != Output {
		t.Errorf("outcome %v, capped %v, %v", o.Stop, o.Capped, err)
	}
	if verdict.Bytes(len(s.got)) > labCap {
		t.Errorf("the sink got %d bytes, more than the cap", len(s.got))
	}
}

func TestAnEndlessTokenIsStoppedForItsOutput(t *testing.T) {
	l := newLab(t, &fakeDaemon{judged: underShim(func(ctx context.Context, _ *box, _, out *os.File) int {
		for ctx.Err() == nil {
			out.Write(make([]byte, 1<<20))
		}
		return 0
	})})
	o, err := l.judge(l.plain(&sink{}))
	if err != nil || o.Stop != Output || !o.Capped || o.OutputBytes <= labCap {
		t.Errorf("outcome %v, capped %v, %d bytes, %v", o.Stop, o.Capped, o.OutputBytes, err)
	}
}

func TestWhatASubmissionMayDoToItsChannelsIsNoFailure(t *testing.T) {
	for name, do := range map[string]submission{
		"closes its output early and goes on": func(_ context.Context, _ *box, _, out *os.File) int {
			out.WriteString("done")
			out.Close()
			time.Sleep(300 * ms)
			return 0
		},
		"never reads its input": func(_ context.Context, _ *box, _, out *os.File) int {
			out.WriteString("done")
			return 0
		},
		"exits at once without a word": func(context.Context, *box, *os.File, *os.File) int { return 0 },
		"writes what looks like a report": func(_ context.Context, _ *box, _, out *os.File) int {
			out.Write(wire.Report{CPU: 1}.AppendTo(nil, "00000000000000000000000000000000"))
			return 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, &fakeDaemon{judged: underShim(do)})
			o, err := l.judge(l.plain(&sink{}))
			if err != nil || o.Stop != OnItsOwn || o.ExitCode != 0 || *o.CPU != 5*ms {
				t.Errorf("outcome %+v, %v", o, err)
			}
		})
	}
}

func TestTheProcessorCeilingStopsWhatSpins(t *testing.T) {
	l := newLab(t, &fakeDaemon{judged: underShim(func(ctx context.Context, c *box, _, _ *os.File) int {
		c.burn(3*time.Second + 51*ms)
		<-ctx.Done()
		return 0
	})})
	o, err := l.judge(l.plain(&sink{}))
	if err != nil || o.Stop != TimeLimit || *o.CPU != 3*time.Second+1*ms || o.Report != nil {
		t.Errorf("outcome %v, charged %v, %v", o.Stop, *o.CPU, err)
	}
}

func TestASleeperIsStoppedByTheWindow(t *testing.T) {
	l := newLab(t, &fakeDaemon{judged: underShim(func(ctx context.Context, _ *box, _, _ *os.File) int {
		<-ctx.Done()
		return 0
	})})
	r := l.plain(&sink{})
	r.Limits.Time = ms
	o, err := l.judge(r)
	if err != nil || o.Stop != WallClock || o.Wall < o.Deadlines.Window {
		t.Errorf("outcome %v after %v, %v", o.Stop, o.Wall, err)
	}
}

func TestAShimThatNeverComesIsNeverStarted(t *testing.T) {
	l := newLab(t, &fakeDaemon{judged: func(ctx context.Context, _ *box) int {
		<-ctx.Done()
		return 0
	}})
	r := l.plain(&sink{})
	r.Limits.Time = ms
	if o, err := l.judge(r); err == nil && o.Stop != NeverStarted {
		t.Errorf("outcome %v, want never started or a failure", o.Stop)
	}
}

func TestTheKernelsWordForAMemoryKillCountsWhateverElseHappened(t *testing.T) {
	oom := func(events string, exit int) *fakeDaemon {
		return &fakeDaemon{judged: underShim(func(_ context.Context, c *box, _, _ *os.File) int {
			c.set("memory.events", events)
			return exit
		})}
	}
	l := newLab(t, oom("oom 1\noom_kill 2\n", 137))
	if o, err := l.judge(l.plain(&sink{})); err != nil || o.Stop != Memory {
		t.Errorf("a killed program: %v, %v", o.Stop, err)
	}
	l = newLab(t, oom("oom 1\noom_kill 1\n", 0))
	if o, err := l.judge(l.plain(&sink{})); err != nil || o.Stop != Memory {
		t.Errorf("C02 a killed child of a program that ends well: %v, %v", o.Stop, err)
	}
	l = newLab(t, oom("oom 0\noom_kill 1\n", 137))
	if _, err := l.judge(l.plain(&sink{})); !errors.Is(err, errHostMemory) {
		t.Errorf("C05 a kill of the host: %v", err)
	}
}

func TestWithoutTheShimsReportNothingIsKnown(t *testing.T) {
	for name, test := range map[string]struct {
		do   program
		says string
	}{
		"it says why it failed": {func(_ context.Context, c *box) int {
			out, _ := os.OpenFile(c.host(wire.StdoutPath), os.O_WRONLY, 0)
			defer out.Close()
			report, _ := os.OpenFile(c.host(wire.ReportPath), os.O_WRONLY, 0)
			defer report.Close()
			report.Write(wire.AppendFailure(nil, c.env(wire.EnvNonce), "mkdir box: permission denied"))
			return 125
		}, "mkdir box: permission denied"},
		"another nonce is no report": {func(_ context.Context, c *box) int {
			out, _ := os.OpenFile(c.host(wire.StdoutPath), os.O_WRONLY, 0)
			defer out.Close()
			report, _ := os.OpenFile(c.host(wire.ReportPath), os.O_WRONLY, 0)
			defer report.Close()
			report.Write(wire.Report{CPU: ms}.AppendTo(nil, "ffffffffffffffffffffffffffffffff"))
			return 0
		}, "reported nothing"},
		"it leaves without opening anything": {func(context.Context, *box) int { return 125 }, "125"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, &fakeDaemon{judged: test.do})
			o, err := l.judge(l.plain(&sink{}))
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("outcome %v, error %v; want an error that says %q", o.Stop, err, test.says)
			}
		})
	}
}

func TestC23TheDaemonsDelayIsNotTheProgramsTime(t *testing.T) {
	// The report alone says that the program has ended.
	l := newLab(t, &fakeDaemon{
		slowWait: 3 * time.Second, lingers: true, judged: underShim(func(context.Context, *box, *os.File, *os.File) int { return 0 }),
	})
	o, err := l.judge(l.plain(&sink{}))
	if err != nil || o.Stop != OnItsOwn || o.Wall >= 3*time.Second {
		t.Errorf("outcome %v after %v, %v", o.Stop, o.Wall, err)
	}
}

func TestWithoutAnExitCodeThereIsNoOutcome(t *testing.T) {
	// The report came, and then the daemon lost track of the container. Nothing may read as an exit code of zero.
	l := newLab(t, &fakeDaemon{loses: true, slowWait: 50 * ms, judged: underShim(func(context.Context, *box, *os.File, *os.File) int { return 3 })})
	if o, err := l.judge(l.plain(&sink{})); !errors.Is(err, errAsked) {
		t.Errorf("outcome %v with code %d, %v", o.Stop, o.ExitCode, err)
	}
	l = newLab(t, &fakeDaemon{loses: true, slowWait: 400 * ms, other: func(context.Context, *box) int { return 3 }})
	b, err := l.job.Build(t.Context(), Build{Kind: SubmissionBuild, Image: "i", Command: []string{"c"}, SourceName: "s", Artifact: "a"})
	if !errors.Is(err, errAsked) {
		t.Errorf("built %+v, %v", b, err)
	}
}

func TestAContainerThatIsKilledAfterItsReportIsNoOutcome(t *testing.T) {
	for _, reported := range []int{0, 3} {
		under := underShim(func(context.Context, *box, *os.File, *os.File) int { return reported })
		l := newLab(t, &fakeDaemon{judged: func(ctx context.Context, c *box) int {
			under(ctx, c)
			return 137 // the end of containerd-shim kills whatever is in the container
		}})
		if o, err := l.judge(l.plain(&sink{})); err == nil || !strings.Contains(err.Error(), "137") {
			t.Errorf("reported %d: ended as %v with code %d, %v", reported, o.Stop, o.ExitCode, err)
		}
	}
}

func TestAJobThatIsGivenUpLeavesNothingRunning(t *testing.T) {
	started := make(chan struct{})
	l := newLab(t, &fakeDaemon{judged: underShim(func(ctx context.Context, _ *box, _, _ *os.File) int {
		close(started)
		<-ctx.Done()
		return 0
	})})
	p, err := l.job.Prepare(t.Context(), l.plain(&sink{}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	if _, err := p.Go(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Go = %v, want its context's end", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestAPreparedRunThatNeverGoesLeavesNothing(t *testing.T) {
	l := newLab(t, &fakeDaemon{judged: underShim(func(context.Context, *box, *os.File, *os.File) int { return 0 })})
	p, err := l.job.Prepare(t.Context(), l.plain(&sink{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	if _, err := p.Go(t.Context()); err == nil {
		t.Error("a closed run went")
	}
}

func TestNothingOfTheSubmissionRunsBeforeGo(t *testing.T) {
	ran := make(chan struct{})
	l := newLab(t, &fakeDaemon{judged: underShim(func(context.Context, *box, *os.File, *os.File) int {
		close(ran)
		return 0
	})})
	p, err := l.job.Prepare(t.Context(), l.plain(&sink{}))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if isClosedWithin(ran, 50*ms) {
		t.Fatal("the submission ran while the run was prepared")
	}
	if _, err := p.Go(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTwoRunsNeverGoAtOnceInOneLane(t *testing.T) {
	var mu sync.Mutex
	running, most := 0, 0
	l := newLab(t, &fakeDaemon{judged: underShim(func(context.Context, *box, *os.File, *os.File) int {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		time.Sleep(30 * ms)
		mu.Lock()
		running--
		mu.Unlock()
		return 0
	})})
	var all sync.WaitGroup
	for range 3 {
		r := l.plain(&sink{})
		all.Go(func() {
			if _, err := l.judge(r); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if most != 1 {
		t.Errorf("%d runs went at once in lane 0", most)
	}
}

func TestWhatTheDaemonRefusesIsAFailureAndLeavesNothing(t *testing.T) {
	for _, call := range []string{"image", "create", "start", "wait", "inspect"} {
		t.Run(call, func(t *testing.T) {
			l := newLab(t, &fakeDaemon{judged: underShim(func(context.Context, *box, *os.File, *os.File) int { return 0 })})
			l.daemon.failOn = call
			if o, err := l.judge(l.plain(&sink{})); !errors.Is(err, errAsked) {
				t.Errorf("outcome %v, error %v; want the daemon's", o.Stop, err)
			}
			l.daemon.failOn = ""
		})
	}
}

func TestARunThatIsDescribedWronglyIsRefused(t *testing.T) {
	l := newLab(t, &fakeDaemon{})
	for name, spoil := range map[string]func(*Run){
		"no image":                func(r *Run) { r.Image = "" },
		"no command":              func(r *Run) { r.Command = nil },
		"a path for a test":       func(r *Run) { r.Test = "../1a" },
		"no test":                 func(r *Run) { r.Test = "" },
		"no time limit":           func(r *Run) { r.Limits.Time = 0 },
		"a negative memory limit": func(r *Run) { r.Limits.Memory = -1 },
		"a lane too many":         func(r *Run) { r.Lane = 2 },
		"a negative lane":         func(r *Run) { r.Lane = -1 },
		"no sink and no judge":    func(r *Run) { r.Output = nil },
		"a sink and a judge":      func(r *Run) { r.Judge = &Judge{Kind: Checker} },
		"no input":                func(r *Run) { r.Input = nil },
	} {
		r := l.plain(&sink{})
		spoil(&r)
		if p, err := l.job.Prepare(t.Context(), r); err == nil {
			p.Close()
			t.Errorf("%s: prepared", name)
		}
	}
}

func TestAnEndingIsTheFirstWordAndIsNeverLost(t *testing.T) {
	e := newEnding()
	e.choose(Decided)
	e.choose(Output)
	e.fail(errors.New("too late"))
	if stop, err := e.result(); stop != Decided || err != nil {
		t.Errorf("ended as %v, %v", stop, err)
	}
	select {
	case <-e.done:
	default:
		t.Error("whoever waits now would wait for ever")
	}
}

func TestAHomeThatIsTakenAwayInTheMiddleIsNoOutcome(t *testing.T) {
	for _, file := range []string{"memory.events", "cpu.stat"} {
		l := newLab(t, &fakeDaemon{judged: underShim(func(_ context.Context, c *box, _, _ *os.File) int {
			os.Remove(filepath.Join(c.home, file))
			return 0
		})})
		if o, err := l.judge(l.plain(&sink{})); err == nil {
			t.Errorf("without %s: ended as %v with %d", file, o.Stop, o.ExitCode)
		}
	}
}
