package judge

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/report"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// answersConfig is the package of spec/judging.md 10.2: 1a is `A` for 40 points, 2a is `B` for 60.
const answersConfig = `type: output-only@1
limits: { timeMs: 1000, memoryBytes: 268435456 }
groups: [ { group: 1, points: 40 }, { group: 2, points: 60 } ]
`

func openAnswers(t *testing.T, files map[string]string) *problem.Problem {
	t.Helper()
	p, err := problem.Open(t.Context(), writeTree(t, files), filepath.Join(t.TempDir(), "tree"), problem.Options{Type: problem.OutputOnly})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func twoAnswers() map[string]string {
	return map[string]string{
		"config.yml":  answersConfig,
		"tests/1a.in": "", "tests/1a.out": "A\n", "tests/2a.in": "", "tests/2a.out": "B\n",
	}
}

func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// zipped writes an archive; a name that ends in a slash is a folder.
func zipped(t *testing.T, name string, files ...string) Answers {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		entry, err := w.Create(files[i])
		if err == nil && !strings.HasSuffix(files[i], "/") {
			_, err = entry.Write([]byte(files[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return upload(t, name, b.String())
}

// upload is a file as a Server hands it out: its name is told beside it, not by the path.
func upload(t *testing.T, name, content string) Answers {
	t.Helper()
	path := filepath.Join(t.TempDir(), "submission")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return Answers{FileName: name, Path: path}
}

func marked(t *testing.T, p *problem.Problem, a Answers) *Judged {
	t.Helper()
	scratch := t.TempDir()
	j, err := Marker{Scratch: scratch}.Mark(t.Context(), p, a)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) != 0 {
		t.Errorf("left in scratch: %v, %v", left, err)
	}
	return j
}

// notes is one line on all tests: status, reason and note.
func notes(j *Judged) string {
	var all []string
	for _, tested := range j.Tests {
		all = append(all, strings.TrimSpace(tested.Name+" "+string(tested.Status)+" "+string(tested.Reason)+" "+tested.Note))
	}
	return strings.Join(all, ", ")
}

func TestAnswersAreMarked(t *testing.T) {
	missing := " ERROR wrongAnswer no answer was uploaded for this test"
	for _, c := range []struct {
		name    string
		answers Answers
		score   float64
		verdict verdict.Verdict
		notes   string
	}{
		{"M1 both right", zipped(t, "a.zip", "1a.out", "A", "2a.out", " B\r\n"), 100, verdict.Accepted, "1a OK, 2a OK"},
		{
			"M2 the second is wrong", zipped(t, "a.zip", "1a.out", "A\n", "2a.out", "C\n"), 40, verdict.AnswerWrong,
			`1a OK, 2a ERROR wrongAnswer token 1 differs: got "C"`,
		},
		{"M3 only the first", zipped(t, "A.ZIP", "1a.out", "A\n"), 40, verdict.AnswerWrong, "1a OK, 2a" + missing},
		{"M5 both in one folder", zipped(t, "a.zip", "mine/", "", "mine/1a.out", "A\n", "mine/2a.out", "B\n"), 100, verdict.Accepted, "1a OK, 2a OK"},
		{"M6 one bare file for the first", upload(t, "1a.out", "A\n"), 40, verdict.AnswerWrong, "1a OK, 2a" + missing},
		{
			"the root is before a folder", zipped(t, "a.zip", "x/1a.out", "Z", "1a.out", "A", "y/2a.out", "B"),
			100, verdict.Accepted, "1a OK, 2a OK",
		},
		{
			"of folders the first by name", zipped(t, "a.zip", "y/1a.out", "Z", "x/1a.out", "A", "2a.out", "B"),
			100, verdict.Accepted, "1a OK, 2a OK",
		},
		{"nothing deeper", zipped(t, "a.zip", "1a.out", "A", "x/y/2a.out", "B"), 40, verdict.AnswerWrong, "1a OK, 2a" + missing},
		{
			"a folder is no answer", zipped(t, "a.zip", "1a.out", "A", "2a.out/", "", "2a.out/2a.out", "B"),
			100, verdict.Accepted, "1a OK, 2a OK",
		},
		{"another case is no answer", zipped(t, "a.zip", "1a.out", "A", "2A.out", "B"), 40, verdict.AnswerWrong, "1a OK, 2a" + missing},
		{"other files are ignored", zipped(t, "a.zip", "1a.out", "A", "2a.out", "B", "readme.txt", "x", "9z.out", "x"), 100, verdict.Accepted, "1a OK, 2a OK"},
		{"an empty archive", zipped(t, "a.zip"), 0, verdict.AnswerWrong, "1a" + missing + ", 2a" + missing},
		{
			"an empty answer", zipped(t, "a.zip", "1a.out", "", "2a.out", "B"), 60, verdict.AnswerWrong,
			"1a ERROR wrongAnswer token 1 differs: got nothing, 2a OK",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := marked(t, openAnswers(t, twoAnswers()), c.answers)
			if j.Document.Score != c.score || j.Verdict != c.verdict || notes(j) != c.notes || j.Log != "" {
				t.Errorf("%v points, %s, %s, log %q", j.Document.Score, j.Verdict, notes(j), j.Log)
			}
		})
	}
}

// M4 of the specification gives 40 points here. What the package or the machine lost is no verdict (its rule 0.3 #1), and a
// participant would lose 60 points for it.
func TestM4AnExpectedOutputThatVanishedIsAnInfrastructureFailure(t *testing.T) {
	p := openAnswers(t, twoAnswers())
	if err := os.Remove(filepath.Join(p.Dir, "tests/2a.out")); err != nil {
		t.Fatal(err)
	}
	for _, a := range []Answers{
		zipped(t, "a.zip", "1a.out", "A", "2a.out", "B"), zipped(t, "a.zip", "1a.out", "A", "2a.out", ""),
		zipped(t, "a.zip", "../1a.out", "A"), upload(t, "a.zip", "no archive"), upload(t, "answers.txt", "A"),
	} {
		j, err := Marker{Scratch: t.TempDir()}.Mark(t.Context(), p, a)
		var f *Failure
		if j != nil || !errors.As(err, &f) || !strings.Contains(err.Error(), "marking test 2a: the package has no expected output for this test") {
			t.Errorf("%v, %v", j, err)
		}
	}
}

func TestM7TheDocumentOfAnswersSaysThatNothingWasCompiled(t *testing.T) {
	files := twoAnswers()
	files["config.yml"] += "overrideLimits: { python: { timeMs: 5 } }\n"
	j := marked(t, openAnswers(t, files), zipped(t, "a.zip", "1a.out", "A", "2a.out", "B"))
	text, err := j.Document.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Type        string
		Limits      struct{ TimeMs int }
		Compilation struct{ Status, Log string }
		Tests       []map[string]any
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.Type != "output-only@1" || d.Limits.TimeMs != 1000 || d.Compilation.Status != "WARNING" ||
		d.Compilation.Log != "nothing was compiled: this is an output-only problem" {
		t.Errorf("%s", text)
	}
	for _, row := range d.Tests {
		if _, has := row["memoryBytes"]; has || row["timeMs"] != 0.0 {
			t.Errorf("%v", row)
		}
	}
}

func TestTheOneTestOfAProblemIsAnsweredByAnyFile(t *testing.T) {
	p := openAnswers(t, map[string]string{
		"config.yml":  "type: output-only@1\nlimits: { timeMs: 1, memoryBytes: 1 }\ngroups: [ { group: 1, points: 7 } ]\n",
		"tests/1a.in": "", "tests/1a.out": "A\n",
	})
	for _, name := range []string{"1a.out", "answer.txt", "zip", "notazip", "answers.zip.txt", ""} {
		if j := marked(t, p, upload(t, name, "A")); j.Verdict != verdict.Accepted || j.Document.Score != 7 {
			t.Errorf("%q: %s, %s", name, j.Verdict, j.Log)
		}
	}
	if j := marked(t, p, upload(t, "1a.out.Zip", "A")); j.Verdict != verdict.AnswerWrong || !strings.Contains(j.Log, "not a zip archive") {
		t.Errorf("%s, %q", j.Verdict, j.Log)
	}
}

// Decisions 15: what a participant sent never fails the machinery, and is never accepted by accident.
func TestABadAnswerArchiveIsTheParticipantsWrongAnswer(t *testing.T) {
	full := zipped(t, "a.zip", "1a.out", "A", "2a.out", strings.Repeat("B", 5000))
	content, err := os.ReadFile(full.Path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(content)
	for i := 40; i < 60; i++ {
		damaged[i] ^= 0xff
	}
	many := make([]string, 0, 5000)
	for range 2001 {
		many = append(many, strings.Repeat("x", len(many)/20+1), "")
	}
	for name, c := range map[string]struct {
		answers Answers
		log     string
	}{
		"not a zip":            {upload(t, "a.zip", "A\n"), `"a.zip": not a zip archive`},
		"an empty file":        {upload(t, "a.zip", ""), "not a zip archive"},
		"cut short":            {upload(t, "a.zip", string(content[:len(content)/2])), "not a zip archive"},
		"damaged":              {upload(t, "a.zip", string(damaged)), "1a.out"},
		"it climbs":            {zipped(t, "a.zip", "1a.out", "A", "../2a.out", "B"), `climbs with`},
		"absolute":             {zipped(t, "a.zip", "/1a.out", "A"), "absolute"},
		"a space":              {zipped(t, "a.zip", "1a.out", "A", "my answer.out", "B"), "character"},
		"twice":                {zipped(t, "a.zip", "1a.out", "A", "1a.out", "A"), "1a.out"},
		"only by case":         {zipped(t, "a.zip", "1a.out", "A", "1A.OUT", "A"), "1A.OUT"},
		"a bomb":               {zipped(t, "a.zip", "1a.out", strings.Repeat("A", 4<<20)), "times its size"},
		"too many entries":     {zipped(t, "a.zip", many...), "more than 2000 entries"},
		"two tests, no zip":    {upload(t, "answers.txt", "A"), "send an archive with a file for each, such as 1a.out"},
		"a name for terminals": {upload(t, "\x1b[2J\xff.out", "A"), `\x1b[2J`},
	} {
		t.Run(name, func(t *testing.T) {
			j := marked(t, openAnswers(t, twoAnswers()), c.answers)
			want := "1a ERROR wrongAnswer the answers could not be read, 2a ERROR wrongAnswer the answers could not be read"
			if j.Verdict != verdict.AnswerWrong || j.Document.Score != 0 || j.Document.MaxScore != 100 || notes(j) != want {
				t.Errorf("%s, %v, %s", j.Verdict, j.Document.Score, notes(j))
			}
			if !strings.Contains(j.Log, c.log) || strings.Contains(j.Log, os.TempDir()) {
				t.Errorf("log %q", j.Log)
			}
			if _, err := j.Document.JSON(); err != nil {
				t.Error(err)
			}
		})
	}
}

// An archive can name any place at all for its content; what the kernel says to such a place is the participant's doing.
func TestAnArchiveThatPointsBeyondItselfIsTheParticipantsWrongAnswer(t *testing.T) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	extra := func(offset uint64) []byte { return binary.LittleEndian.AppendUint64([]byte{1, 0, 8, 0}, offset) }
	for _, name := range []string{"1a.out", "2a.out"} {
		entry, err := w.CreateHeader(&zip.FileHeader{Name: name, Extra: extra(0)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := entry.Write([]byte("A\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, offset := range []uint64{1 << 40, math.MaxInt64, math.MaxInt64 - 10, 1 << 63, math.MaxUint64} {
		content := bytes.Clone(b.Bytes())
		// The directory's records say that the place is in the extra field, and there it is.
		for at := bytes.Index(content, []byte("PK\x01\x02")); at >= 0; {
			copy(content[at+42:], "\xff\xff\xff\xff")
			binary.LittleEndian.PutUint64(content[at+46+len("1a.out")+4:], offset)
			next := bytes.Index(content[at+4:], []byte("PK\x01\x02"))
			if next < 0 {
				break
			}
			at += 4 + next
		}
		j, err := Marker{Scratch: t.TempDir()}.Mark(t.Context(), openAnswers(t, twoAnswers()), upload(t, "a.zip", string(content)))
		if err != nil {
			t.Errorf("offset %#x: %v", offset, err)
		} else if j.Verdict != verdict.AnswerWrong || j.Log == "" {
			t.Errorf("offset %#x: %s, %q", offset, j.Verdict, j.Log)
		}
	}
}

func TestABareAnswerIsNoLongerThanOneInAnArchive(t *testing.T) {
	p := openAnswers(t, twoAnswers())
	a := upload(t, "1a.out", "A\n")
	if err := os.Truncate(a.Path, int64(problem.AnswerLimits.Entry)+1); err != nil {
		t.Fatal(err)
	}
	if j := marked(t, p, a); j.Verdict != verdict.AnswerWrong || !strings.Contains(j.Log, "the most that is accepted is 64 MiB") {
		t.Errorf("%s, %q", j.Verdict, j.Log)
	}
}

func TestEvenWithoutPointsABadArchiveIsNotAccepted(t *testing.T) {
	files := twoAnswers()
	files["config.yml"] = strings.NewReplacer("40", "0", "60", "0").Replace(files["config.yml"])
	if j := marked(t, openAnswers(t, files), upload(t, "a.zip", "")); j.Verdict != verdict.AnswerWrong {
		t.Errorf("%s", j.Verdict)
	}
}

func TestWhatWeLostIsNoVerdictOnAnswers(t *testing.T) {
	p := openAnswers(t, twoAnswers())
	good := zipped(t, "a.zip", "1a.out", "A", "2a.out", "B")
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	standard := open(t)
	for name, try := range map[string]func() (*Judged, error){
		"the upload is gone": func() (*Judged, error) {
			return Marker{Scratch: t.TempDir()}.Mark(t.Context(), p, Answers{FileName: "a.zip", Path: "/nonexistent"})
		},
		"no scratch":           func() (*Judged, error) { return Marker{Scratch: "/nonexistent"}.Mark(t.Context(), p, good) },
		"stopped":              func() (*Judged, error) { return Marker{Scratch: t.TempDir()}.Mark(stopped, p, good) },
		"another problem type": func() (*Judged, error) { return Marker{Scratch: t.TempDir()}.Mark(t.Context(), standard, good) },
	} {
		j, err := try()
		var f *Failure
		if j != nil || !errors.As(err, &f) {
			t.Errorf("%s: %v, %v", name, j, err)
		}
	}
}

func TestTheKernelsWordAboutAnArchiveIsOurs(t *testing.T) {
	disk := &os.PathError{Op: "read", Path: "/scratch/a.zip", Err: syscall.EIO}
	for _, c := range []struct {
		err   error
		their bool
		says  string
	}{
		{&problem.Error{Code: problem.CodeArchive, Where: "/scratch/a.zip", Msg: "not a zip archive"}, true, "not a zip archive"},
		{&problem.Error{Code: problem.CodeRefused, Where: `"../x"`, Err: errors.New("the name climbs")}, true, `"../x": the name climbs`},
		{&problem.Error{Code: problem.CodeArchive, Where: "1a.out", Msg: "cannot be read", Err: disk}, false, ""},
		{&problem.Error{Code: problem.CodeTarget, Where: "1a.out", Err: &os.PathError{Op: "write", Err: syscall.ENOSPC}}, false, ""},
		{&problem.Error{Code: problem.CodeArchive, Where: "1a.out", Err: context.DeadlineExceeded}, false, ""},
		{disk, false, ""},
		{errors.New("nobody knows"), false, ""},
	} {
		if why, ok := refusedAnswers(c.err, "/scratch/a.zip"); ok != c.their || why != c.says {
			t.Errorf("%v: %t, %q", c.err, ok, why)
		}
	}
}

func FuzzAnyUploadIsMarkedAndOnlyTheRightAnswersAreAccepted(f *testing.F) {
	pack := func(files ...string) []byte {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		for i := 0; i < len(files); i += 2 {
			entry, _ := w.Create(files[i])
			_, _ = entry.Write([]byte(files[i+1]))
		}
		_ = w.Close()
		return b.Bytes()
	}
	f.Add("a.zip", pack("1a.out", "A\n", "2a.out", "B\n"))
	f.Add("a.zip", pack("x/1a.out", "A\n"))
	f.Add("a.zip", pack("../1a.out", "A\n"))
	f.Add("1a.out", []byte("A\n"))
	f.Add("", []byte(nil))
	dir := f.TempDir()
	for name, content := range twoAnswers() {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, "package", name)), 0o755); err != nil {
			f.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "package", name), []byte(content), 0o644); err != nil {
			f.Fatal(err)
		}
	}
	p, err := problem.Open(context.Background(), filepath.Join(dir, "package"), filepath.Join(dir, "tree"), problem.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		j, err := Marker{Scratch: t.TempDir()}.Mark(t.Context(), p, upload(t, name, string(content)))
		if err != nil {
			t.Fatalf("what a participant sent failed the machinery: %v", err)
		}
		text, err := j.Document.JSON()
		if err != nil || bytes.Contains(text, []byte{0}) {
			t.Fatal(err)
		}
		var d report.Document = j.Document
		if right := notes(j) == "1a OK, 2a OK"; (j.Verdict == verdict.Accepted) != right || right != (d.Score == 100) {
			t.Fatalf("%s, %v, %s", j.Verdict, d.Score, notes(j))
		}
	})
}
