package policy

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// pattern is a regular expression of the profile. Nearly all are a few fixed words with white space between them; those
// are looked for as such, in one pass that no source can make slow. Any other is left to package regexp, which takes
// linear time as well but many times longer.
type pattern struct {
	phrase []piece
	regexp *regexp.Regexp
}

// piece is a fixed text, or white space of at least so many characters.
type piece struct {
	text  string
	space bool
	least int
}

func compilePatterns(sources []string) ([]pattern, error) {
	var patterns []pattern
	for _, source := range sources {
		compiled, err := compilePattern(source)
		if err != nil {
			return nil, err
		}
		patterns = append(patterns, compiled)
	}
	return patterns, nil
}

func compilePattern(source string) (pattern, error) {
	expression, err := regexp.Compile(source)
	if err != nil {
		return pattern{}, fmt.Errorf("the pattern %q cannot be read: %w", source, err)
	}
	if expression.MatchString("") {
		return pattern{}, fmt.Errorf("the pattern %q is found in every source, because it is found in nothing", source)
	}
	if phrase, ok := asPhrase(source); ok {
		return pattern{phrase: phrase}, nil
	}
	return pattern{regexp: expression}, nil
}

// asPhrase reads an expression that is a phrase. It has to begin with a text, and no text after white space may begin with
// white space itself: then how much white space to take is never in question.
func asPhrase(source string) ([]piece, bool) {
	var phrase []piece
	afterSpace := true
	for rest := source; rest != ""; {
		least := -1
		switch {
		case strings.HasPrefix(rest, `\s*`):
			least = 0
		case strings.HasPrefix(rest, `\s+`):
			least = 1
		}
		if least >= 0 {
			if afterSpace {
				return nil, false
			}
			phrase = append(phrase, piece{space: true, least: least})
			afterSpace = true
			rest = rest[3:]
			continue
		}
		if rest[0] == '\\' {
			rest = rest[1:]
			if rest == "" || !strings.ContainsRune(`\.+*?()|[]{}^$`, rune(rest[0])) {
				return nil, false
			}
		} else if strings.ContainsRune(`.+*?()|[]{}^$`, rune(rest[0])) || rest[0] >= 0x80 || rest[0] <= ' ' {
			return nil, false
		}
		if afterSpace {
			phrase = append(phrase, piece{})
		}
		phrase[len(phrase)-1].text += rest[:1]
		afterSpace = false
		rest = rest[1:]
	}
	return phrase, len(phrase) > 0
}

// each reports every place the pattern is found at, in order, none overlapping the one before.
func (p pattern) each(text []byte, found func(start, end int)) {
	if p.regexp != nil {
		for _, place := range p.regexp.FindAllIndex(text, -1) {
			found(place[0], place[1])
		}
		return
	}
	first := []byte(p.phrase[0].text)
	for at := 0; ; {
		next := bytes.Index(text[at:], first)
		if next < 0 {
			return
		}
		start := at + next
		if end, ok := p.follow(text, start+len(first)); ok {
			found(start, end)
			at = end
		} else {
			at = start + 1
		}
	}
}

// follow matches the pieces after the first. White space that was looked at is not looked at again by a later attempt,
// because a phrase begins with a text.
func (p pattern) follow(text []byte, at int) (end int, ok bool) {
	for _, piece := range p.phrase[1:] {
		if !piece.space {
			if !bytes.HasPrefix(text[at:], []byte(piece.text)) {
				return 0, false
			}
			at += len(piece.text)
			continue
		}
		begin := at
		for at < len(text) && isBlank(text[at]) {
			at++
		}
		if at-begin < piece.least {
			return 0, false
		}
	}
	return at, true
}
