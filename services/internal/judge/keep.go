package judge

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// Keep copies into a directory what somebody who wants to know more would look at: the source, what the compiler said,
// the program, and the output of each test that was compared. The nil Keep keeps nothing. What cannot be kept changes
// no verdict; Err tells it afterwards.
type Keep struct {
	// Dir exists and is empty.
	Dir string

	mu   sync.Mutex
	errs []error
}

// Err is what could not be kept.
func (k *Keep) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return errors.Join(k.errs...)
}

func (k *Keep) note(err error) {
	if err != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.errs = append(k.errs, err)
	}
}

// file keeps a few bytes.
func (k *Keep) file(name string, content []byte) {
	if k != nil {
		k.note(os.WriteFile(filepath.Join(k.Dir, name), content, 0o600))
	}
}

// program keeps a copy of a built program.
func (k *Keep) program(path string) {
	if k == nil {
		return
	}
	content, err := os.ReadFile(path)
	k.note(err)
	if err == nil {
		k.note(os.WriteFile(filepath.Join(k.Dir, filepath.Base(path)), content, 0o700))
	}
}

// output begins to keep the output of a test; nil when there is nothing to keep it in.
func (k *Keep) output(test string) io.WriteCloser {
	if k == nil {
		return nil
	}
	file, err := os.Create(filepath.Join(k.Dir, test+".out"))
	if err != nil {
		k.note(err)
		return nil
	}
	return file
}
