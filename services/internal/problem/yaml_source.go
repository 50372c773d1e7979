package problem

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// checkText refuses the characters that no YAML text may hold (YAML 1.2.2, production 1). The parser takes them, NUL included.
func checkText(name, text string) error {
	w := sourceWalk{name: name, text: text, line: 1, col: 1}
	for w.at < len(text) {
		r, _ := utf8.DecodeRuneInString(text[w.at:])
		if r < ' ' && r != '\t' && r != '\n' || 0x7f <= r && r < 0xa0 && r != 0x85 || r == 0xfffe || r == 0xffff {
			return w.position().malformed("", "the character %+q, which no YAML text may hold", r)
		}
		w.step()
	}
	return nil
}

// checkSource walks the text along its tokens and refuses whatever is not, letter by letter, what the tokens say. The
// lexer is lenient: it drops a tab inside of a name, reads a brace in front of a name as a part of it, joins a line that
// is indented too far to the text above, and takes {points:5} for a number although to YAML 1.2 that is a name. What it
// does not see the schema cannot refuse. Its places are not always right either (a space at the end of a line is enough),
// so each token is given the place that it was found at.
func checkSource(name, text string, tokens token.Tokens) error {
	w := sourceWalk{name: name, text: text, line: 1, col: 1}
	for i, tk := range tokens {
		if err := w.blank(tk.Type == token.CommentType); err != nil {
			return err
		}
		at := w.position()
		fault, width := w.token(tk, tokens[:i])
		if fault != "" {
			return at.malformed("", "%s", fault)
		}
		place := *tk.Position
		place.Line, place.Column = at.line, at.col
		tk.Position = &place
		for end := w.at + width; w.at < end; {
			w.step()
		}
	}
	if err := w.blank(true); err != nil {
		return err
	}
	if w.at < len(text) {
		return w.position().malformed("", "not YAML: %s is not read", shown(firstLine(text[w.at:])))
	}
	return nil
}

// sourceWalk is a place in a text whose lines end in LF. Columns count characters, from 1.
type sourceWalk struct {
	name, text string
	at         int
	line, col  int
	flow       int
}

func (w *sourceWalk) position() position {
	return position{file: w.name, line: w.line, col: w.col}
}

func (w *sourceWalk) step() {
	_, size := utf8.DecodeRuneInString(w.text[w.at:])
	if w.text[w.at] == '\n' {
		w.line, w.col = w.line+1, 1
	} else {
		w.col++
	}
	w.at += size
}

// blank passes white space. A line that says something is not indented with tabs.
func (w *sourceWalk) blank(tabs bool) error {
	indent := w.col == 1
	var tab position
	for ; w.at < len(w.text); w.step() {
		switch w.text[w.at] {
		case '\n':
			indent, tab = true, position{}
		case ' ':
		case '\t':
			if indent && tab.line == 0 {
				tab = w.position()
			}
		default:
			if tab.line > 0 && !tabs {
				return tab.malformed("", "not YAML: a tab in the indentation; expected spaces")
			}
			return nil
		}
	}
	return nil
}

// token compares one token with the text. It returns what is wrong, or how many bytes the token has in the text.
func (w *sourceWalk) token(tk *token.Token, before token.Tokens) (fault string, width int) {
	rest := w.text[w.at:]
	switch tk.Type {
	case token.InvalidType:
		return "not YAML: " + tk.Error, 0
	case token.CommentType:
		if rest == "" || rest[0] != '#' || w.at > 0 && !strings.ContainsRune(" \t\n", rune(w.text[w.at-1])) {
			return "not YAML: a comment begins with # after a space", 0
		}
		return "", len(firstLine(rest))
	case token.SingleQuoteType, token.DoubleQuoteType:
		return w.quoted(rest)
	case token.DocumentHeaderType, token.DocumentEndType:
		if w.col != 1 || firstLine(strings.TrimRight(firstLine(rest), " \t")) != tk.Value && !strings.HasPrefix(rest, tk.Value+" #") {
			return "not YAML: expected " + tk.Value + " on a line of its own", 0
		}
		return "", len(tk.Value)
	case token.SequenceStartType, token.MappingStartType:
		w.flow++
	case token.SequenceEndType, token.MappingEndType:
		w.flow = max(0, w.flow-1)
	case token.MappingValueType:
		if strings.HasPrefix(rest, ":") && !w.ends(rest[1:], ",[]{}") &&
			(w.flow == 0 || !follows(before, token.SingleQuoteType, token.DoubleQuoteType)) { // {"a":1} is JSON

			return "not YAML: expected a space after the colon", 0
		}
	case token.SequenceEntryType:
		if strings.HasPrefix(rest, "-") && !w.ends(rest[1:], "") {
			return "not YAML: expected a space after the dash", 0
		}
	case token.CollectEntryType:
		if w.flow == 0 || follows(before, token.SequenceStartType, token.MappingStartType, token.CollectEntryType) {
			return "not YAML: expected a value before the comma", 0
		}
	default:
		return w.plain(tk, rest)
	}
	if !strings.HasPrefix(rest, tk.Value) {
		return "not YAML: expected " + shown(tk.Value), 0
	}
	return "", len(tk.Value)
}

// ends tells whether what goes before this text is complete there. The indicators count within [ ] and { } only.
func (w *sourceWalk) ends(rest, indicators string) bool {
	return rest == "" || strings.IndexByte(" \t\n", rest[0]) >= 0 || w.flow > 0 && strings.IndexByte(indicators, rest[0]) >= 0
}

// follows tells whether the last token that is no comment is one of these.
func follows(before token.Tokens, types ...token.Type) bool {
	for _, tk := range slices.Backward(before) {
		if tk.Type != token.CommentType {
			return slices.Contains(types, tk.Type)
		}
	}
	return false
}

// quoted measures a quoted text, which ends on the line it begins on: a quote that is missing would otherwise reach up to
// the next one, wherever that is.
func (w *sourceWalk) quoted(rest string) (fault string, width int) {
	if rest == "" || rest[0] != '\'' && rest[0] != '"' {
		return "not YAML: expected a quote", 0
	}
	// A line may be as long as the text and hold a hundred thousand of these: none is looked at beyond its end.
	for i := 1; i < len(rest) && rest[i] != '\n'; i++ {
		switch {
		case rest[i] == '\\' && rest[0] == '"' && !strings.HasPrefix(rest[i+1:], "\n"):
			i++
		case rest[i] != rest[0]:
		case rest[0] == '\'' && strings.HasPrefix(rest[i+1:], "'"):
			i++
		case w.ends(rest[i+1:], ",:]}") || rest[i+1] == ':':
			return "", i + 1
		default:
			return "not YAML: expected nothing more after the closing quote", 0
		}
	}
	return "the quoted text does not end on its line; is the closing quote missing?", 0
}

// plain measures a text without quotes, which stands on one line for the same reason: a line that is indented too far, or
// a comma that is missing, would otherwise become a part of it.
func (w *sourceWalk) plain(tk *token.Token, rest string) (fault string, width int) {
	value := tk.Value
	switch {
	case strings.Contains(strings.TrimSpace(tk.Origin), "\n"):
		return "a text without quotes that goes on in the next line; is a dash, a comma or a colon missing, or the indentation wrong?", 0
	case value == "" || strings.Contains(value, "\t") || !strings.HasPrefix(rest, value):
		return "not YAML: a text without quotes with a tab in it", 0
	case strings.IndexByte(",[]{}#&*!|>'\"%@`", value[0]) >= 0,
		strings.IndexByte("-?:", value[0]) >= 0 && w.ends(value[1:], ",[]{}"):
		return "not YAML: a text without quotes that begins with " + shown(value[:1]), 0
	case w.flow > 0 && strings.ContainsAny(value, ",[]{}"):
		return "not YAML: a text without quotes with one of , [ ] { } in it", 0
	}
	for i := range len(value) {
		if value[i] == ':' && w.ends(value[i+1:], ",[]{}") || value[i] == '#' && i > 0 && (value[i-1] == ' ' || value[i-1] == '\t') {
			return "not YAML: a text without quotes with " + shown(value[i:i+1]) + " in it", 0
		}
	}
	if after := rest[len(value):]; !w.ends(after, ",]}") && after[0] != ':' {
		return "not YAML: expected the text to end before " + shown(firstLine(after)), 0
	}
	return "", len(value)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
