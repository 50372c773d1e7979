package problem

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// overlayName is how messages call the assignment's configuration.
const overlayName = "assignment"

// ApplyOverlay lays an assignment's JSON configuration over a package's configuration (spec/judging.md 1.7) and returns
// the result, validated like a package's own. The given configuration is not changed.
//
// Nothing changes if the overlay is empty, not an object, or an object without members. Its type, format and version are
// skipped. Null is refused anywhere in it: a package's settings can be replaced, not removed (docs/decisions/0022).
// Every error has CodeOverlay and carries the broken rule beneath.
func ApplyOverlay(config *Config, overlay []byte) (*Config, error) {
	over, err := readJSON(overlay)
	if err != nil {
		return nil, overlayError(err)
	}
	if over == nil || over.kind != objectKind || len(over.members) == 0 {
		return config, nil
	}
	kept := *over
	kept.members = nil
	for _, m := range over.members {
		switch m.key {
		case "type", "format", "version":
		default:
			kept.members = append(kept.members, m)
		}
	}
	if err := refuseNull(&kept, ""); err != nil {
		return nil, overlayError(err)
	}
	result, err := newConfig(merge(config.root, &kept), config.expected)
	if err != nil {
		return nil, overlayError(err)
	}
	return result, nil
}

func overlayError(err error) error {
	return &Error{Code: CodeOverlay, Msg: "the assignment's configuration does not fit the package", Err: err}
}

func refuseNull(n *node, key string) error {
	if n.kind == nullKind {
		return n.at.malformed(key, "null would remove a setting of the package; it can only be replaced")
	}
	for i, item := range n.items {
		if err := refuseNull(item, index(key, i)); err != nil {
			return err
		}
	}
	for _, m := range n.members {
		if err := refuseNull(m.value, join(key, m.key)); err != nil {
			return err
		}
	}
	return nil
}

// merge returns over laid on base: objects member by member, lists of groups group by group, anything else replaced.
// Neither argument is changed; what is not touched is shared.
func merge(base, over *node) *node {
	switch {
	case base.kind == objectKind && over.kind == objectKind:
		return mergeObjects(base, over)
	case base.kind == listKind && over.kind == listKind:
		if merged, ok := mergeGroups(base, over); ok {
			return merged
		}
	}
	return over
}

func mergeObjects(base, over *node) *node {
	result := *base
	result.members = append([]member(nil), base.members...)
	place := make(map[string]int, len(result.members))
	for i, m := range result.members {
		place[m.key] = i
	}
	for _, m := range over.members {
		if i, ok := place[m.key]; ok {
			result.members[i].value = merge(result.members[i].value, m.value)
			continue
		}
		result.members = append(result.members, m)
	}
	return &result
}

// mergeGroups merges two lists by the members called group, if every item of both is an object that has one and no
// number occurs twice in a list. An empty list has that property too.
func mergeGroups(base, over *node) (*node, bool) {
	place, ok := groupNumbers(base)
	if !ok {
		return nil, false
	}
	if _, ok := groupNumbers(over); !ok {
		return nil, false
	}
	result := *base
	result.items = append([]*node(nil), base.items...)
	for _, item := range over.items {
		number, _ := groupNumber(item)
		if i, ok := place[number]; ok {
			result.items[i] = merge(result.items[i], item)
			continue
		}
		result.items = append(result.items, item)
	}
	return &result, true
}

func groupNumbers(list *node) (map[uint64]int, bool) {
	numbers := make(map[uint64]int, len(list.items))
	for i, item := range list.items {
		number, ok := groupNumber(item)
		if _, twice := numbers[number]; !ok || twice {
			return nil, false
		}
		numbers[number] = i
	}
	return numbers, true
}

func groupNumber(item *node) (uint64, bool) {
	value := item.member("group")
	if value == nil || value.kind != integerKind {
		return 0, false
	}
	number, err := strconv.ParseUint(value.text, 10, 64)
	return number, err == nil
}

// readJSON reads a JSON text into a node, or nil if there is no text. Repeated members are refused.
func readJSON(text []byte) (*node, error) {
	at := position{file: overlayName}
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return nil, nil
	case len(text) > int(maxConfigBytes):
		return nil, at.malformed("", "longer than %s", maxConfigBytes)
	case !json.Valid(text):
		return nil, at.malformed("", "not JSON")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return jsonValue(decoder, at, "", 0)
}

func jsonValue(decoder *json.Decoder, at position, key string, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, at.malformed(key, "nested deeper than %d levels", maxDepth)
	}
	tk, err := decoder.Token()
	if err != nil {
		return nil, at.malformed(key, "not JSON: %v", err)
	}
	n := &node{at: at}
	switch tk := tk.(type) {
	case nil:
		n.kind = nullKind
	case bool:
		n.kind, n.text = boolKind, strconv.FormatBool(tk)
	case string:
		n.kind, n.text = textKind, tk
	case json.Number:
		n.kind, n.text = integerKind, tk.String()
		if strings.ContainsAny(n.text, ".eE") {
			n.kind = floatKind
		}
	case json.Delim:
		if tk == '{' {
			return jsonObject(decoder, at, key, depth)
		}
		return jsonList(decoder, at, key, depth)
	}
	return n, nil
}

func jsonList(decoder *json.Decoder, at position, key string, depth int) (*node, error) {
	list := &node{kind: listKind, at: at}
	for decoder.More() {
		item, err := jsonValue(decoder, at, index(key, len(list.items)), depth+1)
		if err != nil {
			return nil, err
		}
		list.items = append(list.items, item)
	}
	_, err := decoder.Token()
	return list, err
}

func jsonObject(decoder *json.Decoder, at position, key string, depth int) (*node, error) {
	object := &node{kind: objectKind, at: at}
	seen := map[string]bool{}
	for decoder.More() {
		tk, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		name, ok := tk.(string)
		if !ok {
			return nil, errors.New("a JSON key that is no text")
		}
		if seen[name] {
			return nil, at.malformed(join(key, name), "the member occurs twice")
		}
		seen[name] = true
		value, err := jsonValue(decoder, at, join(key, name), depth+1)
		if err != nil {
			return nil, err
		}
		object.members = append(object.members, member{key: name, at: at, value: value})
	}
	_, err := decoder.Token()
	return object, err
}
