package config

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ParseEnvironmentFile reads what systemd reads for EnvironmentFile= (systemd.exec(5)) and returns entries of the form
// KEY=value, for Read. Of a key that stands twice the last one counts, as there. What systemd passes over in silence, a line
// without "=", a name that is none, a quote without its end, is an error that names the line: a setting that is lost is a
// setting that is not what its author believes.
func ParseEnvironmentFile(text string) ([]string, error) {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return nil, fmt.Errorf("it is not text in UTF-8")
	}
	var entries []string
	place := map[string]int{}
	for line := 1; text != ""; {
		began := line
		if rest := strings.TrimLeft(text, " \t\r\n"); len(rest) < len(text) {
			line += strings.Count(text[:len(text)-len(rest)], "\n")
			text = rest
			continue
		}
		if text[0] == '#' || text[0] == ';' {
			comment, rest, _ := strings.Cut(text, "\n")
			if strings.HasSuffix(comment, `\`) {
				return nil, fmt.Errorf("line %d is a comment that ends with a backslash: what follows is a comment too, or is none, "+
					"as the version of systemd will have it", began)
			}
			text = rest
			line++
			continue
		}
		name, rest, found := strings.Cut(text, "=")
		if name = strings.TrimSpace(name); !found || !variable.MatchString(name) {
			first, _, _ := strings.Cut(text, "\n")
			if name, _, found = strings.Cut(first, "="); !found {
				return nil, fmt.Errorf("line %d is no KEY=value", began) // its words may be a secret
			}
			return nil, fmt.Errorf("line %d: %q is no name of a setting", began, strings.TrimSpace(name))
		}
		value, rest, err := environmentValue(rest)
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", began, name, err)
		}
		line += strings.Count(text[:len(text)-len(rest)], "\n")
		text = rest
		if at, twice := place[name]; twice {
			entries[at] = name + "=" + value
			continue
		}
		place[name] = len(entries)
		entries = append(entries, name+"="+value)
	}
	return entries, nil
}

// environmentValue reads a value to the end of its line. Quotes count where a word begins with them: at the beginning and
// after another quoted word.
func environmentValue(text string) (value, rest string, err error) {
	var b strings.Builder
	for quotes := true; ; {
		if quotes {
			text = strings.TrimLeft(text, " \t")
		}
		switch {
		case text == "":
			return b.String(), "", nil
		case text[0] == '\n':
			return b.String(), text[1:], nil
		case quotes && text[0] == '\'':
			word, after, closed := strings.Cut(text[1:], "'")
			if !closed {
				return "", "", fmt.Errorf("a quote has no end")
			}
			b.WriteString(word)
			text = after
		case quotes && text[0] == '"':
			if text, err = doubleQuoted(&b, text[1:]); err != nil {
				return "", "", err
			}
		default:
			text, quotes = plainWord(&b, text), false
		}
	}
}

// doubleQuoted reads to the closing quote. A backslash frees a quote, a backslash, a dollar and a backquote, and joins lines;
// before anything else it is a backslash.
func doubleQuoted(b *strings.Builder, text string) (rest string, err error) {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			return text[i+1:], nil
		case text[i] == '\\' && i+1 < len(text) && text[i+1] == '\n':
			i++
		case text[i] == '\\' && i+1 < len(text) && strings.IndexByte("\"\\`$", text[i+1]) >= 0:
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(text[i])
		}
	}
	return "", fmt.Errorf("a quote has no end")
}

// plainWord reads to the end of the line, without the spaces before it. A backslash frees the next character and joins lines.
func plainWord(b *strings.Builder, text string) (rest string) {
	spaces := 0 // written at the end, and not freed by a backslash
	word := ""
	i := 0
	for ; i < len(text) && text[i] != '\n'; i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			if i++; text[i] != '\n' {
				word, spaces = word+text[i:i+1], 0
			}
		case c == ' ' || c == '\t' || c == '\r':
			word, spaces = word+text[i:i+1], spaces+1
		default:
			word, spaces = word+text[i:i+1], 0
		}
	}
	b.WriteString(word[:len(word)-spaces])
	return text[i:]
}
