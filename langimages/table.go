// Package langimages is the table of languages: which toolchains exist, how each builds and starts a program, and which
// image each runs in (spec/judging.md section 3). It also holds the manifest by which an image is recognised.
//
// The table is one file, toolchains.json, embedded here and read by the Nix side as it is: nothing about a language is
// written down twice.
package langimages

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

//go:embed toolchains.json
var document []byte

// Toolchain is one row of the catalogue: a language, its standard and its compiler or interpreter.
type Toolchain struct {
	ID       string   `json:"id"`
	Label    string   `json:"label"`
	Family   string   `json:"family"`
	Image    string   `json:"image"`    // the key of an Image
	Source   string   `json:"source"`   // the name the source is written under, in /src
	Build    []string `json:"build"`    // the whole command, run in the image
	Artifact string   `json:"artifact"` // what the build leaves in /out
	Run      []string `json:"run"`      // the start command of the built program
	Versions []string `json:"versions"` // prints which compiler or interpreter this is

	// Extensions are those of the family, copied here when the table is read.
	Extensions []string `json:"-"`
}

// Keys returns what the toolchain is looked up by in limits and in source rules, least specific first (3.3).
func (t Toolchain) Keys() []string { return []string{t.Family, t.ID} }

// Allowed reports whether a list of languages of a package or an assignment lets this toolchain through (3.4): an empty
// list restricts nothing, and an entry is this toolchain's id or its family. Aliases are not entries.
func (t Toolchain) Allowed(languages []string) bool {
	return len(languages) == 0 || slices.Contains(languages, t.ID) || slices.Contains(languages, t.Family)
}

// AcceptsName reports whether an uploaded file of this name can be source of this toolchain: its extension, in any ASCII
// case (3.5).
func (t Toolchain) AcceptsName(name string) bool { return hasExtension(name, t.Extensions) }

func hasExtension(name string, extensions []string) bool {
	return slices.ContainsFunc(extensions, func(extension string) bool {
		return len(name) >= len(extension) && lowerASCII(name[len(name)-len(extension):]) == extension
	})
}

func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// Family is a group of toolchains for one language.
type Family struct {
	ID         string   `json:"id"`
	Extensions []string `json:"extensions"` // lower case, with the dot
	Default    string   `json:"default"`    // the toolchain meant by an extension alone
}

// Image is one of the images toolchains run in.
type Image struct {
	Key          string   `json:"key"`
	Reference    string   `json:"reference"`    // used where the operator names none
	Variable     string   `json:"variable"`     // the setting by which the operator names another
	OldVariables []string `json:"oldVariables"` // its earlier names; the present one wins
}

// Table is the catalogue. It does not change once read.
type Table struct {
	images     []Image
	families   []Family
	aliases    map[string]string
	toolchains []Toolchain
	known      map[string]Toolchain
	keys       []string // of every image, offered or not
}

// Load reads the embedded table.
func Load() (*Table, error) { return parse(document) }

var embedded = sync.OnceValue(func() *Table {
	table, err := Load()
	if err != nil {
		panic(err)
	}
	return table
})

// Default returns the embedded table. A table that does not read is a mistake in the build and panics.
func Default() *Table { return embedded() }

// Offered returns the toolchains in the order in which to offer them. Aliases are resolved but never offered.
func (t *Table) Offered() []Toolchain { return slices.Clone(t.toolchains) }

// Families returns the families in order.
func (t *Table) Families() []Family { return slices.Clone(t.families) }

// Images returns the images that the offered toolchains run in, in order.
func (t *Table) Images() []Image { return slices.Clone(t.images) }

// Resolve finds a toolchain by its id or by an alias. Nothing else resolves: no bare standard, no family without an
// alias, no other spelling.
func (t *Table) Resolve(idOrAlias string) (Toolchain, bool) {
	if target, ok := t.aliases[idOrAlias]; ok {
		idOrAlias = target
	}
	toolchain, ok := t.known[idOrAlias]
	return toolchain, ok
}

// ByExtension picks the toolchain a file's name suggests: the default of the family the extension belongs to. It is for
// the local command, where a person may leave the language out; a job always names one.
func (t *Table) ByExtension(name string) (Toolchain, bool) {
	for _, family := range t.families {
		if hasExtension(name, family.Extensions) {
			return t.Resolve(family.Default)
		}
	}
	return Toolchain{}, false
}

// Restrict returns a table that offers only what the entries name, each a toolchain id or a family. What is left out no
// longer resolves, nor does an alias of it, and its image is not required. An entry that names nothing is refused.
func (t *Table) Restrict(entries []string) (*Table, error) {
	for _, entry := range entries {
		if !slices.ContainsFunc(t.toolchains, func(c Toolchain) bool { return c.ID == entry || c.Family == entry }) {
			return nil, fmt.Errorf("languages: %q is neither a toolchain nor a family; the toolchains are %s",
				entry, strings.Join(slices.Sorted(maps.Keys(t.known)), ", "))
		}
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("languages: the list is empty, which would offer no language at all")
	}
	less := &Table{families: t.families, aliases: t.aliases, known: map[string]Toolchain{}, keys: t.keys}
	used := map[string]bool{}
	for _, toolchain := range t.toolchains {
		if toolchain.Allowed(entries) {
			less.toolchains = append(less.toolchains, toolchain)
			less.known[toolchain.ID] = toolchain
			used[toolchain.Image] = true
		}
	}
	for _, image := range t.images {
		if used[image.Key] {
			less.images = append(less.images, image)
		}
	}
	return less, nil
}

// Use is one image reference a host needs, and the keys it serves.
type Use struct {
	Reference string
	Keys      []string
}

// Uses returns the image references needed for the offered toolchains, in order. The map names references the operator
// chose, by image key; an empty one counts as not chosen. Keys sharing one reference share one entry.
func (t *Table) Uses(chosen map[string]string) ([]Use, error) {
	for _, key := range slices.Sorted(maps.Keys(chosen)) {
		if !slices.Contains(t.keys, key) {
			return nil, fmt.Errorf("images: there is no image called %q; the images are %s", key, strings.Join(t.keys, ", "))
		}
	}
	var uses []Use
	for _, image := range t.images {
		reference := image.Reference
		if named := chosen[image.Key]; named != "" {
			reference = named
		}
		at := slices.IndexFunc(uses, func(u Use) bool { return u.Reference == reference })
		if at < 0 {
			uses = append(uses, Use{Reference: reference})
			at = len(uses) - 1
		}
		uses[at].Keys = append(uses[at].Keys, image.Key)
	}
	return uses, nil
}

// VersionCommands returns the commands that say which compilers or interpreters an image carries, each once.
func (t *Table) VersionCommands(key string) [][]string {
	var commands [][]string
	for _, toolchain := range t.toolchains {
		if toolchain.Image == key && !slices.ContainsFunc(commands, func(c []string) bool { return slices.Equal(c, toolchain.Versions) }) {
			commands = append(commands, toolchain.Versions)
		}
	}
	return commands
}
