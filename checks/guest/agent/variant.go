package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// variantOf reads the variant from the kernel's command line.
func variantOf(cmdline string) string {
	for _, word := range strings.Fields(cmdline) {
		if v, ok := strings.CutPrefix(word, "evalhost.variant="); ok {
			return v
		}
	}
	return "systemd"
}

// dockerEdit changes the daemon's configuration for a variant; nil leaves the installed file as it is.
var dockerEdit = map[string]func(map[string]any){
	"systemd":       nil,
	"systemd-runc":  func(c map[string]any) { c["default-runtime"] = "runc" },
	"cgroupfs":      cgroupfs,
	"cgroupfs-runc": cgroupfsRunc,
	"legacy":        cgroupfsRunc,
	"hybrid":        cgroupfsRunc,
	"unconfined":    func(c map[string]any) { c["seccomp-profile"] = "unconfined" },
	"nopids":        nil,
	"docker20":      func(c map[string]any) { c["default-runtime"] = "runc" }, // its own, it has no crun
}

// cgroupfsRunc is also for cgroup v1: crun refuses it when a v2 hierarchy is there too.
func cgroupfsRunc(c map[string]any) { cgroupfs(c); c["default-runtime"] = "runc" }

func cgroupfs(c map[string]any) { c["exec-opts"] = []string{"native.cgroupdriver=cgroupfs"} }

// applyVariant rewrites the daemon's configuration for the variant on the command line, before the daemon starts.
func applyVariant(cmdlinePath, daemonPath string) error {
	cmdline, err := os.ReadFile(cmdlinePath)
	if err != nil {
		return err
	}
	name := variantOf(string(cmdline))
	edit, known := dockerEdit[name]
	if !known {
		return fmt.Errorf("the command line asks for the variant %q, which this guest does not know", name)
	}
	if edit == nil {
		return nil
	}
	data, err := os.ReadFile(daemonPath)
	if err != nil {
		return err
	}
	config := map[string]any{}
	if err := json.Unmarshal(data, &config); err != nil {
		return fmt.Errorf("%s: %w", daemonPath, err)
	}
	edit(config)
	if data, err = json.MarshalIndent(config, "", "  "); err != nil {
		return err
	}
	return os.WriteFile(daemonPath, append(data, '\n'), 0o644)
}
