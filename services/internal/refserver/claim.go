package refserver

import (
	"net/http"
	"slices"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
)

// claim is 2.5: a job now, or whenever one comes while the call is held.
func (s *Server) claim(x *exchange) (int, any) {
	var in struct {
		LeaseSeconds *int64 `json:"leaseSeconds"`
		WaitSeconds  int64  `json:"waitSeconds"`
	}
	if r := x.read(&in); r != nil {
		return 0, r
	}
	wait := time.Duration(min(max(in.WaitSeconds, 0), 300)) * time.Second
	if wait > 0 {
		wait -= time.Duration(s.o.Draw(int64(wait)/16 + 1))
	}
	switch x.fault.kind() {
	case FaultIgnoreWait:
		wait = 0
	case FaultOverHold:
		wait += x.fault.Delay()
	}
	ring, stop := s.clock.Alarm(s.clock.Now().Add(wait))
	defer stop()
	for first := true; ; first = false {
		s.mu.Lock()
		if refused := s.stillHeld(x); refused != nil {
			s.mu.Unlock()
			return 0, refused
		}
		s.sweep()
		draining := s.s.Maintenance.Level != LevelOpen
		if !draining {
			if j := s.pick(x.runner); j != nil {
				defer s.mu.Unlock()
				s.hand(&j.Holding, x.runner, clampLease(in.LeaseSeconds))
				s.log.Info("a job was handed out", "job", j.ID, "runner", x.runner, "delivery", j.Deliveries)
				return s.settle(http.StatusOK, s.jobAnswer(j))
			}
		}
		wake := s.wake
		s.mu.Unlock()
		// A draining Server answers at once; a claim that was held when the drain began stays held and gets nothing.
		if wait <= 0 || draining && first {
			return http.StatusNoContent, nil
		}
		select {
		case <-wake:
		case <-ring:
			return http.StatusNoContent, nil
		case <-x.Context().Done():
			return 0, errGone
		}
	}
}

// stillHeld says why a held claim must end: its connection is gone, the Server restarted, or the Runner was revoked
// meanwhile. It is called with the lock held and returns nil or an error for the answer.
func (s *Server) stillHeld(x *exchange) error {
	switch {
	case s.epoch != x.epoch, x.Context().Err() != nil:
		return errGone
	case s.approved(x.runner) != nil:
		return s.approved(x.runner)
	}
	return nil
}

// pick is the oldest job a Runner may have, nil when there is none: four filters must hold (2.5).
func (s *Server) pick(runner string) *Job {
	r := s.s.Runners[runner]
	if r.External && !s.s.ExternalOpen {
		return nil
	}
	for _, id := range s.s.Order["jobs"] {
		j := s.s.Jobs[id]
		if j.State != Queued {
			continue
		}
		p := s.s.problemOf(j)
		if slices.Contains(r.ProblemTypes, p.Type) && r.External == p.External && share(r.Tags, p.Tags) && !s.s.busy(j) {
			return j
		}
	}
	return nil
}

// share says whether two tag lists have an entry in common; an empty one is the pool "default".
func share(a, b []string) bool {
	pool := []string{"default"}
	if len(a) == 0 {
		a = pool
	}
	if len(b) == 0 {
		b = pool
	}
	return slices.ContainsFunc(a, func(t string) bool { return slices.Contains(b, t) })
}

// hand gives work to a Runner. It is called with the lock held.
func (s *Server) hand(h *Holding, runner string, granted time.Duration) {
	h.State, h.Holder, h.Lease, h.Granted = Running, runner, newID(), granted
	h.LeaseExpires = s.clock.Now().Add(granted)
	h.Deliveries++
	h.Acknowledged = false
}

// jobAnswer is the body of a claim.
func (s *Server) jobAnswer(j *Job) map[string]any {
	sub := s.s.Submissions[j.SubmissionID]
	p := s.s.Problems[sub.ProblemID]
	body := map[string]any{
		"jobId": j.ID, "submissionId": j.SubmissionID, "attempt": j.Attempt, "leaseToken": j.Lease,
		"leaseExpiresAt": protocol.FormatInstant(j.LeaseExpires), "problemType": p.Type, "problemVersionId": p.VersionID,
		"packageFileId": p.PackageID, "packageSha256": p.SHA256,
		"files": []any{map[string]any{
			"name": "source", "fileName": sub.FileName, "fileId": sub.FileID, "sha256": sub.SHA256, "sizeBytes": sub.Size,
		}},
	}
	if sub.Props != nil {
		body["props"] = sub.Props
	}
	if p.VersionProps != nil {
		body["problemVersionProps"] = p.VersionProps
	}
	if config := firstDocument(sub.Config, p.Config); config != nil {
		body["config"] = config
	}
	return body
}

// Sweep takes expired leases back and closes a drain that is finished. It happens every second under Run.
func (s *Server) Sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
}

// sweep is Sweep with the lock held.
func (s *Server) sweep() {
	now, changed, running := s.clock.Now(), false, false
	each := func(id string, h *Holding) {
		if h.State == Running && !now.Before(h.LeaseExpires) {
			s.expire(id, h)
			changed = true
		}
		running = running || h.State == Running
	}
	for id, j := range s.s.Jobs {
		each(id, &j.Holding)
	}
	for id, t := range s.s.Trials {
		each(id, &t.Holding)
	}
	if m := &s.s.Maintenance; m.Level == LevelDraining && now.Sub(m.Since) >= s.drainTime(running) {
		m.Level, changed = LevelClosed, true
		s.log.Info("the drain is over; the Server is closed", "running", running)
	}
	if changed {
		_ = s.changed() // a failure is logged; the next change saves all
	}
}

// drainTime is how long a drain lasts at least: until the drainer's next look when nothing is running, else until force.
func (s *Server) drainTime(running bool) time.Duration {
	if running {
		return drainForce
	}
	return drainTick
}

// expire takes work back from a Runner that was not heard from in time (4.5).
func (s *Server) expire(id string, h *Holding) {
	if !h.Acknowledged && h.Refunds < freeRefunds {
		h.Refunds++
		h.Deliveries--
	}
	s.log.Info("a lease expired", "work", id, "runner", h.Holder, "deliveries", h.Deliveries)
	if h.Deliveries >= deliveryCap {
		h.FailureReason = "Given up after 5 deliveries"
		s.finish(h, Failed)
		return
	}
	requeue(h)
}

// requeue makes work available again.
func requeue(h *Holding) {
	h.State, h.Lease, h.Holder, h.LeaseExpires = Queued, "", "", time.Time{}
}

// finish ends work in a final state.
func (s *Server) finish(h *Holding, state WorkState) {
	requeue(h)
	h.State, h.Finished = state, s.clock.Now()
}
