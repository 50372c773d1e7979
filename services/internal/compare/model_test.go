package compare

import (
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// The model says the same as spec/judging.md section 5 with none of the care for speed, memory or streaming: it has the
// whole answer, decodes it into text, splits the text and looks for the first difference.

// beginnings returns every proper beginning of the UTF-8 form of any character, found by writing all characters down.
var beginnings = sync.OnceValue(func() map[string]bool {
	set := map[string]bool{}
	for scalar := rune(0x80); scalar <= unicode.MaxRune; scalar++ {
		if !utf8.ValidRune(scalar) {
			continue
		}
		text := string(scalar)
		for n := 1; n < len(text); n++ {
			set[text[:n]] = true
		}
	}
	return set
})

// modelDecode replaces every longest beginning of a character, and every other byte that is none, by one U+FFFD.
func modelDecode(data string) string {
	var text strings.Builder
	for len(data) > 0 {
		if scalar, size := utf8.DecodeRuneInString(data); size > 1 || scalar != utf8.RuneError {
			text.WriteRune(scalar)
			data = data[size:]
			continue
		}
		n := 1
		for n < len(data) && beginnings()[data[:n+1]] {
			n++
		}
		text.WriteRune(utf8.RuneError)
		data = data[n:]
	}
	return text.String()
}

// modelSpace lists White_Space as 5.1 does.
const modelSpace = "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"

func modelTokens(data string) []string {
	return strings.FieldsFunc(modelDecode(data), func(scalar rune) bool { return strings.ContainsRune(modelSpace, scalar) })
}

func modelWhole(reference, answer string) Result {
	want, got := modelTokens(reference), modelTokens(answer)
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			return Result{Token: i + 1, Note: fmt.Sprintf("token %d differs: got nothing", i+1)}
		case i >= len(want) || want[i] != got[i]:
			shown := []rune(got[i])
			more := ""
			if len(shown) > 32 {
				shown, more = shown[:32], "…"
			}
			return Result{Token: i + 1, Note: fmt.Sprintf("token %d differs: got \"%s%s\"", i+1, string(shown), more)}
		}
	}
	return Result{Equal: true}
}

// modelSettled reports whether an answer that has arrived so far is settled: what lies before its last ASCII white space
// has a token that differs.
func modelSettled(reference, soFar string) bool {
	want, got := modelTokens(reference), modelTokens(soFar[:strings.LastIndexAny(soFar, " \t\n\f\r")+1])
	for i := range got {
		if i >= len(want) || want[i] != got[i] {
			return true
		}
	}
	return false
}
