package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// The wire form. The order of the members is that of spec/judging.md 8.1, and there are no others.
type (
	wireDocument struct {
		Type        string          `json:"type"`
		Limits      wireLimits      `json:"limits"`
		Score       decimal         `json:"score"`
		MaxScore    decimal         `json:"maxScore"`
		Compilation wireCompilation `json:"compilation"`
		Groups      []wireGroup     `json:"groups"`
		Tests       []wireTest      `json:"tests"`
	}
	wireLimits struct {
		TimeMs      int64         `json:"timeMs"`
		MemoryBytes verdict.Bytes `json:"memoryBytes"`
	}
	wireCompilation struct {
		Status verdict.Status `json:"status"`
		Log    string         `json:"log"`
	}
	wireGroup struct {
		Group     uint32         `json:"group"`
		Points    decimal        `json:"points"`
		MaxPoints decimal        `json:"maxPoints"`
		Status    verdict.Status `json:"status"`
	}
	wireTest struct {
		No          string         `json:"no"`
		Group       uint32         `json:"group"`
		Status      verdict.Status `json:"status"`
		TimeMs      int64          `json:"timeMs"`
		MemoryBytes verdict.Bytes  `json:"memoryBytes,omitempty"`
		Score       decimal        `json:"score"`
		MaxScore    decimal        `json:"maxScore"`
		Note        string         `json:"note"`
		Reason      verdict.Reason `json:"reason,omitempty"`
	}
)

// decimal is a number that always shows a fraction: 40.0, 33.33.
type decimal float64

// MarshalJSON writes the shortest decimal that reads back as the same number, never with an exponent.
func (d decimal) MarshalJSON() ([]byte, error) {
	text := strconv.AppendFloat(nil, float64(d)+0, 'f', -1, 64) // + 0: there is no negative nothing
	if !bytes.ContainsRune(text, '.') {
		text = append(text, ".0"...)
	}
	return text, nil
}

// JSON is the details document in compact form. Whatever a program printed, the result is valid JSON and valid UTF-8, has
// no NUL even as an escape, and is of bounded length: a note is cut to 64 KiB, less when there are many tests, and a log
// to MaxLog. A document that does not validate is an error.
func (d *Document) JSON() ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	wire := wireDocument{
		Type:        Clean(d.Type),
		Limits:      wireLimits{TimeMs: Millis(d.Limits.Time), MemoryBytes: d.Limits.Memory},
		Score:       decimal(d.Score),
		MaxScore:    decimal(d.MaxScore),
		Compilation: wireCompilation{Status: d.Compilation.Status, Log: boundLog(Clean(d.Compilation.Log))},
	}
	for _, g := range d.Groups {
		wire.Groups = append(wire.Groups, wireGroup{
			Group: g.Number, Points: decimal(g.Points), MaxPoints: decimal(g.MaxPoints), Status: g.Status,
		})
	}
	most := noteBound(len(d.Tests))
	for _, t := range d.Tests {
		wire.Tests = append(wire.Tests, wireTest{
			No: Clean(t.Name), Group: t.Group, Status: t.Status, TimeMs: Millis(t.Time), MemoryBytes: t.Memory,
			Score: decimal(t.Score), MaxScore: decimal(t.MaxScore), Note: cut(Clean(t.Note), most), Reason: t.Reason,
		})
	}
	text, err := json.Marshal(wire)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return text, nil
}
