package langimages

import "strings"

// Quote writes words so that a POSIX shell reads exactly those words: each in single quotes, and for a single quote
// inside: the closing one, a backslash and the quote, and an opening one (spec/judging.md 3.2).
func Quote(words ...string) string {
	var line strings.Builder
	for i, word := range words {
		if i > 0 {
			line.WriteByte(' ')
		}
		line.WriteByte('\'')
		line.WriteString(strings.ReplaceAll(word, "'", `'\''`))
		line.WriteByte('\'')
	}
	return line.String()
}

// UnderShim is the command of a judged run (3.2): a shell that becomes the shim, which opens the input and the output in
// that order and becomes the parent of the start command. One exec and no condition, so that no shell is left behind.
func UnderShim(shim, input, output string, start []string) []string {
	return []string{"/bin/sh", "-c", "exec " + shim + " " + Quote(append([]string{input, output}, start...)...)}
}
