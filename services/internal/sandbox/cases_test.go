//go:build !guest

package sandbox

import (
	"encoding/json"
	"strings"
	"testing"
)

// RLIMIT_NPROC counts the processes of a user on the whole host: 65534 has those of every lane. Processes are limited by the cgroup of
// each container alone.
func TestC59NoProfileLimitsTheProcessesOfAUser(t *testing.T) {
	for name, spec := range profiles() {
		text, err := spec.Describe()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var asked struct {
			HostConfig struct {
				PidsLimit int64
				Ulimits   []struct{ Name string }
			}
		}
		if err := json.Unmarshal(text, &asked); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if asked.HostConfig.PidsLimit <= 0 || len(asked.HostConfig.Ulimits) == 0 {
			t.Errorf("%s: a limit of %d processes, and %d limits of files; one or the other is not read here", name, asked.HostConfig.PidsLimit, len(asked.HostConfig.Ulimits))
		}
		for _, limit := range asked.HostConfig.Ulimits {
			if strings.EqualFold(limit.Name, "nproc") {
				t.Errorf("%s limits the processes of its user", name)
			}
		}
	}
}
