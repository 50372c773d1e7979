package hostcheck

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mount is one line of a mountinfo: what of which file system is at which point (proc_pid_mountinfo(5)).
type mount struct{ device, root, point string }

// readMounts takes a mountinfo apart. A line that is none is left out.
func readMounts(lines []string) []mount {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var all []mount
	for _, line := range lines {
		if f := strings.Fields(line); len(f) >= 6 {
			all = append(all, mount{f[2], unescape.Replace(f[3]), unescape.Replace(f[4])})
		}
	}
	return all
}

// mounted says whether the directory that a container has at target is dir as this process sees it (spec/sandbox.md 7.1 #9).
// The daemon resolves paths in a mount namespace of its own: where a directory of the same name is another one there, a
// judge would be given nothing, and say so of every answer. own is the mountinfo of this process.
func (i inside) mounted(target, dir, own string) error {
	text, err := os.ReadFile(own)
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("the cache: %w", err)
	}
	var here, there *mount
	for _, m := range readMounts(strings.Split(string(text), "\n")) {
		// The last and longest mount over a path is the one that is seen.
		if (m.point == "/" || isOrHolds(m.point, real)) && (here == nil || len(m.point) >= len(here.point)) {
			here = &m
		}
	}
	for _, m := range readMounts(i["mounts"]) {
		if m.point == target {
			there = &m
		}
	}
	if here == nil {
		return fmt.Errorf("%s does not say where %s is", own, real)
	}
	if there == nil {
		return fmt.Errorf("a container that was given the cache %s does not have it", dir)
	}
	rest, err := filepath.Rel(here.point, real)
	if err != nil {
		return err
	}
	if want := filepath.Join(here.root, rest); there.device != here.device || there.root != want {
		return fmt.Errorf("a container that was given the cache %s has another directory: %s of the device %s, and not %s of %s",
			dir, there.root, there.device, want, here.device)
	}
	return nil
}
