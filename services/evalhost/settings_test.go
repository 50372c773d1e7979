package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalhost/evalhost/services/internal/hostcheck"
)

// The values themselves are tested where they are read, in package config.
func TestAnEnvironmentThatIsRefusedIsBadUseAndSaysEverythingAtOnce(t *testing.T) {
	_, _, err := readSettings([]string{"EVALHOST_SCRACH=/x", "EVALHOST_BUILD_WALL_FACTOR=6x", "AJ_Server__Url=x"}, "/usr/bin/evalhost")
	var status statusError
	if !errors.As(err, &status) || status.status != exitUsage {
		t.Fatalf("readSettings() = %v, want bad use", err)
	}
	for _, want := range []string{`EVALHOST_BUILD_WALL_FACTOR is "6x"; expected a number of 1 to 100`, "EVALHOST_SCRACH is no setting"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

func TestTheShimIsTheOneBesideTheProgramUnlessAnotherIsNamed(t *testing.T) {
	dir := t.TempDir()
	shim := func(env ...string) string {
		t.Helper()
		s, _, err := readSettings(env, filepath.Join(dir, "evalhost"))
		if err != nil {
			t.Fatal(err)
		}
		return s.Shim
	}
	if got := shim(); got != "/usr/lib/evalhost/aj-shim" {
		t.Errorf("without one beside: %s", got)
	}
	beside := filepath.Join(dir, shimName)
	if err := os.WriteFile(beside, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := shim(); got != beside {
		t.Errorf("with one beside: %s", got)
	}
	if got := shim("EVALHOST_SHIM_PATH=/elsewhere"); got != "/elsewhere" {
		t.Errorf("with one named: %s", got)
	}
}

func TestAnEarlierNameIsPointedOut(t *testing.T) {
	_, warnings, err := readSettings([]string{"AJ_Sandbox__Image__Cpp=old:1"}, "/usr/bin/evalhost")
	if err != nil || len(warnings) != 1 || warnings[0].Key != "AJ_Sandbox__Image__Cpp" {
		t.Errorf("%v, %v", warnings, err)
	}
}

// What the Runner's settings say of this machine is what the host check is told: as services/runner tells it.
func TestACheckWithTheRunnersSettingsIsToldWhatTheRunnerWouldUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runner.env")
	if err := os.WriteFile(path, []byte("AJ_Server__BaseUrl='https://judge.example.org/api/v1'\nAJ_Runner__TestsAtOnce=3\n"+
		"AJ_Cache__Path=\"/some where/cache\"\nAJ_Work__Path=/some/scratch\nEVALHOST_LANGUAGES=cpp\n"+
		"AJ_Sandbox__Image__Gcc=other:1\nAJ_Sandbox__CgroupRoot=/cgroup\nEVALHOST_MANIFEST=/m.json\nEVALHOST_SHIM_PATH=/shim\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := runnerSettings(path, stdio{err: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	want := hostcheck.Options{
		CgroupRoot: "/cgroup", Scratch: "/some/scratch", Shim: "/shim", Manifest: "/m.json", DockerHost: "unix:///var/run/docker.sock",
		References: map[string]string{"gcc": "other:1"}, Keys: []string{"gcc", "clang"}, Cache: "/some where/cache", Lanes: 3,
	}
	if diff := cmp.Diff(want, checked(s, s.NeededImages())); diff != "" {
		t.Error(diff)
	}
}
