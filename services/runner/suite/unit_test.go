//go:build guest

package suite

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/refserver"
)

// The files of nixos/host are in the guest as they are (checks/guest/disk.go); what the unit names beside them is put there here.
const (
	unitName     = "evalhost-runner.service"
	unitPrograms = "/usr/lib/evalhost"
	unitSettings = "/etc/evalhost/runner.env"
	unitDropIn   = "/run/systemd/system/evalhost-runner.service.d/50-suite.conf"
	healthFile   = "/run/evalhost-runner/health.json"
)

// mostExposure is what the guest's systemd-analyze security makes of the unit, of 10 for a service that is not confined at all. Docker's
// socket, cgroups and the Server's address are the rest (docs/operator.md). It may only get less. What another systemd makes of the
// same unit differs by a few tenths (0076).
const (
	mostExposure   = 3.2
	itsSystemd     = "systemd 257 "
	anothersDiffer = 0.3
)

// expected are the warnings that an emulated guest gives in a normal run, and no others.
var expected = []string{
	"the wall clock of builds is stretched",
	"this Runner has not been approved yet", // the first life waits for it
}

// noisy are the requirements of the host check that a virtual machine may meet in part: the driver of NixOS's VM tests boots with a
// slow clock on purpose.
var noisy = []string{"clock"}

// install installs a daemon's home as the service, and removes it after the test.
func (d *daemon) install(dropIn string) {
	t := d.s.t
	t.Helper()
	put := func(path, content string, mode os.FileMode) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(content), mode))
		t.Cleanup(func() { must(t, os.Remove(path)) })
	}
	for name, from := range map[string]string{"evalhost-runner": os.Getenv("EVALHOST_TEST_RUNNER"), "aj-shim": os.Getenv("EVALHOST_TEST_SHIM")} {
		program, err := os.ReadFile(from)
		must(t, err)
		put(filepath.Join(unitPrograms, name), string(program), 0o755)
	}
	var settings strings.Builder
	for _, line := range d.env {
		if !strings.HasPrefix(line, "PATH=") && !strings.HasPrefix(line, "EVALHOST_SHIM_PATH=") {
			settings.WriteString(line + "\n")
		}
	}
	put(unitSettings, settings.String(), 0o600)
	put(unitDropIn, dropIn, 0o644)
	t.Cleanup(func() { // before the files go
		command(t, "systemctl", "stop", unitName)
		_ = command(t, "sh", "-c", "systemctl reset-failed "+unitName+" || true")
		if t.Failed() {
			t.Logf("the journal of the unit:\n%s", tail(command(t, "journalctl", "--no-pager", "-o", "short-monotonic", "-u", unitName)))
		}
	})
	t.Cleanup(func() { command(t, "systemctl", "daemon-reload") })
	command(t, "systemctl", "daemon-reload")
}

// unit is what systemd knows of the service.
type unit map[string]string

func (s *stage) unit() unit {
	s.t.Helper()
	u := unit{}
	for line := range strings.Lines(command(s.t, "systemctl", "show", "--timestamp=us+utc", unitName, "--property=ActiveState,SubState,StatusText,"+
		"NRestarts,Result,ExecMainStatus,MainPID,ActiveEnterTimestamp,WatchdogUSec,InvocationID")) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		u[key] = value
	}
	return u
}

// says waits until the Status line has these words, and fails if the service fails before.
func (s *stage) says(words string) unit {
	s.t.Helper()
	var u unit
	s.eventually("the unit's Status has "+words, func() bool {
		u = s.unit()
		if u["ActiveState"] == "failed" {
			s.t.Fatalf("the unit has failed: %v", u)
		}
		return strings.Contains(u["StatusText"], words)
	})
	return u
}

// complaints are the lines at WARN and above of one life of the service, without those that are expected here.
func (s *stage) complaints(life string) (lines []string) {
	s.t.Helper()
	for line := range strings.Lines(command(s.t, "journalctl", "--no-pager", "-o", "json", "-p", "warning", "_SYSTEMD_INVOCATION_ID="+life)) {
		var entry struct {
			Message string `json:"MESSAGE"`
			Line    string `json:"EVALHOST_MESSAGE"`
			Which   string `json:"REQUIREMENT"`
		}
		must(s.t, json.Unmarshal([]byte(line), &entry))
		known := entry.Line == "this machine meets a requirement in part; figures will be noisier" && slices.Contains(noisy, entry.Which)
		for _, e := range expected {
			known = known || entry.Line == e
		}
		if !known {
			lines = append(lines, entry.Message)
		}
	}
	return lines
}

// The service as its file says it: ready once the machine is proved and before the Server knows of it, a Status for every
// state, an ordered stop in the middle of a job, and a journal without a warning.
func TestTheUnitIsReadyWhenTheMachineIsProvedAndStopsInOrder(t *testing.T) {
	s := newStage(t, func(o *refserver.Options) { o.ApproveAll = false })
	d := s.daemon()
	d.install("")
	command(t, "systemctl", "start", "--no-block", unitName)
	checking := s.says("checking this machine")
	if checking["ActiveState"] != "activating" {
		t.Errorf("while the machine is checked the unit is %s", checking["ActiveState"])
	}
	waiting := s.says("waiting for approval of ")
	life := waiting["InvocationID"]
	ready, err := time.Parse("Mon 2006-01-02 15:04:05.000000 MST", waiting["ActiveEnterTimestamp"])
	must(t, err)
	if registered := s.called("/runner/register"); waiting["ActiveState"] != "active" || registered.IsZero() || ready.After(registered) {
		t.Errorf("%s, ready at %v and registered at %v: first the machine, then the Server (decisions 22)", waiting["ActiveState"], ready, registered)
	}
	if !strings.Contains(command(t, "journalctl", "--no-pager", "_SYSTEMD_INVOCATION_ID="+life), "a language is offered") {
		t.Error("the journal does not say that the languages were proved")
	}
	must(t, s.Approve(s.Snapshot().Runners[0].ID))
	s.says("idle")
	j := s.submit(adds)
	s.says("judging job " + j.ID + ": test ")
	s.judged(j, "Accepted", 100)
	s.once(j)
	s.says("idle")
	var health struct{ Fit, Admitted bool }
	content, err := os.ReadFile(healthFile)
	must(t, err)
	if err := json.Unmarshal(content, &health); err != nil || !health.Fit || !health.Admitted {
		t.Errorf("the health file: %v, %s", err, content)
	}
	if got := s.complaints(life); len(got) > 0 {
		t.Errorf("a normal run complains:\n%s", strings.Join(got, "\n"))
	}

	j = s.submit(adds)
	s.says("judging job " + j.ID + ": test ")
	began := time.Now()
	command(t, "systemctl", "stop", unitName)
	t.Logf("systemctl stop took %v in the middle of a test", time.Since(began).Round(10*time.Millisecond))
	u := s.unit()
	if got := s.job(j.ID); got.State != refserver.Queued || got.Releases != 1 || u["Result"] != "success" || u["ExecMainStatus"] != "0" || u["ActiveState"] != "inactive" {
		t.Errorf("stopped as %v, and the job is %s with %d releases", u, got.State, got.Releases)
	}
	if _, err := os.Stat(healthFile); err == nil {
		t.Error("the health file outlives the service")
	}
	if got := s.complaints(life); len(got) > 0 {
		t.Errorf("an ordered stop complains:\n%s", strings.Join(got, "\n"))
	}

	text := command(t, "systemd-analyze", "security", "--no-pager", unitName)
	m := regexp.MustCompile(`Overall exposure level for evalhost-runner\.service: ([0-9.]+)`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("systemd-analyze security says no figure:\n%s", text)
	}
	exposure, err := strconv.ParseFloat(m[1], 64)
	must(t, err)
	t.Logf("systemd-analyze security: %s", m[0])
	atMost := mostExposure
	if !strings.HasPrefix(command(t, "systemctl", "--version"), itsSystemd) {
		atMost += anothersDiffer
	}
	if exposure > atMost {
		t.Errorf("the unit is exposed more than it was (%v):\n%s", atMost, text)
	}
}

// A daemon whose work loop does not go on is ended by the watchdog and started again; one that was revoked ends with 78 and is
// left alone; one whose machine is not fit never gets ready and is tried again.
func TestC74TheUnitStartsAgainWhatCanBeHelpedAndNothingElse(t *testing.T) {
	s := newStage(t)
	d := s.daemon()
	d.install("[Service]\nWatchdogSec=40\n") // three minutes in the file itself
	command(t, "systemctl", "start", unitName)
	first := s.says("idle")
	command(t, "kill", "-STOP", first["MainPID"])
	began := time.Now()
	var again unit
	s.eventually("the watchdog has ended the stopped daemon", func() bool {
		again = s.unit()
		return again["NRestarts"] == "1"
	})
	t.Logf("started again %v after its loop stopped", time.Since(began).Round(time.Second))
	if !strings.Contains(command(t, "journalctl", "--no-pager", "-u", unitName, "-o", "cat"), "atchdog") {
		t.Error("the journal does not name the watchdog")
	}
	again = s.says("idle")
	if again["InvocationID"] == first["InvocationID"] {
		t.Error("it is the same life")
	}
	s.judged(s.submit(adds), "Accepted", 100)

	must(t, s.Revoke(s.Snapshot().Runners[0].ID))
	var revoked unit
	s.eventually("the revoked service has ended", func() bool {
		revoked = s.unit()
		return revoked["ActiveState"] == "failed"
	})
	time.Sleep(5 * time.Second) // a restart would come after one or two
	if u := s.unit(); u["ActiveState"] != "failed" || u["ExecMainStatus"] != "78" || u["NRestarts"] != revoked["NRestarts"] {
		t.Errorf("revoked, the service is %v", u)
	}

	// A machine that is not fit: never ready, and tried again with the reason in Status.
	settings, err := os.ReadFile(unitSettings)
	must(t, err)
	must(t, os.WriteFile(unitSettings, append(settings, "EVALHOST_MANIFEST=/etc/evalhost/nothing.json\n"...), 0o600))
	command(t, "systemctl", "reset-failed", unitName)
	command(t, "systemctl", "start", "--no-block", unitName)
	s.eventually("a service on an unfit machine is tried again", func() bool {
		u := s.unit()
		if u["ActiveState"] == "active" || u["ActiveState"] == "failed" {
			t.Fatalf("on an unfit machine the service is %v", u)
		}
		return u["NRestarts"] == "1"
	})
	if u := s.unit(); u["ExecMainStatus"] != "1" && u["SubState"] == "auto-restart" {
		t.Errorf("it ended as %v", u)
	}
	if log := command(t, "journalctl", "--no-pager", "-u", unitName, "-o", "cat"); !strings.Contains(log, "this machine is not fit to judge") {
		t.Errorf("the journal does not say why:\n%s", tail(log))
	}
}
