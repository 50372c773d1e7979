package wire

import (
	"bytes"
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"testing/quick"
	"time"
)

const (
	testNonce    = "0123456789abcdef0123456789abcdef"
	foreignNonce = "ffffffffffffffffffffffffffffffff"
)

var testReport = Report{
	ExitCode: 42, CPU: 221812 * time.Microsecond, Peak: 299008, Wall: 250 * time.Millisecond,
	User: 200 * time.Millisecond, System: 21812 * time.Microsecond,
}

const testLine = testNonce + " aj-shim1 ok 42 0 221812 299008 250000 200000 21812\n"

func TestAReportIsOneLineOfTheFixedShape(t *testing.T) {
	if got := string(testReport.AppendTo(nil, testNonce)); got != testLine {
		t.Errorf("AppendTo = %q, want %q", got, testLine)
	}
	signalled := Report{Signal: 11, CPU: 1999 * time.Nanosecond}
	if got, want := string(signalled.AppendTo([]byte("x"), "n")), "xn aj-shim1 ok 0 11 1 0 0 0 0\n"; got != want {
		t.Errorf("AppendTo = %q, want %q", got, want)
	}
}

func TestTheExitStatusWearsTheFateOfTheProgram(t *testing.T) {
	for report, want := range map[Report]int{
		{}: 0, {ExitCode: 42}: 42, {Signal: 11}: 139, {Signal: 9}: 137, {ExitCode: 127}: 127,
	} {
		if got := report.ExitStatus(); got != want {
			t.Errorf("%+v.ExitStatus() = %d, want %d", report, got, want)
		}
	}
}

func TestAFailureCannotEndItsLineNorOutgrowAnAtomicWrite(t *testing.T) {
	line := AppendFailure(nil, testNonce, "exec /a\nb"+strings.Repeat("\x00", 9000)+": no such file")
	if bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' {
		t.Errorf("the line has newlines of its own: %q", line)
	}
	if len(line) > 4096 {
		t.Errorf("the line has %d bytes, want at most PIPE_BUF", len(line))
	}
	if reading := Parse(line, testNonce); !strings.HasPrefix(reading.Failure, "exec /a?b??") || len(reading.Rest) != 0 {
		t.Errorf("Parse = %+v", reading)
	}
}

func TestWhatAReaderFindsInAStream(t *testing.T) {
	const failed = testNonce + " aj-shim1 failed exec /x: no such file or directory\n"
	const foreign = foreignNonce + " aj-shim1 ok 0 0 1 1 1 1 0\n"
	second := testReport
	second.ExitCode = 127
	secondLine := string(second.AppendTo(nil, testNonce))
	for name, test := range map[string]struct {
		stream  string
		report  *Report
		failure string
		rest    string
	}{
		"nothing":                             {"", nil, "", ""},
		"one report":                          {testLine, &testReport, "", ""},
		"the last of two wins":                {testLine + secondLine, &second, "", ""},
		"bytes around it stay":                {"\xff\xfe\n" + testLine + "tail", &testReport, "", "\xff\xfe\ntail"},
		"a line begun by somebody else":       {"half a word" + testLine + "rest\n", &testReport, "", "half a wordrest\n"},
		"half a report is none":               {strings.TrimSuffix(testLine, "\n"), nil, "", strings.TrimSuffix(testLine, "\n")},
		"a whole one after a cut one":         {testNonce + " aj-shim1 ok 0 0 12" + testLine, &testReport, "", ""},
		"a foreign nonce is left in place":    {foreign + testLine + foreign, &testReport, "", foreign + foreign},
		"only a foreign nonce":                {foreign, nil, "", foreign},
		"a failed line measures nothing":      {failed, nil, "exec /x: no such file or directory", ""},
		"an exec failure and its report":      {failed + secondLine, &second, "exec /x: no such file or directory", ""},
		"a failure after a report takes it":   {testLine + failed, nil, "exec /x: no such file or directory", ""},
		"another version is not a report":     {testNonce + " aj-shim2 ok 0 0 1 1 1 1 0\n", nil, "", testNonce + " aj-shim2 ok 0 0 1 1 1 1 0\n"},
		"another word is removed, not read":   {testNonce + " aj-shim1 maybe 0 0 1 1 1 1 0\n", nil, "", ""},
		"six fields are not a report":         {testNonce + " aj-shim1 ok 42 0 1 1 1 1\n", nil, "", ""},
		"a short line does not take a report": {testLine + testNonce + " aj-shim1 ok 1\n", &testReport, "", ""},
		"more fields are a report":            {strings.TrimSuffix(testLine, "\n") + " 7 later\n", &testReport, "", ""},
		"a sign is not a number":              {testNonce + " aj-shim1 ok 0 0 -1 1 1 1 0\n", nil, "", ""},
		"two spaces are an empty field":       {testNonce + " aj-shim1 ok 0 0  1 1 1 1\n", nil, "", ""},
		"a number no int64 holds":             {testNonce + " aj-shim1 ok 0 0 9223372036854775808 1 1 1 0\n", nil, "", ""},
		"microseconds no Duration holds":      {testNonce + " aj-shim1 ok 0 0 9223372036854775807 1 1 1 0\n", nil, "", ""},
		"an exit code that cannot be":         {testNonce + " aj-shim1 ok 256 0 1 1 1 1 0\n", nil, "", ""},
		"a signal that cannot be":             {testNonce + " aj-shim1 ok 0 128 1 1 1 1 0\n", nil, "", ""},
		"a carriage return is not a number":   {strings.TrimSuffix(testLine, "\n") + "\r\n", nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			stream := []byte(test.stream)
			got := Parse(stream, testNonce)
			if !reflect.DeepEqual(got.Report, test.report) || got.Failure != test.failure || string(got.Rest) != test.rest {
				t.Errorf("Parse(%q)\n got report %+v failure %q rest %q\nwant report %+v failure %q rest %q", test.stream,
					got.Report, got.Failure, got.Rest, test.report, test.failure, test.rest)
			}
			if string(stream) != test.stream {
				t.Errorf("Parse changed its input to %q", stream)
			}
		})
	}
}

func TestAnEmptyNonceMatchesNothing(t *testing.T) {
	stream := " aj-shim1 ok 0 0 1 1 1 1 0\n"
	if got := Parse([]byte(stream), ""); got.Report != nil || string(got.Rest) != stream {
		t.Errorf("Parse with an empty nonce = %+v, want everything in Rest", got)
	}
}

// pieces is a random stream and what a reader must make of it, by construction.
type pieces struct {
	stream []byte
	report *Report
	rest   []byte
}

// Generate makes a stream out of noise, foreign lines, cut lines and true lines in random order (testing/quick).
func (pieces) Generate(random *rand.Rand, size int) reflect.Value {
	var made pieces
	for range random.Intn(size + 1) {
		switch random.Intn(5) {
		case 0: // noise, newlines and invalid UTF-8 included
			noise := make([]byte, random.Intn(40))
			random.Read(noise)
			made.stream, made.rest = append(made.stream, noise...), append(made.rest, noise...)
		case 1: // what a submission would write to be believed
			line := randomReport(random).AppendTo(nil, foreignNonce)
			made.stream, made.rest = append(made.stream, line...), append(made.rest, line...)
		case 2: // words of the contract without the secret
			line := []byte(" aj-shim1 ok 0 0 0 0 0 0 0\naj-shim1 failed x\n")
			made.stream, made.rest = append(made.stream, line...), append(made.rest, line...)
		case 3: // the right mark with too few fields
			made.stream = append(made.stream, fmt.Sprintf("%s aj-shim1 ok %d 0\n", testNonce, random.Intn(9))...)
		case 4:
			report := randomReport(random)
			made.report = &report
			made.stream = report.AppendTo(made.stream, testNonce)
		}
	}
	if random.Intn(2) == 0 { // the writer died in the middle of a line
		cut := randomReport(random).AppendTo(nil, testNonce)
		cut = cut[:random.Intn(len(cut))]
		made.stream, made.rest = append(made.stream, cut...), append(made.rest, cut...)
	}
	return reflect.ValueOf(made)
}

func randomReport(random *rand.Rand) Report {
	micro := func() time.Duration { return time.Duration(random.Int63n(1e15)) * time.Microsecond }
	report := Report{Peak: Bytes(random.Int63()), Wall: micro(), User: micro(), System: micro()}
	report.CPU = report.User + report.System
	if random.Intn(2) == 0 {
		report.ExitCode = random.Intn(256)
	} else {
		report.Signal = 1 + random.Intn(64)
	}
	return report
}

func TestWhateverSurroundsThemOnlyCompleteLinesOfTheRightNonceCountAndTheLastWins(t *testing.T) {
	holds := func(made pieces) bool {
		got := Parse(made.stream, testNonce)
		return reflect.DeepEqual(got.Report, made.report) && bytes.Equal(got.Rest, made.rest)
	}
	if err := quick.Check(holds, &quick.Config{MaxCount: 3000}); err != nil {
		t.Error(err)
	}
}

func TestEveryReportReadsBackAsItWasWritten(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for range 2000 {
		report := randomReport(random)
		got := Parse(report.AppendTo(nil, testNonce), testNonce)
		if got.Report == nil || *got.Report != report || len(got.Rest) != 0 {
			t.Fatalf("wrote %+v, read %+v", report, got)
		}
	}
}

func FuzzParseKeepsEveryByteThatIsNotTheShims(f *testing.F) {
	f.Add([]byte(testLine))
	f.Add([]byte("\xff" + testLine + testLine[:30]))
	f.Add([]byte(testNonce + " aj-shim1 failed x\n" + testLine))
	f.Add([]byte(foreignNonce + " aj-shim1 ok 0 0 1 1 1 1 0\n\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		alone := Parse(stream, testNonce)
		if mark := []byte(testNonce + " aj-shim1 "); !bytes.Contains(stream, mark) && !bytes.Equal(alone.Rest, stream) {
			t.Errorf("a stream without the mark lost bytes: %q became %q", stream, alone.Rest)
		}
		// A true line at the end of whatever came before always decides.
		got := Parse(append(bytes.Clone(stream), testLine...), testNonce)
		if got.Report == nil || *got.Report != testReport {
			t.Errorf("after %q the report reads %+v", stream, got.Report)
		}
	})
}
