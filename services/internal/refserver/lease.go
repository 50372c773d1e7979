package refserver

import (
	"net/http"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
)

// maxBatch is how many jobs one batch call may name (2.7).
const maxBatch = 512

// checkLease is the table of 2.6 after the 404. It is called with the lock held.
func checkLease(h *Holding, runner, lease string, wrongState protocol.Code) *Refusal {
	switch {
	case lease == "" || h.Lease == "" || lease != h.Lease:
		return refuse(http.StatusForbidden, protocol.CodeLeaseStale, "this lease is over")
	case h.Holder != runner:
		return refuse(http.StatusForbidden, protocol.CodeLeaseForeign, "this lease was given to another Runner")
	case h.State != Running:
		return refuse(http.StatusConflict, wrongState, "it is "+string(h.State))
	}
	return nil
}

// heldJob finds a job the caller holds. It is called with the lock held.
func (s *Server) heldJob(x *exchange, id, lease string) (*Job, *Refusal) {
	j := s.s.Jobs[id]
	if j == nil {
		return nil, notFound("job")
	}
	return j, checkLease(&j.Holding, x.runner, lease, protocol.CodeJobState)
}

// leaseBody is what the calls about held work send.
type leaseBody struct {
	LeaseToken   string `json:"leaseToken"`
	LeaseSeconds *int64 `json:"leaseSeconds"`
	FileID       string `json:"fileId"`
	Name         string `json:"name"`
}

// extend moves a deadline out, never in, and acknowledges the delivery.
func (s *Server) extend(h *Holding, d time.Duration) {
	if until := s.clock.Now().Add(d); until.After(h.LeaseExpires) {
		h.LeaseExpires = until
	}
	h.Acknowledged = true
}

// renew is 2.6.
func (s *Server) renew(x *exchange) (int, any) {
	var in leaseBody
	if r := x.read(&in); r != nil {
		return 0, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j, r := s.heldJob(x, x.PathValue("id"), in.LeaseToken)
	if r != nil {
		return 0, r
	}
	s.extend(&j.Holding, clampLease(in.LeaseSeconds))
	return s.settle(http.StatusOK, map[string]any{
		"jobId": j.ID, "leaseToken": j.Lease, "leaseExpiresAt": protocol.FormatInstant(j.LeaseExpires),
	})
}

// progress is 2.8. This Server extends by what was granted at the claim; a Runner must not rely on it.
func (s *Server) progress(x *exchange) (int, any) {
	var in leaseBody
	if r := x.read(&in); r != nil {
		return 0, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j, r := s.heldJob(x, x.PathValue("id"), in.LeaseToken)
	if r != nil {
		return 0, r
	}
	s.extend(&j.Holding, j.Granted)
	return s.settle(http.StatusNoContent, nil)
}

// release is 2.9.
func (s *Server) release(x *exchange) (int, any) {
	var in leaseBody
	if r := x.read(&in); r != nil {
		return 0, r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j, r := s.heldJob(x, x.PathValue("id"), in.LeaseToken)
	if r != nil {
		return 0, r
	}
	s.giveBack(j)
	return s.settle(http.StatusNoContent, nil)
}

// giveBack queues a job its Runner cannot go on with; the first three times that costs no delivery.
func (s *Server) giveBack(j *Job) {
	if j.Releases < freeReleases {
		j.Releases++
		j.Deliveries--
	}
	s.log.Info("a job was released", "job", j.ID, "runner", j.Holder, "deliveries", j.Deliveries)
	requeue(&j.Holding)
}

// batch reads a batch call and answers each job once (2.7).
func (s *Server) batch(x *exchange, each func(j *Job, asked *int64) map[string]any) (int, any) {
	var in struct {
		LeaseSeconds *int64 `json:"leaseSeconds"`
		Jobs         []struct {
			JobID      string `json:"jobId"`
			LeaseToken string `json:"leaseToken"`
		} `json:"jobs"`
	}
	if r := x.read(&in); r != nil {
		return 0, r
	}
	if len(in.Jobs) > maxBatch {
		return 0, refuse(http.StatusUnprocessableEntity, protocol.CodeBatchSize, "more than 512 jobs")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	results, seen := []any{}, map[string]bool{}
	for _, one := range in.Jobs {
		if seen[one.JobID] {
			continue
		}
		seen[one.JobID] = true
		result := map[string]any{"jobId": one.JobID}
		if j, r := s.heldJob(x, one.JobID, one.LeaseToken); r != nil {
			result["code"] = r.Code
		} else {
			for name, value := range each(j, in.LeaseSeconds) {
				result[name] = value
			}
		}
		results = append(results, result)
	}
	return s.settle(http.StatusOK, map[string]any{"results": results})
}

// renewAll is 2.7.
func (s *Server) renewAll(x *exchange) (int, any) {
	return s.batch(x, func(j *Job, asked *int64) map[string]any {
		s.extend(&j.Holding, clampLease(asked))
		return map[string]any{"leaseExpiresAt": protocol.FormatInstant(j.LeaseExpires)}
	})
}

// releaseAll is 2.10.
func (s *Server) releaseAll(x *exchange) (int, any) {
	return s.batch(x, func(j *Job, _ *int64) map[string]any {
		s.giveBack(j)
		return nil
	})
}
