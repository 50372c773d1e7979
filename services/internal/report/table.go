package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// shownNote is how many characters of a note a terminal gets.
const shownNote = 160

// Table writes the tests for a person at a terminal, one a line, and the score below. Notes are escaped: they may hold
// whatever a program printed. A document that does not validate is an error.
func Table(w io.Writer, d *Document) error {
	if err := d.Validate(); err != nil {
		return err
	}
	rows := [][]string{{"group", "test", "status", "time", "memory", "points", "note"}}
	for _, t := range d.Tests {
		rows = append(rows, []string{
			strconv.FormatUint(uint64(t.Group), 10),
			Printable(t.Name),
			strings.TrimSpace(string(t.Status) + " " + string(t.Reason)),
			strconv.FormatInt(Millis(t.Time), 10) + " ms",
			memory(t.Memory),
			amount(t.Score) + " / " + amount(t.MaxScore),
			note(t.Note),
		})
	}
	if _, err := io.WriteString(w, layOut(rows, "rllrrrl")); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "score %s of %s\n", amount(d.Score), amount(d.MaxScore))
	return err
}

func memory(b verdict.Bytes) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f MiB", b.MiB())
}

// amount is a number of points without needless zeros.
func amount(p float64) string { return strconv.FormatFloat(p+0, 'f', -1, 64) }

func note(s string) string {
	if utf8.RuneCountInString(s) > shownNote {
		runes := 0
		for i := range s {
			if runes == shownNote-1 {
				s = s[:i] + "…"
				break
			}
			runes++
		}
	}
	return Printable(s)
}

// layOut pads each column to its widest cell, to the left ('l') or to the right ('r'), and leaves nothing at line ends.
func layOut(rows [][]string, align string) string {
	width := make([]int, len(align))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if align[i] == 'r' {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
	return b.String()
}
