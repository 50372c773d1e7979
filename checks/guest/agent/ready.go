package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/checks/guest/wire"
)

// ready waits until systemd has finished booting and Docker answers. A unit that failed does not make a host unready,
// it is reported.
func ready(ctx context.Context, wait time.Duration) (wire.ReadyResult, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var res wire.ReadyResult
	version, err := dockerVersion(ctx)
	if err != nil {
		return res, fmt.Errorf("docker did not answer: %w\n%s", err, dockerJournal())
	}
	res.Docker = version
	out, _ := exec.CommandContext(ctx, "systemctl", "is-system-running", "--wait").Output()
	res.System = strings.TrimSpace(string(out))
	switch res.System {
	case "running":
	case "degraded":
		list, _ := exec.CommandContext(ctx, "systemctl", "list-units", "--failed", "--plain", "--no-legend", "--no-pager").Output()
		for line := range strings.Lines(string(list)) {
			if f := strings.Fields(line); len(f) > 0 {
				res.Failed = append(res.Failed, f[0])
			}
		}
	default:
		return res, fmt.Errorf("systemd says %q instead of running or degraded within %v", res.System, wait)
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err == nil {
		res.Kernel = unix.ByteSliceToString(uts.Release[:])
	}
	if cmdline, err := os.ReadFile("/proc/cmdline"); err == nil {
		res.Variant = variantOf(string(cmdline))
	}
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		res.Boot = strings.TrimSpace(string(id))
	}
	return res, nil
}

func dockerVersion(ctx context.Context) (string, error) {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", "/run/docker.sock")
		},
	}}
	for try := 1; ; try++ {
		version, err := askDocker(ctx, client)
		if err == nil {
			return version, nil
		}
		// No use in waiting for a daemon that has given up.
		if try%10 == 0 && exec.CommandContext(ctx, "systemctl", "--quiet", "is-failed", "docker.service", "docker20.service", "docker20-containerd.service").Run() == nil {
			return "", errors.New("docker.service has failed")
		}
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// dockerJournal is what the daemon said last.
func dockerJournal() string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "journalctl", "--boot", "--no-pager", "--output=cat", "--lines=15",
		"--unit=docker.service", "--unit=docker20.service", "--unit=docker20-containerd.service").CombinedOutput()
	if err != nil {
		return fmt.Sprintf("its journal could not be read: %v: %s", err, out)
	}
	return "the last lines of its journal:\n" + string(out)
}

func askDocker(ctx context.Context, client *http.Client) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/version", nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var v struct{ Version string }
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
		return "", err
	}
	if v.Version == "" {
		return "", errors.New("no version in its answer")
	}
	return v.Version, nil
}
