package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/report"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// example is a submission with one test passed and one not, whose note tries to act on a terminal.
func example() *judge.Judged {
	peak := 2 * verdict.MiB
	return &judge.Judged{
		Verdict: verdict.AnswerWrong,
		Document: report.Document{
			Type: "standard-io@1", Limits: report.Limits{Time: 2 * time.Second, Memory: 64 * verdict.MiB},
			Score: 40, MaxScore: 100, Compilation: report.Compilation{Status: verdict.OK},
			Groups: []report.Group{
				{Number: 1, Points: 40, MaxPoints: 40, Status: verdict.OK}, {Number: 2, MaxPoints: 60, Status: verdict.Error},
			},
			Tests: []report.Test{
				{Name: "1a", Group: 1, Status: verdict.OK, Time: 2100 * time.Microsecond, Memory: peak, Score: 40, MaxScore: 40},
				{Name: "2a", Group: 2, Status: verdict.Error, Reason: verdict.WrongAnswer, Time: time.Millisecond, MaxScore: 60, Note: "token 1 differs: got \"\x1b[2J\""},
			},
		},
		Log: "main.c: warning: \x1b[31m\n",
		Tests: []judge.Tested{
			{Name: "1a", Ran: true, Time: 2100 * time.Microsecond, Memory: &peak},
			{Name: "2a", Ran: true, Time: time.Millisecond},
		},
	}
}

func TestAVerdictIsPrintedForPeople(t *testing.T) {
	toolchain, _ := langimages.Default().Resolve("c11-gcc")
	var b bytes.Buffer
	if err := writeJudged(&b, example(), toolchain, true); err != nil {
		t.Fatal(err)
	}
	want := `standard-io@1, C11 (GCC), limits 2000 ms and 64 MiB
the source rules were not applied (--no-policy)
main.c: warning: \x1b[31m
group  test  status             time    memory   points  note
    1  1a    OK                 3 ms  2.00 MiB  40 / 40
    2  2a    ERROR wrongAnswer  1 ms         -   0 / 60  token 1 differs: got "\x1b[2J"
score 40 of 100
verdict Wrong answer
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheDocumentIsOneLine(t *testing.T) {
	var b bytes.Buffer
	if err := writeDocument(&b, example()); err != nil {
		t.Fatal(err)
	}
	if !json.Valid(b.Bytes()) || strings.Count(b.String(), "\n") != 1 || strings.Contains(b.String(), "Wrong answer") {
		t.Errorf("document: %s", b.String())
	}
}

func TestALabelledSolutionIsHeldToItsLabel(t *testing.T) {
	s := solution{Path: "solutions/accepted/sum.c", Toolchain: "c11-gcc", Expected: verdict.Accepted}
	s.fill(example(), 12_340*time.Millisecond)
	got, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"path":"solutions/accepted/sum.c","toolchain":"c11-gcc","expected":"Accepted","actual":"Wrong answer",` +
		`"asExpected":false,"score":40,"maxScore":100,"slowestMs":3,"peakBytes":2097152,"wallMs":12340,` +
		`"failed":"2a: token 1 differs: got \"\u001b[2J\""}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.name() != "accepted/sum.c" || s.line() != `Accepted               Wrong answer                3 ms    2.00 MiB    12.3 s  `+
		`UNEXPECTED: 2a: token 1 differs: got "\x1b[2J"` {
		t.Errorf("%s: %q", s.name(), s.line())
	}

	s = solution{Path: "solutions/wrong_answer/sum.c", Expected: verdict.AnswerWrong}
	s.fill(example(), 0)
	if !s.AsExpected || strings.Contains(s.line(), "UNEXPECTED") {
		t.Errorf("%q", s.line())
	}

	nothingRan := &judge.Judged{Verdict: verdict.CompilationFailed, Tests: []judge.Tested{{Name: "1a"}}}
	s = solution{Expected: verdict.CompilationFailed}
	s.fill(nothingRan, 0)
	if s.SlowestMs != nil || s.PeakBytes != nil || !strings.Contains(s.line(), " -  ") {
		t.Errorf("%q", s.line())
	}
}

func TestTheSummaryCounts(t *testing.T) {
	var b bytes.Buffer
	err := summary(&b, []*verified{{Solutions: []solution{{AsExpected: true}, {}}}, {Solutions: []solution{{AsExpected: true}}}})
	if err != nil || b.String() != "2 of 3 solutions got the verdict of their label\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}
