package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// command is a helper program of the build, run so that nothing of it survives: a private mount namespace, a process group
// that is killed when the context ends, and a death signal for when this process is killed.
type command struct {
	args  []string
	dir   string
	env   []string
	alone bool // also namespaces of its own for processes, network, IPC and host name
}

// run runs the command and returns its standard output. An error carries the end of what it said.
func (c command) run(ctx context.Context) (string, error) {
	// The death signal follows the thread that started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 { // only the build mounts anything, and only root builds
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	if c.alone {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("%s: %w", c.args[0], err)
	}
	ended := make(chan struct{})
	watcher := make(chan struct{})
	go func() {
		defer close(watcher)
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-ended:
			return
		case <-time.After(10 * time.Second):
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}()
	err := cmd.Wait()
	close(ended)
	<-watcher
	said := strings.TrimSpace(lastBytes(stdout.String()+stderr.String(), 3000))
	if ctx.Err() != nil {
		return "", fmt.Errorf("%s: %w; it had said:\n%s", strings.Join(c.args, " "), context.Cause(ctx), said)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(c.args, " "), err, said)
	}
	return stdout.String(), nil
}

// script runs a shell script of the tree.
func script(ctx context.Context, root, path string, args ...string) error {
	_, err := command{args: append([]string{"sh", filepath.Join(root, path)}, args...)}.run(ctx)
	return err
}

func lastBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "… " + s[len(s)-n:]
}

// lock takes an exclusive lock on a file, waiting until the context ends. It is released by the returned function and, by
// the kernel, when this process ends.
func lock(ctx context.Context, path string, waiting func()) (func(), error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	for said := false; ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !said && waiting != nil {
			said = true
			waiting()
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: another process holds it: %w", path, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}
