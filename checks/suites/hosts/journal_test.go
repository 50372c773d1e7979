//go:build guest

package hosts

import (
	"encoding/json"
	"path"
	"strings"
	"testing"
)

// entry is what is looked at of an entry of the journal.
type entry struct {
	Message    any    `json:"MESSAGE"`
	Unit       string `json:"_SYSTEMD_UNIT"`
	About      string `json:"UNIT"` // of the service manager's own words: whom they are about
	Identifier string `json:"SYSLOG_IDENTIFIER"`
}

// ours are units that read a file of nixos/host or are one, and programs that do. The unit of Docker is the distribution's, and
// what the service manager says of that (a variable that is not set) is not about us.
var ours = []string{
	"evalhost", "nftables", "nft", "dockerd", "systemd-sysctl", "systemd-tmpfiles", "systemd-modules-load", "modprobe",
}

// complaints are the warnings and worse of this boot that are ours: of a unit of ours, about one, or with our name in them.
func complaints(t *testing.T) (found []string) {
	t.Helper()
	out := run(t, "journalctl", "--quiet", "--boot", "--priority=warning", "--output=json", "--no-pager")
	for line := range strings.Lines(out) {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		message, _ := e.Message.(string)
		for _, word := range ours {
			if strings.HasPrefix(e.Unit, word) || strings.HasPrefix(e.About, word) || e.Identifier == word || strings.Contains(message, "evalhost") {
				found = append(found, e.Identifier+": "+message)
				break
			}
		}
	}
	return found
}

// nothingOfOursComplains right after the boot, and after a submission was judged.
func nothingOfOursComplains(t *testing.T) {
	if found := complaints(t); len(found) > 0 {
		t.Errorf("after the boot:\n%s", strings.Join(found, "\n"))
	}
	pkg := path.Join(examples, "sum")
	if r := evalhost(t, nil, "judge", pkg, path.Join(pkg, "solutions/accepted/sum.py")); r.status != 0 || !strings.Contains(r.stdout, "verdict Accepted") {
		t.Errorf("status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	if found := complaints(t); len(found) > 0 {
		t.Errorf("after a submission was judged:\n%s", strings.Join(found, "\n"))
	}
	// The other half: a warning of ours is seen where there is one.
	const word = "evalhost: this is no complaint but a test of the test"
	run(t, "systemd-cat", "--priority=warning", "echo", word)
	run(t, "journalctl", "--sync")
	if found := complaints(t); len(found) != 1 || !strings.Contains(found[0], word) {
		t.Errorf("a warning is not seen, or not alone: %q", found)
	}
}
