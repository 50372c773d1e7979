package config

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteEffective prints every setting with its value and where it came from, a line each (evalhost-runner
// --print-config). No secret is among them.
func (s Settings) WriteEffective(w io.Writer) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, entry := range s.entries {
		value := entry.Value
		if value == "" {
			value = "-"
		}
		fmt.Fprintf(columns, "%s\t%s\t(%s)\n", entry.Key, value, entry.From)
	}
	return columns.Flush()
}

// WriteHelp prints the keys of a program with what each is, for its help.
func WriteHelp(w io.Writer, program Program) error {
	var text strings.Builder
	for _, row := range table() {
		if row.readers&program == 0 {
			continue
		}
		fmt.Fprintf(&text, "  %s\n%s", row.name, wrapped("      ", row.doc+defaulted(row, program)))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func defaulted(row key, program Program) string {
	if value, from := row.initial(program, Facts{}); value != "" && from == FromDefault {
		return " Default: " + value + "."
	}
	return ""
}

const exampleHead = `# Settings of evalhost-runner, as its unit reads them from /etc/evalhost/runner.env. This file lists every one; what is
# commented out shows the default, or an example where there is none. An empty value counts as unset, an unknown key is
# refused. Ask the program itself:
#
#   evalhost-runner --check-config    whether a file like this is accepted; touches neither disk nor network
#   evalhost-runner --print-config    what took effect, and where each value came from
`

const exampleTail = `
# The way to the Server. Read in capitals or not; loopback is never proxied.
# HTTPS_PROXY=http://proxy.example.org:3128
# HTTP_PROXY=
# ALL_PROXY=
# NO_PROXY=

# Of other Runners of the contract. Earlier names are read, with a warning: %s.
# Accepted if they say the same as the path, because Docker is on this machine: %s.
# Refused, with what takes their place: %s.
# Passed over: what begins with %s.
`

// WriteExample prints .env.example: every key of the daemon, its meaning and its default.
func WriteExample(w io.Writer) error {
	var text strings.Builder
	text.WriteString(exampleHead)
	var old []string
	for _, row := range table() {
		if row.readers&Daemon == 0 {
			continue
		}
		if row.section != "" {
			fmt.Fprintf(&text, "\n# ---- %s\n", row.section)
		}
		text.WriteString("\n" + wrapped("# ", row.doc))
		value, comment := row.example, "# "
		if initial, from := row.initial(Daemon, Facts{}); value == "" && from == FromDefault {
			value = initial
		}
		if row.required {
			comment = ""
		}
		fmt.Fprintf(&text, "%s%s=%s\n", comment, row.name, value)
		for _, name := range row.old {
			old = append(old, name+" for "+row.name)
		}
	}
	fmt.Fprintf(&text, exampleTail, strings.Join(old, ", "), strings.Join(sortedKeys(mirrors), ", "),
		strings.Join(sortedKeys(removed), ", "), strings.Join(ignored, ", "))
	_, err := io.WriteString(w, text.String())
	return err
}

// wrapped breaks text into lines of at most 120 characters, each behind the indent.
func wrapped(indent, text string) string {
	var out strings.Builder
	line := indent
	for word := range strings.FieldsSeq(text) {
		if len(line) > len(indent) {
			if len(line)+1+len(word) > 120 {
				out.WriteString(line + "\n")
				line = indent
			} else {
				line += " "
			}
		}
		line += word
	}
	return out.String() + line + "\n"
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
