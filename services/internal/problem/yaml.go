package problem

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

const (
	// ConfigName is the one file a package must have, at its root.
	ConfigName = "config.yml"
	// maxConfigBytes is far above the longest honest config.yml: as many groups as a package can have tests for, and a line of
	// comment for each.
	maxConfigBytes = 512 * verdict.KiB
)

// readYAML reads one YAML 1.2 document into a node. Only what a configuration needs is read: anchors, aliases, merge
// keys, tags, directives, explicit keys and a second document are refused, so that what stands in the file is what
// is meant, and so that no document can grow while it is read (docs/decisions/0022).
func readYAML(name string, text []byte) (root *node, err error) {
	start := position{file: name, line: 1, col: 1}
	if len(text) > int(maxConfigBytes) {
		return nil, start.malformed("", "longer than %s", maxConfigBytes)
	}
	if at, ok := firstInvalid(text); ok {
		before := plainLines(text[:at])
		line, begin := bytes.Count(before, []byte("\n"))+1, bytes.LastIndexByte(before, '\n')+1
		return nil, position{file: name, line: line, col: utf8.RuneCount(before[begin:]) + 1}.
			fault(CodeConfigMissing, "", "not UTF-8 text: the byte 0x%02x", text[at])
	}
	text = plainLines(text)
	if err := checkText(name, string(text)); err != nil {
		return nil, err
	}

	// The parser is robust but not written for hostile text; a panic in it is one more way to be malformed.
	defer func() {
		if r := recover(); r != nil {
			root, err = nil, start.malformed("", "cannot be read as YAML (%v)", r)
		}
	}()
	tokens := lexer.Tokenize(string(text))
	if err := checkTokens(name, tokens); err != nil {
		return nil, err
	}
	if err := checkSource(name, string(text), tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // repeated keys are refused below, in our words
	if err != nil {
		return nil, syntaxError(name, err)
	}
	var body ast.Node
	for _, document := range file.Docs {
		switch {
		case document.Body == nil:
		case body != nil:
			return nil, positionOf(name, document.Body.GetToken()).malformed("", "a second document; expected exactly one")
		default:
			body = document.Body
		}
	}
	if body == nil {
		return nil, start.malformed("", "the document is empty; expected an object")
	}
	r := yamlReader{name: name}
	if root, err = r.value(body, "", 0); err != nil {
		return nil, err
	}
	if scalars := countScalars(tokens); r.scalars != scalars {
		return nil, start.malformed("", "cannot be read without doubt: the parser found %d of %d texts", r.scalars, scalars)
	}
	return root, nil
}

// plainLines is a text without a byte order mark, whose lines end in LF.
func plainLines(text []byte) []byte {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
}

// firstInvalid finds the first byte of a text that is no UTF-8.
func firstInvalid(text []byte) (at int, ok bool) {
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			return at, true
		}
		at += size
	}
	return 0, false
}

func syntaxError(name string, err error) error {
	var fault yaml.Error
	if errors.As(err, &fault) && fault.GetToken() != nil {
		return positionOf(name, fault.GetToken()).malformed("", "not YAML: %s", fault.GetMessage())
	}
	return position{file: name, line: 1, col: 1}.malformed("", "not YAML: %v", err)
}

func positionOf(name string, tk *token.Token) position {
	if tk == nil || tk.Position == nil {
		return position{file: name, line: 1, col: 1}
	}
	return position{file: name, line: tk.Position.Line, col: tk.Position.Column}
}

// yamlReader turns the parser's tree into nodes.
type yamlReader struct {
	name string
	// scalars counts the names and values met, to see that the parser has dropped none.
	scalars int
}

func (r *yamlReader) value(n ast.Node, key string, depth int) (*node, error) {
	at := positionOf(r.name, n.GetToken())
	if depth > maxDepth {
		return nil, at.malformed(key, "nested deeper than %d levels", maxDepth)
	}
	if tk := n.GetToken(); tk != nil && tk.Type == token.ImplicitNullType && at.col > 1 {
		at.col-- // a value that is missing is missed just behind the colon or the dash; the parser says one further
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		if n.IsFlowStyle {
			at = positionOf(r.name, n.Start)
		} else if len(n.Values) > 0 {
			at = positionOf(r.name, n.Values[0].Key.GetToken())
		}
		return r.object(n.Values, at, !n.IsFlowStyle, key, depth)
	case *ast.MappingValueNode:
		return r.object([]*ast.MappingValueNode{n}, positionOf(r.name, n.Key.GetToken()), !n.IsFlowStyle, key, depth)
	case *ast.SequenceNode:
		list := &node{kind: listKind, at: at}
		for i, value := range n.Values {
			item, err := r.value(value, index(key, i), depth+1)
			if err != nil {
				return nil, err
			}
			if !n.IsFlowStyle && i < len(n.Entries) {
				dash := positionOf(r.name, n.Entries[i].Start)
				if err := indented(dash, at.col, item, false, index(key, i)); err != nil {
					return nil, err
				}
			}
			list.items = append(list.items, item)
		}
		return list, nil
	case *ast.LiteralNode:
		return &node{kind: textKind, text: n.Value.Value, at: at}, nil
	case *ast.NullNode, *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode, *ast.StringNode:
		return r.scalar(n.GetToken(), at), nil
	}
	return nil, at.malformed(key, "%s is not supported here", n.Type())
}

func (r *yamlReader) object(values []*ast.MappingValueNode, at position, block bool, key string, depth int) (*node, error) {
	object := &node{kind: objectKind, at: at}
	seen := make(map[string]bool, len(values))
	for _, pair := range values {
		tk := pair.Key.GetToken()
		place := positionOf(r.name, tk)
		name, isText := pair.Key.(*ast.StringNode)
		if !isText || r.scalar(tk, place).kind != textKind {
			return nil, place.malformed(key, "expected a name as key, found %s", shown(tk.Value))
		}
		if seen[name.Value] {
			return nil, place.malformed(join(key, name.Value), "the key occurs twice")
		}
		seen[name.Value] = true
		if pair.Value == nil {
			return nil, place.malformed(join(key, name.Value), "the value is missing")
		}
		value, err := r.value(pair.Value, join(key, name.Value), depth+1)
		if err != nil {
			return nil, err
		}
		if block {
			list, ok := pair.Value.(*ast.SequenceNode)
			if err := indented(place, at.col, value, ok && !list.IsFlowStyle, join(key, name.Value)); err != nil {
				return nil, err
			}
		}
		object.members = append(object.members, member{key: name.Value, at: place, value: value})
	}
	return object, nil
}

// indented checks what the parser does not: the names of an object and the dashes of a list stand below each other, and a
// value on a line of its own stands further to the right. Only the dashes of a list may stand in the column of its name.
func indented(part position, column int, value *node, dashes bool, key string) error {
	if part.col != column {
		return part.malformed(key, "not YAML: expected it to begin in column %d, like its neighbours", column)
	}
	if value.at.line <= part.line || value.at.col > part.col || dashes && value.at.col == part.col {
		return nil
	}
	return value.at.malformed(key, "not YAML: expected it to be indented further than column %d", part.col)
}

func countScalars(tokens token.Tokens) int {
	count := 0
	for _, tk := range tokens {
		switch tk.Type {
		case token.DocumentHeaderType, token.DocumentEndType, token.SequenceEntryType, token.MappingValueType,
			token.CollectEntryType, token.SequenceStartType, token.SequenceEndType, token.MappingStartType,
			token.MappingEndType, token.CommentType:
		default:
			count++
		}
	}
	return count
}

// The YAML 1.2 core schema for plain scalars, except that octal and hexadecimal numbers count as whole numbers written
// in a way that no member accepts, which gives the better message.
var (
	yamlNull    = regexp.MustCompile(`^(?:null|Null|NULL|~)?$`)
	yamlBool    = regexp.MustCompile(`^(?:true|True|TRUE|false|False|FALSE)$`)
	yamlInteger = regexp.MustCompile(`^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$`)
	yamlFloat   = regexp.MustCompile(`^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?` +
		`|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)
)

// scalar decides what a plain scalar is from its letters. The parser has an opinion of its own (1_000 is a number to
// it, 1e3 is not), and that opinion is not asked for.
func (r *yamlReader) scalar(tk *token.Token, at position) *node {
	n := &node{kind: textKind, text: tk.Value, at: at}
	if tk.Type != token.ImplicitNullType {
		r.scalars++
	}
	if tk.Type == token.SingleQuoteType || tk.Type == token.DoubleQuoteType {
		return n
	}
	switch {
	case yamlNull.MatchString(tk.Value):
		n.kind = nullKind
	case yamlBool.MatchString(tk.Value):
		n.kind = boolKind
	case yamlInteger.MatchString(tk.Value):
		n.kind = integerKind
	case yamlFloat.MatchString(tk.Value):
		n.kind = floatKind
	}
	return n
}

const (
	// maxDepth is far above the five levels that the schema has.
	maxDepth = 32
	// maxMembers bounds the members of one object written in block style. Only overrideLimits has names of the author's choice.
	maxMembers = 1000
)

// checkTokens refuses what is not read at all, and whatever would make the parser slow or its recursion deep. It
// sees every token before the parser does.
func checkTokens(name string, tokens token.Tokens) error {
	shape := shape{}
	headers, content, ended := 0, false, false
	for _, tk := range tokens {
		at := positionOf(name, tk)
		if what, refused := unsupported[tk.Type]; refused {
			return at.malformed("", "%s are not supported in %s", what, name)
		}
		switch tk.Type {
		case token.CommentType:
			continue
		case token.DocumentHeaderType:
			headers++
			if headers > 1 || content || ended {
				return at.malformed("", "a second document; expected exactly one")
			}
			continue
		case token.DocumentEndType:
			ended = true
			continue
		}
		if ended {
			return at.malformed("", "something after the end of the document")
		}
		content = true
		if err := shape.add(tk); err != nil {
			return at.malformed("", "%v", err)
		}
	}
	return nil
}

var unsupported = map[token.Type]string{
	token.LiteralType:    "block texts (|)",
	token.FoldedType:     "block texts (>)",
	token.AnchorType:     "anchors (&name)",
	token.AliasType:      "aliases (*name)",
	token.MergeKeyType:   "merge keys (<<)",
	token.TagType:        "tags (!name)",
	token.DirectiveType:  "directives (%name)",
	token.MappingKeyType: "explicit keys (? key)",
}

// shape follows how the collections of a document nest, from its tokens alone.
type shape struct {
	flow  int
	block []level
}

// level is one open collection in block style: the column it started in, and how many members it has so far.
type level struct {
	column  int
	list    bool
	members int
}

func (s *shape) add(tk *token.Token) error {
	switch tk.Type {
	case token.SequenceStartType, token.MappingStartType:
		s.flow++
	case token.SequenceEndType, token.MappingEndType:
		s.flow = max(0, s.flow-1)
	case token.SequenceEntryType:
		if s.flow == 0 {
			s.enter(tk.Position.Column, true)
		}
	case token.MappingValueType:
		if s.flow == 0 && tk.Prev != nil {
			s.enter(tk.Prev.Position.Column, false)
			if last := &s.block[len(s.block)-1]; last.members > maxMembers {
				return fmt.Errorf("an object with more than %d members", maxMembers)
			}
		}
	}
	if s.flow+len(s.block) > maxDepth {
		return fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	return nil
}

// enter closes every collection further to the right and adds an item or a member to the one at this column. A list may
// stand at the column of the key it belongs to, so there a list lies inside an object.
func (s *shape) enter(column int, list bool) {
	for len(s.block) > 0 {
		top := s.block[len(s.block)-1]
		if top.column < column || top.column == column && (top.list == list || list) {
			break
		}
		s.block = s.block[:len(s.block)-1]
	}
	if top := len(s.block) - 1; top >= 0 && s.block[top].column == column && s.block[top].list == list {
		s.block[top].members++
		return
	}
	s.block = append(s.block, level{column: column, list: list, members: 1})
}
