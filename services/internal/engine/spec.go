package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/go-units"

	"github.com/evalhost/evalhost/services/internal/mutant"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// The two labels every container carries. The words are those of the contract, so that runners of either make on one
// host leave each other's containers alone (spec/sandbox.md 0.4).
const (
	LabelSandbox  = "algojudge.sandbox"
	LabelInstance = "algojudge.instance"
)

// Nobody is the identity of everything that is not the shim.
const Nobody = "65534:65534"

// What every container has and no Spec can change (spec/sandbox.md 1.1).
const (
	nanoCPUs   = 1_000_000_000 // one processor's worth of time per second
	openFiles  = 256
	workingDir = "/work"
	hostName   = "evalhost" // the default would be the container's id, another one in each run
)

// minMemory is the least the runtime accepts for a container.
const minMemory = 6 * verdict.MiB

// Mount is one host path in a container. It is always a typed bind mount: the daemon refuses a source that does not
// exist instead of creating an empty directory in its place (spec/sandbox.md 1.3).
type Mount struct {
	Source, Target string // absolute and clean
	Writable       bool
}

// Spec is what varies from container to container. Everything it does not name is constant.
type Spec struct {
	// Name of the container, and the instance it belongs to.
	Name, Instance string
	// Image as Client.Image described it.
	Image Image
	// Argv of PID 1. The image's own entry point and command never run.
	Argv []string
	// Env is added to the image's own environment.
	Env []string
	// Shim makes PID 1 root with SETUID and SETGID, in the host's cgroup namespace, for the shim to drop: the judged
	// run's profile and no other's.
	Shim bool
	// WritableRoot leaves the container's own layer writable. The two builds.
	WritableRoot bool
	// Tmp is the size of a noexec /tmp in memory; zero for none. The two builds.
	Tmp verdict.Bytes
	// Memory is the limit on memory and on memory plus swap; there is no swap.
	Memory verdict.Bytes
	// Pids is the limit on tasks.
	Pids int64
	// FileSize is the largest file a process may write.
	FileSize verdict.Bytes
	// Cpuset pins the container; empty for no pin.
	Cpuset string
	// Parent is the cgroup the container is made in: a slice's name or a path, as the daemon's driver wants it.
	Parent string
	Mounts []Mount
}

// configs turns a Spec into what the daemon is sent. It is a pure function; the golden files of its test are the list
// of everything that is asked for.
func (s Spec) configs() (*container.Config, *container.HostConfig, error) {
	if err := s.check(); err != nil {
		return nil, nil, err
	}
	cfg := &container.Config{
		Image:           s.Image.ID,
		Hostname:        hostName,
		Entrypoint:      s.Argv[:1],
		Cmd:             s.Argv[1:],
		WorkingDir:      workingDir,
		User:            Nobody,
		Env:             s.Env,
		Labels:          map[string]string{LabelSandbox: "1", LabelInstance: s.Instance},
		NetworkDisabled: true,
		Healthcheck:     &container.HealthConfig{Test: []string{"NONE"}},
	}
	pids, noInit := s.Pids, false
	host := &container.HostConfig{
		NetworkMode:    "none",
		IpcMode:        container.IPCModePrivate,
		CgroupnsMode:   container.CgroupnsModePrivate,
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges"},
		ReadonlyRootfs: !s.WritableRoot,
		// The shim must be PID 1 even where the daemon's configuration asks for an init of its own.
		Init: &noInit,
		// crun puts a cgroup of its own between the scope and the container unless told not to (decisions 2); a container
		// that looks at its own cgroup must see the one its limits stand on.
		Annotations: map[string]string{"run.oci.systemd.subgroup": ""},
		// Nothing a container says goes through the daemon: it would keep a megabyte of it in memory, handle every line as
		// a message, and still be busy with that long after the container was killed. Whatever is wanted goes through
		// channels of the Runner's.
		LogConfig: container.LogConfig{Type: "none"},
		Resources: container.Resources{
			CgroupParent: s.Parent,
			Memory:       int64(s.Memory),
			MemorySwap:   int64(s.Memory),
			NanoCPUs:     nanoCPUs,
			CpusetCpus:   s.Cpuset,
			PidsLimit:    &pids,
			Ulimits: []*units.Ulimit{
				{Name: "core", Soft: 0, Hard: 0},
				{Name: "fsize", Soft: int64(s.FileSize), Hard: int64(s.FileSize)},
				{Name: "nofile", Soft: openFiles, Hard: openFiles},
			},
		},
	}
	if s.Shim {
		cfg.User = "0:0"
		host.CapAdd = []string{"SETUID", "SETGID"}
		// For the name in /proc/self/cgroup, not for a permission.
		host.CgroupnsMode = container.CgroupnsModeHost
	}
	if s.Tmp > 0 {
		host.Tmpfs = map[string]string{"/tmp": fmt.Sprintf("rw,noexec,nosuid,nodev,size=%d", int64(s.Tmp))}
	}
	for _, m := range s.Mounts {
		host.Mounts = append(host.Mounts, mount.Mount{
			Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: !m.Writable,
		})
	}
	weaken(cfg, host)
	return cfg, host, nil
}

// Describe gives everything the daemon would be asked for, as indented JSON, for logs and golden files.
func (s Spec) Describe() ([]byte, error) {
	cfg, host, err := s.configs()
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(struct {
		Name       string
		Config     *container.Config
		HostConfig *container.HostConfig
	}{s.Name, cfg, host}, "", "  ")
}

// check refuses a Spec that asks for less than a sandbox.
func (s Spec) check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.Name == "" || s.Instance == "" {
		wrong("a container needs a name and an instance, or no sweep would find it")
	}
	if s.Image.ID == "" {
		wrong("the image was not looked up")
	}
	if len(s.Image.Volumes) > 0 && !mutant.Off(mutant.Volumes) {
		wrong("the image %s declares the volumes %s, which would be writable directories on the daemon's disk: rebuild it without VOLUME",
			s.Image.Reference, strings.Join(s.Image.Volumes, ", "))
	}
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		wrong("there is no command")
	}
	if s.Memory < minMemory && !mutant.Off(mutant.SmallLimits) {
		wrong("the memory limit is %s, and the runtime accepts no less than %s", s.Memory, minMemory)
	}
	if s.Pids < 1 {
		wrong("the limit on processes is %d, and zero or less means none", s.Pids)
	}
	if s.FileSize < 1 {
		wrong("the limit on file size is %d, and it must be stated", s.FileSize)
	}
	if s.Tmp < 0 {
		wrong("the size of /tmp is %d", s.Tmp)
	}
	if s.Parent == "" {
		wrong("no cgroup was made for it, so it would be neither measured nor swept")
	}
	if s.Shim && s.WritableRoot {
		wrong("a judged run never has a writable root")
	}
	for _, m := range s.Mounts {
		for _, p := range []string{m.Source, m.Target} {
			if !path.IsAbs(p) || path.Clean(p) != p || p == "/" {
				wrong("the mount %s to %s does not name clean absolute paths", m.Source, m.Target)
			}
		}
		if !mutant.Off(mutant.Socket) && (strings.HasSuffix(m.Source, "docker.sock") || strings.HasPrefix(m.Target, "/var/run/docker")) {
			wrong("the daemon's socket is mounted into nothing")
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("engine: refusing to describe the container %q: %w", s.Name, errors.Join(errs...))
	}
	return nil
}
