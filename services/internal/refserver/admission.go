package refserver

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/evalhost/evalhost/services/internal/identity"
	"github.com/evalhost/evalhost/services/internal/protocol"
)

// secret is 32 random bytes as the wire carries them.
func secret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.StdEncoding.EncodeToString(b[:])
}

// challenge is 2.3.
func (s *Server) challenge(x *exchange) (int, any) {
	var in struct {
		Fingerprint identity.Fingerprint `json:"fingerprint"`
	}
	if r := x.read(&in); r != nil {
		return 0, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.s.runnerBy(in.Fingerprint) == nil {
		return 0, notFound("Runner")
	}
	now := s.clock.Now()
	for text, n := range s.nonces {
		if now.Sub(n.expires) > nonceLife { // kept a while, so that "expired" can be told from "unknown"
			delete(s.nonces, text)
		}
	}
	text := secret()
	s.nonces[text] = nonce{in.Fingerprint, now.Add(nonceLife)}
	return http.StatusOK, map[string]any{"nonce": text, "expiresAt": protocol.FormatInstant(now.Add(nonceLife))}
}

// spend takes a nonce, which is gone afterwards whatever the answer. It is called with the lock held.
func (s *Server) spend(text string, fingerprint identity.Fingerprint) *Refusal {
	n, known := s.nonces[text]
	delete(s.nonces, text)
	switch {
	case !known:
		return refuse(http.StatusForbidden, protocol.CodeNonceUnknown, "no such nonce, or one that was used already")
	case !s.clock.Now().Before(n.expires):
		return refuse(http.StatusForbidden, protocol.CodeNonceExpired, "the nonce is older than two minutes")
	case n.fingerprint != fingerprint:
		return refuse(http.StatusForbidden, protocol.CodeNonceMismatch, "the nonce was issued to another key")
	}
	return nil
}

// registration is the body of 2.2.
type registration struct {
	Name         string          `json:"name"`
	Product      string          `json:"product"`
	Version      string          `json:"version"`
	PublicKey    string          `json:"publicKey"`
	ProblemTypes []string        `json:"problemTypes"`
	External     bool            `json:"external"`
	Tags         []string        `json:"tags"`
	Machine      json.RawMessage `json:"machine"`
	Nonce        string          `json:"nonce"`
	Signature    string          `json:"signature"`
}

// register is 2.2, with its order of checks.
func (s *Server) register(x *exchange) (int, any) {
	var in registration
	if r := x.read(&in); r != nil {
		return 0, r
	}
	if in.Name == "" || in.PublicKey == "" || in.ProblemTypes == nil {
		return 0, malformed(errors.New("name, publicKey and problemTypes are required"))
	}
	public, err := identity.ParsePublicKey(in.PublicKey)
	switch {
	case errors.Is(err, identity.ErrKeyMalformed):
		return 0, refuse(http.StatusUnprocessableEntity, protocol.CodeKeyMalformed, err.Error())
	case err != nil:
		return 0, refuse(http.StatusUnprocessableEntity, protocol.CodeKeyLength, err.Error())
	}
	fingerprint := identity.FingerprintOf(public)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	r := s.s.runnerBy(fingerprint)
	if r == nil {
		if refused := checkTags(in.Tags); refused != nil {
			return 0, refused
		}
		r = &Runner{
			ID: newID(), Fingerprint: fingerprint, PublicKey: in.PublicKey, State: protocol.PendingApproval, Tags: in.Tags,
			RegisteredAt: now,
		}
		if s.o.ApproveAll {
			r.State, r.ApprovedAt = protocol.Approved, now
		}
		s.s.Runners[r.ID] = r
		s.s.append("runners", r.ID)
	} else {
		if r.State == protocol.RunnerRevoked {
			return 0, refuse(http.StatusConflict, protocol.CodeRevoked, "this key was revoked")
		}
		if refused := s.spend(in.Nonce, fingerprint); refused != nil {
			return 0, refused
		}
		if !identity.Verify(public, in.Nonce, in.Signature) {
			return 0, refuse(http.StatusForbidden, protocol.CodeSignature, "the signature does not belong to the key")
		}
	}
	r.Name, r.Product, r.Version, r.ProblemTypes = in.Name, in.Product, in.Version, in.ProblemTypes
	r.External, r.Machine, r.LastSeen = in.External, in.Machine, now
	s.log.Info("a Runner registered", "runner", r.ID, "name", r.Name, "fingerprint", r.Fingerprint, "state", r.State)
	return s.settle(http.StatusOK, map[string]any{"runnerId": r.ID, "fingerprint": r.Fingerprint, "state": r.State})
}

func checkTags(tags []string) *Refusal {
	if len(tags) > 16 {
		return refuse(http.StatusUnprocessableEntity, protocol.CodeTagsCount, "more than 16 tags")
	}
	for _, t := range tags {
		if len(t) > 64 {
			return refuse(http.StatusUnprocessableEntity, protocol.CodeTagsLength, "a tag is longer than 64 characters")
		}
	}
	return nil
}

// token is 2.4, with its order of checks.
func (s *Server) token(x *exchange) (int, any) {
	var in struct {
		Fingerprint identity.Fingerprint `json:"fingerprint"`
		Nonce       string               `json:"nonce"`
		Signature   string               `json:"signature"`
	}
	if r := x.read(&in); r != nil {
		return 0, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.spend(in.Nonce, in.Fingerprint); r != nil {
		return 0, r
	}
	r := s.s.runnerBy(in.Fingerprint)
	if r == nil {
		return 0, notFound("Runner")
	}
	if refused := s.approved(r.ID); refused != nil {
		return 0, refused
	}
	public, err := identity.ParsePublicKey(r.PublicKey)
	if err != nil || !identity.Verify(public, in.Nonce, in.Signature) {
		return 0, refuse(http.StatusForbidden, protocol.CodeSignature, "the signature does not belong to the key")
	}
	now := s.clock.Now()
	text, expires := secret(), now.Add(tokenLife)
	for t, b := range s.tokens {
		if !now.Before(b.expires) {
			delete(s.tokens, t)
		}
	}
	s.tokens[text] = bearer{r.ID, expires}
	r.LastSeen = now
	return http.StatusOK, map[string]any{"token": text, "expiresAt": protocol.FormatInstant(expires)}
}

// clampLease is the lease that is granted for what was asked (2.5).
func clampLease(asked *int64) time.Duration {
	if asked == nil {
		return protocol.LeaseDefault
	}
	return time.Duration(min(max(*asked, 60), 3600)) * time.Second
}
