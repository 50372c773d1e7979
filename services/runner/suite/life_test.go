//go:build guest

package suite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/refserver"
)

// One life from the first start to an ordered stop: three submissions, one download, every connection recorded.
func TestADaemonJudgesWhatItIsHandedAndContactsNobodyButTheServer(t *testing.T) {
	s := newStage(t)
	connections := record(t)
	d := s.daemon()
	p := d.run()
	if ready, registered := p.when("READY=1"), s.called("/runner/register"); ready.IsZero() || registered.IsZero() || ready.After(registered) {
		t.Errorf("ready at %v, registered at %v: the machine is proved before the Server hears of it (4.1)", ready, registered)
	}
	began := time.Now()
	one := s.judged(s.submit(adds), "Accepted", 100)
	two := s.judged(s.submit(wrong), "Wrong answer", 40)
	three := s.judged(s.submit(broken), "Compilation error", 0)
	d.fed(began, time.Now())
	for i, j := range []refserver.Job{one, two, three} {
		s.once(j)
		if j.Deliveries != 1 {
			t.Errorf("job %d: %d deliveries", i+1, j.Deliveries)
		}
		claimed, compiling := p.when("judging job "+j.ID), p.when("judging job "+j.ID+": compiling")
		made, started := firstContainer(t, claimed, time.Now())
		t.Logf("submission %d: from the claim %v to the compilation, %v until its container was made, %v until that ran", i+1,
			compiling.Sub(claimed).Round(time.Millisecond), made.Sub(claimed).Round(time.Millisecond), started.Sub(claimed).Round(time.Millisecond))
	}
	if log := string(s.Attachment(three.ID, "log")); !strings.Contains(log, "nothing") {
		t.Errorf("the log of a broken program is %q", log)
	}
	if n := s.downloads(s.problem.PackageID); n != 1 {
		t.Errorf("the package was downloaded %d times for three submissions", n)
	}
	s.measured()
	t.Logf("stopping took %v", d.stop().Round(time.Millisecond))
	address := strings.TrimPrefix(s.web.URL, "http://")
	reached := false
	for _, c := range connections() {
		switch {
		case c == address:
			reached = true
		case c == "/var/run/docker.sock", c == "/run/docker.sock", c == "/run/dbus/system_bus_socket", c == "/var/run/dbus/system_bus_socket",
			c == "/run/systemd/private", c == "/run/systemd/journal/socket", strings.HasSuffix(c, "/notify"):
		default:
			t.Errorf("the daemon contacted %s", c)
		}
	}
	if !reached {
		t.Error("the Server was not among what was recorded, so this shows nothing")
	}
}

// measured has a trial measured: the model solution of a package, in real containers (spec/protocol.md 7, 9.5).
func (s *stage) measured() {
	s.t.Helper()
	files := maps.Clone(sum)
	files["config.yml"] += "modelSolutions: [ { source: solutions/add.c, language: c11-gcc } ]\n"
	files["solutions/add.c"] = adds
	trial, err := s.AddTrial("standard-io@1", bytes.NewReader(zipped(s.t, files)))
	must(s.t, err)
	s.eventually("the trial is over", func() bool {
		got, _ := s.Trial(trial.ID)
		return got.State.Final()
	})
	got, _ := s.Trial(trial.ID)
	var m struct {
		Measured []struct {
			Group, TimeMs int
			MemoryBytes   int64
			Language      *string
		}
	}
	if err := json.Unmarshal([]byte(got.Measurement), &m); err != nil || got.State != refserver.Completed || got.PackageID != "" || len(m.Measured) != 2 {
		s.t.Fatalf("the trial is %s, %q: %s, %v", got.State, got.FailureReason, got.Measurement, err)
	}
	for i, row := range m.Measured {
		if row.Group != i+1 || row.TimeMs < 1 || row.MemoryBytes < 1 || row.Language != nil {
			s.t.Errorf("a row of the measurement: %s", got.Measurement)
		}
	}
}

// firstContainer is when the first container between two moments was made, and when one was first started, by the daemon's own journal.
func firstContainer(t *testing.T, from, to time.Time) (made, started time.Time) {
	t.Helper()
	at := func(moment time.Time) string { return fmt.Sprintf("%d.%09d", moment.Unix(), moment.Nanosecond()) }
	events := command(t, "docker", "events", "--since", at(from), "--until", at(to), "--filter", "type=container", "--format", "{{.TimeNano}} {{.Action}}")
	for line := range strings.Lines(events) {
		var nanoseconds int64
		var action string
		if _, err := fmt.Sscan(line, &nanoseconds, &action); err != nil {
			t.Fatalf("an event of Docker: %q: %v", line, err)
		}
		switch moment := time.Unix(0, nanoseconds); {
		case action == "create" && made.IsZero():
			made = moment
		case action == "start" && started.IsZero():
			started = moment
		}
	}
	if made.Before(from) || started.Before(made) {
		t.Errorf("after %v a container was made at %v and started at %v:\n%s", from, made, started, events)
	}
	return made, started
}

// called is when a path was first called.
func (s *stage) called(path string) time.Time {
	for _, c := range s.Calls(0) {
		if c.Path == path {
			return c.At
		}
	}
	return time.Time{}
}

// downloads counts those of a file.
func (s *stage) downloads(file string) (n int) {
	for _, c := range s.Calls(0) {
		if c.Method == http.MethodGet && strings.HasSuffix(c.Path, "/files/"+file) {
			n++
		}
	}
	return n
}

// A revoked daemon stops judging, leaves nothing behind and ends with the status that keeps it from being restarted.
func TestARevokedDaemonCleansUpAndEndsWithStatus78(t *testing.T) {
	s := newStage(t)
	d := s.daemon("AJ_Lease__RequestSeconds=60")
	d.run()
	j := s.submit(adds)
	d.until("compiling")
	must(t, s.Revoke(s.Snapshot().Runners[0].ID))
	if status := d.ends(); status != 78 {
		t.Errorf("ended with status %d:\n%s", status, tail(d.proc.text()))
	}
	d.proc = nil
	if got := s.job(j.ID); got.Result != nil {
		t.Errorf("something was reported: %+v", got)
	}
	d.start()
	if status := d.ends(); status != 78 {
		t.Errorf("started again, it ended with status %d", status)
	}
	d.proc = nil
}

// spins takes the processor time that it gets.
const spins = "int main(void) { volatile int n = 0; for (;;) n = n + 1; }\n"

// A job that is canceled while its program runs ends with the next renewal: the container is removed long before the program's own limit,
// and nothing is reported.
func TestACanceledJobEndsItsContainerAndIsNotReported(t *testing.T) {
	s := newStage(t)
	files := maps.Clone(sum)
	files["config.yml"] = strings.Replace(files["config.yml"], "timeMs: 5000", "timeMs: 600000", 1)
	long, err := s.AddPackage(refserver.Package{Name: "long", Content: bytes.NewReader(zipped(t, files))})
	must(t, err)
	d := s.daemon("AJ_Lease__RequestSeconds=60")
	p := d.run()
	j, err := s.Submit(refserver.BytesSubmission(long.ID, "main.c", "c11-gcc", []byte(spins)))
	must(t, err)
	d.until("judging job " + j.ID + ": test 1a, 1 of 2")
	containers := func(more ...string) string {
		return strings.TrimSpace(command(t, "docker", append([]string{"ps", "--quiet", "--filter", "label=algojudge.instance"}, more...)...))
	}
	s.eventually("the container runs", func() bool { return containers() != "" })
	began := time.Now()
	must(t, s.Cancel(j.ID))
	s.eventually("the daemon is idle again", func() bool { return strings.Contains(p.text(), "ending=lost") })
	t.Logf("%v after it was canceled the job was dropped", time.Since(began).Round(time.Millisecond))
	if left := containers("--all"); left != "" {
		t.Errorf("of a job that was dropped there are the containers %q", left)
	}
	time.Sleep(2 * time.Second) // for a report that comes nevertheless
	for _, c := range s.Calls(0) {
		if strings.Contains(c.Path, j.ID+"/report") {
			t.Errorf("something was reported: %+v", c)
		}
	}
	if took := time.Since(began); took > 2*time.Minute || s.job(j.ID).Result != nil {
		t.Errorf("it took %v; the result is %+v", took, s.job(j.ID).Result)
	}
	s.judged(s.submit(adds), "Accepted", 100)
	d.stop()
}

// Two daemons on one machine, each with its key, share a cache: every job is judged once, the package is unpacked once.
func TestTwoDaemonsOnOneMachineJudgeEveryJobOnce(t *testing.T) {
	s := newStage(t)
	one := s.daemon()
	two := s.daemon("AJ_Cache__Path=" + one.dir + "/cache")
	var jobs []refserver.Job
	for range 4 {
		jobs = append(jobs, s.submit(adds))
	}
	one.start()
	two.start()
	for _, j := range jobs {
		s.once(s.judged(j, "Accepted", 100))
	}
	holders := map[string]bool{}
	for _, j := range jobs {
		holders[s.job(j.ID).Reporter] = true
	}
	if len(holders) != 2 {
		t.Errorf("%d daemons did the work", len(holders))
	}
	if n := s.downloads(s.problem.PackageID); n > 2 {
		t.Errorf("%d downloads", n)
	}
	two.stop()
	one.stop()
}
