package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/judge"
)

// writeDocument prints the details document and nothing else.
func writeDocument(w io.Writer, j *judge.Judged) error {
	return json.NewEncoder(w).Encode(j.Sheet)
}

// writeJudged prints a verdict for people.
func writeJudged(w io.Writer, j *judge.Judged, toolchain langimages.Toolchain, noPolicy bool) error {
	_, err := fmt.Fprintln(w, j.Verdict)
	return err
}

// printable keeps what strangers wrote from acting on a terminal: every character that is not plainly printable is
// written as an escape.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == '"' || r == '\\' {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}
