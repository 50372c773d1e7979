package protocol

import (
	"context"
	"time"

	"github.com/evalhost/evalhost/services/internal/identity"
)

// Phase is what an admission, or a wait for the Server, is waiting for. The zero Phase is invalid.
type Phase int

const (
	_ Phase = iota
	// WaitingForServer: it does not answer, or says that it is busy or away.
	WaitingForServer
	// WaitingForApproval: it knows this Runner and nobody has approved it yet.
	WaitingForApproval
)

// String names the phase for logs and the status line.
func (p Phase) String() string {
	switch p {
	case WaitingForServer:
		return "waiting for the Server"
	case WaitingForApproval:
		return "waiting for approval"
	}
	return "invalid phase"
}

// AdmitOptions adjust an admission. The zero value is the contract's.
type AdmitOptions struct {
	// Backoff of the waits; nil is one second to thirty.
	Backoff *Backoff
	// Waiting is told before each wait what for, how long, and after which failure; nil for nobody. It runs on the
	// caller's goroutine.
	Waiting func(phase Phase, wait time.Duration, after error)
}

// approvalTries is how often a token is asked for before this Runner registers again. A refusal for want of approval is the same for a
// Runner that nobody has looked at yet and for one that was revoked (2.4); only a registration tells (2.2).
const approvalTries = 10

// Admit makes this Runner one that may claim (3.3): it registers, signed when the Server knows the key, waits for
// approval for as long as that takes, registering again now and then, and takes a token. It is done at every start and after a call was answered with
// class NeedsHandshake. It waits out an absent, busy or closed Server for ever (4.7) and returns only when admitted,
// when the context ends (class Stopped), or when the Server refuses for good (Revoked, Refused, …). A refused nonce and
// a key the Server forgot between two calls are tried again a few times.
func (c *Client) Admit(ctx context.Context, key *identity.Key, r Registration, o AdmitOptions) (Registered, error) {
	if o.Backoff == nil {
		o.Backoff = NewBackoff(PollMin, PollMax)
	}
	c.session.use(key)
	c.Forget()
	var registered Registered
	for first, forgotten := true, 0; ; first = false {
		err := c.persist(ctx, o, nonceRefused(), func() (err error) {
			registered, err = c.registerOnce(ctx, key, r)
			return err
		})
		if err != nil {
			return Registered{}, err
		}
		if first { // a registration while approval is waited for shortens no wait
			o.Backoff.Reset()
		}
		err = c.persist(ctx, o, awaitingApproval(), func() error { return c.handshake(ctx, key) })
		switch class := ClassOf(err); {
		case err == nil:
			o.Backoff.Reset()
			return registered, nil
		case class == NotApproved:
		case class != NotFound:
			return Registered{}, err
		default:
			if forgotten++; forgotten == nonceTries {
				return Registered{}, err
			}
		}
	}
}

// registerOnce is steps 1 and 2 of 3.3: a nonce is fetched for every attempt, because the last one may have expired.
func (c *Client) registerOnce(ctx context.Context, key *identity.Key, r Registration) (Registered, error) {
	challenge, err := c.Challenge(ctx, key.Fingerprint())
	if ClassOf(err) == NotFound {
		return c.Register(ctx, key, r, nil)
	}
	if err != nil {
		return Registered{}, err
	}
	return c.Register(ctx, key, r, &challenge)
}

// remedy says what to do about a failure beyond the general rules: wait in a phase, or give up.
type remedy func(err error) (Phase, bool)

// nonceRefused allows a registration a few fresh challenges. Refused nonces are what counts: that a Server was away before says
// nothing about them.
func nonceRefused() remedy {
	refused := 0
	return func(err error) (Phase, bool) {
		if !nonceCodes[CodeOf(err)] {
			return WaitingForServer, false
		}
		refused++
		return WaitingForServer, refused < nonceTries
	}
}

// awaitingApproval waits for a decision, until it is time to register again.
func awaitingApproval() remedy {
	asked := 0
	return func(err error) (Phase, bool) {
		if ClassOf(err) != NotApproved {
			return WaitingForApproval, false
		}
		asked++
		return WaitingForApproval, asked < approvalTries
	}
}

// persist repeats attempt by the rules of 4.7 and 4.2 until it succeeds or fails for good.
func (c *Client) persist(ctx context.Context, o AdmitOptions, also remedy, attempt func() error) error {
	for {
		err := attempt()
		if err == nil {
			return nil
		}
		switch phase, wait := also(err); {
		case wait:
			err = c.sleep(ctx, o, phase, o.Backoff.HowLong(err), err)
		case ClassOf(err) == Unavailable:
			err = c.WaitOut(ctx, err, o)
		case Retryable(err), ClassOf(err) == Unreadable: // a proxy's page, most likely
			err = c.sleep(ctx, o, WaitingForServer, o.Backoff.HowLong(err), err)
		}
		if err != nil {
			return err
		}
	}
}

// sleep tells the observer and waits.
func (c *Client) sleep(ctx context.Context, o AdmitOptions, phase Phase, d time.Duration, after error) error {
	if o.Waiting != nil {
		o.Waiting(phase, d, after)
	}
	if err := Sleep(ctx, d); err != nil {
		return &Error{Op: phase.String(), Class: Stopped, Cause: context.Cause(ctx)}
	}
	return nil
}

// WaitOut takes one wait after a call was answered 502, 503 or 504 (4.7): it asks for the Server's health and sleeps. A
// Server that was in maintenance and is open again is asked again after one step at the floor of the back-off. When
// health says open and it was not maintenance that refused (a proxy, a store; 10.8), the wait keeps growing and heeds
// Retry-After: otherwise the loop would run at the network's speed. Its only error is of class Stopped.
func (c *Client) WaitOut(ctx context.Context, after error, o AdmitOptions) error {
	if o.Backoff == nil {
		o.Backoff = NewBackoff(PollMin, PollMax)
	}
	wait := o.Backoff.HowLong(after)
	health, err := c.Health(ctx)
	switch {
	case ClassOf(err) == Stopped:
		return err
	case err != nil:
		c.log.InfoContext(ctx, "the Server cannot be asked for its health", "error", err, "wait", wait)
	case health.Open() && InMaintenance(after):
		o.Backoff.Reset()
		wait = o.Backoff.Next()
	case health.Open():
		c.log.WarnContext(ctx, "the Server refuses work and says that it is open", "error", after, "wait", wait)
	default:
		reason := health.Reason
		if reason == "" {
			reason = "none given"
		}
		c.log.InfoContext(ctx, "the Server is in maintenance", "level", health.Level, "reason", reason, "wait", wait)
	}
	return c.sleep(ctx, o, WaitingForServer, wait, after)
}
