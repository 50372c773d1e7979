package policy

import "bytes"

// checkPython looks for denied imports, calls of denied builtins, and patterns (9.2).
func (r *rules) checkPython(source []byte, m matching) Report {
	var report Report
	text := clean(source)
	stripPython(text, m)

	var imports found
	builtins := make([]found, len(r.builtinNames))
	moduleLine, callLine := lines{text: text}, lines{text: text}
	module := func(start, end int) {
		root, _, _ := bytes.Cut(text[start:end], []byte("."))
		if r.imports[string(root)] {
			imports.add(func() Violation {
				return Violation{Rule: "forbidden module " + string(root), Matched: shown(text[start:end]), Line: moduleLine.line(start)}
			})
		}
	}
	eachWord(text, func(start, end int) {
		word := text[start:end]
		if id, ok := r.builtins[string(word)]; ok && isCall(text, start, end) {
			builtins[id].add(func() Violation {
				return Violation{Rule: "forbidden builtin " + string(word), Matched: string(word), Line: callLine.line(start)}
			})
		}
		list := string(word) == "import"
		if (list || string(word) == "from") && beginsStatement(text, start) {
			eachImported(text, end, list, module)
		}
	})

	report.take(imports)
	for _, hits := range builtins {
		report.take(hits)
	}
	for _, pattern := range r.patterns {
		report.take(pattern.violations("forbidden call", text))
	}
	return report
}

// stripPython writes spaces over comments and literals.
func stripPython(text []byte, m matching) {
	for at := 0; at < len(text); {
		switch b := text[at]; b {
		case '#':
			end := len(text)
			if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
				end = at + n
			}
			at = strip(text, at, end, m.stripComments)
		case '"', '\'':
			marks := 1
			if bytes.HasPrefix(text[at:], []byte{b, b, b}) {
				marks = 3
			}
			at = strip(text, at, literalEnd(text, at, marks), m.stripLiterals)
		default:
			at++
		}
	}
}

// beginsStatement reports whether a statement can begin at a place: at the beginning of a line, after a semicolon, or
// after the colon of a compound statement.
func beginsStatement(text []byte, at int) bool {
	before := bytes.TrimRight(text[:at], " ")
	if len(before) == 0 {
		return true
	}
	last := before[len(before)-1]
	return last == '\n' || last == ';' || last == ':'
}

// eachImported reports the modules an import names: all of them after "import", the one after "from".
func eachImported(text []byte, at int, list bool, module func(start, end int)) {
	start := skipWithinStatement(text, at)
	if start == at {
		return // the keyword and what follows it are not two words
	}
	for {
		end := wordEnd(text, start)
		if end == start {
			return
		}
		for end < len(text) && text[end] == '.' {
			end = wordEnd(text, end+1)
		}
		module(start, end)
		at = skipWithinStatement(text, end)
		if renamed := wordEnd(text, at); string(text[at:renamed]) == "as" {
			at = skipWithinStatement(text, renamed)
			at = skipWithinStatement(text, wordEnd(text, at))
		}
		if !list || at == len(text) || text[at] != ',' {
			return
		}
		start = skipWithinStatement(text, at+1)
	}
}

// skipWithinStatement passes over spaces and over ends of lines that a backslash takes back.
func skipWithinStatement(text []byte, at int) int {
	for at < len(text) {
		switch {
		case text[at] == ' ':
			at++
		case bytes.HasPrefix(text[at:], []byte("\\\n")):
			at += 2
		case bytes.HasPrefix(text[at:], []byte("\\ \n")): // what clean leaves of a backslash before both line end characters
			at += 3
		default:
			return at
		}
	}
	return at
}

// isCall reports whether a word is called as a function of that name. A method that happens to be called the same is not,
// nor is a definition; but what the modules below give out under that name is the builtin itself.
func isCall(text []byte, start, end int) bool {
	for end < len(text) && isBlank(text[end]) {
		end++
	}
	if end == len(text) || text[end] != '(' {
		return false
	}
	before := bytes.TrimRight(text[:start], " ")
	if owner, ok := bytes.CutSuffix(before, []byte(".")); ok {
		return isBuiltinsModule(bytes.TrimRight(owner, " "))
	}
	return !endsWithWord(before, "def") && !endsWithWord(before, "class")
}

func isBuiltinsModule(owner []byte) bool {
	for _, name := range []string{"builtins", "__builtins__", "io", "_io"} {
		if endsWithWord(owner, name) {
			above := bytes.TrimRight(bytes.TrimSuffix(owner, []byte(name)), " ")
			return !bytes.HasSuffix(above, []byte("."))
		}
	}
	return false
}
