package langimages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// parse reads a table and checks that it holds together: every name that points somewhere points at something, and no
// row lacks a command. A table that is wrong is found when a program starts, not when the language is first used.
func parse(data []byte) (*Table, error) {
	var raw struct {
		Version    int               `json:"version"`
		Images     []Image           `json:"images"`
		Families   []Family          `json:"families"`
		Aliases    map[string]string `json:"aliases"`
		Toolchains []Toolchain       `json:"toolchains"`
	}
	if err := decodeStrictly(data, &raw); err != nil {
		return nil, fmt.Errorf("table of languages: %w", err)
	}
	if raw.Version != 1 {
		return nil, fmt.Errorf("table of languages: version %d, and only version 1 is understood", raw.Version)
	}
	table := &Table{
		images:     raw.Images,
		families:   raw.Families,
		aliases:    raw.Aliases,
		toolchains: raw.Toolchains,
		known:      map[string]Toolchain{},
	}
	for _, check := range []func() error{table.checkImages, table.checkToolchains, table.checkFamilies, table.checkAliases} {
		if err := check(); err != nil {
			return nil, fmt.Errorf("table of languages: %w", err)
		}
	}
	return table, nil
}

func (t *Table) checkImages() error {
	keys, names := map[string]bool{}, map[string]bool{}
	for _, image := range t.images {
		if image.Key == "" || image.Reference == "" || image.Variable == "" {
			return fmt.Errorf("image %q lacks its key, its reference or its setting", image.Key)
		}
		if keys[image.Key] {
			return fmt.Errorf("image %q is listed twice", image.Key)
		}
		keys[image.Key] = true
		t.keys = append(t.keys, image.Key)
		for _, name := range append([]string{image.Variable}, image.OldVariables...) {
			if name == "" || names[name] {
				return fmt.Errorf("image %q: the setting %q is empty or belongs to two images", image.Key, name)
			}
			names[name] = true
		}
	}
	return nil
}

func (t *Table) checkToolchains() error {
	if len(t.toolchains) == 0 {
		return errors.New("no toolchain at all")
	}
	for i := range t.toolchains {
		row := &t.toolchains[i]
		if row.ID == "" || row.Label == "" || row.Source == "" || row.Artifact == "" {
			return fmt.Errorf("toolchain %q lacks its id, its label, its source name or its artifact", row.ID)
		}
		for _, command := range [][]string{row.Build, row.Run, row.Versions} {
			if len(command) == 0 || slices.Contains(command, "") {
				return fmt.Errorf("toolchain %q: a command is missing or has an empty word", row.ID)
			}
		}
		if _, twice := t.known[row.ID]; twice {
			return fmt.Errorf("toolchain %q is listed twice", row.ID)
		}
		if !slices.ContainsFunc(t.images, func(i Image) bool { return i.Key == row.Image }) {
			return fmt.Errorf("toolchain %q names the image %q, which is not listed", row.ID, row.Image)
		}
		at := slices.IndexFunc(t.families, func(f Family) bool { return f.ID == row.Family })
		if at < 0 {
			return fmt.Errorf("toolchain %q names the family %q, which is not listed", row.ID, row.Family)
		}
		row.Extensions = t.families[at].Extensions
		if !row.AcceptsName(row.Source) {
			return fmt.Errorf("toolchain %q: its own source name %q does not have an extension of its family", row.ID, row.Source)
		}
		t.known[row.ID] = *row
	}
	return nil
}

func (t *Table) checkFamilies() error {
	seen := map[string]bool{}
	for _, family := range t.families {
		if family.ID == "" || seen[family.ID] {
			return fmt.Errorf("family %q has no name or is listed twice", family.ID)
		}
		seen[family.ID] = true
		if len(family.Extensions) == 0 {
			return fmt.Errorf("family %q has no extension", family.ID)
		}
		for _, extension := range family.Extensions {
			if len(extension) < 2 || extension[0] != '.' || lowerASCII(extension) != extension || seen[extension] {
				return fmt.Errorf("family %q: the extension %q is not a dot and lower-case letters, or is listed twice", family.ID, extension)
			}
			seen[extension] = true
		}
		if t.known[family.Default].Family != family.ID {
			return fmt.Errorf("family %q: its default %q is not one of its toolchains", family.ID, family.Default)
		}
	}
	return nil
}

func (t *Table) checkAliases() error {
	for _, alias := range slices.Sorted(maps.Keys(t.aliases)) {
		if _, taken := t.known[alias]; taken || alias == "" {
			return fmt.Errorf("alias %q is empty or the id of a toolchain", alias)
		}
		if _, ok := t.known[t.aliases[alias]]; !ok {
			return fmt.Errorf("alias %q points at %q, which is not a toolchain", alias, t.aliases[alias])
		}
	}
	return nil
}

// decodeStrictly reads one JSON document into a structure and refuses what encoding/json forgives: unknown members,
// members given twice (in any case of letters) and anything after the document.
func decodeStrictly(data []byte, into any) error {
	if err := refuseRepeatedMembers(data); err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

func refuseRepeatedMembers(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := walk(decoder, ""); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("something follows the document")
	}
	return nil
}

// walk reads one value. The path it is at is for the message.
func walk(decoder *json.Decoder, path string) error {
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		seen := map[string]bool{}
		for decoder.More() {
			member, err := decoder.Token()
			if err != nil {
				return err
			}
			name, _ := member.(string)
			if seen[strings.ToLower(name)] {
				return fmt.Errorf("member %s%s is given twice", path, name)
			}
			seen[strings.ToLower(name)] = true
			if err := walk(decoder, path+name+"."); err != nil {
				return err
			}
		}
	case json.Delim('['):
		for decoder.More() {
			if err := walk(decoder, path); err != nil {
				return err
			}
		}
	default:
		return nil
	}
	_, err = decoder.Token()
	return err
}
