package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// What the NixOS module writes is evaluated elsewhere (checks/nix) and stands there as JSON: every one of these must be
// settings the daemon takes without a word, or a host is built that does not start.
func TestWhatNixOSWritesIsRead(t *testing.T) {
	files, err := filepath.Glob("../../../checks/nix/testdata/*/environment.json")
	if err != nil || len(files) < 2 {
		t.Fatalf("environments of NixOS: %q (%v)", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var written map[string]string
		if err := json.Unmarshal(text, &written); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var environment []string
		for key, value := range written {
			environment = append(environment, key+"="+value)
		}
		s, warnings, err := Read(Daemon, environment, Facts{Hostname: "judge-1"})
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v, warnings %v", file, err, warnings)
			continue
		}
		if s.BaseURL != written["AJ_Server__BaseUrl"] || s.KeyPath != written["AJ_Runner__KeyPath"] || s.Lanes != 4 {
			t.Errorf("%s was read as %+v", file, s)
		}
	}
}
