package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/services/internal/mutant"
)

// openDeadline is how long the Runner waits for the other side of a channel. Every open has it: a blocking open would
// need every way out of a run to remember a rescue (spec/sandbox.md 6.1).
const openDeadline = 30 * time.Second

// pollEvery is the pause between two looks for the other side.
const pollEvery = 2 * time.Millisecond

// errNobody says that the other side of a channel never came.
var errNobody = errors.New("nothing opened the other side of the channel")

// makeFIFO makes a channel at path, in place of whatever is there. The mode is set after the making, because the umask
// has a say in mkfifo's.
func makeFIFO(path string, mode os.FileMode) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("sandbox: making the channel %s: %w", path, err)
	}
	if err := unix.Mkfifo(path, uint32(mode.Perm())); err != nil {
		return fmt.Errorf("sandbox: making the channel %s: %w; channels need a Linux file system", path, err)
	}
	if err := os.Chmod(path, mode.Perm()); err != nil {
		return fmt.Errorf("sandbox: making the channel %s: %w", path, err)
	}
	return nil
}

// inlet is the reading end of a channel. It tells an end of the stream from a stream that has not begun: without a writer
// a read gives zero bytes either way.
type inlet struct {
	file    *os.File
	arrived bool   // a writer was there
	first   []byte // what was read while waiting for the writer, still to be delivered
	ended   bool   // the writer came and went while nobody looked
}

// openInlet opens the reading end and does not wait. Opening it is what releases a writer that waits in its own open.
func openInlet(path string) (*inlet, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("sandbox: opening the channel %s for reading: %w", path, err)
	}
	// In non-blocking mode, so that the runtime's poller parks the goroutine and deadlines work.
	return &inlet{file: os.NewFile(uintptr(fd), path)}, nil
}

// await waits until a writer has come, for at most atMost or until gone is closed. After gone is closed it looks once
// more: a writer that came and went in the last moment did come.
func (in *inlet) await(ctx context.Context, gone <-chan struct{}, atMost time.Duration) error {
	if mutant.Off(mutant.OpenDeadline) {
		atMost = 1<<63 - 1
	}
	deadline := time.NewTimer(atMost)
	defer deadline.Stop()
	pause := time.NewTicker(pollEvery)
	defer pause.Stop()
	for last := false; !in.arrived; {
		if err := in.peek(); err != nil {
			return err
		}
		if in.arrived {
			break
		}
		if last {
			return fmt.Errorf("sandbox: %s: %w", in.file.Name(), errNobody)
		}
		select {
		case <-pause.C:
		case <-gone:
			last = true
		case <-deadline.C:
			return fmt.Errorf("sandbox: %s: %w within %v", in.file.Name(), errNobody, atMost)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// peek looks once, without waiting, whether a writer is there or was there.
func (in *inlet) peek() error {
	conn, err := in.file.SyscallConn()
	if err != nil {
		return err
	}
	var n int
	var readErr error
	buf := make([]byte, 4096)
	err = conn.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			if _, readErr = unix.Poll(poll, 0); readErr != unix.EINTR {
				break
			}
		}
		if readErr != nil {
			return
		}
		// A hang-up is only ever reported after a writer was there.
		hangup := poll[0].Revents&unix.POLLHUP != 0
		for {
			if n, readErr = unix.Read(int(fd), buf); readErr != unix.EINTR {
				break
			}
		}
		if n == 0 && readErr == nil {
			in.ended = hangup
			in.arrived = hangup
		}
	})
	switch {
	case err != nil:
		return err
	case readErr == unix.EAGAIN: // a writer holds the channel and is silent
		in.arrived = true
	case readErr != nil:
		return &os.PathError{Op: "read", Path: in.file.Name(), Err: readErr}
	case n > 0:
		in.arrived, in.first = true, buf[:n]
	}
	return nil
}

// Read delivers the stream after await. It parks until there are bytes, the end, or a deadline.
func (in *inlet) Read(p []byte) (int, error) {
	if len(in.first) > 0 {
		n := copy(p, in.first)
		in.first = in.first[n:]
		return n, nil
	}
	if in.ended {
		return 0, io.EOF
	}
	return in.file.Read(p)
}

// stopOn makes parked reads return once the context is over. The function it returns ends that.
func (in *inlet) stopOn(ctx context.Context) (release func() bool) {
	return context.AfterFunc(ctx, func() { _ = in.file.SetReadDeadline(time.Unix(1, 0)) })
}

// Close gives the reading end up; a writer sees a broken pipe.
func (in *inlet) Close() error { return in.file.Close() }

// openOutlet opens the writing end of a channel, waiting until a reader has come, gone is closed or atMost has passed.
// Writes to it park until there is room: back-pressure, and no spinning.
func openOutlet(ctx context.Context, path string, gone <-chan struct{}, atMost time.Duration) (*os.File, error) {
	deadline := time.NewTimer(atMost)
	defer deadline.Stop()
	pause := time.NewTicker(pollEvery)
	defer pause.Stop()
	for {
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), path), nil
		case errors.Is(err, unix.ENXIO), errors.Is(err, unix.EINTR): // no reader yet
		default:
			return nil, fmt.Errorf("sandbox: opening the channel %s for writing: %w", path, err)
		}
		select {
		case <-pause.C:
		case <-gone:
			return nil, fmt.Errorf("sandbox: %s: %w", path, errNobody)
		case <-deadline.C:
			return nil, fmt.Errorf("sandbox: %s: %w within %v", path, errNobody, atMost)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
