//go:build mutants

package engine

import (
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/go-units"

	"github.com/evalhost/evalhost/services/internal/mutant"
)

// weaken takes the one control that is switched off out of what the daemon is asked for.
func weaken(cfg *container.Config, host *container.HostConfig) {
	without := func(name string) {
		host.Ulimits = slices.DeleteFunc(host.Ulimits, func(u *units.Ulimit) bool { return u.Name == name })
	}
	for control, take := range map[mutant.Control]func(){
		mutant.User:            func() { cfg.User = "" },
		mutant.EntryPoint:      func() { cfg.Cmd = append(slices.Clone(cfg.Entrypoint), cfg.Cmd...); cfg.Entrypoint = nil },
		mutant.Network:         func() { host.NetworkMode = "host"; cfg.NetworkDisabled = false },
		mutant.NetworkDisabled: func() { cfg.NetworkDisabled = false },
		mutant.CapDrop:         func() { host.CapDrop = nil },
		mutant.CapAdd:          func() { host.CapAdd = []string{"SETUID", "SETGID"} },
		mutant.NoNewPrivileges: func() { host.SecurityOpt = nil },
		mutant.Seccomp:         func() { host.SecurityOpt = append(slices.Clone(host.SecurityOpt), "seccomp=unconfined") },
		mutant.ReadOnlyRoot:    func() { host.ReadonlyRootfs = false },
		mutant.ReadOnlyMounts: func() {
			for i := range host.Mounts {
				host.Mounts[i].ReadOnly = false
			}
		},
		mutant.TypedMounts: func() {
			for _, m := range host.Mounts {
				host.Binds = append(host.Binds, m.Source+":"+m.Target)
			}
			host.Mounts = []mount.Mount{}
		},
		mutant.Memory:          func() { host.Memory, host.MemorySwap = 0, 0 },
		mutant.Swap:            func() { host.MemorySwap = -1 },
		mutant.Pids:            func() { host.PidsLimit = nil },
		mutant.Processor:       func() { host.NanoCPUs = 0 },
		mutant.Cpuset:          func() { host.CpusetCpus = "" },
		mutant.OpenFiles:       func() { without("nofile") },
		mutant.FileSize:        func() { without("fsize") },
		mutant.CoreDumps:       func() { without("core") },
		mutant.CgroupParent:    func() { host.CgroupParent = "" },
		mutant.CgroupNamespace: func() { host.CgroupnsMode = container.CgroupnsModeHost },
		mutant.IPC:             func() { host.IpcMode = container.IPCModeHost },
		mutant.Log:             func() { host.LogConfig = container.LogConfig{} },
		mutant.TmpNoExec: func() {
			for path := range host.Tmpfs {
				// Without the word Docker adds noexec of itself.
				host.Tmpfs[path] = strings.Replace(host.Tmpfs[path], "noexec", "exec", 1)
			}
		},
		mutant.TmpSize: func() {
			for path, options := range host.Tmpfs {
				host.Tmpfs[path], _, _ = strings.Cut(options, ",size=")
			}
		},
		mutant.Healthcheck: func() { cfg.Healthcheck = nil },
		mutant.Init:        func() { host.Init = nil },
		mutant.Labels:      func() { cfg.Labels = nil },
		mutant.HostName:    func() { cfg.Hostname = "" },
	} {
		if mutant.Off(control) {
			take()
		}
	}
}
