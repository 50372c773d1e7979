package hostcheck

import (
	"fmt"
	"io"
	"strings"
)

// marks stand at the start of a line, all of one width.
var marks = map[Status]string{OK: "ok     ", Failed: "FAILED ", Warning: "warning", NotApplicable: "n/a    "}

// WriteText prints the report for people: one line for what is well, and for the rest the reason and the cure below it.
func (r Report) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, result := range r.Requirements {
		result.text(&b)
	}
	counts := map[Status]int{}
	for _, result := range r.Requirements {
		counts[result.Status]++
	}
	fmt.Fprintf(&b, "\n%d ok, %d failed, %d with a warning, %d not applicable: ",
		counts[OK], counts[Failed], counts[Warning], counts[NotApplicable])
	if r.Fit {
		b.WriteString("this machine can judge\n")
	} else {
		b.WriteString("this machine must not judge\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// text prints one result.
func (r Result) text(b *strings.Builder) {
	fmt.Fprintf(b, "%s  %-22s  %s\n", marks[r.Status], r.ID, r.Found)
	if r.Because != "" || r.Status != Failed && r.Status != Warning {
		return
	}
	fmt.Fprintf(b, "         asked: %s\n         why:   %s\n         cure:  %s\n", r.Asked, r.Why, r.Cure)
}

// WriteFailures prints only what stands in the way, without what merely follows from it.
func (r Report) WriteFailures(w io.Writer) error {
	var b strings.Builder
	for _, result := range r.Failed() {
		if result.Because == "" {
			result.text(&b)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
