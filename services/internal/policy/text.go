package policy

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// clean returns a copy of a source in which every white space is a space or a line feed, so that all that follows has two
// bytes to look for. Every byte stays where it was, and so does every line. A line ends where compilers and editors end
// it: at a line feed, at a carriage return, or at both together. A byte order mark at the beginning is white space.
func clean(source []byte) []byte {
	text := bytes.Clone(source)
	at := 0
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		at = blank(text, 0, len("\ufeff"))
	}
	for at < len(text) {
		switch b := text[at]; {
		case b == '\r' && (at+1 == len(text) || text[at+1] != '\n'):
			text[at] = '\n'
			at++
		case b == '\t' || b == '\v' || b == '\f' || b == '\r':
			text[at] = ' '
			at++
		case b < utf8.RuneSelf:
			at++
		default:
			scalar, size := utf8.DecodeRune(text[at:])
			if unicode.IsSpace(scalar) {
				blank(text, at, at+size)
			}
			at += size
		}
	}
	return text
}

// blank writes spaces over a part of a text, but leaves its lines. It returns where the part ended.
func blank(text []byte, begin, end int) int {
	for i := begin; i < end; i++ {
		if text[i] != '\n' {
			text[i] = ' '
		}
	}
	return end
}

// isBlank is about a text that clean has gone over.
func isBlank(b byte) bool { return b == ' ' || b == '\n' }

// isWord reports whether a scalar can be part of a word, as regular expressions over Unicode have it: letters, marks,
// decimal digits, connecting punctuation, and the two joiners. A word ends where that does, so "ésystem" is one word.
func isWord(scalar rune) bool {
	if scalar < utf8.RuneSelf {
		return 'a' <= scalar && scalar <= 'z' || 'A' <= scalar && scalar <= 'Z' || '0' <= scalar && scalar <= '9' || scalar == '_'
	}
	if scalar == utf8.RuneError { // what every broken byte reads as
		return false
	}
	return unicode.In(scalar, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Other_Alphabetic, unicode.Pc) ||
		scalar == '\u200c' || scalar == '\u200d'
}

func isWholeWord(s string) bool { return s != "" && wordEnd([]byte(s), 0) == len(s) }

// wordEnd returns where the word at a place ends; the place itself if there is none.
func wordEnd(text []byte, at int) int {
	for at < len(text) {
		scalar, size := rune(text[at]), 1
		if scalar >= utf8.RuneSelf {
			scalar, size = utf8.DecodeRune(text[at:])
		}
		if !isWord(scalar) {
			break
		}
		at += size
	}
	return at
}

// endsInWord reports whether a text ends in the middle of a word.
func endsInWord(text []byte) bool {
	scalar, _ := utf8.DecodeLastRune(text)
	return len(text) > 0 && isWord(scalar)
}

// endsWithWord reports whether the last word of a text is this one.
func endsWithWord(text []byte, word string) bool {
	before, ok := bytes.CutSuffix(text, []byte(word))
	return ok && !endsInWord(before)
}

// eachWord reports every word of a text, in order.
func eachWord(text []byte, found func(start, end int)) {
	for at := 0; at < len(text); {
		end := wordEnd(text, at)
		if end > at {
			found(at, end)
			at = end
			continue
		}
		_, size := utf8.DecodeRune(text[at:])
		at += size
	}
}

// lines tells on which line a place is. It is quick for places asked about in order.
type lines struct {
	text   []byte
	at     int
	before int // line feeds before at
}

func (l *lines) line(place int) int {
	if place < l.at {
		l.at, l.before = 0, 0
	}
	l.before += bytes.Count(l.text[l.at:place], []byte{'\n'})
	l.at = place
	return l.before + 1
}
