package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/mutant"
	"github.com/evalhost/evalhost/services/internal/verdict"
	"github.com/evalhost/evalhost/shim/wire"
	"github.com/evalhost/evalhost/shim/wire/nonce"
)

const (
	// prepareDeadline bounds everything before go (decisions 10); stretched where a processor is emulated.
	prepareDeadline = 30 * time.Second
	// drainDeadline bounds what is left to read after the container is gone.
	drainDeadline = 30 * time.Second
	// decidedGrace is how long a program whose answer is settled may still end by itself. Most wrong answers come from
	// programs that are about to end: then the run has its own exit code and its own measurement, whichever way the
	// reader and the program happen to be scheduled. A program that goes on is stopped.
	decidedGrace = lookEvery
)

// Prepared is a judged run whose container waits at the barrier: the shim's opening of its output.
type Prepared struct {
	job *Job
	run Run
	dir string // this run's scratch
	// program is the directory mounted at /program.
	program string
	sub     *contained
	peer    *beside // the judge; nil without one

	nonce  string
	report *reportReader
	log    *slog.Logger // whose lines name the test, and the container once there is one

	mu     sync.Mutex
	going  bool
	closed bool
}

// Prepare makes and starts the container of a judged run, and makes its judge's. Nothing of the submission runs before
// Go. An error leaves nothing behind but what a sweep removes.
func (j *Job) Prepare(ctx context.Context, r Run) (_ *Prepared, err error) {
	if err := r.check(j.box.Lanes()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, j.box.stretched(prepareDeadline))
	defer cancel()
	p := &Prepared{job: j, run: r, nonce: nonce.New(), log: j.box.log.With("test", r.Test)}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.dir, err = j.mkdir("run-" + shortID()); err != nil {
		return nil, err
	}
	channels, err := p.makeChannels()
	if err != nil {
		return nil, err
	}
	in := ""
	if r.Input != nil {
		if in, err = p.copyInput(); err != nil {
			return nil, err
		}
	}
	nothing, err := j.mkdir(filepath.Base(p.dir), "nothing")
	if err != nil {
		return nil, err
	}
	if p.program, err = j.place(r.Program, r.Lane); err != nil {
		return nil, err
	}
	cpuset := j.box.cfg.Lanes[r.Lane].Cpuset
	p.sub, err = j.box.contain(ctx, r.Image, cpuset, func(s step) engine.Spec {
		return judgedProfile(s, judged{
			command: r.Command, memory: r.Limits.Memory, nonce: p.nonce, shim: j.shim,
			program: p.program, channels: channels, nothing: nothing, input: in, test: r.Test,
		})
	})
	if err != nil {
		return nil, err
	}
	p.log = p.log.With("container", p.sub.name)
	if r.Judge != nil {
		if p.peer, err = p.prepareJudge(ctx, cpuset); err != nil {
			return nil, err
		}
		p.log.Debug("a container for a judging program is made", "judge", p.peer.c.name)
	}
	// The report's reader is there before the shim is: a shim that fails early must find somebody to tell.
	//
	// A report is the last thing a shim does, so it is the program's end, whenever the daemon notices.
	report := filepath.Join(channels, filepath.Base(wire.ReportPath))
	if p.report, err = readReport(report, p.nonce, func() { p.sub.ending.choose(OnItsOwn) }); err != nil {
		return nil, err
	}
	if err := p.sub.start(ctx, DeadlinesFor(r.Limits.Time).Cap); err != nil {
		return nil, err
	}
	p.sub.awaitBarrier(ctx)
	p.log.Debug("a container waits for its run", "lane", r.Lane)
	return p, nil
}

// Container is the name of the container that the submission runs in.
func (p *Prepared) Container() string { return p.sub.name }

// makeChannels makes the channels of the judged container, in a directory that is mounted into no other. They are root's
// and closed to everybody else: the shim opens them as root, and the submission has them as descriptors only.
func (p *Prepared) makeChannels() (string, error) {
	dir, err := p.job.mkdir(filepath.Base(p.dir), "run")
	if err != nil {
		return "", err
	}
	channels := map[string]os.FileMode{wire.StdoutPath: 0o600, wire.ReportPath: 0o600}
	if mutant.Off(mutant.ClosedFIFO) {
		channels = map[string]os.FileMode{wire.StdoutPath: 0o666, wire.ReportPath: 0o666}
	}
	if p.run.Input == nil {
		// Readable by everybody, so that an interactive program may open /dev/stdin by name, and writable by root only.
		channels[wire.StdinPath] = 0o644
	}
	for path, mode := range channels {
		if err := makeFIFO(filepath.Join(dir, filepath.Base(path)), mode); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// copyInput makes this run's own copy of the test's input (decisions 7).
func (p *Prepared) copyInput() (string, error) {
	dir, err := p.job.mkdir(filepath.Base(p.dir), "in")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, p.run.Test+".in")
	return path, writeFile(path, p.run.Input, 0o444)
}

// Go lets the submission run and returns when it, and its judge, have ended. It can be called once.
func (p *Prepared) Go(ctx context.Context) (RunOutcome, error) {
	p.mu.Lock()
	first := !p.going && !p.closed
	p.going = true
	p.mu.Unlock()
	if !first {
		return RunOutcome{}, errors.New("sandbox: a run can go once, and not after it was closed")
	}
	// Never two submissions at once in a lane: they would measure each other.
	lane := p.job.box.lanes[p.run.Lane]
	if mutant.Off(mutant.LaneTurns) {
		lane = make(chan struct{}, 1)
	}
	select {
	case lane <- struct{}{}:
		p.job.box.laneTaken(1)
		defer func() { <-lane; p.job.box.laneTaken(-1) }()
	case <-ctx.Done():
		return RunOutcome{}, ctx.Err()
	}
	select {
	case <-p.sub.exited:
		return RunOutcome{}, p.endedEarly()
	default:
	}
	if p.peer != nil {
		// Before the submission's clock begins: a container's start is our time and not the participant's, and it would
		// be noise on the lane.
		if err := p.peer.start(ctx); err != nil {
			return RunOutcome{}, err
		}
	}
	g := &going{Prepared: p, ended: make(chan struct{}), relayed: make(chan struct{})}
	return g.run(ctx)
}

// endedEarly explains a container that was gone before go.
func (p *Prepared) endedEarly() error {
	said := p.report.join()
	_, err := p.sub.ending.result()
	why := "its shim said nothing"
	if said.Failure != "" {
		why = "its shim said: " + said.Failure
	}
	return errors.Join(fmt.Errorf("sandbox: the container %s ended with exit code %d before its run began; %s; nothing is known "+
		"about the submission", p.sub.name, p.sub.code, why), err)
}

// Close removes what the run made: containers, homes, channels. Safe to call twice and in every state; what it cannot
// remove is in its error and is swept later.
func (p *Prepared) Close() error {
	p.mu.Lock()
	again := p.closed
	p.closed = true
	p.mu.Unlock()
	if again {
		return nil
	}
	ctx := context.Background()
	var errs [2]error
	var both sync.WaitGroup
	if p.sub != nil {
		both.Go(func() { errs[0] = p.sub.remove(ctx) })
	}
	if p.peer != nil {
		both.Go(func() { errs[1] = p.peer.c.remove(ctx) })
	}
	both.Wait()
	if p.report != nil {
		p.report.close()
	}
	if p.peer != nil {
		p.peer.close()
	}
	err := errors.Join(errs[:]...)
	if p.dir != "" {
		err = errors.Join(err, os.RemoveAll(p.dir))
	}
	return err
}

// going is a run between go and its end.
type going struct {
	*Prepared

	since time.Time
	zero  cgroup.Reading
	moved atomic.Int64
	fed   atomic.Bool // the input of an interactive submission was opened by both sides

	relay    relay
	relayErr error
	relayed  chan struct{} // closed when the relay is done, after which relay and relayErr can be read
	ended    chan struct{} // closed at the submission's end, see beside
	endOnce  sync.Once
}

// run does everything from go to the outcome. Whatever it starts has ended when it returns.
func (g *going) run(ctx context.Context) (RunOutcome, error) {
	deadlines := DeadlinesFor(g.Prepared.run.Limits.Time)
	judging, endJudge := context.WithCancel(ctx)
	// A run that is given up is killed, and that ends its output. The relay reads until then.
	relaying, endRelay := context.WithCancel(context.WithoutCancel(ctx))
	// A judge without a word may live on, with its channel open: its words are waited for no longer than its word is.
	feeding, endFeed := context.WithCancel(relaying)
	defer endFeed()
	var tasks sync.WaitGroup
	defer func() {
		endJudge()
		endRelay()
		tasks.Wait()
	}()

	var judge JudgeOutcome
	var judgeErr error
	if g.peer != nil {
		tasks.Go(func() {
			judge, judgeErr = g.peer.run(judging, g)
			if judgeErr != nil {
				g.sub.ending.fail(judgeErr)
				endFeed() // after the run has failed: the submission sees the end of its input
			}
		})
	}
	var err error
	if g.zero, err = g.sub.measure(); err != nil {
		return RunOutcome{}, err
	}
	// Opening the output opens the barrier. From here on the submission's time is counted.
	g.since = time.Now()
	out, err := openInlet(filepath.Join(g.dir, "run", filepath.Base(wire.StdoutPath)))
	if err != nil {
		return RunOutcome{}, err
	}
	defer out.Close()
	g.relay = relay{limit: g.job.box.cap, target: g.target(), enough: g.enough, moved: &g.moved}
	tasks.Go(func() { g.carry(relaying, out) })
	if g.peer != nil && g.peer.judge.Kind == Interactor {
		tasks.Go(func() { g.peer.feed(feeding, g) })
	}

	watching := &watch{Deadlines: deadlines}
	stop, err := g.sub.supervise(ctx, watching, g.since, g.zero, func() verdict.Bytes { return verdict.Bytes(g.moved.Load()) })
	g.endNow()
	if err == nil {
		err = g.inputOwed(stop)
	}
	if err != nil {
		return RunOutcome{}, err
	}
	o, err := g.outcome(ctx, stop)
	if err != nil {
		return RunOutcome{}, err
	}
	o.Wall, o.Deadlines = g.sub.wall(g.since), deadlines
	result := RunOutcome{Outcome: o, OutputBytes: g.relay.total}
	if g.peer != nil {
		tasks.Wait() // bounded by the judge's own clock
		if judgeErr != nil {
			return RunOutcome{}, judgeErr
		}
		judge.Behind = g.peer.queue.wasLeft()
		result.Judge = &judge
	}
	return result, nil
}

// inputOwed refuses a deadline's word on an interactive submission whose input nobody has opened: its shim opens it before
// the submission runs, so what the deadline measured was the machinery (spec/sandbox.md 5.5 #1). Where the run ended by itself
// the shim's report says the same.
func (g *going) inputOwed(stop Stop) error {
	deadline := stop == TimeLimit || stop == WallClock || stop == Overall
	if !deadline || g.peer == nil || g.peer.judge.Kind != Interactor || g.fed.Load() || mutant.Off(mutant.InputOwed) {
		return nil
	}
	return fmt.Errorf("sandbox: the container %s was stopped (%s) before its input was opened: its shim never got as far as the "+
		"submission, about which nothing is known; the test has to be run again", g.sub.name, stop)
}

// target is where the output goes.
func (g *going) target() func([]byte) bool {
	if g.peer != nil {
		return func(p []byte) bool {
			g.peer.queue.push(p)
			return false
		}
	}
	return g.Prepared.run.Output.Write
}

// enough takes the relay's wish that the run be stopped.
func (g *going) enough(stop Stop) {
	if stop == Decided {
		time.AfterFunc(decidedGrace, func() { g.sub.ending.choose(Decided) })
		return
	}
	g.endNow()
	if g.peer != nil {
		g.peer.queue.end()
	}
	g.sub.ending.choose(stop)
}

// endNow marks the submission's end for the judge's clock.
func (g *going) endNow() { g.endOnce.Do(func() { close(g.ended) }) }

// carry relays the output from its first byte to its last.
func (g *going) carry(ctx context.Context, out *inlet) {
	defer close(g.relayed)
	// To a checker the end of the output is the end of the submission. An interactor may stand in a write to a submission that
	// closed its output and lives on without reading: its clock begins when that one is gone (C32).
	if g.peer == nil || g.peer.judge.Kind == Checker {
		defer g.endNow()
	}
	if g.peer != nil {
		defer g.peer.queue.end()
	}
	release := out.stopOn(ctx)
	defer release()
	g.relayErr = out.await(ctx, g.sub.exited, openDeadline)
	if g.relayErr == nil {
		g.relayErr = g.relay.copyAll(out)
	}
	if g.relayErr != nil {
		g.sub.ending.fail(g.relayErr)
	}
}

// outcome reads what is left to read of a submission that has ended, and settles it.
func (g *going) outcome(ctx context.Context, stop Stop) (Outcome, error) {
	if !isClosedWithin(g.relayed, drainDeadline) {
		return Outcome{}, fmt.Errorf("sandbox: the container %s is gone and its output does not end within %v", g.sub.name, drainDeadline)
	}
	r, err := g.sub.read(ctx, g.zero)
	if err != nil {
		return Outcome{}, err
	}
	said := g.report.join()
	r.report, r.failure = said.Report, said.Failure
	if len(bytes.TrimSpace(said.Rest)) > 0 {
		g.log.Warn("the report channel carried bytes that are no report", "bytes", len(said.Rest))
	}
	o, err := settle(stop, g.sub.code, r)
	if err != nil {
		return Outcome{}, errors.Join(err, g.relayErr)
	}
	if g.relayErr != nil {
		return Outcome{}, g.relayErr
	}
	if o.Failure != "" {
		if err := g.whoseExec(o.Failure); err != nil {
			return Outcome{}, err
		}
	}
	if o.Report != nil && o.Home != nil && *o.Home-*o.Report > reportGap {
		g.log.Warn("the home's processor time is far above the shim's report: either starting a container costs more "+
			"here than was ever measured, or a report was forged", "home", *o.Home, "report", *o.Report)
	}
	o.Capped = g.relay.capped
	return o, nil
}

// testName is the shape of a test's name (spec/judging.md 1.8).
var testName = regexp.MustCompile(`^[0-9]+[a-z]+$`)

// check refuses a Run that cannot be judged as it is described.
func (r Run) check(lanes int) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if r.Image == "" || len(r.Command) == 0 {
		wrong("it names no image or no command")
	}
	if !testName.MatchString(r.Test) {
		wrong("its test is called %q, expected digits and lower-case letters", r.Test)
	}
	if r.Limits.Time <= 0 || r.Limits.Memory <= 0 {
		wrong("its limits are %v and %d bytes, and both must be more than zero", r.Limits.Time, r.Limits.Memory)
	}
	if r.Lane < 0 || r.Lane >= lanes {
		wrong("its lane is %d of %d", r.Lane, lanes)
	}
	if (r.Output == nil) == (r.Judge == nil) {
		wrong("its output must go to either a sink or a judge")
	}
	interactive := r.Judge != nil && r.Judge.Kind == Interactor
	if interactive != (r.Input == nil) {
		wrong("an interactive run has no input file, and every other run has one")
	}
	if r.Judge != nil {
		if err := r.Judge.check(); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("sandbox: the run of test %s cannot be made: %w", r.Test, errors.Join(errs...))
	}
	return nil
}
