// Package engine is the only importer of the Docker client. It can do what the sandbox needs and nothing else: look at
// the daemon and at images, create containers from a closed description, start, watch, kill, read and remove them.
//
// Nothing here offers a way to pull, to build, to run a privileged container, to give a network or to mount the
// daemon's socket: an option that does not exist cannot be set by mistake (spec/sandbox.md 1.1).
//
// Every call has a timeout of its own, on top of the caller's context, and every error says what was attempted, on
// what, what the daemon said, what that means for judging and what to do about it.
package engine

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/docker/client"
)

// DefaultHost is where the daemon listens unless DOCKER_HOST says otherwise.
const DefaultHost = "unix:///var/run/docker.sock"

// The time a single call may take before it counts as failed. They are generous: under emulation starting a container
// takes seconds, and a call that is merely slow must not turn into a failed job.
const (
	lookTimeout   = 30 * time.Second  // version, info, inspect, list, kill
	createTimeout = 60 * time.Second  // the root file system's snapshot
	createGrace   = 20 * time.Second  // how long a container that nobody wants any more is waited for
	startTimeout  = 60 * time.Second  // the runtime
	removeTimeout = 120 * time.Second // layers of a build with many files
)

// Options of a connection.
type Options struct {
	// Host is the daemon's address, unix:// and an absolute path. Empty: DOCKER_HOST, and DefaultHost without it.
	Host string
}

// Client talks to one daemon. Safe for use by several goroutines.
type Client struct {
	api         *client.Client
	host        string
	createGrace time.Duration
}

// Connect reaches the daemon and agrees on a version of its interface. Only unix sockets are accepted: containers mount
// this machine's files and their cgroups are read here, so the daemon must be on this machine.
func Connect(ctx context.Context, opts Options) (*Client, error) {
	host := opts.Host
	if host == "" {
		host = os.Getenv("DOCKER_HOST")
	}
	if host == "" {
		host = DefaultHost
	}
	if err := checkHost(host); err != nil {
		return nil, err
	}
	api, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("engine: the Docker client refuses the address %s: %w", host, err)
	}
	c := &Client{api: api, host: host, createGrace: createGrace}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if _, err := c.api.Ping(ctx); err != nil {
		_ = api.Close()
		return nil, c.fail("reaching the daemon at", host, err)
	}
	return c, nil
}

// checkHost accepts unix:// followed by a clean absolute path.
func checkHost(host string) error {
	u, err := url.Parse(host)
	if err != nil || u.Scheme != "unix" {
		return fmt.Errorf("engine: DOCKER_HOST is %q, and only unix:// is accepted: containers mount files of this "+
			"machine and their cgroups are read here, so a daemon elsewhere could be neither fed nor measured", host)
	}
	path := strings.TrimPrefix(host, "unix://")
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return fmt.Errorf("engine: DOCKER_HOST is %q, expected unix:// and the absolute path of the daemon's socket", host)
	}
	return nil
}

// Host is the address the client talks to.
func (c *Client) Host() string { return c.host }

// Close drops the connections. Containers are not touched.
func (c *Client) Close() error { return c.api.Close() }

// Info is what the daemon says about itself and its kernel.
type Info struct {
	ServerVersion   string // of the engine, such as "26.1.5"
	APIVersion      string // the newest the daemon speaks
	MinAPIVersion   string
	KernelVersion   string
	OperatingSystem string
	Architecture    string // such as "x86_64"
	CgroupDriver    string // "systemd" or "cgroupfs"
	CgroupVersion   string // "1" or "2"
	DefaultRuntime  string
	StorageDriver   string
	LoggingDriver   string
	RootDir         string   // where the daemon keeps layers
	SecurityOptions []string // such as "name=seccomp,profile=builtin"
	Warnings        []string // limits this kernel does not offer, in the daemon's words
	CPUs            int
	MemoryBytes     int64
	MemoryLimit     bool
	SwapLimit       bool
	PidsLimit       bool
	CPUSet          bool
	CPUQuota        bool
	LiveRestore     bool
}

// Info asks the daemon about itself.
func (c *Client) Info(ctx context.Context) (Info, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	v, err := c.api.ServerVersion(ctx)
	if err != nil {
		return Info{}, c.fail("asking the version of the daemon at", c.host, err)
	}
	i, err := c.api.Info(ctx)
	if err != nil {
		return Info{}, c.fail("asking the daemon about itself at", c.host, err)
	}
	return Info{
		ServerVersion:   v.Version,
		APIVersion:      v.APIVersion,
		MinAPIVersion:   v.MinAPIVersion,
		KernelVersion:   i.KernelVersion,
		OperatingSystem: i.OperatingSystem,
		Architecture:    i.Architecture,
		CgroupDriver:    i.CgroupDriver,
		CgroupVersion:   i.CgroupVersion,
		DefaultRuntime:  i.DefaultRuntime,
		StorageDriver:   i.Driver,
		LoggingDriver:   i.LoggingDriver,
		RootDir:         i.DockerRootDir,
		SecurityOptions: i.SecurityOptions,
		Warnings:        i.Warnings,
		CPUs:            i.NCPU,
		MemoryBytes:     i.MemTotal,
		MemoryLimit:     i.MemoryLimit,
		SwapLimit:       i.SwapLimit,
		PidsLimit:       i.PidsLimit,
		CPUSet:          i.CPUSet,
		CPUQuota:        i.CPUCfsQuota,
		LiveRestore:     i.LiveRestoreEnabled,
	}, nil
}

// Error is a call to the daemon that failed.
type Error struct {
	// Op is what was attempted, Object what it was attempted on: a container's name, an image, a path.
	Op, Object string
	// Err is what the daemon or the kernel said.
	Err error
	// Means says what follows for judging, Do what an operator can do. Either may be empty.
	Means, Do string
}

// Error puts the whole story into one line.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "engine: %s %s: %v", e.Op, e.Object, e.Err)
	for _, more := range []string{e.Means, e.Do} {
		if more != "" {
			b.WriteString("; ")
			b.WriteString(more)
		}
	}
	return b.String()
}

// Unwrap gives what the daemon said.
func (e *Error) Unwrap() error { return e.Err }

// fail makes an Error and finds the words for what it means.
func (c *Client) fail(op, object string, err error) error {
	e := &Error{
		Op: op, Object: object, Err: err,
		Means: "the step was not run, so this is an infrastructure failure and says nothing about a submission",
	}
	switch {
	case client.IsErrConnectionFailed(err):
		e.Means = "without the daemon no container can be started and nothing can be judged"
		e.Do = "check that Docker runs (systemctl status docker) and that this process may open " + c.host
	case errors.Is(err, context.DeadlineExceeded):
		e.Do = "the daemon did not answer in time: look at its journal (journalctl -u docker) and at the load of this machine"
	case strings.Contains(err.Error(), "bind source path does not exist"):
		e.Do = "the daemon sees another file system than this process: run both in the same mount namespace, with the scratch directory at the same path"
	case strings.Contains(err.Error(), "no space left on device"):
		e.Do = "free space on the daemon's file system; a cpuset without processors gives the same error, so check the processor set too"
	case strings.Contains(err.Error(), "seccomp"):
		e.Do = "leave Docker's builtin seccomp profile in force (docker info shows name=seccomp,profile=builtin)"
	case strings.Contains(err.Error(), "cgroup"):
		e.Do = "check that the daemon uses cgroup v2 and that the driver it reports is the one in use (docker info)"
	}
	return e
}
