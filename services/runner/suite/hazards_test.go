//go:build guest

package suite

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/engine"
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

// An image is removed while the daemon is idle: one delivery is spent on finding out, the daemon says which image is missing, and
// nothing is claimed until it is there again, under whatever id.
func TestAnImageThatIsRemovedCostsNoVerdictAndStopsTheClaims(t *testing.T) {
	s := newStage(t)
	image := newOwnImage(t)
	d := s.daemon("EVALHOST_MANIFEST=" + image.manifest)
	p := d.run()
	image.remove()
	j, later := s.submit(adds), s.submit(wrong)
	d.until("STATUS=not claiming")
	time.Sleep(8 * time.Second)
	if got := s.job(j.ID); got.Deliveries != 1 || got.State != refserver.Queued || got.Result != nil {
		t.Errorf("without the image the job is %s after %d deliveries, with %+v", got.State, got.Deliveries, got.Result)
	}
	if got := s.job(later.ID); got.Deliveries != 0 || got.State != refserver.Queued {
		t.Errorf("another job was claimed: it is %s after %d deliveries", got.State, got.Deliveries)
	}
	if missing := "Docker has no image " + ownReference; p.when(missing).IsZero() || !strings.Contains(p.text(), "docker load") {
		t.Errorf("neither Status nor log say %q and what to do:\n%s", missing, tail(p.text()))
	}
	image.make()
	s.judged(j, "Accepted", 100) // its second report: the first one said what is missing
	s.once(s.judged(later, "Wrong answer", 40))
	d.stop()
}

// ownReference is an image of this test alone: what happens to it happens to no other test.
const ownReference = "evalhost/suite-gcc:local"

// ownImage is the gcc image under another id. Removing it leaves the layers of the image beneath, which others judge
// with and which are part of what a test compares the host by; making it again is what loading it would be: an image of the
// same identity under another id.
type ownImage struct {
	t         *testing.T
	client    *engine.Client
	container string // never started
	built     engine.Image
	manifest  string
}

// newOwnImage makes the image, and a manifest that names it. Both are gone after the test, before the host is compared.
func newOwnImage(t *testing.T) *ownImage {
	t.Helper()
	text, err := os.ReadFile("/etc/evalhost/images.json")
	must(t, err)
	manifest, err := langimages.ParseManifest(text)
	must(t, err)
	i := &ownImage{t: t, manifest: filepath.Join(t.TempDir(), "images.json")}
	i.client, err = engine.Connect(t.Context(), engine.Options{Host: "unix:///var/run/docker.sock"})
	must(t, err)
	t.Cleanup(func() { must(t, i.client.Close()) })
	gcc := manifest.Images["gcc"]
	i.container = strings.TrimSpace(command(t, "docker", "create", "--network", "none", gcc.Reference))
	t.Cleanup(func() {
		_ = exec.Command("docker", "image", "rm", "--force", ownReference).Run() // it may be away
		command(t, "docker", "rm", "--force", i.container)
	})
	i.make()
	manifest.Images["gcc"] = langimages.Built{Reference: ownReference, Identity: langimages.Identity{
		Layers: i.built.Layers,
		Config: langimages.IdentityConfig{
			User: i.built.User, Env: i.built.Env, Entrypoint: i.built.Entrypoint, Cmd: i.built.Cmd, WorkingDir: i.built.WorkingDir,
			Volumes: i.built.Volumes, Healthcheck: i.built.Healthcheck,
		},
	}}
	text, err = json.Marshal(manifest)
	must(t, err)
	must(t, os.WriteFile(i.manifest, text, 0o644))
	return i
}

// make makes the image, the same each time.
func (i *ownImage) make() {
	i.t.Helper()
	command(i.t, "docker", "commit", i.container, ownReference)
	built, err := i.client.Image(i.t.Context(), ownReference)
	must(i.t, err)
	if len(built.Layers) == 0 || built.ID == i.built.ID || i.built.ID != "" && !slices.Equal(built.Layers, i.built.Layers) {
		i.t.Fatalf("the image is %+v, and at first was %+v", built, i.built)
	}
	i.built = built
}

// remove removes it: not only its name, no container can be made of it any more.
func (i *ownImage) remove() {
	i.t.Helper()
	command(i.t, "docker", "image", "rm", "--force", ownReference)
	if _, err := i.client.Image(i.t.Context(), i.built.ID); !errors.Is(err, engine.ErrImageAbsent) {
		i.t.Fatalf("the image is still there, so this shows nothing: %v", err)
	}
}

// The Server forgets its tokens, as a restarted one does, while the daemon waits in a held claim and in the middle of a test: it
// proves itself again in the same life, and the job keeps its lease.
func TestATokenThatTheServerForgotCostsNoJob(t *testing.T) {
	s := newStage(t)
	d := s.daemon()
	p := d.run()
	tokens := func() (n int) {
		for _, c := range s.Calls(0) {
			if c.Path == "/runner/auth/token" && c.Status == http.StatusOK {
				n++
			}
		}
		return n
	}
	first := tokens()
	s.Restart()
	s.eventually("another token was given out", func() bool { return tokens() > first })
	second := tokens()
	j := s.submit(adds)
	d.until("judging job " + j.ID + ": test 1a, 1 of 2")
	s.Restart()
	got := s.judged(j, "Accepted", 100)
	s.once(got)
	if got.Deliveries != 1 || got.Attempt != 1 || first < 1 || tokens() <= second || p.hasEnded() {
		t.Errorf("%d deliveries of attempt %d, %d, %d and %d tokens, ended %v:\n%s", got.Deliveries, got.Attempt, first, second, tokens(), p.hasEnded(), tail(p.text()))
	}
	s.judged(s.submit(wrong), "Wrong answer", 40)
	d.stop()
}
