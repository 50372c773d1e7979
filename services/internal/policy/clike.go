package policy

import "bytes"

// checkC looks for denied headers and, in what is left, for the identifiers and patterns of the groups (9.2).
func (r *rules) checkC(source []byte, m matching) Report {
	var report Report
	text := clean(source)

	var headers found
	place := lines{text: text}
	eachHeader(text, m, func(start, end int) {
		if r.deniedHeader(text[start:end]) {
			headers.add(func() Violation {
				name := shown(text[start:end])
				return Violation{Rule: "forbidden header <" + name + ">", Matched: name, Line: place.line(start)}
			})
		}
	})
	report.take(headers)

	identifiers := make([]found, len(r.identifierRule))
	place = lines{text: text}
	eachWord(text, func(start, end int) {
		for _, at := range r.identifiers[string(text[start:end])] {
			identifiers[at].add(func() Violation {
				return Violation{Rule: r.identifierRule[at], Matched: string(text[start:end]), Line: place.line(start)}
			})
		}
	})
	for _, group := range r.groups {
		for range group.identifiers {
			report.take(identifiers[0])
			identifiers = identifiers[1:]
		}
		for _, pattern := range group.patterns {
			report.take(pattern.violations(group.name, text))
		}
	}
	return report
}

// violations finds a pattern. Its line is the one on which the text it shows begins.
func (p pattern) violations(rule string, text []byte) found {
	var hits found
	place := lines{text: text}
	p.each(text, func(start, end int) {
		hits.add(func() Violation {
			for start < end && isBlank(text[start]) {
				start++
			}
			return Violation{Rule: rule, Matched: shown(text[start:end]), Line: place.line(start)}
		})
	})
	return hits
}

// eachHeader goes over a source once, writes spaces over its comments, its literals and its include directives, and
// reports where the name in each directive stands, before that is written over as well. It knows a directive when it sees
// one, so a name in quotation marks is not taken for a literal, nor two slashes in a name for a comment.
func eachHeader(text []byte, m matching, header func(start, end int)) {
	fresh := true // nothing but white space and comments on this line so far
	for at := 0; at < len(text); {
		if end := commentEnd(text, at); end > at {
			at = strip(text, at, end, m.stripComments)
			continue
		}
		switch b := text[at]; b {
		case '\n':
			fresh = true
		case ' ':
		case '"', '\'':
			fresh = false
			at = strip(text, at, literalEnd(text, at, 1), m.stripLiterals)
			continue
		case '#':
			if fresh {
				if start, end, ok := includedName(text, at, m); ok {
					header(start, end)
					blank(text, at, end+1)
					at = end
				}
			}
			fresh = false
		default:
			fresh = false
		}
		at++
	}
}

func strip(text []byte, begin, end int, really bool) int {
	if really {
		blank(text, begin, end)
	}
	return end
}

// commentEnd returns where the comment at a place ends, or the place if there is none. A block comment may be left open.
func commentEnd(text []byte, at int) int {
	if text[at] != '/' || at+1 == len(text) {
		return at
	}
	switch text[at+1] {
	case '/':
		if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
			return at + n
		}
		return len(text)
	case '*':
		if n := bytes.Index(text[at+2:], []byte("*/")); n >= 0 {
			return at + 2 + n + 2
		}
		return len(text)
	}
	return at
}

// literalEnd returns where the literal at a place ends, whose quotation mark is written so many times on either side. A
// backslash takes the next character with it. A literal may be left open, and then it ends with the source (9.2).
func literalEnd(text []byte, at, marks int) int {
	mark := text[at : at+marks]
	for at += marks; at < len(text); at++ {
		if text[at] == '\\' {
			at++
		} else if bytes.HasPrefix(text[at:], mark) {
			return at + marks
		}
	}
	return len(text)
}

// includedName finds the name in the include directive that a number sign begins. Comments may stand between its parts,
// even over several lines.
func includedName(text []byte, at int, m matching) (start, end int, ok bool) {
	at = skipSpaceAndComments(text, at+1, m)
	if at >= len(text) || !bytes.HasPrefix(text[at:], []byte("include")) {
		return 0, 0, false
	}
	at = skipSpaceAndComments(text, at+len("include"), m)
	if at >= len(text) || text[at] != '<' && text[at] != '"' {
		return 0, 0, false
	}
	start = at + 1
	n := bytes.IndexAny(text[start:], ">\"\n")
	if n <= 0 || text[start+n] == '\n' {
		return 0, 0, false
	}
	return start, start + n, true
}

func skipSpaceAndComments(text []byte, at int, m matching) int {
	for at < len(text) {
		if end := commentEnd(text, at); end > at {
			at = strip(text, at, end, m.stripComments)
		} else if text[at] == ' ' {
			at++
		} else {
			break
		}
	}
	return at
}
