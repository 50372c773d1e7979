package metrics

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Health is the content of the health file, for scripts of the host. A file that is not there says that no Runner runs; one
// whose pid is not alive, that it was killed outside of its unit.
type Health struct {
	// State is one of the runner's states; Status the line of systemctl status; Since when the state began.
	State  string    `json:"state"`
	Status string    `json:"status"`
	Since  time.Time `json:"since"`
	// Admitted: the Server has admitted this Runner. Fit: nothing failed in the last check of the host; what did is named.
	Admitted           bool     `json:"admitted"`
	Fit                bool     `json:"fit"`
	FailedRequirements []string `json:"failedRequirements"`
	// Judged and InfrastructureFailures count since the start; FailuresInARow since the last answer that was none.
	Judged                 int        `json:"judged"`
	InfrastructureFailures int        `json:"infrastructureFailures"`
	FailuresInARow         int        `json:"failuresInARow"`
	LastEnded              *time.Time `json:"lastEnded,omitempty"`
	Version                string     `json:"version"`
	PID                    int        `json:"pid"`
	Started                time.Time  `json:"started"`
}

// update changes the health and writes it.
func (m *Metrics) update(change func(*Health)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.health)
	m.write()
}

// write replaces the file at once: who reads it reads all of one moment. It lies in memory (/run), so this takes no time. A
// failure is said once until it works again, and stops nothing. Called with the lock.
func (m *Metrics) write() {
	if m.file == "" {
		return
	}
	err := m.replace()
	if err != nil && !m.failed {
		m.log.Warn("the health file cannot be written; local scripts see an old one", "path", m.file, "error", err)
	}
	m.failed = err != nil
}

func (m *Metrics) replace() error {
	h := m.health
	h.Since, h.Started = h.Since.UTC(), h.Started.UTC()
	if h.LastEnded != nil {
		ended := h.LastEnded.UTC()
		h.LastEnded = &ended
	}
	content, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(m.file), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(m.file), ".health-")
	if err != nil {
		return err
	}
	_, err = file.Write(append(content, '\n'))
	// Monitoring runs as anybody.
	if err = errors.Join(err, file.Chmod(0o644), file.Close()); err == nil {
		err = os.Rename(file.Name(), m.file)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

// Close removes the health file: nobody is here any more. Later changes are not written.
func (m *Metrics) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := m.file
	m.file = ""
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
