package hostcheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Options say what of this machine is looked at.
type Options struct {
	// CgroupRoot, Scratch, Shim and Manifest are absolute paths; DockerHost is unix:// and an absolute path.
	CgroupRoot, Scratch, Shim, Manifest, DockerHost string
	// References name another reference for an image, by its key. The identity asked for stays that of the manifest.
	References map[string]string
	// Keys are the images that are needed; nil for all that the manifest describes.
	Keys []string
	// Cache is a directory below which judges will mount; a container proves that it can, where it exists. Empty for none.
	Cache string
	// Lanes is how many tests shall be judged at once; zero is one.
	Lanes int
}

// Here describes the machine this process runs on. Close it when the check is done.
func Here(opts Options) *Machine {
	m := &Machine{
		Root: "/", GOOS: runtime.GOOS, GOARCH: runtime.GOARCH, UID: os.Geteuid(),
		CgroupRoot: opts.CgroupRoot,
		Socket:     strings.TrimPrefix(opts.DockerHost, "unix://"),
		Scratch:    opts.Scratch,
		Shim:       opts.Shim,
		Free:       free,
		Execute:    execute,
	}
	daemon := &daemon{host: opts.DockerHost}
	m.close = daemon.close
	m.Docker = daemon.info
	m.Bus = func(ctx context.Context) (string, error) { return reachBus(ctx, opts.CgroupRoot) }
	m.Probe = func(ctx context.Context, driver string) (string, error) { return probe(ctx, driver, opts.CgroupRoot) }
	m.Container = func(ctx context.Context, driver, image string) (string, error) {
		return daemon.container(ctx, opts, m.Cache, driver, image)
	}
	m.Lanes, m.Processors = opts.Lanes, sandbox.ThisMachine()
	if info, err := os.Stat(opts.Cache); err == nil && info.IsDir() {
		m.Cache = opts.Cache
	}
	m.Images, m.ImagesErr = images(opts, daemon)
	return m
}

// daemon connects to Docker once, when it is first asked.
type daemon struct {
	host   string
	client *engine.Client
}

func (d *daemon) info(ctx context.Context) (Docker, error) {
	if d.client == nil {
		client, err := engine.Connect(ctx, engine.Options{Host: d.host})
		if err != nil {
			return Docker{}, err
		}
		d.client = client
	}
	info, err := d.client.Info(ctx)
	if err != nil {
		return Docker{}, err
	}
	return Docker{
		ServerVersion: info.ServerVersion, Architecture: info.Architecture, RootDir: info.RootDir,
		CgroupDriver: info.CgroupDriver, CgroupVersion: info.CgroupVersion, SecurityOptions: info.SecurityOptions,
	}, nil
}

func (d *daemon) close() error {
	if d.client == nil {
		return nil
	}
	return d.client.Close()
}

// container runs the probe in the nearest directory to scratch that exists: asking does not make it.
func (d *daemon) container(ctx context.Context, opts Options, cache, driver, image string) (string, error) {
	if d.client == nil {
		return "", errors.New("the daemon was not reached")
	}
	scratch, err := nearest(opts.Scratch)
	if err != nil {
		return "", err
	}
	return sandbox.Probe(ctx, d.client, sandbox.ProbeConfig{
		Driver: driver, CgroupRoot: opts.CgroupRoot, Scratch: scratch, Image: image, Mount: cache,
	})
}

// images reads the manifest and makes one Image of each that is needed, in the order of the table of languages.
func images(opts Options, d *daemon) ([]Image, error) {
	text, err := os.ReadFile(opts.Manifest)
	if err != nil {
		return nil, err
	}
	described, err := langimages.ParseManifest(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", opts.Manifest, err)
	}
	var needed []Image
	var missing []string
	for _, image := range langimages.Default().Images() {
		want, ok := described.Images[image.Key]
		if opts.Keys != nil && !slices.Contains(opts.Keys, image.Key) {
			continue
		}
		if !ok {
			missing = append(missing, image.Key)
			continue
		}
		ref := want.Reference
		if named := opts.References[image.Key]; named != "" {
			ref = named
		}
		needed = append(needed, Image{Key: image.Key, Ref: ref, Digest: want.Digest(), Look: func(ctx context.Context) (string, []string, error) {
			return d.look(ctx, ref, want.Identity)
		}})
	}
	if opts.Keys != nil && missing != nil || needed == nil {
		return needed, fmt.Errorf("%s describes no image called %s", opts.Manifest, strings.Join(missing, ", "))
	}
	return needed, nil
}

// look compares an image of the daemon with what it must be.
func (d *daemon) look(ctx context.Context, ref string, want langimages.Identity) (id string, differences []string, err error) {
	if d.client == nil {
		return "", nil, errors.New("the daemon was not reached")
	}
	got, err := d.client.Image(ctx, ref)
	if err != nil {
		return "", nil, err
	}
	return got.ID, want.Diff(langimages.Identity{
		Layers: got.Layers,
		Config: langimages.IdentityConfig{
			User: got.User, Env: got.Env, Entrypoint: got.Entrypoint, Cmd: got.Cmd, WorkingDir: got.WorkingDir,
			Volumes: got.Volumes, Healthcheck: got.Healthcheck,
		},
	}), nil
}

// reachBus asks the service manager for something, so that an answer is an answer.
func reachBus(ctx context.Context, cgroupRoot string) (string, error) {
	driver, err := cgroup.Open(ctx, "systemd", cgroupRoot)
	if err != nil {
		return "", err
	}
	defer driver.Close()
	if _, err := driver.Instances(ctx); err != nil {
		return "", err
	}
	return "the service manager answers", nil
}

// probeLimits are written into the probe's cgroup and must read back the same. The controllers cpu and cpuset are handed
// down to a cgroup only once something in it asks for them.
var probeLimits = map[string]string{"memory.max": "67108864", "memory.swap.max": "0", "pids.max": "15"}

// probe makes a home like that of a run, limits it, reads it and removes it. It returns which processors the home may use.
func probe(ctx context.Context, driverName, cgroupRoot string) (processors string, err error) {
	driver, err := cgroup.Open(ctx, driverName, cgroupRoot)
	if err != nil {
		return "", err
	}
	defer driver.Close()
	// The probe carries the name of a local command, so that it is swept if this process is killed, and holds its lock, so that
	// it is not swept before.
	instance := sandbox.ProbeInstance("cgroup")
	release, err := sandbox.HoldInstance(sandbox.DefaultLocks, instance)
	if err != nil {
		return "", err
	}
	defer release()
	home, err := driver.Open(ctx, cgroup.NewName(instance))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, home.Close(ctx)) }()
	got, err := home.Read()
	if err != nil {
		return "", err
	}
	// Absent is not zero: a kernel or a delegation without one of these measures nothing.
	if got.CPU == nil || got.Memory == nil || got.Peak == nil || got.Populated == nil {
		return "", fmt.Errorf("%s lacks cpu.stat, memory.events, memory.peak or cgroup.events", home.Dir)
	}
	for file, value := range probeLimits {
		path := filepath.Join(home.Dir, file)
		if err := os.WriteFile(path, []byte(value), 0); err != nil {
			if file == "memory.swap.max" && errors.Is(err, os.ErrNotExist) {
				continue // a kernel that cannot swap has no such file
			}
			return "", fmt.Errorf("limiting a cgroup: %w", err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("reading a limit back: %w", err)
		}
		if strings.TrimSpace(string(got)) != value {
			return "", fmt.Errorf("%s: wrote %q and read %q", path, value, strings.TrimSpace(string(got)))
		}
	}
	return home.Processors(), nil
}

func free(path string) (verdict.Bytes, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return verdict.Bytes(fs.Bavail) * verdict.Bytes(fs.Bsize), nil
}

// execute starts an executable from dir. A script will do: a file system mounted noexec refuses it all the same.
func execute(ctx context.Context, dir string) error {
	file, err := os.CreateTemp(dir, ".execute-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString("#!/bin/sh\nexit 0\n")
	if err = errors.Join(err, file.Chmod(0o700), file.Close()); err != nil {
		return err
	}
	return exec.CommandContext(ctx, file.Name()).Run()
}
