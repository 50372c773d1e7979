package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// keyHash collects what a stage is made from. The key names the stage's directory, so a stage is rebuilt exactly when one
// of its inputs is another.
type keyHash struct {
	lines []string
	err   error
}

// value adds a named input.
func (k *keyHash) value(name, value string) {
	k.lines = append(k.lines, fmt.Sprintf("value %q %q", name, value))
}

// files adds the content, name and executable bit of every file at or below root/rel; Go tests are no input.
func (k *keyHash) files(root string, rels ...string) {
	for _, rel := range rels {
		err := filepath.WalkDir(filepath.Join(root, rel), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			k.lines = append(k.lines, fmt.Sprintf("file %q %x %t", name, sha256.Sum256(data), info.Mode()&0o100 != 0))
			return nil
		})
		if err != nil && k.err == nil {
			k.err = err
		}
	}
}

// sum returns the key. The order in which inputs were added does not matter.
func (k *keyHash) sum() (string, error) {
	if k.err != nil {
		return "", fmt.Errorf("inputs of the guest: %w", k.err)
	}
	lines := slices.Clone(k.lines)
	slices.Sort(lines)
	digest := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(digest[:8]), nil
}
