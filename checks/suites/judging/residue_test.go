//go:build guest

package judging

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// where the command keeps things.
const (
	scratch = "/var/lib/evalhost/scratch"
	locks   = "/run/evalhost"
	socket  = "/var/run/docker.sock"
)

// snapshot is everything on the host that a command could leave behind, as lines.
func snapshot(t *testing.T) []string {
	t.Helper()
	var lines []string
	add := func(kind string, names ...string) {
		for _, name := range names {
			lines = append(lines, kind+" "+name)
		}
	}
	add("container", containers(t)...)
	add("unit", units(t)...)
	add("cgroup", walk("/sys/fs/cgroup", func(path string, d fs.DirEntry) bool {
		return d.IsDir() && (strings.Contains(path, "evalhost") || strings.Contains(path, "docker-")) &&
			path != "/sys/fs/cgroup/evalhost.slice" && path != "/sys/fs/cgroup/evalhost"
	})...)
	add("mount", mounts(t)...)
	add("process", processes()...)
	for _, dir := range []string{scratch, locks} {
		add("file", walk(dir, func(string, fs.DirEntry) bool { return true })...)
	}
	temporary, _ := filepath.Glob("/tmp/evalhost-*")
	add("file", temporary...)
	slices.Sort(lines)
	return lines
}

// unchanged compares the host with what it was before the test, when the test is over. What Docker and systemd remove in
// the background is given a moment.
func unchanged(t *testing.T) {
	t.Helper()
	before := snapshot(t)
	t.Cleanup(func() {
		var diff string
		for range 20 {
			if diff = cmp.Diff(before, snapshot(t)); diff == "" {
				return
			}
			time.Sleep(500 * time.Millisecond)
		}
		t.Errorf("the host is not as it was (-before +after):\n%s", diff)
	})
}

// containers asks the daemon for all of them, running or not. The context of a finished test is over: the clean-up has
// its own.
func containers(t *testing.T) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/containers/json?all=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var all []struct {
		Names []string
		State string
	}
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("listing the containers: %s, %v", resp.Status, err)
	}
	var names []string
	for _, c := range all {
		names = append(names, fmt.Sprint(c.Names, " ", c.State))
	}
	return names
}

// units are the slices and scopes that runs are made of, and every unit that failed.
func units(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("systemctl", "list-units", "--all", "--plain", "--no-legend", "--full").Output()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		name := fields[0]
		ours := (strings.HasSuffix(name, ".slice") || strings.HasSuffix(name, ".scope")) &&
			(strings.HasPrefix(name, "evalhost-") || strings.HasPrefix(name, "docker-"))
		if ours || fields[2] == "failed" {
			names = append(names, name+" "+fields[2])
		}
	}
	return names
}

func mounts(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var points []string
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			points = append(points, fields[4])
		}
	}
	return points
}

// processes are those that only judging starts.
func processes() []string {
	var names []string
	comms, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, path := range comms {
		comm, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		name := strings.TrimSpace(string(comm))
		for _, prefix := range []string{"aj-shim", "shim", "program", "python", "evalhost", "containerd-shim", "runc", "crun", "cc1", "gcc"} {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// walk lists what is below a directory.
func walk(root string, wanted func(string, fs.DirEntry) bool) []string {
	var paths []string
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && path != root && wanted(path, d) {
			paths = append(paths, path)
		}
		return nil // what went away meanwhile is not there
	})
	return paths
}
