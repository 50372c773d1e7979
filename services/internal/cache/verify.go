package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// survey walks a product and returns the digest of its names, sizes and, if deep, its content; and of names and sizes
// alone. Anything but files and directories is an error: nothing here ever makes it.
func survey(dir string, deep bool) (digest, shape string, err error) {
	whole, outline := sha256.New(), sha256.New()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", "", err
	}
	defer root.Close()
	// WalkDir goes in lexical order.
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir():
			fmt.Fprintf(outline, "%q dir\n", path)
			fmt.Fprintf(whole, "%q dir\n", path)
			return nil
		case !entry.Type().IsRegular():
			return fmt.Errorf("%s is neither a file nor a directory", path)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(outline, "%q %d\n", path, info.Size())
		if !deep {
			return nil
		}
		file, err := root.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		content := sha256.New()
		size, err := io.Copy(content, file)
		fmt.Fprintf(whole, "%q %d %x\n", path, size, content.Sum(nil))
		return err
	})
	if err != nil {
		return "", "", err
	}
	shape = hex.EncodeToString(outline.Sum(nil))
	if deep {
		digest = hex.EncodeToString(whole.Sum(nil))
	}
	return digest, shape, nil
}

// sound reports whether a product is what its record says. The first time in this process it is read whole.
func (h *Held) sound(name string, r record) bool {
	dir := filepath.Join(h.entry(), name)
	if r.Digest == "" || r.Shape == "" {
		return false // of a Runner that vouches in another way; made anew beside it
	}
	c := h.cache
	c.mu.Lock()
	deep := c.verified[dir] != r.Digest
	c.mu.Unlock()
	digest, shape, err := survey(dir, deep)
	switch {
	case err != nil && notThere(err):
		return false
	case err != nil:
		c.damaged(h.ref, name+" cannot be read: "+err.Error())
		return false
	case shape != r.Shape:
		c.damaged(h.ref, name+" has other files than it had")
		return false
	case deep && digest != r.Digest:
		c.damaged(h.ref, name+" has other content than it had")
		return false
	}
	c.mu.Lock()
	c.verified[dir] = r.Digest
	c.mu.Unlock()
	return true
}

// intact compares the archive with its checksum.
func (h *Held) intact() (bool, error) {
	file, err := os.Open(h.Archive())
	if err != nil {
		return false, err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return false, err
	}
	return strings.EqualFold(hex.EncodeToString(sum.Sum(nil)), h.ref.SHA256), nil
}
