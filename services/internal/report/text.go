package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

const (
	// MaxLog is the longest log, in the document and as an attachment.
	MaxLog = 256 * verdict.KiB
	// maxNote is the longest note: what a checker may print in all (spec/judging.md 6.2).
	maxNote = 64 * verdict.KiB
	// maxNotes is about what all the notes of a document may come to. Every test keeps leastNote of its own.
	maxNotes  = 8 * verdict.MiB
	leastNote = verdict.KiB
)

// Clean makes a text fit for JSON and for databases that store it: invalid UTF-8 and NUL become U+FFFD. Nothing else
// changes.
func Clean(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	return strings.ReplaceAll(s, "\x00", "\ufffd")
}

// Log is the text of the log attachment: the parts that are not blank, each ended by one line end, cleaned and bounded by
// MaxLog. It is empty if there is nothing to say; then there is no attachment (spec/judging.md 4.10).
func Log(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		if strings.TrimSpace(part) == "" {
			continue
		}
		b.WriteString(strings.TrimRight(part, "\r\n"))
		b.WriteByte('\n')
	}
	return boundLog(Clean(b.String()))
}

// boundLog keeps the beginning of a long log, where a compiler's first complaint stands, and a quarter for its end, where
// it is said what stopped the build.
func boundLog(s string) string {
	if len(s) <= int(MaxLog) {
		return s
	}
	const room = 64 // for the line between
	head := int(MaxLog)*3/4 - room
	tail := len(s) - int(MaxLog)/4
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return s[:head] + fmt.Sprintf("\n[%d bytes are not shown]\n", tail-head) + s[tail:]
}

// noteBound is the longest note in a document with so many tests.
func noteBound(tests int) int {
	share := int(maxNotes) / max(1, tests)
	return min(int(maxNote), max(int(leastNote), share))
}

// cut shortens a text to so many bytes, at a character's end and with an ellipsis that counts.
func cut(s string, most int) string {
	const ellipsis = "…"
	if len(s) <= most {
		return s
	}
	end := most - len(ellipsis)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}

// Printable is a text in one line that no terminal acts on: control characters, line ends, invisible and
// direction-changing characters, and bytes that are no UTF-8 are written as escapes.
func Printable(s string) string { return escape(s, "") }

// PrintableText is like Printable and keeps line ends and tabs. A CRLF counts as a line end.
func PrintableText(s string) string {
	return escape(strings.ReplaceAll(s, "\r\n", "\n"), "\n\t")
}

func escape(s, keep string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case strconv.IsPrint(r) || strings.ContainsRune(keep, r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		i += size
	}
	return b.String()
}
