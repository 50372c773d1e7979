package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evalhost/evalhost/services/internal/identity"
	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/refserver"
	"github.com/evalhost/evalhost/services/internal/runner"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// rig is a reference server on a network in memory. It lives in a bubble, where waiting takes no time.
type rig struct {
	*refserver.Server
	t       *testing.T
	network *refserver.Network
	problem string
	// between, if it is set, takes every call in the Server's stead.
	between atomic.Pointer[func(w http.ResponseWriter, q *http.Request, server http.Handler)]
}

// stand puts somebody between the Runners and the Server.
func (r *rig) stand(between func(w http.ResponseWriter, q *http.Request, server http.Handler)) {
	r.between.Store(&between)
}

// leave takes them away again.
func (r *rig) leave() { r.between.Store(nil) }

// inBubble runs a test against a Server that sweeps every second.
func inBubble(t *testing.T, o refserver.Options, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if o.Draw == nil {
			o.Draw = func(int64) int64 { return 0 }
		}
		server, err := refserver.New(o)
		must(t, err)
		r := &rig{Server: server, t: t, network: refserver.NewNetwork()}
		handler := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if f := r.between.Load(); f != nil {
				(*f)(w, q, server)
				return
			}
			server.ServeHTTP(w, q)
		})
		web := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
		sweeping, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { server.Run(sweeping) })
		running.Go(func() { _ = web.Serve(r.network) })
		p, err := server.AddPackage(refserver.Package{Name: "sum", Content: strings.NewReader("a package")})
		must(t, err)
		r.problem = p.ID
		t.Cleanup(func() {
			stop()
			_ = web.Close()
			_ = r.network.Close()
			running.Wait()
		})
		test(t, r)
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// submit hands in one file.
func (r *rig) submit() refserver.Job {
	r.t.Helper()
	j, err := r.Submit(refserver.BytesSubmission(r.problem, "main.py", "python3", []byte("print(3)\n")))
	must(r.t, err)
	return j
}

// job is a job as it stands.
func (r *rig) job(id string) refserver.Job {
	r.t.Helper()
	j, ok := r.Job(id)
	if !ok {
		r.t.Fatalf("there is no job %s", id)
	}
	return j
}

// fault sets a fault that must be possible.
func (r *rig) fault(f refserver.Fault) string {
	r.t.Helper()
	id, err := r.SetFault(f)
	must(r.t, err)
	return id
}

// calls are the paths of the calls of Runners so far; a part of the path selects.
func (r *rig) calls(part string) (found []refserver.Call) {
	for _, c := range r.Calls(0) {
		if strings.Contains(c.Path, part) {
			found = append(found, c)
		}
	}
	return found
}

// eventually waits, in the bubble's time.
func (r *rig) eventually(what string, within time.Duration, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(within); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("not seen within %v: %s", within, what)
		}
	}
}

// final waits until a job is final.
func (r *rig) final(id string, within time.Duration) refserver.Job {
	r.t.Helper()
	r.eventually("job "+id+" is final", within, func() bool { return r.job(id).State.Final() })
	return r.job(id)
}

// accepted fails unless a job was judged, once, as Accepted.
func (r *rig) accepted(id string, within time.Duration) refserver.Job {
	r.t.Helper()
	j := r.final(id, within)
	if j.State != refserver.Completed || j.Result == nil || j.Result.Verdict != "Accepted" || *j.Result.Score != 100 {
		r.t.Fatalf("job %s ended as %s with %+v, reason %q", id, j.State, j.Result, j.FailureReason)
	}
	return j
}

// evaluator is a judge whose every word is a test's.
type evaluator struct {
	judge func(ctx context.Context, job protocol.Job, step func(runner.Step)) (runner.Answer, error)
	ready func() error

	mu     sync.Mutex
	judged int
	asked  int
}

func (e *evaluator) Judge(ctx context.Context, job protocol.Job, step func(runner.Step)) (runner.Answer, error) {
	e.mu.Lock()
	e.judged++
	e.mu.Unlock()
	if e.judge == nil {
		return accepted(), nil
	}
	return e.judge(ctx, job, step)
}

func (e *evaluator) Ready(context.Context) error {
	e.mu.Lock()
	e.asked++
	e.mu.Unlock()
	if e.ready == nil {
		return nil
	}
	return e.ready()
}

// times is how often Judge was called.
func (e *evaluator) times() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.judged
}

func accepted() runner.Answer {
	return runner.Answer{Score: 100, Max: 100, Verdict: verdict.Accepted, Log: "a warning\n", Details: []byte(`{"type":"standard-io@1"}`)}
}

// takes is a judge that works for so long, and hears when it has to stop.
func takes(d time.Duration) func(context.Context, protocol.Job, func(runner.Step)) (runner.Answer, error) {
	return func(ctx context.Context, _ protocol.Job, step func(runner.Step)) (runner.Answer, error) {
		step(runner.Step{Doing: "compiling", AtMost: time.Hour})
		select {
		case <-time.After(d / 2):
		case <-ctx.Done():
			return runner.Answer{}, context.Cause(ctx)
		}
		step(runner.Step{Doing: "test 1a", Test: "1a", Number: 1, Of: 2, AtMost: time.Hour})
		select {
		case <-time.After(d - d/2):
			return accepted(), nil
		case <-ctx.Done():
			return runner.Answer{}, context.Cause(ctx)
		}
	}
}

// play is one Runner under test, and everything it said.
type play struct {
	*runner.Runner
	t      *testing.T
	key    *identity.Key
	client *protocol.Client
	stop   context.CancelFunc
	done   chan error

	mu       sync.Mutex
	log      bytes.Buffer
	statuses []string
	states   []runner.State
	ended    []runner.Work
	renewals []runner.Renewal
	alive    []time.Time
	ready    bool
}

// Write takes a line of the log.
func (p *play) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *play) Status(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.statuses = append(p.statuses, text)
}

func (p *play) Alive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alive = append(p.alive, time.Now())
}

func (p *play) Changed(s runner.State, _ string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.states = append(p.states, s)
}

func (p *play) Ended(w runner.Work) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = append(p.ended, w)
}

func (p *play) RenewalEnded(r runner.Renewal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renewals = append(p.renewals, r)
}

func (p *play) Admitted(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready = yes
}

// endings are those of the work so far.
func (p *play) endings() (all []runner.Ending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.ended {
		all = append(all, w.Ending)
	}
	return all
}

// said says whether a line of the log holds all these words.
func (p *play) said(words ...string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.Lines(p.log.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			return true
		}
	}
	return false
}

// silences are the pauses longer than limit in which the watchdog was not fed, from a moment on until now.
func (p *play) silences(from time.Time, limit time.Duration) (found []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := from
	for _, at := range append(slices.Clone(p.alive), time.Now()) {
		if at.Sub(last) > limit {
			found = append(found, fmt.Sprintf("%v to %v", last.Sub(from), at.Sub(from)))
		}
		if at.After(last) {
			last = at
		}
	}
	return found
}

// newPlay makes a Runner. Its defaults are the contract's.
func (r *rig) newPlay(e runner.Evaluator, change ...func(*runner.Options)) *play {
	r.t.Helper()
	key, _, err := identity.LoadOrCreate(filepath.Join(r.t.TempDir(), "identity.key"))
	must(r.t, err)
	p := &play{t: r.t, key: key, done: make(chan error, 1)}
	log := slog.New(slog.NewTextHandler(p, &slog.HandlerOptions{Level: slog.LevelDebug}))
	client, err := protocol.New(protocol.Options{
		BaseURL: "http://127.0.0.1" + refserver.Prefix, UserAgent: "evalhost-runner/0.1.0", Getenv: func(string) string { return "" },
		Dial: r.network.Dial, Log: log,
	})
	must(r.t, err)
	r.t.Cleanup(client.Close)
	p.client = client
	o := runner.Options{
		Client: client, Key: key, Evaluator: e, Lease: 600 * time.Second, Wait: 25 * time.Second, Notify: p, Observe: p, Log: log,
		Registration: protocol.Registration{Name: "host", Product: "evalhost-runner", Version: "0.1.0", ProblemTypes: []string{"standard-io@1"}},
	}
	for _, c := range change {
		c(&o)
	}
	p.key = o.Key
	p.Runner, err = runner.New(o)
	must(r.t, err)
	return p
}

// start runs a Runner; it is stopped when the test ends.
func (p *play) start() *play {
	ctx, stop := context.WithCancel(p.t.Context())
	p.stop = stop
	go func() { p.done <- p.Run(ctx) }()
	p.t.Cleanup(func() {
		stop()
		<-p.done
	})
	return p
}

// run makes a Runner, approves it and runs it.
func (r *rig) run(e runner.Evaluator, change ...func(*runner.Options)) *play {
	r.t.Helper()
	p := r.newPlay(e, change...).start()
	r.approve(p)
	return p
}

// approve waits until a Runner is registered and approves it.
func (r *rig) approve(p *play) {
	r.t.Helper()
	r.eventually("the Runner is registered", time.Minute, func() bool { return r.Approve(string(p.key.Fingerprint())) == nil })
	r.eventually("the Runner is admitted", 2*time.Minute, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.ready
	})
}

// ends waits for a Runner to end.
func (p *play) ends(within time.Duration) error {
	p.t.Helper()
	select {
	case err := <-p.done:
		p.done <- err
		return err
	case <-time.After(within):
		p.t.Fatalf("the Runner has not ended within %v; it is %v", within, p.describe())
		return nil
	}
}

func (p *play) describe() string {
	s, text := p.State()
	return s.String() + ": " + text
}

// stops stops a Runner, which must end at once and without an error, and says how long that took.
func (p *play) stops() time.Duration {
	p.t.Helper()
	began := time.Now()
	p.stop()
	if err := p.ends(time.Minute); err != nil {
		p.t.Errorf("an ordered stop ended with %v", err)
	}
	return time.Since(began)
}

var errMachine = errors.New("the daemon said no")
