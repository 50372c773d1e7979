package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/refserver"
)

func TestItListensOnLoopbackOnly(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":8080", "[::]:0", "192.0.2.1:80", "example.org:80", "nonsense"} {
		var stderr bytes.Buffer
		if status := run(t.Context(), []string{"-listen", address}, io.Discard, &stderr); status != 2 {
			t.Errorf("%s: exit status %d", address, status)
		}
		if !strings.Contains(stderr.String(), address) || !strings.Contains(stderr.String(), "127.0.0.1") {
			t.Errorf("%s: the refusal does not name it and an alternative: %s", address, stderr.String())
		}
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "localhost:0", "127.8.9.1:80"} {
		if err := loopback(address); err != nil {
			t.Error(err)
		}
	}
}

func TestItRefusesAnUnknownArgument(t *testing.T) {
	for _, args := range [][]string{{"serve"}, {"-unknown"}} {
		if status := run(t.Context(), args, io.Discard, io.Discard); status != 2 {
			t.Errorf("%v: exit status %d", args, status)
		}
	}
	if status := run(t.Context(), []string{"-h"}, io.Discard, io.Discard); status != 0 {
		t.Errorf("-h: exit status %d", status)
	}
}

// start runs the command and returns its URL and a function that stops it and gives its exit status.
func start(t *testing.T, args ...string) (string, func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, append([]string{"-listen", "127.0.0.1:0"}, args...), in, t.Output())
		_ = in.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, url, _ := strings.Cut(strings.TrimSpace(line), "listening on ")
	return url, func() int {
		cancel()
		select {
		case s := <-status:
			return s
		case <-time.After(20 * time.Second):
			t.Fatal("it does not stop")
			return -1
		}
	}
}

func TestItServesAndStopsWhenAsked(t *testing.T) {
	dir := t.TempDir()
	url, stop := start(t, "-data", dir, "-quiet")
	for path, want := range map[string]int{"/api/v1/health": 200, "/ui/": 200, "/": 404} {
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want || path == "/" && len(body) != 0 {
			t.Errorf("%s: %d %q", path, resp.StatusCode, body)
		}
	}
	var stderr bytes.Buffer
	if status := run(t.Context(), []string{"-listen", "127.0.0.1:0", "-data", dir}, io.Discard, &stderr); status != 1 {
		t.Errorf("a second server on one directory: exit status %d", status)
	}
	if !strings.Contains(stderr.String(), "in use") {
		t.Errorf("the refusal does not say why: %s", stderr.String())
	}
	http.DefaultClient.CloseIdleConnections()
	if status := stop(); status != 0 {
		t.Errorf("exit status %d after a stop", status)
	}
}

func TestAHeldCallDoesNotKeepItFromStopping(t *testing.T) {
	url, stop := start(t, "-quiet", "-languages", "python3,cpp17-gcc")
	send := func(path, body string) map[string]any {
		req, err := http.NewRequest(http.MethodPost, url+refserver.ControlPrefix+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(refserver.ControlHeader, "1")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		var m map[string]any
		if err := json.NewDecoder(resp.Body).Decode(&m); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: %d, %v", path, resp.StatusCode, err)
		}
		return m
	}
	problem := send("/packages?name=sum", "a package")
	job := send("/submissions?fileName=main.py&language=python3&problem="+problem["id"].(string), "print(1)")
	began := time.Now()
	held := make(chan struct{})
	go func() {
		defer close(held)
		resp, err := http.Get(url + refserver.ControlPrefix + "/jobs/" + job["id"].(string) + "?waitSeconds=300")
		if err == nil {
			_ = resp.Body.Close()
		}
	}()
	time.Sleep(100 * time.Millisecond) // until it is held; if it is not, the test shows less, not something wrong
	if status := stop(); status != 0 || time.Since(began) > 10*time.Second {
		t.Errorf("exit status %d after %v", status, time.Since(began))
	}
	<-held
}

// A demo whose Runner does not come up says so at once, and a demo without all it needs says what it needs.
func TestADemoWithoutARunnerSaysSo(t *testing.T) {
	demoHomes = t.TempDir()
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"demo", "false"}, 2, "usage"},
		{[]string{"demo", "false", "../../examples/sum", "x.c"}, 1, "the Runner has ended (exit status 1)"},
		{[]string{"demo", "/nothing", "../../examples/sum", "x.c"}, 1, "start the Runner"},
		{[]string{"demo", "true", "/nothing", "x.c"}, 1, "pack /nothing"},
	} {
		var out, err bytes.Buffer
		if status := run(t.Context(), c.args, &out, &err); status != c.status || !strings.Contains(err.String(), c.says) {
			t.Errorf("%v: status %d: %s", c.args, status, err.String())
		}
	}
}
