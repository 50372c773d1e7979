package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/checks/guest/wire"
)

type agent struct{ cells *cells }

func (a *agent) handle(ctx context.Context, s *wire.Session, request json.RawMessage) (any, error) {
	var req wire.Request
	if err := json.Unmarshal(request, &req); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	switch req.Op {
	case wire.OpExec:
		if req.Exec == nil || len(req.Exec.Args) == 0 {
			return nil, errors.New("exec: no command")
		}
		return a.exec(ctx, s, *req.Exec), nil
	case wire.OpPush:
		return struct{}{}, push(ctx, s, req.Path, req.Into)
	case wire.OpPull:
		return struct{}{}, pull(ctx, s, req.Path)
	case wire.OpReady:
		return ready(ctx, req.Wait)
	case wire.OpClock:
		ts := unix.NsecToTimespec(req.Clock)
		if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
			return nil, fmt.Errorf("clock_settime: %w", err)
		}
		return struct{}{}, nil
	}
	return nil, fmt.Errorf("unknown operation %q", req.Op)
}

// drainAfterExit is how long output is still collected after the command has ended and what it left running is killed.
const drainAfterExit = 2 * time.Second

func (a *agent) exec(ctx context.Context, s *wire.Session, e wire.Exec) wire.ExecResult {
	cmd := exec.Command(e.Args[0], e.Args[1:]...)
	cmd.Env = append([]string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "USER=root", "LANG=C.UTF-8",
	}, e.Env...)
	cmd.Dir = "/root"
	if e.Dir != "" {
		cmd.Dir = e.Dir
	}
	cell, release := a.cells.enter()
	defer release()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cell != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(cell.dir.Fd())
	}
	var outputs sync.WaitGroup
	var readers []*os.File
	connect := func(stream int) *os.File {
		r, w, err := os.Pipe()
		if err != nil {
			return nil
		}
		readers = append(readers, r)
		outputs.Go(func() {
			out := s.Writer(stream)
			_, _ = io.Copy(onlyWriter{out}, r)
			_ = out.Close()
		})
		return w
	}
	stdout, stderr := connect(1), connect(2)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	var stdin io.WriteCloser
	if !e.NoStdin {
		var err error
		if stdin, err = cmd.StdinPipe(); err != nil {
			return wire.ExecResult{Code: -1, NotStarted: err.Error()}
		}
	}
	start := time.Now()
	err := cmd.Start()
	_ = stdout.Close()
	_ = stderr.Close()
	if err != nil {
		outputs.Wait()
		return wire.ExecResult{Code: 127, NotStarted: err.Error()}
	}
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid), []byte("0"), 0o644)
	var input sync.WaitGroup
	if stdin != nil {
		input.Go(func() {
			in := s.Reader(0)
			_, _ = io.Copy(onlyWriter{stdin}, in)
			_ = stdin.Close()
			_ = in.Close()
		})
	}
	var timedOut, canceled atomic.Bool
	watch := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		var deadline <-chan time.Time
		if e.Timeout > 0 {
			timer := time.NewTimer(e.Timeout)
			defer timer.Stop()
			deadline = timer.C
		}
		select {
		case <-watch:
			return
		case <-ctx.Done():
			canceled.Store(true)
		case <-deadline:
			timedOut.Store(true)
		}
		cell.kill(cmd.Process.Pid)
	})
	state, werr := cmd.Process.Wait()
	result := wire.ExecResult{Duration: time.Since(start)}
	close(watch)
	watcher.Wait()
	cell.kill(cmd.Process.Pid) // what the command left running; systemd-run is for what shall outlive it
	drained := time.AfterFunc(drainAfterExit, func() {
		for _, r := range readers {
			_ = r.SetReadDeadline(time.Now())
		}
	})
	outputs.Wait()
	drained.Stop()
	for _, r := range readers {
		_ = r.Close()
	}
	if stdin != nil {
		_ = stdin.Close()
		_ = s.Reader(0).Close()
		input.Wait()
	}
	result.TimedOut, result.Canceled = timedOut.Load(), canceled.Load()
	if werr != nil {
		result.Code, result.NotStarted = -1, werr.Error()
		return result
	}
	ws, _ := state.Sys().(syscall.WaitStatus)
	result.Code = ws.ExitStatus()
	if ws.Signaled() {
		result.Code, result.Signal = -1, int(ws.Signal())
	}
	return result
}

// onlyWriter keeps io.Copy from looking for a faster path that would bypass flow control.
type onlyWriter struct{ io.Writer }

// cells are cgroups below the agent's own, one a command, so that a command is ended with everything it started.
type cells struct {
	root string
	next atomic.Int64
}

// cell is one command's cgroup. A nil cell ends the command's session by its process group.
type cell struct {
	path string
	dir  *os.File
}

func newCells() (*cells, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(own)) {
		if rel, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			root := filepath.Join("/sys/fs/cgroup", rel)
			if _, err := os.Stat(filepath.Join(root, "cgroup.kill")); err != nil {
				return nil, err
			}
			return &cells{root: root}, nil
		}
	}
	return nil, errors.New("/proc/self/cgroup has no unified entry")
}

func (c *cells) enter() (*cell, func()) {
	if c == nil {
		return nil, func() {}
	}
	path := filepath.Join(c.root, fmt.Sprintf("exec-%d", c.next.Add(1)))
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, func() {}
	}
	dir, err := os.Open(path)
	if err != nil {
		_ = os.Remove(path)
		return nil, func() {}
	}
	return &cell{path: path, dir: dir}, func() {
		_ = dir.Close()
		for range 100 { // the last process leaves its cgroup a moment after it is killed
			if err := removeTree(path); err == nil || errors.Is(err, os.ErrNotExist) {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// removeTree removes a cgroup and the empty ones a command made below it.
func removeTree(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			_ = removeTree(filepath.Join(path, e.Name()))
		}
	}
	return unix.Rmdir(path)
}

func (c *cell) kill(pid int) {
	if c != nil {
		if err := os.WriteFile(filepath.Join(c.path, "cgroup.kill"), []byte("1"), 0o644); err == nil {
			return
		}
	}
	_ = unix.Kill(-pid, unix.SIGKILL)
}
