package hostcheck

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A daemon whose directory of the cache's name is another one would give judges nothing to read, and nobody would notice.
func TestTheCacheOfTheProbeContainerIsTheCacheOfThisProcess(t *testing.T) {
	const same = "126 120 254:1 /srv/evalhost/ca\\040che /in ro,relatime - ext4 /dev/vda1 rw"
	for _, c := range []struct {
		name, inside, want string
		status             Status
	}{
		{"the same", same, "had the cache mounted", OK},
		{"not mounted", strings.Replace(same, "/in", "/out", 1), "does not have it", Failed},
		{"of another device", strings.Replace(same, "254:1", "254:2", 1), "another directory", Failed},
		{"another directory of the same device", strings.Replace(same, "/srv", "/var", 1), "another directory", Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := goodMachine(t)
			dir := filepath.Join(t.TempDir(), "ca che")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			m.Cache = dir
			// What is mounted over a path hides what was mounted there before.
			write(t, m, mountinfo, goodFiles[mountinfo]+strings.Join([]string{
				"2 1 254:8 / " + filepath.Dir(dir) + " rw - ext4 /dev/vda8 rw",
				"3 1 254:1 /srv/evalhost " + filepath.Dir(dir) + " rw - ext4 /dev/vda1 rw",
				"4 1 254:7 / " + filepath.Dir(dir) + "/ca rw - ext4 /dev/vda7 rw",
			}, "\n")+"\n")
			said := strings.Replace(goodInside, "== apparmor", c.inside+"\n== apparmor", 1)
			m.Container = func(context.Context, string, string) (string, error) { return said, nil }
			for _, r := range Run(t.Context(), m).Requirements {
				if r.ID != containerProbe.id {
					continue
				}
				if r.Status != c.status || !strings.Contains(r.Found, c.want) {
					t.Errorf("%s, %q; want %s, %q", r.Status, r.Found, c.status, c.want)
				}
				if c.status == Failed && !strings.Contains(r.Cure, "AJ_Cache__Path") {
					t.Errorf("the cure %q does not name the setting", r.Cure)
				}
			}
		})
	}
}

func TestACacheThatIsGoneIsNotMounted(t *testing.T) {
	m := goodMachine(t)
	m.Cache = filepath.Join(t.TempDir(), "gone")
	for _, r := range Run(t.Context(), m).Requirements {
		if r.ID == containerProbe.id && r.Status != Failed {
			t.Errorf("%s, %q", r.Status, r.Found)
		}
	}
}

// The kernel's own table, read as a container's would be: where this process sees a directory is where it is.
func TestADirectoryIsFoundInTheKernelsOwnTable(t *testing.T) {
	text, err := os.ReadFile(mountinfo)
	if err != nil {
		t.Skip("SKIPPED: ", err)
	}
	for _, m := range readMounts(strings.Split(string(text), "\n")) {
		if m.point != "/proc" {
			continue
		}
		said := inside{"mounts": {"9 9 " + m.device + " " + m.root + " /in ro - proc proc rw"}}
		if err := said.mounted("/in", "/proc", mountinfo); err != nil {
			t.Error(err)
		}
	}
}
