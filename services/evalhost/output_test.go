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
