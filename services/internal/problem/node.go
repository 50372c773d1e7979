package problem

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// kind is what a value of a configuration is, in the YAML 1.2 core schema.
type kind uint8

const (
	nullKind kind = iota + 1
	boolKind
	integerKind
	floatKind
	textKind
	listKind
	objectKind
)

func (k kind) String() string {
	switch k {
	case nullKind:
		return "null"
	case boolKind:
		return "a switch (true or false)"
	case integerKind:
		return "a whole number"
	case floatKind:
		return "a number with a fraction or exponent"
	case textKind:
		return "text"
	case listKind:
		return "a list"
	case objectKind:
		return "an object"
	}
	return "nothing"
}

// position is a place in a text; line and col are 0 in a text without lines of its own, such as an overlay.
type position struct {
	file      string
	line, col int
}

// node is one value of a configuration, whichever notation it came in. Scalars keep the letters they were written in,
// so that 1e3, 01750 and 1000 are still three things when they are looked at.
type node struct {
	kind    kind
	text    string
	items   []*node
	members []member
	at      position
}

type member struct {
	key   string
	at    position
	value *node
}

// found describes a value in an error message.
func (n *node) found() string {
	switch n.kind {
	case textKind:
		return "the text " + shown(n.text)
	case boolKind, integerKind, floatKind:
		return shownScalar(n.text)
	}
	return n.kind.String()
}

func shownScalar(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

// member returns the value of a member, or nil.
func (n *node) member(key string) *node {
	if n.kind != objectKind {
		return nil
	}
	for _, m := range n.members {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

func (at position) malformed(key, format string, args ...any) *Error {
	return at.fault(CodeConfigMalformed, key, format, args...)
}

func (at position) fault(code Code, key, format string, args ...any) *Error {
	return &Error{
		Code: code, Where: at.file, Line: at.line, Col: at.col,
		Key: key, Msg: fmt.Sprintf(format, args...),
	}
}

// wrongKind is the error for a value of another kind than the schema wants.
func (n *node) wrongKind(key, expected string) *Error {
	return n.at.malformed(key, "expected %s, found %s", expected, n.found())
}

// object checks that the value is an object without members other than those known.
func (n *node) object(key string, known ...string) error {
	if n.kind != objectKind {
		return n.wrongKind(key, "an object with "+strings.Join(known, ", "))
	}
	for _, m := range n.members {
		if !slices.Contains(known, m.key) {
			return m.at.malformed(join(key, m.key), "unknown member; expected one of %s", strings.Join(known, ", "))
		}
	}
	return nil
}

// required returns a member that must be there.
func (n *node) required(key, name, expected string) (*node, error) {
	if value := n.member(name); value != nil {
		return value, nil
	}
	return nil, n.at.malformed(join(key, name), "missing; expected %s", expected)
}

// list checks that the value is a list.
func (n *node) list(key, of string) ([]*node, error) {
	if n.kind != listKind {
		return nil, n.wrongKind(key, "a list of "+of)
	}
	return n.items, nil
}

// textValue reads a text. What looks like a number is no text, unless it is quoted.
func (n *node) textValue(key string) (string, error) {
	if n.kind != textKind {
		return "", n.wrongKind(key, "text")
	}
	return n.text, nil
}

func (n *node) boolValue(key string) (bool, error) {
	if n.kind != boolKind {
		return false, n.wrongKind(key, "true or false")
	}
	return strings.EqualFold(n.text, "true"), nil
}

// unsigned reads a whole number from 0 to most, written in plain decimal.
func (n *node) unsigned(key string, most uint64) (uint64, error) {
	expected := fmt.Sprintf("a whole number from 0 to %d", most)
	if n.kind != integerKind {
		return 0, n.wrongKind(key, expected)
	}
	if n.text != "0" && (n.text[0] < '1' || n.text[0] > '9') {
		return 0, n.at.malformed(key, "expected %s, in plain decimal without sign or leading zero; found %s", expected, n.found())
	}
	value, err := strconv.ParseUint(n.text, 10, 64)
	if err != nil || value > most {
		return 0, n.at.malformed(key, "expected %s, found %s", expected, n.found())
	}
	return value, nil
}

// number reads a finite number, with or without a fraction.
func (n *node) number(key string) (float64, error) {
	if n.kind != integerKind && n.kind != floatKind {
		return 0, n.wrongKind(key, "a number")
	}
	value, err := strconv.ParseFloat(n.text, 64)
	if err != nil || math.IsInf(value, 0) || math.IsNaN(value) {
		return 0, n.at.malformed(key, "expected a finite number, found %s", n.found())
	}
	return value, nil
}

// join names a member of what key names. A stranger chose the name, so one that is not plain is quoted.
func join(key, name string) string {
	if name == "" || len(name) > 60 || strings.ContainsFunc(name, func(r rune) bool { return r == '/' || !allowedInName(r) }) {
		name = shown(name)
	}
	if key == "" {
		return name
	}
	return key + "." + name
}

func index(key string, i int) string { return fmt.Sprintf("%s[%d]", key, i) }
