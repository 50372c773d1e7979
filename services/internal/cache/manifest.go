package cache

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

const manifestName = "manifest.json"

// manifest says what of an entry is vouched for (5.6). It is written under the entry's lock.
type manifest struct {
	FileID   string            `json:"fileId"`
	SHA256   string            `json:"sha256"`
	Bytes    int64             `json:"bytes"`
	Products map[string]record `json:"products"`
}

// record is one product. A directory that has none is not vouched for.
type record struct {
	// Files of an unpacked package.
	Files int `json:"files,omitempty"`
	// Source, Language, Image, ImageID and Command are what a judging program was built of and how.
	Source   string   `json:"source,omitempty"`
	Language string   `json:"language,omitempty"`
	Image    string   `json:"image,omitempty"`
	ImageID  string   `json:"imageId,omitempty"`
	Command  []string `json:"command,omitempty"`
	// Digest is of names, sizes and content; Shape of names and sizes alone, for the quick look.
	Digest string `json:"digest"`
	Shape  string `json:"shape"`
}

// readManifest reads what is vouched for. What is missing, cannot be parsed or is about another file vouches for nothing.
func (h *Held) readManifest() manifest {
	empty := manifest{FileID: string(h.ref.File), SHA256: strings.ToLower(h.ref.SHA256), Products: map[string]record{}}
	content, err := os.ReadFile(filepath.Join(h.entry(), manifestName))
	if err != nil {
		return empty
	}
	var m manifest
	if json.Unmarshal(content, &m) != nil || m.FileID != empty.FileID || !strings.EqualFold(m.SHA256, empty.SHA256) {
		return empty
	}
	if m.Products == nil {
		m.Products = map[string]record{}
	}
	m.SHA256 = empty.SHA256
	return m
}

// writeManifest replaces the manifest; afterwards it is on the device.
func (h *Held) writeManifest(m manifest) (err error) {
	if info, err := os.Stat(h.Archive()); err == nil {
		m.Bytes = info.Size()
	}
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(m); err != nil {
		return trouble(err, "writing the manifest of %s", h.entry())
	}
	path := filepath.Join(h.entry(), manifestName)
	partial := h.cache.partial(path)
	file, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return vanished(err, "writing %s", partial)
	}
	_, err = file.Write(content.Bytes())
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(partial, path)
	}
	if err == nil {
		err = syncDir(h.entry())
	}
	if err != nil {
		_ = os.Remove(partial)
		return vanished(err, "writing %s", path)
	}
	return nil
}
