package refserver

import (
	"net/http"
	"slices"
	"strings"

	"github.com/evalhost/evalhost/services/internal/protocol"
)

// claimTrial is the claim of section 7: never held, and nothing for Runners that forward work.
func (s *Server) claimTrial(x *exchange) (int, any) {
	var in leaseBody
	if r := x.read(&in); r != nil {
		return 0, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	r := s.s.Runners[x.runner]
	if r.External || s.s.Maintenance.Level != LevelOpen {
		return http.StatusNoContent, nil
	}
	for _, id := range s.s.Order["trials"] {
		t := s.s.Trials[id]
		if t.State != Queued || !slices.Contains(r.ProblemTypes, t.Type) {
			continue
		}
		s.hand(&t.Holding, x.runner, clampLease(in.LeaseSeconds))
		return s.settle(http.StatusOK, map[string]any{
			"trialId": t.ID, "leaseToken": t.Lease, "leaseExpiresAt": protocol.FormatInstant(t.LeaseExpires),
			"problemType": t.Type, "packageFileId": t.PackageID, "packageSha256": t.SHA256,
		})
	}
	return http.StatusNoContent, nil
}

// renewTrial is the renewal of section 7.
func (s *Server) renewTrial(x *exchange) (int, any) {
	var in leaseBody
	if r := x.read(&in); r != nil {
		return 0, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.s.Trials[x.PathValue("id")]
	if t == nil {
		return 0, notFound("trial")
	}
	if r := checkLease(&t.Holding, x.runner, in.LeaseToken, protocol.CodeTrialState); r != nil {
		return 0, r
	}
	s.extend(&t.Holding, clampLease(in.LeaseSeconds))
	return s.settle(http.StatusOK, map[string]any{
		"trialId": t.ID, "leaseToken": t.Lease, "leaseExpiresAt": protocol.FormatInstant(t.LeaseExpires),
	})
}

// reportTrial is the report of section 7; the package does not survive it.
func (s *Server) reportTrial(x *exchange) (int, any) {
	var in struct {
		LeaseToken    string `json:"leaseToken"`
		Measurement   string `json:"measurement"`
		FailureReason string `json:"failureReason"`
	}
	if r := x.read(&in); r != nil {
		return 0, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.s.Trials[x.PathValue("id")]
	if t == nil {
		return 0, notFound("trial")
	}
	if !isID(in.LeaseToken) {
		return 0, refuse(http.StatusUnprocessableEntity, protocol.CodeLeaseMalformed, "the lease token is no UUID")
	}
	if t.State.Final() && t.Reporter == x.runner {
		return http.StatusOK, map[string]any{"trialId": t.ID, "state": t.State, "duplicate": true}
	}
	if r := checkLease(&t.Holding, x.runner, in.LeaseToken, protocol.CodeTrialState); r != nil {
		return 0, r
	}
	state := Completed
	if strings.TrimSpace(in.FailureReason) != "" {
		state, t.FailureReason = Failed, in.FailureReason
	} else {
		t.Measurement = in.Measurement
	}
	t.Reporter = x.runner
	s.finish(&t.Holding, state)
	s.store.drop(t.PackageID)
	delete(s.s.Files, t.PackageID)
	t.PackageID = ""
	return s.settle(http.StatusOK, map[string]any{"trialId": t.ID, "state": state, "duplicate": false})
}
