package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// members is a JSON object read by exact member names, unlike encoding/json's own matching, which ignores case
// (spec/protocol.md 1.3: the Runner's parser is exact). Unknown members are ignored; null reads as absent.
type members map[string]json.RawMessage

// readMembers decodes one JSON object and nothing behind it.
func readMembers(body []byte) (members, error) {
	var m members
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, errors.New("the body is empty")
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("the body is no JSON object: %w", err)
	}
	if m == nil {
		return nil, errors.New("the body is null")
	}
	return m, nil
}

// has says that the member is there and not null.
func (m members) has(name string) bool {
	raw, ok := m[name]
	return ok && !bytes.Equal(raw, []byte("null"))
}

// get decodes an optional member into v and leaves v alone when it is absent. It fails on a value of another type.
func (m members) get(name string, v any) error {
	if !m.has(name) {
		return nil
	}
	if err := json.Unmarshal(m[name], v); err != nil {
		return fmt.Errorf("member %q: %w", name, err)
	}
	return nil
}

// need decodes a member that must be there.
func (m members) need(name string, v any) error {
	if !m.has(name) {
		return fmt.Errorf("member %q is missing", name)
	}
	return m.get(name, v)
}

// text is an optional string whose wrong type does no harm: it then reads as absent. For members that are only shown.
func (m members) text(name string) string {
	var s string
	if m.get(name, &s) != nil {
		return ""
	}
	return s
}

// document is an opaque document: an object or absent, kept byte for byte (1.3). It fails on anything else.
func (m members) document(name string) (json.RawMessage, error) {
	if !m.has(name) {
		return nil, nil
	}
	raw := m[name]
	if len(raw) == 0 || raw[0] != '{' {
		return nil, fmt.Errorf("member %q is no JSON object", name)
	}
	if len(raw) > 4*OpaqueLimit { // the Server counts its own serialisation; escapes can make ours longer
		return nil, fmt.Errorf("member %q is %d bytes, more than can be an opaque document", name, len(raw))
	}
	return raw, nil
}
