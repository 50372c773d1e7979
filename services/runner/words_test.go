package main

import (
	"bufio"
	"bytes"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/protocol"
)

// lines is a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A length that is too short cuts the answer to a handshake in the middle of its token, and net/http says in the log of the
// standard library what came behind. It stands in no log of this daemon.
func TestWhatComesBehindAnAnswerIsSaidAndNotShown(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if q, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = io.Copy(io.Discard, q.Body)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n"+`{"token":"x"AndTheSecretGoesOn"}`)
		}
		_, _ = io.Copy(io.Discard, conn)
	}()
	var said lines
	defer takeWords(slog.New(slog.NewTextHandler(&said, nil)))()
	c, err := protocol.New(protocol.Options{BaseURL: "http://" + listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Health(t.Context()); err == nil {
		t.Error("half a document was read")
	}
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(said.String(), "Unsolicited"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nothing was said, so this shows nothing: %s", said.String())
		}
	}
	if strings.Contains(said.String(), "Secret") || !strings.Contains(said.String(), "level=WARN") {
		t.Errorf("logged: %s", said.String())
	}
}

func TestWordsOfLibrariesAreBoundedAndPrintable(t *testing.T) {
	var said lines
	giveBack := takeWords(slog.New(slog.NewTextHandler(&said, nil)))
	log.Printf("odd \x1b[2J%s", strings.Repeat("é", 1000))
	giveBack()
	if text := said.String(); len(text) > 700 || strings.Contains(text, "\x1b") || strings.Count(text, "\n") != 1 {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	if _, ours := log.Writer().(libraryWords); ours {
		t.Error("the log of the standard library was not given back")
	}
}
