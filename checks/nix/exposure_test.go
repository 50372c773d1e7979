package nix

import (
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// exposurePage has a line for every unit, with the figure that was read when somebody last looked.
const exposurePage = "docs/decisions/0076-exposure-of-units.md"

// What a unit may do is a figure of systemd's own. Releases differ by a few tenths; a power more than was meant is more.
const exposureTolerance = 0.3

func TestNoUnitOfTheHostMayDoMoreThanWasMeant(t *testing.T) {
	needs(t, "systemd-analyze")
	units, err := filepath.Glob("testdata/*/evalhost-*.service")
	if err != nil || len(units) < 4 {
		t.Fatal(units, err)
	}
	units = append(units, root+"/nixos/host/evalhost-runner.service")
	page := read(t, root, exposurePage)
	said := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+) `)
	for _, unit := range units {
		name := filepath.Base(unit)
		row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(name) + "` \\| ([0-9.]+) \\|").FindStringSubmatch(page)
		if row == nil {
			t.Errorf("%s says nothing of %s", exposurePage, name)
			continue
		}
		out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", unit).CombinedOutput()
		found := said.FindStringSubmatch(string(out))
		if found == nil {
			t.Skipf("NOT RUN: this systemd-analyze reads no units that are not installed: %v\n%s", err, out)
		}
		want, _ := strconv.ParseFloat(row[1], 64)
		if got, err := strconv.ParseFloat(found[1], 64); err != nil || math.Abs(got-want) > exposureTolerance {
			t.Errorf("%s: systemd-analyze says %s, and %s says %s", name, found[1], exposurePage, row[1])
		}
	}
}
