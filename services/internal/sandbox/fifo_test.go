//go:build !guest

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// soon is far more than anything in these tests takes, and an end to those that fail.
const soon = 10 * time.Second

func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "channel")
	if err := makeFIFO(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func inletOf(t *testing.T, path string) *inlet {
	t.Helper()
	in, err := openInlet(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	return in
}

// writer opens the writing end as a program does, blocking, and does something with it.
func writer(t *testing.T, path string, do func(*os.File)) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		do(f)
	}()
	t.Cleanup(func() {
		if !isClosedWithin(done, soon) {
			t.Error("the writer hangs")
		}
	})
}

func TestAChannelReplacesWhateverIsThereAndHasItsModeWhateverTheUmask(t *testing.T) {
	path := filepath.Join(t.TempDir(), "channel")
	if err := os.WriteFile(path, []byte("stale"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o600, 0o666, 0o644} {
		if err := makeFIFO(path, mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != os.ModeNamedPipe|mode {
			t.Errorf("the channel's mode is %v, want a FIFO of mode %v", info.Mode(), mode)
		}
	}
}

func TestNobodyComesWithinTheDeadline(t *testing.T) {
	in := inletOf(t, fifo(t))
	if err := in.await(t.Context(), nil, 20*time.Millisecond); !errors.Is(err, errNobody) {
		t.Errorf("await = %v, want errNobody", err)
	}
}

func TestNobodyCameBeforeTheContainerWasGone(t *testing.T) {
	in := inletOf(t, fifo(t))
	gone := make(chan struct{})
	close(gone)
	if err := in.await(t.Context(), gone, soon); !errors.Is(err, errNobody) {
		t.Errorf("await = %v, want errNobody", err)
	}
}

func TestWaitingForAWriterEndsWithItsContext(t *testing.T) {
	in := inletOf(t, fifo(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := in.await(ctx, nil, soon); !errors.Is(err, context.Canceled) {
		t.Errorf("await = %v, want context.Canceled", err)
	}
}

func TestASilentWriterHasArrived(t *testing.T) {
	path := fifo(t)
	in := inletOf(t, path)
	leave := make(chan struct{})
	writer(t, path, func(*os.File) { <-leave })
	defer close(leave)
	if err := in.await(t.Context(), nil, soon); err != nil {
		t.Fatal(err)
	}
}

func TestAWriterThatCameAndWentWithoutAWordDidCome(t *testing.T) {
	path := fifo(t)
	in := inletOf(t, path)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	gone := make(chan struct{})
	close(gone)
	if err := in.await(t.Context(), gone, soon); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(in); err != nil || len(got) != 0 {
		t.Errorf("read %q, %v; want an empty stream", got, err)
	}
}

func TestBytesThatCameWhileWaitingAreNotLost(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789"), 1500) // several peeks and reads
	path := fifo(t)
	in := inletOf(t, path)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(want); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := in.await(t.Context(), nil, soon); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(in); err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d bytes, %v; want %d", len(got), err, len(want))
	}
}

func TestAStreamIsReadToItsEndHoweverSlowItIs(t *testing.T) {
	path := fifo(t)
	in := inletOf(t, path)
	writer(t, path, func(f *os.File) {
		for range 5 {
			time.Sleep(5 * time.Millisecond)
			f.WriteString("x")
		}
	})
	if err := in.await(t.Context(), nil, soon); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(in); err != nil || string(got) != "xxxxx" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestAParkedReadEndsWithItsContext(t *testing.T) {
	path := fifo(t)
	in := inletOf(t, path)
	leave := make(chan struct{})
	writer(t, path, func(*os.File) { <-leave })
	defer close(leave)
	if err := in.await(t.Context(), nil, soon); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	defer in.stopOn(ctx)()
	if _, err := in.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read = %v, want a deadline", err)
	}
}

func TestALinkIsNoChannel(t *testing.T) {
	path := fifo(t)
	link := path + "-link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if in, err := openInlet(link); err == nil {
		in.Close()
		t.Error("a symbolic link was opened for reading")
	}
	if out, err := openOutlet(t.Context(), link, nil, time.Second); err == nil {
		out.Close()
		t.Error("a symbolic link was opened for writing")
	}
}

func TestAnOutletWaitsForItsReader(t *testing.T) {
	path := fifo(t)
	read := make(chan string, 1)
	go func() {
		time.Sleep(20 * time.Millisecond)
		got, _ := os.ReadFile(path)
		read <- string(got)
	}()
	out, err := openOutlet(t.Context(), path, nil, soon)
	if err != nil {
		t.Fatal(err)
	}
	out.WriteString("hello")
	out.Close()
	select {
	case got := <-read:
		if got != "hello" {
			t.Errorf("the reader got %q", got)
		}
	case <-time.After(soon):
		t.Fatal("the reader hangs")
	}
}

func TestAnOutletWithoutAReaderGivesUp(t *testing.T) {
	path := fifo(t)
	gone := make(chan struct{})
	close(gone)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, open := range map[string]func() (*os.File, error){
		"deadline": func() (*os.File, error) { return openOutlet(t.Context(), path, nil, 20*time.Millisecond) },
		"gone":     func() (*os.File, error) { return openOutlet(t.Context(), path, gone, soon) },
		"context":  func() (*os.File, error) { return openOutlet(cancelled, path, nil, soon) },
	} {
		if out, err := open(); err == nil {
			out.Close()
			t.Errorf("%s: an outlet nobody reads was opened", name)
		}
	}
}
