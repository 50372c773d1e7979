package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestApplyVariant(t *testing.T) {
	const installed = `{"exec-opts": ["native.cgroupdriver=systemd"], "default-runtime": "crun", "bridge": "none"}`
	for variant, want := range map[string]map[string]any{
		"systemd":       nil,
		"cgroupfs":      {"exec-opts": []any{"native.cgroupdriver=cgroupfs"}, "default-runtime": "crun", "bridge": "none"},
		"cgroupfs-runc": {"exec-opts": []any{"native.cgroupdriver=cgroupfs"}, "default-runtime": "runc", "bridge": "none"},
		"unconfined": {
			"exec-opts": []any{"native.cgroupdriver=systemd"}, "default-runtime": "crun", "bridge": "none", "seccomp-profile": "unconfined",
		},
	} {
		t.Run(variant, func(t *testing.T) {
			dir := t.TempDir()
			cmdline, daemon := filepath.Join(dir, "cmdline"), filepath.Join(dir, "daemon.json")
			for path, content := range map[string]string{cmdline: "quiet evalhost.variant=" + variant + " psi=1\n", daemon: installed} {
				if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := applyVariant(cmdline, daemon); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(daemon)
			if err != nil {
				t.Fatal(err)
			}
			if want == nil {
				if string(data) != installed {
					t.Errorf("the installed file was changed to %s", data)
				}
				return
			}
			var got map[string]any
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(want)
			if string(a) != string(b) {
				t.Errorf("got %s\nwant %s", a, b)
			}
		})
	}
}

func TestUnknownVariantIsRefused(t *testing.T) {
	cmdline := filepath.Join(t.TempDir(), "cmdline")
	if err := os.WriteFile(cmdline, []byte("evalhost.variant=nonsense"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := applyVariant(cmdline, "/nonexistent"); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("%v", err)
	}
}
