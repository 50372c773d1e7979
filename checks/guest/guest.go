package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/evalhost/evalhost/checks/guest/wire"
)

// Guest is a running guest. Its methods may be called at the same time from several goroutines: they share one port. Close
// gives the port back; a process that ends gives it back too.
type Guest struct {
	dir    string
	record record
	ready  wire.ReadyResult

	mu   sync.Mutex
	conn *wire.Conn
	port net.Conn
	slot *os.File // locked while this process uses the port
}

func newGuest(dir string, r record) *Guest { return &Guest{dir: dir, record: r} }

// Name returns the instance's name.
func (g *Guest) Name() string { return g.record.Name }

// Ready describes the guest as it was when it was last found ready.
func (g *Guest) Ready() wire.ReadyResult { return g.ready }

// Variant returns the variant's name.
func (g *Guest) Variant() string { return g.record.Variant }

// Emulated says whether the guest's processors are emulated: then it is several times slower than the machine it runs on.
func (g *Guest) Emulated() bool { return strings.HasPrefix(g.record.Accel, "tcg") }

func (g *Guest) about() string {
	s := fmt.Sprintf("kernel %s, Docker %s, system %s", g.ready.Kernel, g.ready.Docker, g.ready.System)
	if len(g.ready.Failed) > 0 {
		s += " (failed: " + strings.Join(g.ready.Failed, " ") + ")"
	}
	return s
}

// Down ends the guest.
func (g *Guest) Down() error {
	g.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return Down(ctx, g.record.Name)
}

// Close gives back this process's port to the guest, which ends whatever this process still runs in it. The guest stays up.
func (g *Guest) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hangUp()
}

func (g *Guest) hangUp() {
	if g.conn == nil {
		return
	}
	_ = g.port.Close()
	<-g.conn.Done()
	_ = g.slot.Close()
	g.conn, g.port, g.slot = nil, nil, nil
}

// dialTimeout bounds one attempt to reach the agent; the guest may not have started it yet.
const dialTimeout = 5 * time.Second

// connection returns this process's connection, made anew when the last one has ended.
func (g *Guest) connection(ctx context.Context) (*wire.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conn != nil && g.conn.Err() == nil {
		return g.conn, nil
	}
	g.hangUp()
	var last error
	for {
		conn, port, slot, err := g.dial(ctx)
		if err == nil {
			g.conn, g.port, g.slot = conn, port, slot
			return conn, nil
		}
		last = err
		if !g.record.QEMU.alive() {
			return nil, g.explained(nil, last)
		}
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(last, cause) {
				last = fmt.Errorf("%w (%w)", cause, last)
			}
			// The context may have ended because QEMU has.
			return nil, g.explained(nil, fmt.Errorf("reach the agent of the guest %s: %w", g.record.Name, last))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// errAllPortsTaken asks for patience: a client gives its port back when it ends.
var errAllPortsTaken = errors.New("all ports are taken by other processes")

func (g *Guest) dial(ctx context.Context) (*wire.Conn, net.Conn, *os.File, error) {
	for i := range wire.Ports {
		slot, err := os.OpenFile(filepath.Join(g.dir, portSocket(i)+".lock"), os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o644)
		if err != nil {
			return nil, nil, nil, err
		}
		if err := syscall.Flock(int(slot.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			_ = slot.Close()
			continue
		}
		dialCtx, cancel := context.WithTimeoutCause(ctx, dialTimeout, errors.New("the agent does not answer"))
		defer cancel()
		port, err := dialSocket(dialCtx, g.dir, portSocket(i))
		if err != nil {
			_ = slot.Close()
			return nil, nil, nil, err
		}
		conn, err := wire.Dial(dialCtx, port)
		if err != nil {
			_ = slot.Close()
			return nil, nil, nil, err
		}
		return conn, port, slot, nil
	}
	return nil, nil, nil, errAllPortsTaken
}

// request carries out an operation that needs no streams.
func (g *Guest) request(ctx context.Context, req wire.Request, result any) error {
	conn, err := g.connection(ctx)
	if err != nil {
		return err
	}
	s, err := conn.Open(req)
	if err != nil {
		return g.explained(conn, err)
	}
	return g.explained(conn, await(ctx, s, result))
}

// explained adds to an error of a connection what the guest said last, when the error is that the guest has ended.
func (g *Guest) explained(conn *wire.Conn, err error) error {
	if err == nil {
		return nil
	}
	// A connection breaks a moment before its process is gone.
	for range 25 {
		if !g.record.QEMU.alive() {
			return fmt.Errorf("%w: the guest %s has ended; the last lines of its console:\n%s\nQEMU said: %s", err, g.record.Name,
				tail(filepath.Join(g.dir, "console.log"), 25), tail(filepath.Join(g.dir, "qemu.log"), 10))
		}
		if conn == nil || conn.Err() == nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// cancelGrace is how long the agent gets to end a session that is no longer wanted.
const cancelGrace = 15 * time.Second

// await waits for a session's result. When the context ends first the session is canceled, and the result is waited for
// a little longer, so that what ran is known to have ended.
func await(ctx context.Context, s *wire.Session, result any) error {
	select {
	case <-s.Over():
		return s.Result(context.Background(), result)
	case <-ctx.Done():
	}
	s.Cancel()
	grace, cancel := context.WithTimeoutCause(context.Background(), cancelGrace, errors.New("the agent does not end it"))
	defer cancel()
	if err := s.Result(grace, result); err != nil {
		s.Abort() // nobody may wait for the streams of a guest that does not answer
		return errors.Join(context.Cause(ctx), err)
	}
	return context.Cause(ctx)
}

func (g *Guest) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the guest's agent does not answer"))
	defer cancel()
	_, err := g.connection(ctx)
	return err
}

func (g *Guest) setClock(ctx context.Context) error {
	return g.request(ctx, wire.Request{Op: wire.OpClock, Clock: time.Now().UnixNano()}, nil)
}

// Cmd is a command to run in the guest as root.
type Cmd struct {
	Args []string
	// Env is added to a login's usual environment, as "NAME=value".
	Env []string
	// Dir is the working directory, /root when empty.
	Dir string
	// Stdin is read until it ends or the command does; nil is an empty standard input. A Read that blocks outlives Exec.
	Stdin io.Reader
	// Stdout and Stderr take the output as it comes; nil collects it in the Result.
	Stdout, Stderr io.Writer
	// Timeout ends the command and everything it started. Zero leaves that to the context.
	Timeout time.Duration
}

// Result says how a command ended. A command that could not be started has an Err, one that failed has a Code.
type Result struct {
	Code     int    // exit status; -1 when a signal ended the command
	Signal   int    // signal that ended it, or 0
	TimedOut bool   // Cmd.Timeout ended it
	Stdout   string // what Cmd.Stdout did not take
	Stderr   string // what Cmd.Stderr did not take
	Duration time.Duration
}

// OK says whether the command ended by itself with status 0.
func (r Result) OK() bool { return r.Code == 0 && r.Signal == 0 && !r.TimedOut }

// String describes the result in one line and what was collected.
func (r Result) String() string {
	s := fmt.Sprintf("exit status %d", r.Code)
	if r.Signal != 0 {
		s = fmt.Sprintf("signal %d", r.Signal)
	}
	if r.TimedOut {
		s = "timed out"
	}
	return fmt.Sprintf("%s after %v; stdout %q, stderr %q", s, r.Duration.Round(time.Millisecond), r.Stdout, r.Stderr)
}

// ErrNotStarted is returned when the guest has no such program or may not run it.
var ErrNotStarted = errors.New("the guest could not start the command")

// Exec runs a command and waits for its end. Everything it started ends with it: what shall stay is started with
// systemd-run. When ctx ends first the command is killed and the context's cause is returned.
func (g *Guest) Exec(ctx context.Context, c Cmd) (Result, error) {
	conn, err := g.connection(ctx)
	if err != nil {
		return Result{}, err
	}
	s, err := conn.Open(wire.Request{Op: wire.OpExec, Exec: &wire.Exec{
		Args: c.Args, Env: c.Env, Dir: c.Dir, Timeout: c.Timeout, NoStdin: c.Stdin == nil,
	}})
	if err != nil {
		return Result{}, g.explained(conn, err)
	}
	if c.Stdin != nil {
		go func() { // ends with the session, or with a Read that blocks: the caller's reader is the caller's
			in := s.Writer(0)
			_, _ = io.Copy(in, c.Stdin)
			_ = in.Close()
		}()
	}
	var stdout, stderr bytes.Buffer
	var outputs sync.WaitGroup
	collect := func(stream int, w io.Writer, buf *bytes.Buffer) {
		if w == nil {
			w = buf
		}
		outputs.Go(func() {
			r := s.Reader(stream)
			_, _ = io.Copy(w, r)
			_ = r.Close()
		})
	}
	collect(1, c.Stdout, &stdout)
	collect(2, c.Stderr, &stderr)
	var ended wire.ExecResult
	err = await(ctx, s, &ended)
	if err != nil && ctx.Err() == nil {
		return Result{}, g.explained(conn, err) // the connection is gone, and with it every stream
	}
	outputs.Wait()
	res := Result{
		Code: ended.Code, Signal: ended.Signal, TimedOut: ended.TimedOut, Duration: ended.Duration,
		Stdout: stdout.String(), Stderr: stderr.String(),
	}
	if err != nil {
		return res, err
	}
	if ended.NotStarted != "" {
		return res, fmt.Errorf("%w %q: %s", ErrNotStarted, c.Args, ended.NotStarted)
	}
	return res, nil
}

// Push copies files and directories into the guest, owned by root, with their modes. As with cp, dst is the directory to
// put them in when it exists as one, ends in a slash, or takes several sources; otherwise it is the one source's new name.
func (g *Guest) Push(ctx context.Context, dst string, src ...string) error {
	for _, path := range src {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("push: %w", err)
		}
	}
	conn, err := g.connection(ctx)
	if err != nil {
		return err
	}
	s, err := conn.Open(wire.Request{Op: wire.OpPush, Path: dst, Into: len(src) > 1})
	if err != nil {
		return err
	}
	packed := make(chan error, 1)
	go func() { // the session's end unblocks its writes
		err := wire.Pack(s.Writer(0), src)
		if err != nil && !errors.Is(err, io.ErrClosedPipe) {
			s.Cancel()
		}
		_ = s.Writer(0).Close()
		packed <- err
	}()
	err = await(ctx, s, nil)
	if perr := <-packed; perr != nil && !errors.Is(perr, io.ErrClosedPipe) {
		err = perr
	}
	if err != nil {
		return fmt.Errorf("push %s to %s: %w", strings.Join(src, " "), dst, g.explained(conn, err))
	}
	return nil
}

// Pull copies a file or directory out of the guest; dst is read as Push reads it.
func (g *Guest) Pull(ctx context.Context, src, dst string) error {
	conn, err := g.connection(ctx)
	if err != nil {
		return err
	}
	s, err := conn.Open(wire.Request{Op: wire.OpPull, Path: src})
	if err != nil {
		return err
	}
	unpacked := make(chan error, 1)
	go func() {
		r := s.Reader(1)
		err := wire.Unpack(r, dst, false)
		_ = r.Close()
		unpacked <- err
	}()
	err = await(ctx, s, nil)
	if uerr := <-unpacked; err == nil {
		err = uerr
	}
	if err != nil {
		return fmt.Errorf("pull %s to %s: %w", src, dst, g.explained(conn, err))
	}
	return nil
}
