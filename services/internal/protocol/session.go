package protocol

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/evalhost/evalhost/services/internal/identity"
)

// nonceTries is how often a handshake or a registration is attempted with a fresh challenge when the nonce was refused
// (10.20): slowness and a restarted Server are cured by the second, nothing by the tenth.
const nonceTries = 3

// session is the bearer token and the right to renew it. One goroutine at a time shakes hands; the others share what it
// achieved (10.6).
type session struct {
	turn chan struct{} // holds one value while somebody shakes hands

	mu       sync.Mutex
	key      *identity.Key
	token    token
	attempts int
	last     error // of the latest attempt
}

func newSession() session { return session{turn: make(chan struct{}, 1)} }

// current is the token to send, empty when there is none.
func (s *session) current() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token.secret
}

// use sets the key that handshakes are signed with.
func (s *session) use(key *identity.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key != key {
		s.key, s.token = key, token{}
	}
}

// Forget drops the bearer token, as an admission does first.
func (c *Client) Forget() {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	c.session.token = token{}
}

// shakeAgain replaces a token that was refused. If another goroutine has done so meanwhile, nothing is sent; if another
// goroutine has tried meanwhile and failed, its error is shared.
func (c *Client) shakeAgain(ctx context.Context, refused string) error {
	const op = "shake hands again"
	s := &c.session
	s.mu.Lock()
	seen := s.attempts
	s.mu.Unlock()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return &Error{Op: op, Class: Stopped, Cause: context.Cause(ctx)}
	}
	s.mu.Lock()
	key, now, last, attempts := s.key, s.token.secret, s.last, s.attempts
	s.mu.Unlock()
	switch {
	case now != "" && now != refused:
		return nil
	case attempts != seen && last != nil && ClassOf(last) != Stopped:
		return last
	case key == nil:
		return &Error{Op: op, Class: NeedsHandshake, Detail: "this client has not been admitted yet"}
	}
	err := c.handshake(ctx, key)
	if ClassOf(err) == NotFound {
		// The Server has forgotten this Runner altogether: only an admission, which registers, can help.
		forgotten := err.(*Error)
		err = &Error{
			Op: op, Class: NeedsHandshake, Status: forgotten.Status, Code: forgotten.Code,
			Detail: "the Server does not know this Runner's key; it has to register again",
		}
	}
	s.mu.Lock()
	s.attempts++
	s.last = err
	s.mu.Unlock()
	return err
}

// handshake proves possession of the key and keeps the token (3.3 step 3). A refused nonce is tried again with a fresh
// challenge, a few times.
func (c *Client) handshake(ctx context.Context, key *identity.Key) error {
	for try := 1; ; try++ {
		challenge, err := c.Challenge(ctx, key.Fingerprint())
		if err != nil {
			return err
		}
		t, err := c.exchangeToken(ctx, key, challenge)
		if err == nil {
			c.session.mu.Lock()
			if c.session.key == key {
				c.session.token = t
			}
			c.session.mu.Unlock()
			c.log.DebugContext(ctx, "admitted by the Server", "fingerprint", key.Fingerprint(), "until", t.expires.String())
			return nil
		}
		if !nonceCodes[CodeOf(err)] || try == nonceTries {
			return err
		}
	}
}

// Challenge asks for a nonce (2.3). NotFound means that the Server has never seen this fingerprint.
func (c *Client) Challenge(ctx context.Context, fingerprint identity.Fingerprint) (Challenge, error) {
	const op = "ask for a challenge"
	body, err := json.Marshal(map[string]identity.Fingerprint{"fingerprint": fingerprint})
	if err != nil {
		return Challenge{}, &Error{Op: op, Class: Local, Cause: err}
	}
	a, err := c.post(ctx, call{op: op, path: "runner/auth/challenge", body: body})
	if err != nil {
		return Challenge{}, err
	}
	return decode(op, a, readChallenge)
}

// exchangeToken trades a signed nonce for a bearer token (2.4).
func (c *Client) exchangeToken(ctx context.Context, key *identity.Key, challenge Challenge) (token, error) {
	const op = "ask for a token"
	signature := key.Sign(challenge.Nonce)
	body, err := json.Marshal(struct {
		Fingerprint identity.Fingerprint `json:"fingerprint"`
		Nonce       string               `json:"nonce"`
		Signature   string               `json:"signature"`
	}{key.Fingerprint(), challenge.Nonce, signature})
	if err != nil {
		return token{}, &Error{Op: op, Class: Local, Cause: err}
	}
	a, err := c.post(ctx, call{
		op: op, path: "runner/auth/token", body: body, secrets: []string{challenge.Nonce, signature},
	})
	if err != nil {
		return token{}, err
	}
	return decode(op, a, readToken)
}

// Register tells the Server about this Runner (2.2): signed when challenge is not nil, as it must be once the Server
// knows the key. It fails with class Refused if the Server names the key otherwise than we do: then it was re-encoded on
// the way and nothing signed with it will ever be accepted.
func (c *Client) Register(ctx context.Context, key *identity.Key, r Registration, challenge *Challenge) (Registered, error) {
	const op = "register"
	k := call{op: op, path: "runner/register"}
	nonce := ""
	if challenge != nil {
		nonce = challenge.Nonce
		k.secrets = []string{nonce, key.Sign(nonce)}
	}
	var err error
	if k.body, err = r.body(key, nonce); err != nil {
		return Registered{}, &Error{Op: op, Class: Local, Cause: err}
	}
	a, err := c.post(ctx, k)
	if err != nil {
		return Registered{}, err
	}
	registered, err := decode(op, a, readRegistered)
	if err != nil {
		return Registered{}, err
	}
	if registered.Fingerprint != key.Fingerprint() {
		return Registered{}, &Error{
			Op: op, Class: Refused, Status: a.status,
			Detail: "the Server names this Runner's key " + clean(string(registered.Fingerprint)) + " and not " +
				string(key.Fingerprint()) + ": it was changed on the way",
		}
	}
	return registered, nil
}

// post makes a POST with a JSON body, or none.
func (c *Client) post(ctx context.Context, k call) (answer, error) {
	k.method = http.MethodPost
	if k.body != nil && k.mime == "" {
		k.mime = "application/json"
	}
	return c.do(ctx, k)
}
