package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/evalhost/evalhost/services/internal/identity"
	"github.com/evalhost/evalhost/services/internal/protocol"
)

// How long calls may go on after a stop was asked for (4.6). Together with removing containers they stay well within the
// 30 s that a service manager grants.
const (
	claimGrace   = 2 * time.Second // for a claim in flight: the Server commits it before it answers
	reportGrace  = 5 * time.Second // for an answer that is there
	releaseGrace = 5 * time.Second // for giving work back
)

// ErrRevoked: the Server has revoked this Runner's key, for ever. A restart cannot help.
var ErrRevoked = errors.New("runner: the Server has revoked this Runner; approving its key again is not possible: to go on " +
	"with this machine, stop the service, move the key file away and have the new key approved")

// ErrStale: what this process found out at its start does not hold any more, and only a new start can find it out again. The
// service manager starts it.
var ErrStale = errors.New("runner: a new start is needed")

// Options of a Runner. Client, Key, Registration and Evaluator are required.
type Options struct {
	Client *protocol.Client
	Key    *identity.Key
	// Reload reads the key file again, before every new admission (4.3); nil keeps Key.
	Reload       func() (*identity.Key, error)
	Registration protocol.Registration
	Evaluator    Evaluator
	// Measurer times trials; nil: trials are never claimed.
	Measurer Measurer
	// Ledger remembers what began here and never ended; nil remembers nothing.
	Ledger *Ledger
	// Lease is what is asked for with a claim and a renewal; 0 leaves it to the Server.
	Lease time.Duration
	// Wait is how long the Server may hold a claim; 0 for no hold. At most protocol.WaitMax.
	Wait time.Duration
	// PollMin and PollMax bound the back-off; zero is the contract's.
	PollMin, PollMax time.Duration
	// Heartbeat is its interval; zero is a minute, and less than a second is a second.
	Heartbeat time.Duration
	// Notify and Observe may be nil.
	Notify  Notifier
	Observe Observer
	// Log may be nil.
	Log *slog.Logger
}

// Runner works for one Server. Run it once.
type Runner struct {
	o       Options
	client  *protocol.Client
	key     *identity.Key
	log     *slog.Logger
	backoff *protocol.Backoff // of the work loop
	granted time.Duration     // by the local reckoning of 4.5

	// doubt says that an infrastructure failure has raised the question whether this machine can judge.
	doubt bool
	// failures counts infrastructure failures without anything else between them; slow is what they slow down by.
	failures int
	slow     *protocol.Backoff
	// noTrials is until when this Server is taken to know no trials; at most until the next admission.
	noTrials time.Time

	mu    sync.Mutex
	state State
	text  string
}

// New makes a Runner. It contacts nobody.
func New(o Options) (*Runner, error) {
	if o.Client == nil || o.Key == nil || o.Evaluator == nil {
		return nil, errors.New("runner: a client, a key and an evaluator are required")
	}
	if o.Wait < 0 || o.Wait > protocol.WaitMax {
		return nil, fmt.Errorf("runner: a wait of %s; expected at most %s", o.Wait, protocol.WaitMax)
	}
	if o.PollMin == 0 && o.PollMax == 0 {
		o.PollMin, o.PollMax = protocol.PollMin, protocol.PollMax
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = time.Minute
	}
	o.Heartbeat = max(o.Heartbeat, time.Second)
	if o.Notify == nil {
		o.Notify = nobody{}
	}
	if o.Observe == nil {
		o.Observe = nobody{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Runner{
		o: o, client: o.Client, key: o.Key, log: o.Log, backoff: protocol.NewBackoff(o.PollMin, o.PollMax),
		slow: protocol.NewBackoff(o.PollMin, o.PollMax), granted: protocol.GrantedLease(o.Lease), state: Starting,
	}, nil
}

// Run works until the context ends, and then returns nil: what was held has been given back. It returns ErrRevoked when
// the Server has revoked the key, and another error when it refuses to work with this Runner for good or contradicts the
// contract in a way that waiting does not cure; a restart may then help.
func (r *Runner) Run(ctx context.Context) error {
	loop := protocol.WithAlive(ctx, r.o.Notify.Alive)
	err := r.admit(loop)
	if err == nil {
		var beats sync.WaitGroup
		beating, stop := context.WithCancel(ctx) // without the watchdog: a heart that beats is no work that goes on
		beats.Go(func() { r.beat(beating) })
		err = r.work(loop)
		stop()
		beats.Wait()
	}
	if ctx.Err() != nil && (err == nil || protocol.ClassOf(err) == protocol.Stopped) {
		r.become(Stopping, "stopped")
		return nil
	}
	if protocol.ClassOf(err) == protocol.Revoked {
		return fmt.Errorf("%w (%w)", ErrRevoked, err)
	}
	return err
}

// admit registers, waits for approval and takes a token (3.3), however long that takes.
func (r *Runner) admit(ctx context.Context) error {
	r.o.Observe.Admitted(false)
	r.become(WaitingForServer, "registering with the Server")
	told := protocol.Phase(0)
	registered, err := r.client.Admit(ctx, r.key, r.o.Registration, protocol.AdmitOptions{
		Backoff: protocol.NewBackoff(r.o.PollMin, r.o.PollMax),
		Waiting: func(phase protocol.Phase, wait time.Duration, after error) {
			level := slog.LevelDebug
			if phase != told {
				level, told = slog.LevelWarn, phase
			}
			switch phase {
			case protocol.WaitingForApproval:
				r.become(WaitingForApproval, "waiting for approval of "+string(r.key.Fingerprint()))
				r.log.Log(ctx, level, "this Runner has not been approved yet", "fingerprint", r.key.Fingerprint(), "wait", wait)
			default:
				r.become(WaitingForServer, "waiting for the Server: "+after.Error())
				r.log.Log(ctx, level, "the Server cannot admit this Runner now", "error", after, "wait", wait)
			}
		},
	})
	if err != nil {
		return err
	}
	r.noTrials = time.Time{}
	r.o.Observe.Admitted(true)
	r.log.InfoContext(ctx, "admitted by the Server", "runner", registered.RunnerID, "fingerprint", registered.Fingerprint)
	return nil
}

// readmit is an admission after the Server stopped knowing this Runner. The key file is read again (4.3): whoever exchanged
// it wants another identity, and that needs a new start, because everything this process made is named after the old one.
func (r *Runner) readmit(ctx context.Context, after error) error {
	r.log.WarnContext(ctx, "the Server does not accept this Runner any more; asking for admission again", "error", after)
	if r.o.Reload != nil {
		key, err := r.o.Reload()
		switch {
		case err != nil:
			r.log.WarnContext(ctx, "the key file cannot be read again; going on with the key that was read at start", "error", err)
		case key.Fingerprint() != r.key.Fingerprint():
			return fmt.Errorf("runner: the key file holds another key (%s) than at start (%s); a new start is needed to use it",
				key.Fingerprint().Short(), r.key.Fingerprint().Short())
		}
	}
	return r.admit(ctx)
}

// beat sends heartbeats, while judging too (4.8). They are never repeated faster than their timer.
func (r *Runner) beat(ctx context.Context) {
	tick := time.NewTicker(r.o.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := r.client.Heartbeat(ctx)
		switch protocol.ClassOf(err) {
		case 0, protocol.Stopped:
		case protocol.Unavailable:
			r.log.DebugContext(ctx, "a heartbeat was not taken", "error", err)
		default:
			r.log.WarnContext(ctx, "a heartbeat failed", "error", err)
		}
	}
}

// become changes the state and the status line, and tells both who wants to know.
func (r *Runner) become(s State, text string) {
	r.mu.Lock()
	same := r.state == s && r.text == text
	r.state, r.text = s, text
	r.mu.Unlock()
	if same {
		return
	}
	r.o.Notify.Status(text)
	r.o.Observe.Changed(s, text)
}

// State is what the Runner is doing, and the status line that says so.
func (r *Runner) State() (State, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state, r.text
}
