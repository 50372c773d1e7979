package compare

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
	"unicode/utf8"
)

var exes = strings.Repeat("x", 5000)

// The examples of 5.3, and others of their kind. The note is empty for an equal answer.
var examples = []struct{ name, reference, answer, note string }{
	{"without its line end", "3\n", "3", ""},
	{"with a blank line", "3\n", "3\n\n", ""},
	{"indented", "3\n", "  3  ", ""},
	{"with line ends of another system", "3\n", "\r\n3\r\n", ""},
	{"with a tab", "3\n", "3\t", ""},
	{"one line each", "1 2 3\n", "1\n2\n3\n", ""},
	{"in another order", "1 2 3\n", "1 3 2\n", `token 2 differs: got "3"`},
	{"too little", "1 2 3\n", "1 2\n", "token 3 differs: got nothing"},
	{"too much", "1 2\n", "1 2 3\n", `token 3 differs: got "3"`},
	{"nothing", "1\n", "", "token 1 differs: got nothing"},
	{"nothing but white space", "1\n", " \n", "token 1 differs: got nothing"},
	{"nothing where nothing is wanted", "", "   \n", ""},
	{"nothing at all", "", "", ""},
	{"something where nothing is wanted", "", "x", `token 1 differs: got "x"`},
	{"something where only white space is wanted", " \n", "x\n", `token 1 differs: got "x"`},
	{"a long token", "7\n", exes, `token 1 differs: got "` + exes[:32] + `…"`},
	{"a token of 32 characters", "7\n", exes[:32], `token 1 differs: got "` + exes[:32] + `"`},
	{"a token of 33 characters", "7\n", exes[:33] + "\n", `token 1 differs: got "` + exes[:32] + `…"`},
	{"32 characters above ASCII", "7\n", strings.Repeat("ř", 33), `token 1 differs: got "` + strings.Repeat("ř", 32) + `…"`},
	{"32 characters of four bytes", "7\n", strings.Repeat("😀", 32), `token 1 differs: got "` + strings.Repeat("😀", 32) + `"`},
	{"bytes that are no text", "3\n", "\xff\xfe\x00", "token 1 differs: got \"\ufffd\ufffd\x00\""},
	{"a longer token", "12 5", "123 5", `token 1 differs: got "123"`},
	{"a shorter token", "123 5", "12 5", `token 1 differs: got "12"`},
	{"a shorter last token", "123", "12", `token 1 differs: got "12"`},
	{"a token cut in two", "1234", "12 34", `token 1 differs: got "12"`},
	{"two tokens in one", "12 34", "1234", `token 1 differs: got "1234"`},
	{"a long token that differs late", exes + "a", exes + "b", `token 1 differs: got "` + exes[:32] + `…"`},
	{"a long token that is too short", exes + "a", exes, `token 1 differs: got "` + exes[:32] + `…"`},
	{"another number of digits", "1.0", "1", `token 1 differs: got "1"`},
	{"another case", "YES", "yes", `token 1 differs: got "yes"`},
	{"a sign", "1", "+1", `token 1 differs: got "+1"`},
	{"another normal form", "\u00e9", "e\u0301", "token 1 differs: got \"e\u0301\""},
	{"a byte order mark", "1", "\ufeff1", "token 1 differs: got \"\ufeff1\""},
	{"a zero width space", "1 2", "1\u200b2", "token 1 differs: got \"1\u200b2\""},
	{"a separator that is no white space", "1 2", "1\x1c2", "token 1 differs: got \"1\x1c2\""},
	{"a NUL", "1 2", "1\x002", "token 1 differs: got \"1\x002\""},
	{"spaces that are not ASCII", "1 2 3 4 5", "1\u00a02\u30003\u20284\u00855", ""},
	{"spaces that are not ASCII in the reference", "1\u00a02\u30003", "1 2 3", ""},
	{"a vertical tab", "1 2", "1\v2", ""},
	{"the same broken bytes", "\xe2\x82 x", "\xe2\x82 x", ""},
	{"a broken character for the sign of one", "\ufffd x", "\xe2\x82 x", ""},
	{"one broken character of three bytes", "\ufffd", "\xf0\x9f\x98", ""},
	{"a surrogate, which is three", "\ufffd\ufffd\ufffd", "\xed\xa0\x80", ""},
	{"a broken character before another", "\ufffdé", "\xe2\x82é", ""},
	{"a broken character at the end, and too much", "1", "1 \xe2\x82", "token 2 differs: got \"\ufffd\""},
}

func check(t *testing.T, name string, got, want Result) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %+v, want %+v", name, got, want)
	}
}

// against begins a comparison with a text, with a window so small that it ends within nearly every token.
func against(reference string) *Comparison { return begin(strings.NewReader(reference), 3) }

func finish(t *testing.T, c *Comparison) Result {
	t.Helper()
	result, err := c.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestAnAnswerIsComparedTokenByToken(t *testing.T) {
	for _, c := range examples {
		got := Whole([]byte(c.reference), []byte(c.answer))
		if got.Note != c.note || got.Equal != (c.note == "") || (got.Token == 0) != got.Equal {
			t.Errorf("%s: %+v, want the note %q", c.name, got, c.note)
		}
		check(t, c.name+", as the model has it", got, modelWhole(c.reference, c.answer))
	}
}

func TestTheResultIsTheSameForEveryWayOfCuttingAShortAnswer(t *testing.T) {
	for _, c := range examples {
		if len(c.answer) > 12 {
			continue
		}
		want := modelWhole(c.reference, c.answer)
		for cuts := range 1 << max(len(c.answer)-1, 0) {
			comparison := against(c.reference)
			begin := 0
			for end := 1; end <= len(c.answer); end++ {
				if end < len(c.answer) && cuts>>(end-1)&1 == 0 {
					continue
				}
				if got, want := comparison.Write([]byte(c.answer[begin:end])), modelSettled(c.reference, c.answer[:end]); got != want {
					t.Fatalf("%s, cuts %b: after %q settled is %v, want %v", c.name, cuts, c.answer[:end], got, want)
				}
				begin = end
			}
			check(t, fmt.Sprintf("%s, cuts %b", c.name, cuts), finish(t, comparison), want)
		}
	}
}

func TestTheResultIsTheSameForChunksOfAnySize(t *testing.T) {
	for _, c := range examples {
		want := Whole([]byte(c.reference), []byte(c.answer))
		for _, size := range []int{1, 2, 3, 5, 7, 64, 4096} {
			comparison := against(c.reference)
			for chunk := []byte(c.answer); len(chunk) > 0; chunk = chunk[min(size, len(chunk)):] {
				comparison.Write(chunk[:min(size, len(chunk))])
			}
			check(t, fmt.Sprintf("%s in chunks of %d", c.name, size), finish(t, comparison), want)
		}
	}
}

func TestRandomAnswersAreJudgedAsTheModelJudgesThem(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{
		"1", "12", "a", " ", "\n", "\r\n", "\v", "\u00a0", "\u3000", "\ufffd", "é", "😀", "\xff", "\xe2", "\x82", "\xf0\x9f", "\xed\xa0", "\xc0", "\xf4\x90", "\x00",
		exes[:31], exes[:33],
	}
	text := func() string {
		var s strings.Builder
		for range random.IntN(8) {
			s.WriteString(pieces[random.IntN(len(pieces))])
		}
		return s.String()
	}
	for range 6_000 {
		reference, answer := text(), text()
		if random.IntN(3) > 0 { // mostly an answer that begins like the reference
			answer = reference[:random.IntN(len(reference)+1)] + answer
		}
		agree(t, reference, answer, random)
	}
}

// agree compares an answer in random chunks and checks every step against the model.
func agree(t *testing.T, reference, answer string, random *rand.Rand) {
	t.Helper()
	var expected io.Reader = strings.NewReader(reference)
	if random.IntN(2) > 0 {
		expected = iotest.DataErrReader(expected) // the end comes with the last bytes, not after them
	}
	comparison := begin(expected, 1+random.IntN(8))
	for end := 0; end < len(answer); {
		begin := end
		end = min(begin+1+random.IntN(5), len(answer))
		if got, want := comparison.Write([]byte(answer[begin:end])), modelSettled(reference, answer[:end]); got != want {
			t.Fatalf("reference %q: after %q settled is %v, want %v", reference, answer[:end], got, want)
		}
	}
	if got, want := finish(t, comparison), modelWhole(reference, answer); got != want {
		t.Fatalf("reference %q, answer %q: %+v, want %+v", reference, answer, got, want)
	}
}

func TestADifferenceSettlesOnTheChunkThatCompletesItsToken(t *testing.T) {
	for _, c := range []struct {
		name, reference string
		chunks          []string
		settles         int // which chunk, from 1; 0 for none
	}{
		{"at the space after it", "1 2 3", []string{"1 ", "9", "9", " ", "3"}, 4},
		{"within the chunk that begins it", "1 2 3", []string{"1 9 3"}, 1},
		{"an extra token, when it is complete", "1 2", []string{"1 2 ", "3", "4\n"}, 3},
		{"an extra token where nothing is wanted", "", []string{"\n", "x", "\n"}, 3},
		{"not without white space", "1", []string{"9", "9", "9"}, 0},
		{"not at a vertical tab", "1", []string{"9", "\v", "9\v", "\n"}, 4},
		{"not at a space that is not ASCII", "1", []string{"9", "\u00a0", "9\u3000", "\t"}, 4},
		{"at a form feed", "1", []string{"9", "\f"}, 2},
		{"at a carriage return", "1", []string{"9", "\r"}, 2},
		{"a token that is too short", "12", []string{"1", "\n"}, 2},
		{"not while it may still be right", "1234 5", []string{"12", "34 ", "5"}, 0},
		{"not for too little", "1 2", []string{"1\n\n\n"}, 0},
		{"a character broken by the space", "1", []string{"\xe2", "\x82", " "}, 3},
	} {
		comparison := against(c.reference)
		settles := 0
		for i, chunk := range c.chunks {
			if comparison.Write([]byte(chunk)) && settles == 0 {
				settles = i + 1
			}
		}
		if settles != c.settles {
			t.Errorf("%s: settled at chunk %d, want %d", c.name, settles, c.settles)
		}
	}
}

func TestNothingThatFollowsChangesWhatIsSettled(t *testing.T) {
	comparison := against("1 2 3")
	comparison.Write([]byte("1 9 "))
	for _, more := range []string{"", "2", " 3", "\xff", strings.Repeat("z ", 1000)} {
		if !comparison.Write([]byte(more)) {
			t.Errorf("%q unsettled it", more)
		}
	}
	want := Result{Token: 2, Note: `token 2 differs: got "9"`}
	check(t, "the first result", finish(t, comparison), want)
	comparison.Write([]byte("1 2 3"))
	check(t, "the second result", finish(t, comparison), want)
}

func TestAnEqualAnswerIsOnlyEqualAtItsEnd(t *testing.T) {
	comparison := against("1 2")
	if comparison.Write([]byte("1 2\n")) {
		t.Error("settled before the end")
	}
	check(t, "at the end", finish(t, comparison), Result{Equal: true})
	if (Result{}).Equal {
		t.Error("the zero result is equal")
	}
}

func TestALongTokenInSmallChunksIsCutInTheNote(t *testing.T) {
	comparison := against("7\n")
	for chunk := []byte(exes); len(chunk) > 0; chunk = chunk[min(64, len(chunk)):] {
		if comparison.Write(chunk[:min(64, len(chunk))]) {
			t.Fatal("settled within the token")
		}
	}
	check(t, "5000 characters", finish(t, comparison), Result{Token: 1, Note: `token 1 differs: got "` + exes[:32] + `…"`})
}

func TestANoteNeverContainsTheExpectedToken(t *testing.T) {
	secret := "sEcReT"
	for _, answer := range []string{"", "x", "s", "sEcRe", "sEcRe\n", "sEcRex y", "sEcRe\u00a0T", "\xff", "x sEcRe"} {
		for _, reference := range []string{secret, "x " + secret, secret + " " + secret} {
			result := Whole([]byte(reference), []byte(answer))
			if result.Equal || strings.Contains(result.Note, secret) {
				t.Errorf("reference %q, answer %q: %+v", reference, answer, result)
			}
		}
	}
}

func TestTheNoteForAMissingTokenIsASCII(t *testing.T) {
	note := Whole([]byte("tajné slovo"), []byte("tajné")).Note
	if strings.ContainsFunc(note, func(scalar rune) bool { return scalar > unicode.MaxASCII }) {
		t.Errorf("the note is %q", note)
	}
}

func TestANoteIsAlwaysText(t *testing.T) {
	for _, answer := range []string{"\xff", "\xe2\x82", strings.Repeat("\xff", 40), "a\xf0\x9f"} {
		if note := Whole([]byte("1"), []byte(answer)).Note; !utf8.ValidString(note) {
			t.Errorf("the note for %q is not UTF-8: %q", answer, note)
		}
	}
}

func TestC43LineEndsOfEitherKindOnEitherSideAreEqual(t *testing.T) {
	for _, reference := range []string{"1 2\n3\n", "1 2\r\n3\r\n"} {
		for _, answer := range []string{"1 2\n3\n", "1 2\r\n3\r\n", "1 2\n3", "1 2\r\n3\r", "1 2\r3\n"} {
			check(t, fmt.Sprintf("%q against %q", answer, reference), Whole([]byte(reference), []byte(answer)), Result{Equal: true})
		}
	}
}

func TestC46AnEmptyReferenceAcceptsOnlyAnEmptyAnswer(t *testing.T) {
	for answer, want := range map[string]Result{
		"":     {Equal: true},
		" \n":  {Equal: true},
		"x":    {Token: 1, Note: `token 1 differs: got "x"`},
		"\x00": {Token: 1, Note: "token 1 differs: got \"\x00\""},
	} {
		check(t, fmt.Sprintf("%q", answer), Whole(nil, []byte(answer)), want)
	}
	check(t, "an empty answer to a reference that is not", Whole([]byte("x\n"), nil), Result{Token: 1, Note: "token 1 differs: got nothing"})
}

func TestWhiteSpaceIsExactlyTheUnicodeProperty(t *testing.T) {
	for scalar := rune(0); scalar <= unicode.MaxRune; scalar++ {
		if isSpace(scalar) != (scalar != utf8.RuneError && strings.ContainsRune(modelSpace, scalar)) {
			t.Errorf("%U: isSpace is %v", scalar, isSpace(scalar))
		}
	}
}

func TestBrokenCharactersAreReplacedAsInTheEncodingStandard(t *testing.T) {
	for data, want := range map[string]int{
		"\xff\xfe": 2, "\xe2\x82": 1, "\xf0\x9f\x98": 1, "\xed\xa0\x80": 3, "\xc0\x80": 2, "\xc1": 1, "\xe0\x80\x80": 3, "\xf0\x8f\xbf\xbf": 4,
		"\xf4\x90\x80\x80": 4, "\xf5\x80": 2, "\x80": 1, "\xe2\x82\xe2\x82": 2, "\xf0\x9f\xff": 2, "\xef\xbf\xbd": 1,
	} {
		if got := strings.Count(string(decode(t, []byte(data), 2)), "\ufffd"); got != want {
			t.Errorf("% x becomes %d replacements, want %d", data, got, want)
		}
	}
}

// decode reads a text as a reference, through a window of a size.
func decode(t *testing.T, text []byte, window int) (valid []byte) {
	t.Helper()
	r := begin(bytes.NewReader(text), window).want
	for r.peek() {
		valid = append(valid, r.text[r.at:]...)
		r.at = len(r.text)
	}
	if r.err != nil {
		t.Fatal(r.err)
	}
	return valid
}

func TestEveryShortRunOfTellingBytesDecodesAsTheModelDecodesIt(t *testing.T) {
	telling := []byte{'a', ' ', 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xdf, 0xe0, 0xe2, 0xed, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff}
	data := make([]byte, 4)
	for i := range len(telling) * len(telling) * len(telling) * len(telling) {
		for n, rest := 0, i; n < len(data); n, rest = n+1, rest/len(telling) {
			data[n] = telling[rest%len(telling)]
		}
		window := 1 + i%5
		if got, want := decode(t, data, window), modelDecode(string(data)); string(got) != want {
			t.Fatalf("% x decodes to %q in a window of %d, want %q", data, got, window, want)
		}
	}
}

func TestAnEndlessTokenCostsNeitherMemoryNorTimeThatGrows(t *testing.T) {
	chunk := bytes.Repeat([]byte("a"), 64<<10)
	for name, reference := range map[string][]byte{"a short reference": []byte("a\n"), "a reference as long": bytes.Repeat([]byte("a"), 1<<20)} {
		comparison := New(bytes.NewReader(reference))
		if allocations := testing.AllocsPerRun(20, func() { comparison.Write(chunk) }); allocations != 0 {
			t.Errorf("%s: %v allocations a chunk", name, allocations)
		}
		check(t, name, finish(t, comparison), Result{Token: 1, Note: `token 1 differs: got "` + strings.Repeat("a", 32) + `…"`})
	}
}

func TestATokenCostsNoAllocation(t *testing.T) {
	for name, text := range map[string]string{
		"numbers": strings.Repeat("123456 ", 1000), "words above ASCII": strings.Repeat("žluťoučký kůň\u00a0", 1000), "broken bytes": strings.Repeat("\xff\xe2\x82 ", 1000),
	} {
		// The reference begins again where it would end, so that every window but the first is filled while it is counted.
		comparison, answer := begin(&endless{text: text}, 100), []byte(text)
		comparison.Write(answer)
		if allocations := testing.AllocsPerRun(10, func() {
			if comparison.Write(answer) {
				t.Errorf("%s: settled", name)
			}
		}); allocations != 0 {
			t.Errorf("%s: %v allocations", name, allocations)
		}
	}
}

// endless reads a text again and again.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}

// A reference of 256 MiB, the most that a package may hold, whose every byte is compared.
func TestAReferenceOfAnyLengthCostsAWindow(t *testing.T) {
	const size = 256 << 20
	token := strings.Repeat("7", 1023)
	chunk := bytes.Repeat([]byte(token+"\n"), 64)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	comparison := New(io.LimitReader(&endless{text: token + " "}, size))
	for range size / len(chunk) {
		if comparison.Write(chunk) {
			t.Fatal("settled")
		}
	}
	check(t, "as long as the reference", finish(t, comparison), Result{Equal: true})
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("comparing with %d bytes allocated %d", size, took)
	}
}

var errDisk = errors.New("the disk says no")

// However much was compared before, and whatever came of it, a reference that cannot be read gives no result: neither the
// equality of an answer that ends where the reference broke off, nor a difference.
func TestAReferenceThatCannotBeReadGivesNoResult(t *testing.T) {
	for _, c := range []struct{ readable, answer string }{
		{"", ""},
		{"", "1"},
		{"1 2 ", "1 2 "},
		{"1 2 ", "1 2"},
		{"1 2", "1 2 3"},
		{"1 2 ", "1 2 3 "},
		{"1 2 ", "1 2 \xff"},
		{"1 2\xe2\x82", "1 2\xe2\x82"},
	} {
		for _, window := range []int{1, 3, 100} {
			comparison := begin(io.MultiReader(strings.NewReader(c.readable), iotest.ErrReader(errDisk)), window)
			comparison.Write([]byte(c.answer))
			for range 2 {
				if result, err := comparison.Finish(); !errors.Is(err, errDisk) || result != (Result{}) {
					t.Errorf("%q of which %q can be read, window %d: %+v, %v", c.answer, c.readable, window, result, err)
				}
			}
		}
	}
}

// A program that would be compared with the part that was lost need not go on.
func TestAReferenceThatCannotBeReadSettles(t *testing.T) {
	comparison := New(io.MultiReader(strings.NewReader("1 "), iotest.ErrReader(errDisk)))
	if comparison.Write([]byte("1 ")) {
		t.Error("settled before the part that cannot be read was needed")
	}
	if !comparison.Write([]byte("2")) || !comparison.Write([]byte("3")) {
		t.Error("not settled")
	}
}

func TestAReaderThatHandsOutNothingForEverIsAnError(t *testing.T) {
	comparison := New(readsNothing{})
	comparison.Write([]byte("1"))
	if result, err := comparison.Finish(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("%+v, %v", result, err)
	}
}

type readsNothing struct{}

func (readsNothing) Read([]byte) (int, error) { return 0, nil }

func BenchmarkCompare(b *testing.B) {
	for name, text := range map[string]string{
		"numbers": "123456 ", "digits": "1\n", "words": "žluťoučký kůň ", "one token": "abcdefg", "broken": "\xff\xe2\x82 ",
	} {
		b.Run(name, func(b *testing.B) {
			reference := bytes.Repeat([]byte(text), (1<<20)/len(text))
			b.SetBytes(int64(len(reference)))
			b.ReportAllocs()
			for b.Loop() {
				if !Whole(reference, reference).Equal {
					b.Fatal("not equal to itself")
				}
			}
		})
	}
}
