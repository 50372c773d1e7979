package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheEnvironmentIsReadStrictly(t *testing.T) {
	for _, c := range []struct {
		name string
		env  []string
		bad  string
	}{
		{"nothing", nil, ""},
		{"an unknown key", []string{"EVALHOST_SCRACH=/x"}, "EVALHOST_SCRACH"},
		{"an unknown key of the sandbox", []string{"AJ_Sandbox__Cgrouproot=/x"}, "AJ_Sandbox__Cgrouproot"},
		{"an unknown key that is empty", []string{"EVALHOST_NOTHING="}, "EVALHOST_NOTHING"},
		{"a key of the daemon", []string{"AJ_Server__Url=https://example.org"}, ""},
		{"an empty value", []string{"EVALHOST_MANIFEST="}, ""},
		{"a path that is not absolute", []string{"EVALHOST_MANIFEST=images.json"}, "absolute"},
		{"a factor", []string{"EVALHOST_BUILD_WALL_FACTOR=6"}, ""},
		{"a factor below one", []string{"EVALHOST_BUILD_WALL_FACTOR=0.5"}, "EVALHOST_BUILD_WALL_FACTOR"},
		{"a factor that is none", []string{"EVALHOST_BUILD_WALL_FACTOR=NaN"}, "1 to 100"},
		{"a factor with a unit", []string{"EVALHOST_BUILD_WALL_FACTOR=6x"}, "1 to 100"},
		{"a level", []string{"EVALHOST_LOG_LEVEL=debug"}, ""},
		{"a level that is none", []string{"EVALHOST_LOG_LEVEL=WARN+1"}, "debug, info, warn or error"},
		{"a daemon elsewhere", []string{"DOCKER_HOST=tcp://10.0.0.1:2375"}, "unix://"},
		{"two faults", []string{"EVALHOST_ZZ=1", "EVALHOST_AA=1"}, "EVALHOST_AA"},
	} {
		_, err := readSettings(c.env, "/usr/bin/evalhost")
		var status statusError
		if c.bad == "" && err != nil || c.bad != "" && (!errors.As(err, &status) || status.status != exitUsage ||
			!strings.Contains(err.Error(), c.bad)) {
			t.Errorf("%s: readSettings(%q) = %v, want %q", c.name, c.env, err, c.bad)
		}
	}
}

func TestSettingsHaveDefaultsAndTakeValues(t *testing.T) {
	dir := t.TempDir()
	s, err := readSettings(nil, filepath.Join(dir, "evalhost"))
	if err != nil {
		t.Fatal(err)
	}
	if s.manifest != defaultManifest || s.scratch != defaultScratch || s.shim != packagedShim || s.wallFactor != 1 ||
		s.cgroupRoot != defaultCgroups || s.dockerHost != defaultDocker || s.logLevel != slog.LevelWarn {
		t.Errorf("defaults: %+v", s)
	}
	beside := filepath.Join(dir, shimName)
	if err := os.WriteFile(beside, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err = readSettings([]string{
		"EVALHOST_MANIFEST=/m/", "EVALHOST_SCRATCH=/s", "EVALHOST_BUILD_WALL_FACTOR=2.5", "AJ_Sandbox__CgroupRoot=/c",
		"EVALHOST_LOG_LEVEL=info", "DOCKER_HOST=unix:///d", "AJ_Sandbox__Image__Gcc=new:1", "AJ_Sandbox__Image__Cpp=old:1",
	}, filepath.Join(dir, "evalhost"))
	if err != nil {
		t.Fatal(err)
	}
	if s.manifest != "/m" || s.scratch != "/s" || s.shim != beside || s.wallFactor != 2.5 || s.cgroupRoot != "/c" ||
		s.logLevel != slog.LevelInfo || s.dockerHost != "unix:///d" || s.references["gcc"] != "new:1" {
		t.Errorf("settings: %+v", s)
	}
	s, err = readSettings([]string{"EVALHOST_SHIM_PATH=/elsewhere"}, filepath.Join(dir, "evalhost"))
	if err != nil || s.shim != "/elsewhere" {
		t.Errorf("the shim's path is taken from %q, %v", s.shim, err)
	}
}
