package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// serve runs an agent whose handler is handle on one end of a pipe and returns the other.
func serve(t *testing.T, handle Handler) net.Conn {
	t.Helper()
	host, guest := net.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = Serve(t.Context(), guest, handle)
	}()
	t.Cleanup(func() {
		_ = host.Close()
		_ = guest.Close()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Error("the agent did not notice that the host has gone")
		}
	})
	return host
}

func echo(_ context.Context, s *Session, request json.RawMessage) (any, error) {
	n, err := io.Copy(s.Writer(1), s.Reader(0))
	if err != nil {
		return nil, err
	}
	if err := s.Writer(1).Close(); err != nil {
		return nil, err
	}
	return map[string]any{"n": n, "request": request}, nil
}

func TestSessionsAtTheSameTime(t *testing.T) {
	host := serve(t, echo)
	c, err := Dial(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			in := bytes.Repeat([]byte{byte(i), 0, 'x'}, 700_000) // several windows
			s, err := c.Open(i)
			if err != nil {
				t.Error(err)
				return
			}
			go func() {
				_, _ = s.Writer(0).Write(in)
				_ = s.Writer(0).Close()
			}()
			out, err := io.ReadAll(s.Reader(1))
			if err != nil || !bytes.Equal(out, in) {
				t.Errorf("session %d: %d bytes came back of %d: %v", i, len(out), len(in), err)
			}
			var result struct{ N, Request int }
			if err := s.Result(t.Context(), &result); err != nil || result.N != len(in) || result.Request != i {
				t.Errorf("session %d: %+v %v", i, result, err)
			}
		})
	}
	all.Wait()
}

func TestUnreadStreamStopsNothingElse(t *testing.T) {
	host := serve(t, func(_ context.Context, s *Session, request json.RawMessage) (any, error) {
		if string(request) == `"flood"` {
			for {
				if _, err := s.Writer(1).Write(make([]byte, 100_000)); err != nil {
					return "stopped", nil
				}
			}
		}
		return "answer", nil
	})
	c, err := Dial(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	flood, err := c.Open("flood")
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		s, err := c.Open("other")
		if err != nil {
			t.Fatal(err)
		}
		var answer string
		if err := s.Result(t.Context(), &answer); err != nil || answer != "answer" {
			t.Fatalf("%q %v", answer, err)
		}
	}
	if err := flood.Reader(1).Close(); err != nil {
		t.Fatal(err)
	}
	var answer string
	if err := flood.Result(t.Context(), &answer); err != nil || answer != "stopped" {
		t.Fatalf("%q %v", answer, err)
	}
}

func TestCancelAndFailure(t *testing.T) {
	host := serve(t, func(ctx context.Context, _ *Session, request json.RawMessage) (any, error) {
		if string(request) == `"fail"` {
			return nil, errors.New("no such thing")
		}
		<-ctx.Done()
		return "canceled", nil
	})
	c, err := Dial(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Open("wait")
	if err != nil {
		t.Fatal(err)
	}
	s.Cancel()
	var answer string
	if err := s.Result(t.Context(), &answer); err != nil || answer != "canceled" {
		t.Fatalf("%q %v", answer, err)
	}
	if s, err = c.Open("fail"); err != nil {
		t.Fatal(err)
	}
	if err := s.Result(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Fatalf("%v", err)
	}
}

// A client that vanishes in the middle of a frame, without the agent noticing, must not spoil the next one.
func TestNextClientOnADirtyPort(t *testing.T) {
	canceled := make(chan struct{}, 8)
	host := serve(t, func(ctx context.Context, s *Session, request json.RawMessage) (any, error) {
		if string(request) == `"hang"` {
			<-ctx.Done()
			canceled <- struct{}{}
			return nil, ctx.Err()
		}
		return echo(ctx, s, request)
	})
	keepOpen := struct{ net.Conn }{host}
	first, err := Dial(t.Context(), noClose{keepOpen})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Open("hang"); err != nil {
		t.Fatal(err)
	}
	// The reader of the first connection still runs; make it let go of the pipe before the second begins.
	_ = host.SetReadDeadline(time.Unix(1, 0))
	<-first.Done()
	_ = host.SetReadDeadline(time.Time{})
	if _, err := host.Write([]byte{40, 1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	second, err := Dial(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-canceled:
	case <-time.After(10 * time.Second):
		t.Fatal("the first client's session outlived it")
	}
	s, err := second.Open("echo")
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Writer(0).Close()
	if err := s.Result(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}

type noClose struct{ net.Conn }

func (noClose) Close() error { return nil }

func TestDialGivesUp(t *testing.T) {
	host, guest := net.Pipe()
	defer guest.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, host); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
}

func TestConnectionLostEndsSessions(t *testing.T) {
	host := serve(t, func(ctx context.Context, _ *Session, _ json.RawMessage) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	c, err := Dial(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Open("x")
	if err != nil {
		t.Fatal(err)
	}
	_ = host.Close()
	if err := s.Result(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Fatalf("%v", err)
	}
	if _, err := s.Reader(1).Read(make([]byte, 1)); !errors.Is(err, ErrClosed) {
		t.Fatalf("%v", err)
	}
	if _, err := c.Open("y"); !errors.Is(err, ErrClosed) {
		t.Fatalf("%v", err)
	}
}

func TestPackUnpack(t *testing.T) {
	src := filepath.Join(t.TempDir(), "tree")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(src, "sub"), 0o750))
	must(os.WriteFile(filepath.Join(src, "run"), []byte("#!"), 0o700))
	must(os.WriteFile(filepath.Join(src, "sub/data"), bytes.Repeat([]byte("x"), 100_000), 0o640))
	must(os.Symlink("sub/data", filepath.Join(src, "link")))
	for _, c := range []struct {
		dst, base string
		into      bool
	}{
		{"new", "new", false},
		{"dir/", "dir/tree", false},
		{"other", "other/tree", true},
	} {
		t.Run(fmt.Sprint(c.dst), func(t *testing.T) {
			top := t.TempDir()
			var buf bytes.Buffer
			must(Pack(&buf, []string{src}))
			must(Unpack(&buf, filepath.Join(top, c.dst)+map[bool]string{true: "/"}[strings.HasSuffix(c.dst, "/")], c.into))
			got := filepath.Join(top, c.base)
			for path, mode := range map[string]os.FileMode{"run": 0o700, "sub": os.ModeDir | 0o750, "sub/data": 0o640} {
				info, err := os.Lstat(filepath.Join(got, path))
				must(err)
				if info.Mode() != mode {
					t.Errorf("%s has mode %v, want %v", path, info.Mode(), mode)
				}
			}
			if to, err := os.Readlink(filepath.Join(got, "link")); err != nil || to != "sub/data" {
				t.Errorf("link: %q %v", to, err)
			}
		})
	}
}

func TestUnpackTwoIntoOneName(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, f := range []string{a, b} {
		if err := os.WriteFile(f, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var buf bytes.Buffer
	if err := Pack(&buf, []string{a, b}); err != nil {
		t.Fatal(err)
	}
	if err := Unpack(&buf, filepath.Join(dir, "c"), false); err == nil {
		t.Fatal("two files became one")
	}
}

// A peer that has stopped answering must not hold whoever waits for a stream.
func TestAbortReleasesBothEnds(t *testing.T) {
	host := serve(t, func(ctx context.Context, _ *Session, _ json.RawMessage) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	c, err := Dial(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Open("x")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() {
		_, err := s.Writer(0).Write(make([]byte, 2*Window))
		ended <- err
	}()
	go func() {
		_, err := s.Reader(1).Read(make([]byte, 1))
		ended <- err
	}()
	time.Sleep(20 * time.Millisecond) // most likely both wait by now; it is right either way
	s.Abort()
	for range 2 {
		select {
		case err := <-ended:
			if err == nil {
				t.Error("a stream of an aborted session still works")
			}
		case <-time.After(10 * time.Second):
			t.Fatal("an aborted session still holds a goroutine")
		}
	}
}
