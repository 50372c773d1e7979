package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/evalhost/evalhost/services/internal/report"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// example is the document of spec/judging.md 8.1.
func example() *report.Document {
	return &report.Document{
		Type:   "standard-io@1",
		Limits: report.Limits{Time: 2 * time.Second, Memory: 256 * verdict.MiB},
		Score:  40, MaxScore: 100,
		Compilation: report.Compilation{Status: verdict.OK},
		Groups: []report.Group{
			{Number: 1, Points: 40, MaxPoints: 40, Status: verdict.OK},
			{Number: 2, Points: 0, MaxPoints: 60, Status: verdict.Error},
		},
		Tests: []report.Test{
			{Name: "1a", Group: 1, Status: verdict.OK, Time: 2001 * time.Microsecond, Memory: 1835008, Score: 40, MaxScore: 40},
			{
				Name: "2a", Group: 2, Status: verdict.Error, Time: 4056 * time.Millisecond, Memory: 7655424, MaxScore: 60,
				Note: "Time limit exceeded", Reason: verdict.TimeLimit,
			},
		},
	}
}

// nothingRan is a submission whose source breaks the rules, with amounts that are not whole.
func nothingRan() *report.Document {
	d := &report.Document{
		Type: "standard-io@1", Limits: report.Limits{Time: time.Second, Memory: 4 * verdict.MiB}, MaxScore: 100,
		Compilation: report.Compilation{Status: verdict.Warning, Log: "forbidden header <unistd.h> — unistd.h (line 1)\n"},
		Groups:      []report.Group{{Number: 7, MaxPoints: 100, Status: verdict.Error}},
	}
	for _, name := range []string{"7a", "7b", "7c"} {
		d.Tests = append(d.Tests, report.Test{
			Name: name, Group: 7, Status: verdict.Error, MaxScore: 33.33, Note: "Policy violation", Reason: verdict.PolicyViolation,
		})
	}
	return d
}

// hostile is a program that prints for the judge, the page and the terminal.
func hostile() *report.Document {
	d := example()
	d.Compilation.Log = "a\x00b\xff"
	d.Tests[0].Note = "\x1b[2J\x1b]0;title\x07 <script>alert(1)</script> \u202eright to left\u2028\u200b\r\nOK 1b 100 / 100\t\\ \"'"
	d.Tests[1].Note = "\x00\xf0\x9f\x98\xed\xa0\x80 é 漢字 " + strings.Repeat("ü", 300)
	return d
}

func TestTheDocumentAndTheTableAreTheseToTheByte(t *testing.T) {
	for name, d := range map[string]*report.Document{"example": example(), "nothing-ran": nothingRan(), "hostile": hostile()} {
		text, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", append(text, '\n'))
		var table bytes.Buffer
		if err := report.Table(&table, d); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", table.Bytes())
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s:\n%s", name, diff)
	}
}

func TestADocumentHasTheMembersOfTheSpecificationAndNoOthers(t *testing.T) {
	text, err := example().JSON()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for _, absent := range []string{"kind", "version", "cpuMs", "wallMs", "null"} {
		if strings.Contains(string(text), absent) {
			t.Errorf("the document mentions %s", absent)
		}
	}
	first, second := got["tests"].([]any)[0].(map[string]any), got["tests"].([]any)[1].(map[string]any)
	if _, ok := first["reason"]; ok || second["reason"] != "timeLimit" || first["note"] != "" || first["timeMs"] != 3.0 {
		t.Errorf("%v, %v", first, second)
	}
}

func TestUnmeasuredMemoryIsLeftOutAndTimeStays(t *testing.T) {
	text, err := nothingRan().JSON()
	if err != nil {
		t.Fatal(err)
	}
	if tests := string(text[bytes.Index(text, []byte(`"tests"`)):]); strings.Contains(tests, "memoryBytes") || strings.Count(tests, `"timeMs":0`) != 3 {
		t.Error(tests)
	}
}

func TestMillisecondsAreRoundedUp(t *testing.T) {
	for micros, want := range map[time.Duration]int64{0: 0, 1: 1, 999: 1, 1000: 1, 1001: 2, 4_056_000: 4056} {
		if got := report.Millis(micros * time.Microsecond); got != want {
			t.Errorf("%d µs are %d ms, want %d", micros, got, want)
		}
	}
	if got := report.Millis(math.MaxInt64); got != 9223372036855 {
		t.Errorf("the longest time is %d ms", got)
	}
}

func TestNothingThatNobodyDecidedIsEverWritten(t *testing.T) {
	for name, spoil := range map[string]func(d *report.Document){
		"zero document":              func(d *report.Document) { *d = report.Document{} },
		"no type":                    func(d *report.Document) { d.Type = "" },
		"no limit":                   func(d *report.Document) { d.Limits.Memory = 0 },
		"no compilation":             func(d *report.Document) { d.Compilation = report.Compilation{} },
		"no groups":                  func(d *report.Document) { d.Groups = nil },
		"no tests":                   func(d *report.Document) { d.Tests = nil },
		"a group without status":     func(d *report.Document) { d.Groups[0].Status = "" },
		"a group with a warning":     func(d *report.Document) { d.Groups[0].Status = verdict.Warning },
		"a group twice":              func(d *report.Document) { d.Groups[0].Number = 2 },
		"a test without status":      func(d *report.Document) { d.Tests[0].Status = "" },
		"a test with a warning":      func(d *report.Document) { d.Tests[0].Status = verdict.Warning },
		"a test with another word":   func(d *report.Document) { d.Tests[0].Status = "ok" },
		"a test of no group":         func(d *report.Document) { d.Tests[0].Group = 3 },
		"a test without a name":      func(d *report.Document) { d.Tests[0].Name = "" },
		"passed for a reason":        func(d *report.Document) { d.Tests[0].Reason = verdict.WrongAnswer },
		"failed for no reason":       func(d *report.Document) { d.Tests[1].Reason = verdict.NoReason },
		"failed for another reason":  func(d *report.Document) { d.Tests[1].Reason = "tired" },
		"negative time":              func(d *report.Document) { d.Tests[1].Time = -1 },
		"negative memory":            func(d *report.Document) { d.Tests[1].Memory = -1 },
		"negative points":            func(d *report.Document) { d.Score = -1 },
		"infinite points":            func(d *report.Document) { d.Groups[0].Points = math.Inf(1) },
		"points that are no numbers": func(d *report.Document) { d.Tests[0].Score = math.NaN() },
	} {
		d := example()
		spoil(d)
		if text, err := d.JSON(); err == nil {
			t.Errorf("%s: written as %s", name, text)
		}
		var table bytes.Buffer
		if err := report.Table(&table, d); err == nil || table.Len() > 0 {
			t.Errorf("%s: a table was written: %v", name, err)
		}
	}
}

func TestADocumentOfManyLongNotesStaysBounded(t *testing.T) {
	d := example()
	d.Tests = nil
	for range 10_000 {
		d.Tests = append(d.Tests, report.Test{
			Name: "1a", Group: 1, Status: verdict.Error, Reason: verdict.WrongAnswer, Note: strings.Repeat("é", 1<<12),
		})
	}
	text, err := d.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 12<<20 || !utf8.Valid(text) || !strings.Contains(string(text), "é…\"") {
		t.Errorf("%d bytes", len(text))
	}
	d.Tests = d.Tests[:1]
	d.Tests[0].Note = strings.Repeat("x", 64<<10)
	if text, err = d.JSON(); err != nil || !strings.Contains(string(text), d.Tests[0].Note) {
		t.Errorf("a note of 64 KiB was cut, or %v", err)
	}
}

func TestALogKeepsItsBeginningAndItsEndWithinItsBound(t *testing.T) {
	long := "first\n" + strings.Repeat("é\n", 1<<18) + "last\n"
	got := report.Log(long)
	if len(got) > int(report.MaxLog) || !utf8.ValidString(got) {
		t.Errorf("%d bytes", len(got))
	}
	if !strings.HasPrefix(got, "first\n") || !strings.HasSuffix(got, "last\n") || !strings.Contains(got, "bytes are not shown]") {
		t.Errorf("%q … %q", got[:20], got[len(got)-20:])
	}
	d := example()
	d.Compilation.Log = long
	text, err := d.JSON()
	if err != nil || len(text) > 2*int(report.MaxLog) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func TestALogHasNoBlankPartsAndEndsItsLines(t *testing.T) {
	for _, test := range []struct {
		parts []string
		want  string
	}{
		{nil, ""},
		{[]string{"", " \n", "\t"}, ""},
		{[]string{"the reason"}, "the reason\n"},
		{[]string{"out\n\n", "", "err\r\n", "stopped"}, "out\nerr\nstopped\n"},
		{[]string{"a\x00\xffb"}, "a\ufffd\ufffdb\n"},
	} {
		if got := report.Log(test.parts...); got != test.want {
			t.Errorf("%q gives %q, want %q", test.parts, got, test.want)
		}
	}
}

func TestATextForATerminalKeepsItsLinesAndNothingElseThatActs(t *testing.T) {
	const text = "a\tb\r\nc\x1b[31m\x07\x9b\u009b\u202e é 漢\rd\n"
	if got, want := report.PrintableText(text), "a\tb\nc\\x1b[31m\\a\\x9b\\u009b\\u202e é 漢\\rd\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := report.Printable("a\tb\n\x7f\u200b"), `a\tb\n\x7f\u200b`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestATableThatCannotBeWrittenSaysSo(t *testing.T) {
	broken := errors.New("broken pipe")
	if err := report.Table(failing{broken}, example()); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func FuzzWhateverAProgramPrintsTheDocumentIsJSONAndTheTableIsHarmless(f *testing.F) {
	for _, seed := range []string{"", "token 1 differs: got \"3\"", "\x00", "\xff\xfe", "\x1b[2J", "\u202e", "\xed\xa0\x80", "<&>\u2028", "\\", "é漢😀"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, note, log string) {
		d := example()
		d.Tests[0].Note, d.Compilation.Log = note, log
		text, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(text) || !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
			t.Fatalf("%q", text)
		}
		var back struct {
			Compilation struct{ Log string }
			Tests       []struct{ Note string }
		}
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsRune(back.Tests[0].Note+back.Compilation.Log, 0) {
			t.Errorf("a NUL comes back out of %q", text)
		}
		if len(note) < 60_000 && back.Tests[0].Note != report.Clean(note) {
			t.Errorf("%q became %q", note, back.Tests[0].Note)
		}
		var table bytes.Buffer
		if err := report.Table(&table, d); err != nil {
			t.Fatal(err)
		}
		for _, r := range strings.ReplaceAll(table.String(), "\n", "") {
			if r == utf8.RuneError && !strings.Contains(note, "\ufffd") || !unicode.IsPrint(r) {
				t.Errorf("the table has %q", r)
			}
		}
		if lines := strings.Count(table.String(), "\n"); lines != 4 {
			t.Errorf("a table of %d lines", lines)
		}
	})
}
