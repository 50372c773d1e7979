package engine

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/evalhost/evalhost/services/internal/mutant"
)

// Create makes a container and does not start it. It returns the daemon's id. A caller that gives up while the daemon is at it
// waits for it all the same, for up to createGrace, and may get an id: a daemon that is left alone goes on, and its container would
// come to be after whoever could remove it had looked.
func (c *Client) Create(ctx context.Context, s Spec) (string, error) {
	cfg, host, err := s.configs()
	if err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", c.fail("creating the container", s.Name, err)
	}
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	stopped := make(chan struct{})
	notice := context.AfterFunc(ctx, func() {
		defer close(stopped)
		select {
		case <-time.After(c.createGrace):
			cancel()
		case <-work.Done():
		}
	})
	got, err := c.api.ContainerCreate(work, cfg, host, nil, nil, s.Name)
	if cancel(); !notice() {
		<-stopped
	}
	if err != nil {
		return "", c.fail("creating the container", s.Name, err)
	}
	return got.ID, nil
}

// Start starts a container.
func (c *Client) Start(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.api.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		return c.fail("starting the container", id, err)
	}
	return nil
}

// Wait blocks until a started container runs no more, and returns the exit code of its PID 1. It is bounded by atMost.
func (c *Client) Wait(ctx context.Context, id string, atMost time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	// One of the two channels always speaks: a cancelled context ends the request with an error. The result channel
	// must be read even then, or the client's goroutine would wait for ever to hand over a result that came too late.
	exited, failed := c.api.ContainerWait(ctx, id, container.WaitConditionNotRunning)
	select {
	case r := <-exited:
		if r.Error != nil && r.Error.Message != "" {
			return 0, c.fail("waiting for the container", id, &daemonSaid{r.Error.Message})
		}
		return int(r.StatusCode), nil
	case err := <-failed:
		return 0, c.fail("waiting for the container", id, err)
	}
}

// daemonSaid is an error the daemon put into an answer of its own.
type daemonSaid struct{ message string }

func (e *daemonSaid) Error() string { return e.message }

// State of a container.
type State struct {
	Running   bool
	ExitCode  int
	OOMKilled bool // the runtime's word; it is racy, see spec/sandbox.md 4.6
	Pid       int  // of PID 1 in the host's namespace; zero when it does not run
	Error     string
}

// Inspect asks for a container's state.
func (c *Client) Inspect(ctx context.Context, id string) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	got, err := c.api.ContainerInspect(ctx, id)
	if err != nil {
		return State{}, c.fail("inspecting the container", id, err)
	}
	if got.ContainerJSONBase == nil || got.State == nil {
		return State{}, c.fail("inspecting the container", id, &daemonSaid{"the answer holds no state"})
	}
	s := got.State
	return State{Running: s.Running, ExitCode: s.ExitCode, OOMKilled: s.OOMKilled, Pid: s.Pid, Error: s.Error}, nil
}

// Kill sends SIGKILL to PID 1, and with it ends everything in the container. A container that runs no more is no error.
func (c *Client) Kill(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	err := c.api.ContainerKill(ctx, id, "SIGKILL")
	if err == nil || errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
		return nil
	}
	return c.fail("killing the container", id, err)
}

// Remove removes a container, running or not, and its anonymous volumes. It is done with the context's values but not
// its cancellation: clean-up happens even when the job was given up. An absent container is no error.
func (c *Client) Remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	for {
		err := c.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: !mutant.Off(mutant.RemoveVolumes)})
		switch {
		case err == nil, errdefs.IsNotFound(err):
			return nil
		case errdefs.IsConflict(err) && strings.Contains(err.Error(), "already in progress"):
			// Somebody else removes it; it counts when it is gone.
		default:
			e := c.fail("removing the container", id, err).(*Error)
			e.Means = "the container stays until the next sweep; the run's result is not touched by it"
			return e
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return c.fail("removing the container", id, ctx.Err())
		}
	}
}

// Found is a container of ours or of another runner that keeps the same contract.
type Found struct {
	ID, Name string
	// Instance it belongs to; HasInstance is false for a container without the label.
	Instance    string
	HasInstance bool
	State       string // "created", "running", "exited", "dead", …
}

// Sandboxes lists every container that carries the sandbox's label, running or not, started or not.
func (c *Client) Sandboxes(ctx context.Context) ([]Found, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	got, err := c.api.ContainerList(ctx, container.ListOptions{
		All: !mutant.Off(mutant.SweepCreated), Filters: filters.NewArgs(filters.Arg("label", LabelSandbox+"=1")),
	})
	if err != nil {
		return nil, c.fail("listing the containers labelled", LabelSandbox, err)
	}
	var found []Found
	for _, one := range got {
		f := Found{ID: one.ID, State: one.State}
		f.Instance, f.HasInstance = one.Labels[LabelInstance]
		if len(one.Names) > 0 {
			f.Name = strings.TrimPrefix(one.Names[0], "/")
		}
		found = append(found, f)
	}
	return found, nil
}

// Archive reads one path of a stopped or running container as a tar stream. found is false when there is no such path.
// The stream is untrusted, and bounded in time by atMost; the caller bounds its length and closes it.
func (c *Client) Archive(ctx context.Context, id, path string, atMost time.Duration) (stream io.ReadCloser, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	body, _, err := c.api.CopyFromContainer(ctx, id, path)
	if err != nil {
		cancel()
		if errdefs.IsNotFound(err) {
			return nil, false, nil
		}
		return nil, false, c.fail("reading "+path+" from the container", id, err)
	}
	return &boundedStream{body, cancel}, true, nil
}

// boundedStream ends its context when it is closed.
type boundedStream struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (s *boundedStream) Close() error {
	defer s.cancel()
	return s.ReadCloser.Close()
}
