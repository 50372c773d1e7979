package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// port is one virtio serial port. A read returns io.EOF when the host side is not connected, and a write then blocks
// until it is; a client that goes away must not leave a writer behind, so the end of reading also ends writing.
type port struct {
	path string
	f    *os.File
	fd   int
	ep   int
}

// openPort finds a port by its name as the kernel shows it: that needs neither udev nor any other service.
func openPort(ctx context.Context, name string) (*port, error) {
	deadline := time.Now().Add(30 * time.Second)
	for {
		path, err := findPort(name)
		if err == nil {
			fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			if err != nil {
				return nil, fmt.Errorf("open %s: %w", path, err)
			}
			return newPort(path, fd)
		}
		if time.Now().After(deadline) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func findPort(name string) (string, error) {
	const class = "/sys/class/virtio-ports"
	ports, err := os.ReadDir(class)
	if err != nil {
		return "", err
	}
	for _, p := range ports {
		got, err := os.ReadFile(filepath.Join(class, p.Name(), "name"))
		if err == nil && strings.TrimSpace(string(got)) == name {
			return filepath.Join("/dev", p.Name()), nil
		}
	}
	return "", fmt.Errorf("%s has no port named %s", class, name)
}

func newPort(path string, fd int) (*port, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create: %w", err)
	}
	// Edge triggered: a disconnected port reports a hang-up all the time, and only a change is worth waking up for.
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLHUP | unix.EPOLLET, Fd: int32(fd)}
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return nil, fmt.Errorf("epoll_ctl on %s: %w", path, err)
	}
	return &port{path: path, f: os.NewFile(uintptr(fd), path), fd: fd, ep: ep}, nil
}

func (p *port) connected() bool {
	fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && (n == 0 || fds[0].Revents&unix.POLLHUP == 0)
}

// waitConnected returns when the host side is connected. A restored snapshot may come up with any state, so the state is
// also asked for now and then, besides the wake-up the driver sends.
func (p *port) waitConnected(ctx context.Context) error {
	events := make([]unix.EpollEvent, 1)
	for !p.connected() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := unix.EpollWait(p.ep, events, 5000); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("epoll_wait on %s: %w", p.path, err)
		}
	}
	return p.f.SetWriteDeadline(time.Time{})
}

// Read implements io.Reader.
func (p *port) Read(b []byte) (int, error) {
	n, err := p.f.Read(b)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		_ = p.f.SetWriteDeadline(time.Unix(1, 0))
	}
	return n, err
}

// Write implements io.Writer.
func (p *port) Write(b []byte) (int, error) { return p.f.Write(b) }

func (p *port) Close() {
	_ = p.f.Close()
	_ = unix.Close(p.ep)
}
