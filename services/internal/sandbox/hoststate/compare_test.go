package hoststate

import (
	"slices"
	"testing"
)

func TestWhatAWholeRunLeftIsSaidAndARestartedDaemonIsNotLeft(t *testing.T) {
	before := snapshot("process 1 systemd", "process 7 dockerd", "mount / on /a", "cgroup /evalhost.slice/a")
	for name, c := range map[string]struct {
		after Snapshot
		want  []string
	}{
		"nothing":             {before, nil},
		"a daemon restarted":  {snapshot("process 1 systemd", "process 99 dockerd", "mount / on /a", "cgroup /evalhost.slice/a"), nil},
		"something is gone":   {snapshot("process 1 systemd"), nil},
		"a second process":    {snapshot("process 1 systemd", "process 9 dockerd", "process 7 dockerd"), []string{"process dockerd: 2, and 1 before"}},
		"a new process":       {snapshot("process 1 systemd", "process 9 aj-shim"), []string{"process aj-shim: 1, and 0 before"}},
		"everything there is": {snapshot("container x y", "cgroup /evalhost.slice/b", "unit evalhost-b.slice", "mount / on /b", "file /x -", "message queue q", "daemon's volume v", "daemon's layer l"), []string{"cgroup /evalhost.slice/b", "container x y", "daemon's layer l", "daemon's volume v", "file /x -", "message queue q", "mount / on /b", "unit evalhost-b.slice"}},
	} {
		if got := c.after.Left(before); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestEveryFactIsCountedOnce(t *testing.T) {
	before := snapshot("process 1 a", "process 2 a")
	after := snapshot("container x y", "daemon's container y", "daemon's volume v", "daemon's layer l", "unit u", "cgroup c", "mount m on n",
		"process 1 a", "file f -", "network link lo", "System V semaphores 0 1", "shared memory s", "message queue q")
	total := 0
	for _, c := range Counts(before, after) {
		total += c.After
		if c.Kind == "containers" && c.After != 2 || c.Kind == "processes" && (c.Before != 2 || c.After != 1) || c.Kind == "other" && c.After != 4 {
			t.Errorf("%+v", c)
		}
	}
	if total != len(after) {
		t.Errorf("%d facts are counted as %d", len(after), total)
	}
}
