package main

import (
	"log"
	"log/slog"
	"strings"
	"unicode/utf8"

	"github.com/evalhost/evalhost/services/internal/report"
)

// maxWords bounds what one line of a library is logged with, in bytes.
const maxWords = 500

// libraryWords takes what libraries say through the log package of the standard library, which otherwise stands in the journal
// as it is. net/http says there what came behind an answer, in its own words and the Server's: that can be the rest of a token,
// where a proxy got the length of an answer wrong. What was received is cut off.
type libraryWords struct{ log *slog.Logger }

// Write logs one line.
func (w libraryWords) Write(p []byte) (int, error) {
	text, _, _ := strings.Cut(strings.TrimSpace(string(p)), " starting with ")
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], string(utf8.RuneError))
	}
	w.log.Warn("a library of this program complains", "text", report.Printable(text))
	return len(p), nil
}

// takeWords has them logged by log until giveBack is called.
func takeWords(to *slog.Logger) (giveBack func()) {
	flags, writer := log.Flags(), log.Writer()
	log.SetFlags(0)
	log.SetOutput(libraryWords{to})
	return func() {
		log.SetOutput(writer)
		log.SetFlags(flags)
	}
}
