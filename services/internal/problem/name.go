package problem

import (
	"fmt"
	"strings"
)

// maxNameBytes is the longest name an entry or a declared path may have (spec/judging.md 1.2, 1.3).
const maxNameBytes = 255

// cleanName applies the one rule for names inside a package (spec/judging.md 1.3) and returns the name without empty
// and "." components.
func cleanName(name string) (string, error) {
	switch {
	case name == "":
		return "", fmt.Errorf("the name is empty")
	case len(name) > maxNameBytes:
		return "", fmt.Errorf("the name is %d bytes long, more than %d", len(name), maxNameBytes)
	case name[0] == '/':
		return "", fmt.Errorf("the name is absolute; names count from the root of the package")
	}
	for i, r := range name {
		if !allowedInName(r) {
			return "", fmt.Errorf("the name has the character %s at byte %d; "+
				"allowed are ASCII letters, digits, '.', '-', '_' and '/'", shown(string(r)), i+1)
		}
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "", ".":
		case "..":
			return "", fmt.Errorf("the name climbs with %q", "..")
		default:
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return "", fmt.Errorf("the name has no component besides %q and %q", ".", "/")
	}
	return strings.Join(parts, "/"), nil
}

func allowedInName(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		r == '.' || r == '-' || r == '_' || r == '/'
}

// inventory remembers every name of a package and refuses those that would end in one place: the same name twice,
// two names that differ only by case, a file where another name needs a directory (spec/judging.md 1.2, last paragraph).
type inventory struct {
	// files and dirs map the name in lower case to the name as first written.
	files map[string]string
	dirs  map[string]string
	// listed holds the directories that have an entry of their own.
	listed map[string]bool
}

func newInventory() *inventory {
	return &inventory{files: map[string]string{}, dirs: map[string]string{}, listed: map[string]bool{}}
}

// add records a clean name and every directory above it.
func (v *inventory) add(name string, dir bool) error {
	key := strings.ToLower(name)
	for end := range len(name) {
		if name[end] != '/' {
			continue
		}
		if err := v.addDir(name[:end], key[:end]); err != nil {
			return err
		}
	}
	if dir {
		if err := v.addDir(name, key); err != nil {
			return err
		}
		if v.listed[key] {
			return fmt.Errorf("the directory is listed twice")
		}
		v.listed[key] = true
		return nil
	}
	if first, ok := v.files[key]; ok {
		return clash(first, name)
	}
	if first, ok := v.dirs[key]; ok {
		return fmt.Errorf("a file here, but the directory %s elsewhere", shown(first))
	}
	v.files[key] = name
	return nil
}

func (v *inventory) addDir(name, key string) error {
	if first, ok := v.files[key]; ok {
		return fmt.Errorf("needs the directory %s, but the file %s is in its place", shown(name), shown(first))
	}
	first, ok := v.dirs[key]
	if ok && first != name {
		return clash(first, name)
	}
	v.dirs[key] = name
	return nil
}

func clash(first, second string) error {
	if first == second {
		return fmt.Errorf("the name occurs twice")
	}
	return fmt.Errorf("%s and %s differ only by case", shown(second), shown(first))
}
