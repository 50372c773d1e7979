package guest

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// monitorThatSays serves one connection to a control socket in a directory of its own.
func monitorThatSays(t *testing.T, after string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "qmp") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "qmp.sock"))
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte(`{"QMP": {"version": {}}}` + "\n"))
		buffer := make([]byte, 1000)
		for answered := false; ; answered = true {
			if _, err := conn.Read(buffer); err != nil {
				return
			}
			_, _ = conn.Write([]byte(`{"return": {}}` + "\n"))
			if !answered {
				_, _ = conn.Write([]byte(after))
			}
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-over })
	return dir
}

func TestAnEventIsWaitedForAndOthersAreNot(t *testing.T) {
	m, err := dialMonitor(t.Context(), monitorThatSays(t, `{"event": "POWERDOWN", "data": {}}`+"\n"+`{"event": "RESET", "data": {"guest": true}}`+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	if err := m.event(t.Context(), "RESET"); err != nil {
		t.Error(err)
	}
	never := errors.New("it never came")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, never)
	defer cancel()
	if err := m.event(ctx, "RESET"); !errors.Is(err, never) || !strings.Contains(err.Error(), "RESET") {
		t.Errorf("%v", err)
	}
}
