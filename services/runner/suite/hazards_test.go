//go:build guest

package suite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/services/internal/refserver"
)

// Docker is restarted while a test runs: no verdict comes of it, the machine is asked, and the job is judged by the same life.
func TestADockerThatIsRestartedCostsNoVerdictAndNoJob(t *testing.T) {
	s := newStage(t)
	d := s.daemon()
	d.run()
	j := s.submit(adds)
	d.until("test 1a, 1 of 2")
	time.Sleep(time.Second)
	command(t, "systemctl", "restart", "docker.service")
	got := s.judged(j, "Accepted", 100)
	t.Logf("judged after %d deliveries", got.Deliveries)
	if log := d.proc.text(); got.Deliveries > 1 && !strings.Contains(log, "infrastructure failure: there is no verdict") {
		t.Errorf("the log does not say what happened:\n%s", tail(log))
	}
	s.judged(s.submit(wrong), "Wrong answer", 40)
	d.stop()
}

// Docker is stopped while the daemon is idle: one delivery is spent on finding out, then nothing is claimed until it is back.
func TestADockerThatIsGoneStopsTheClaims(t *testing.T) {
	s := newStage(t)
	d := s.daemon()
	d.run()
	command(t, "systemctl", "stop", "docker.service", "docker.socket")
	restored := false
	restore := func() {
		if !restored {
			restored = true
			command(t, "systemctl", "start", "docker.socket", "docker.service")
		}
	}
	defer restore()
	j := s.submit(adds)
	d.until("STATUS=not claiming")
	time.Sleep(8 * time.Second)
	if got := s.job(j.ID); got.Deliveries != 1 || got.State != refserver.Queued {
		t.Errorf("without Docker the job is %s after %d deliveries", got.State, got.Deliveries)
	}
	restore()
	s.judged(j, "Accepted", 100)
	d.stop()
}

// The cache's disk is full: no verdict, nothing claimed, and the job is judged once there is room.
func TestAFullDiskIsAnInfrastructureFailureAndStopsTheClaims(t *testing.T) {
	s := newStage(t)
	disk := t.TempDir()
	must(t, unix.Mount("tmpfs", disk, "tmpfs", 0, "size=80m,mode=0700"))
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	d := s.daemon("AJ_Cache__Path=" + filepath.Join(disk, "cache"))
	d.run()
	filler := filepath.Join(disk, "filler")
	f, err := os.Create(filler)
	must(t, err)
	for block := make([]byte, 1<<20); err == nil; {
		_, err = f.Write(block)
	}
	_ = f.Close()
	j := s.submit(adds)
	d.until("STATUS=not claiming")
	time.Sleep(8 * time.Second)
	if got := s.job(j.ID); got.Deliveries != 1 || got.State != refserver.Queued || !strings.Contains(got.FailureReason, "no space left") {
		t.Errorf("on a full disk the job is %s after %d deliveries: %q", got.State, got.Deliveries, got.FailureReason)
	}
	must(t, os.Remove(filler))
	s.judged(j, "Accepted", 100)
	d.stop()
}

// The machine's clock is set by an hour while a job is judged, forth and back: no limit, lease or wait notices.
func TestAClockThatIsSetDuringAJobChangesNothing(t *testing.T) {
	s := newStage(t)
	d := s.daemon()
	d.run()
	shift := func(by time.Duration) {
		var now unix.Timespec
		must(t, unix.ClockGettime(unix.CLOCK_REALTIME, &now))
		now.Sec += int64(by / time.Second)
		must(t, unix.ClockSettime(unix.CLOCK_REALTIME, &now))
	}
	j := s.submit(adds)
	d.until("compiling")
	shift(time.Hour)
	defer shift(-time.Hour)
	d.until("test 1a, 1 of 2")
	shift(-2 * time.Hour)
	d.until("test 2a, 2 of 2")
	shift(2 * time.Hour)
	if got := s.judged(j, "Accepted", 100); got.Deliveries != 1 {
		t.Errorf("%d deliveries", got.Deliveries)
	}
	d.stop()
}

// What was killed at a moment when containers ran leaves them behind; the next life removes them and only them.
func TestTheNextLifeRemovesWhatAKilledOneLeft(t *testing.T) {
	s := newStage(t)
	d := s.daemon()
	d.run()
	j := s.submit(adds)
	d.until("test 1a, 1 of 2")
	s.eventually("a container is there", func() bool { return containers(t) != "" })
	d.kill()
	if containers(t) == "" {
		t.Fatal("nothing was left behind, so this shows nothing")
	}
	d.run()
	if left := containers(t); left != "" {
		t.Errorf("after the next start there are %s", left)
	}
	s.Advance(11 * time.Minute)
	s.judged(j, "Accepted", 100)
	d.stop()
}

// containers are those of judged runs, in any state.
func containers(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(command(t, "docker", "ps", "--all", "--quiet", "--filter", "label=algojudge.sandbox"))
}
