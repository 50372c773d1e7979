package refserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// goneAfter is how long a Runner may be silent before it is shown as gone (2.16).
const goneAfter = 120 * time.Second

// runnerRow is a Runner as the overview shows it.
type runnerRow struct {
	Runner
	Seen  string
	Gone  bool
	Job   string
	Pools []string
}

// jobRow is a job as the pages show it.
type jobRow struct {
	Job
	Short, Problem, FileName, Language, Verdict, Score, Runner, Age string
	Size                                                            verdict.Bytes
}

// details is the part of the details document (6.5) the page shows. What is missing reads as empty.
type details struct {
	Limits struct {
		TimeMs      int64         `json:"timeMs"`
		MemoryBytes verdict.Bytes `json:"memoryBytes"`
	} `json:"limits"`
	Compilation struct {
		Status verdict.Status `json:"status"`
		Log    string         `json:"log"`
	} `json:"compilation"`
	Groups []struct {
		Group     int            `json:"group"`
		Points    float64        `json:"points"`
		MaxPoints float64        `json:"maxPoints"`
		Status    verdict.Status `json:"status"`
	} `json:"groups"`
	Tests []struct {
		No          string         `json:"no"`
		Group       int            `json:"group"`
		Status      verdict.Status `json:"status"`
		TimeMs      int64          `json:"timeMs"`
		MemoryBytes *verdict.Bytes `json:"memoryBytes"`
		Score       float64        `json:"score"`
		MaxScore    float64        `json:"maxScore"`
		Note        string         `json:"note"`
		Reason      verdict.Reason `json:"reason"`
	} `json:"tests"`
}

// Passed counts the tests that passed.
func (d *details) Passed() int {
	n := 0
	for _, t := range d.Tests {
		if t.Status == verdict.OK || t.Status == verdict.Warning {
			n++
		}
	}
	return n
}

// ago says how long ago something was, for people.
func ago(now, then time.Time) string {
	switch d := now.Sub(then); {
	case then.IsZero():
		return "never"
	case d < 2*time.Second:
		return "just now"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	default:
		return then.Format("2006-01-02 15:04") + " UTC"
	}
}

// row is a job with everything that is shown about it.
func (v *Snapshot) row(j Job) jobRow {
	sub := v.Submissions[j.SubmissionID]
	r := jobRow{Job: j, Short: j.ID[:8], FileName: sub.FileName, Size: sub.Size, Age: ago(v.Now, j.Created)}
	for _, p := range v.Problems {
		if p.ID == sub.ProblemID {
			r.Problem = p.Name
		}
	}
	var props struct {
		Language string `json:"language"`
	}
	if json.Unmarshal(sub.Props, &props) == nil {
		r.Language = props.Language
	}
	for _, one := range v.Runners {
		if one.ID == j.Holder || one.ID == j.Reporter {
			r.Runner = one.Name
		}
	}
	if j.Result != nil {
		r.Verdict = j.Result.Verdict
		if j.Result.Score != nil && j.Result.MaxScore != nil {
			r.Score = points(*j.Result.Score, *j.Result.MaxScore)
		}
	}
	return r
}

func (s *Server) overviewPage(w http.ResponseWriter, r *http.Request) {
	c := s.common("Overview", "overview")
	c.Live = r.URL.Query().Get("live") != "0"
	data := struct {
		common
		Runners []runnerRow
		Jobs    []jobRow
		More    int
		BaseURL string
	}{common: c, BaseURL: "http://" + r.Host + Prefix}
	for _, one := range c.Snap.Runners {
		row := runnerRow{Runner: one, Seen: ago(c.Snap.Now, one.LastSeen), Pools: one.Tags}
		row.Gone = one.State == protocol.Approved && c.Snap.Now.Sub(one.LastSeen) >= goneAfter
		if len(row.Pools) == 0 {
			row.Pools = []string{"default"}
		}
		for _, j := range c.Snap.Jobs {
			if j.State == Running && j.Holder == one.ID {
				row.Job = j.ID
			}
		}
		data.Runners = append(data.Runners, row)
	}
	jobs := slices.Clone(c.Snap.Jobs)
	slices.Reverse(jobs)
	data.More = max(0, len(jobs)-pageJobs)
	for _, j := range jobs[:len(jobs)-data.More] {
		data.Jobs = append(data.Jobs, c.Snap.row(j))
	}
	s.render(w, http.StatusOK, "overview", data)
}

// jobPage is one job with its table of tests.
func (s *Server) jobPage(w http.ResponseWriter, r *http.Request) {
	j, ok := s.Job(r.PathValue("id"))
	if !ok {
		s.problemPage(w, notFound("job"))
		return
	}
	c := s.common("Job "+j.ID[:8], "job")
	c.Live = !j.State.Final() && r.URL.Query().Get("live") != "0"
	data := struct {
		common
		Job     jobRow
		Details *details
		Log     string
		Files   []Attachment
	}{common: c, Job: c.Snap.row(j), Files: j.Attachments}
	for _, a := range j.Attachments {
		switch a.Name {
		case "details":
			raw, err := s.contents(a.FileID, pageDetail)
			var d details
			if err == nil {
				err = json.Unmarshal(raw, &d)
			}
			if err != nil {
				data.Error = "The details document cannot be read: " + err.Error()
				break
			}
			data.Details = &d
		case "log":
			raw, err := s.contents(a.FileID, pageLog)
			if err != nil {
				data.Error = "The log cannot be read: " + err.Error()
			}
			data.Log = string(raw)
		}
	}
	s.render(w, http.StatusOK, "job", data)
}
