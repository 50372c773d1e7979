package protocol

import (
	"encoding/json"
	"errors"

	"github.com/evalhost/evalhost/services/internal/identity"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Registration is what a Runner says about itself (2.2).
type Registration struct {
	// Name is the label in the panel, at most 128 bytes; Product and Version say what this is.
	Name, Product, Version string
	// ProblemTypes are matched by exact equality.
	ProblemTypes []string
	// Tags are read at the first registration only; none is the pool "default".
	Tags    []string
	Machine Machine
}

// Machine describes the host, for people. Zero members are left out.
type Machine struct {
	OS     string        `json:"os,omitempty"`
	CPU    string        `json:"cpu,omitempty"`
	Cores  int           `json:"cores,omitempty"`
	Memory verdict.Bytes `json:"memoryBytes,omitempty"`
}

// body is the request, signed if there is a nonce to sign.
func (r Registration) body(key *identity.Key, nonce string) ([]byte, error) {
	w := struct {
		Name         string   `json:"name"`
		Product      string   `json:"product,omitempty"`
		Version      string   `json:"version,omitempty"`
		PublicKey    string   `json:"publicKey"`
		ProblemTypes []string `json:"problemTypes"`
		External     bool     `json:"external"`
		Tags         []string `json:"tags,omitempty"`
		Machine      *Machine `json:"machine,omitempty"`
		Nonce        string   `json:"nonce,omitempty"`
		Signature    string   `json:"signature,omitempty"`
	}{
		Name: trimText(r.Name, 128), Product: trimText(r.Product, 128), Version: trimText(r.Version, versionLimit),
		PublicKey: key.PublicKey(), ProblemTypes: r.ProblemTypes, Tags: r.Tags, Nonce: nonce,
	}
	if len(r.ProblemTypes) == 0 {
		return nil, errors.New("the Runner declares no problem type, so it would never be handed a job")
	}
	if r.Machine != (Machine{}) {
		w.Machine = &r.Machine
	}
	if nonce != "" {
		w.Signature = key.Sign(nonce)
	}
	return json.Marshal(w)
}

// RunnerState is how the Server thinks of this Runner; informational (3.3). Other words than these may come.
type RunnerState string

// The states of a Runner.
const (
	PendingApproval RunnerState = "pendingApproval"
	Approved        RunnerState = "approved"
	RunnerRevoked   RunnerState = "revoked"
)

// Registered is the Server's answer to a registration.
type Registered struct {
	RunnerID    string
	Fingerprint identity.Fingerprint
	State       RunnerState
}

func readRegistered(body []byte) (Registered, error) {
	m, err := readMembers(body)
	if err != nil {
		return Registered{}, err
	}
	r := Registered{RunnerID: clean(m.text("runnerId")), State: RunnerState(clean(m.text("state")))}
	return r, m.need("fingerprint", &r.Fingerprint)
}

// Challenge is a nonce to sign: opaque, single use, about two minutes old at most (2.3). It prints as a placeholder.
type Challenge struct {
	Nonce   string
	Expires Instant
}

// String is a placeholder, never the nonce.
func (Challenge) String() string { return "[challenge]" }

// GoString is a placeholder, never the nonce.
func (Challenge) GoString() string { return "[challenge]" }

func readChallenge(body []byte) (Challenge, error) {
	m, err := readMembers(body)
	if err != nil {
		return Challenge{}, err
	}
	c := Challenge{Expires: ParseInstant(m.text("expiresAt"))}
	if err := m.need("nonce", &c.Nonce); err != nil {
		return Challenge{}, err
	}
	if c.Nonce == "" || len(c.Nonce) > 4<<10 {
		return Challenge{}, errors.New("the nonce is empty or too long")
	}
	return c, nil
}

// token is a bearer token. It never leaves this package.
type token struct {
	secret  string
	expires Instant
}

// String is a placeholder, never the token.
func (token) String() string { return "[token]" }

// GoString is a placeholder, never the token.
func (token) GoString() string { return "[token]" }

func readToken(body []byte) (token, error) {
	m, err := readMembers(body)
	if err != nil {
		return token{}, err
	}
	t := token{expires: ParseInstant(m.text("expiresAt"))}
	if err := m.need("token", &t.secret); err != nil {
		return token{}, err
	}
	if t.secret == "" || len(t.secret) > 8<<10 {
		return token{}, errors.New("the token is empty or too long")
	}
	for _, r := range t.secret {
		if r <= ' ' || r > '~' {
			return token{}, errors.New("the token holds a character that no header can carry")
		}
	}
	return t, nil
}

// Health is what the Server says about itself, at every level of maintenance (2.1).
type Health struct {
	// Level is "open" when nothing is said. Any word but "open" means not open.
	Level string
	// Reason and Since are for people; Reason is empty when none was given.
	Reason string
	Since  Instant
}

// Open says whether the Server takes work.
func (h Health) Open() bool { return h.Level == "open" }

func readHealth(body []byte) (Health, error) {
	m, err := readMembers(body)
	if err != nil {
		return Health{}, err
	}
	h := Health{Level: "open"}
	if !m.has("maintenance") {
		return h, nil
	}
	inner, err := readMembers(m["maintenance"])
	if err != nil {
		return Health{}, err
	}
	if err := inner.need("level", &h.Level); err != nil {
		return Health{}, err
	}
	h.Level = clean(h.Level)
	h.Reason, h.Since = clean(inner.text("reason")), ParseInstant(inner.text("since"))
	return h, nil
}

// readProblem decodes a refusal's body (1.4). A body that is not ours reads as no code and no words: a proxy's page is
// not a second failure.
func readProblem(body []byte) (code Code, detail string) {
	m, err := readMembers(body)
	if err != nil {
		return CodeNone, ""
	}
	detail = m.text("detail")
	if detail == "" {
		detail = m.text("title")
	}
	return Code(clean(m.text("code"))), detail
}
