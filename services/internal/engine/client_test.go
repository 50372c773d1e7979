package engine

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// daemon answers on a unix socket as Docker would: requests are matched by method and path, without the version.
type daemon struct {
	mu      sync.Mutex
	answers map[string]http.HandlerFunc
	asked   []string
}

func (d *daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if rest, ok := strings.CutPrefix(path, "/v1."); ok {
		path = rest[strings.Index(rest, "/"):]
	}
	key := r.Method + " " + path
	d.mu.Lock()
	d.asked = append(d.asked, key+"?"+r.URL.RawQuery)
	answer := d.answers[key]
	d.mu.Unlock()
	w.Header().Set("Api-Version", "1.45")
	switch {
	case answer != nil:
		answer(w, r)
	case path == "/_ping":
	default:
		says(http.StatusNotFound, "no such thing: "+key)(w, r)
	}
}

func says(status int, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(map[string]string{"message": message})
	}
}

func gives(status int, value any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(value)
	}
}

// connected starts a daemon and connects to it.
func connected(t *testing.T, answers map[string]http.HandlerFunc) (*Client, *daemon) {
	t.Helper()
	dir, err := os.MkdirTemp("", "engine") // a socket's path may not be long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "d.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{answers: answers}
	server := &http.Server{Handler: d}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	c, err := Connect(t.Context(), Options{Host: "unix://" + path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, d
}

func TestOnlyASocketOfThisMachineIsAccepted(t *testing.T) {
	for _, host := range []string{
		"tcp://127.0.0.1:2375", "http://x", "ssh://root@host", "unix://relative.sock", "unix:///a/../b.sock", "unix://", "npipe:////./pipe/x",
		"/var/run/docker.sock", "fd://",
	} {
		if _, err := Connect(t.Context(), Options{Host: host}); err == nil || !strings.Contains(err.Error(), "unix://") {
			t.Errorf("Connect to %q = %v", host, err)
		}
	}
}

func TestDockerHostIsReadWhenNothingElseIsSaid(t *testing.T) {
	t.Setenv("DOCKER_HOST", "tcp://evil:2375")
	if _, err := Connect(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "tcp://evil:2375") {
		t.Errorf("Connect = %v", err)
	}
}

func TestADaemonThatIsNotThereIsExplained(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.sock")
	_, err := Connect(t.Context(), Options{Host: "unix://" + path})
	if err == nil {
		t.Fatal("connected to nothing")
	}
	for _, want := range []string{path, "nothing can be judged", "systemctl status docker"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error %q does not say %q", err, want)
		}
	}
}

func TestWhatTheDaemonSaysAboutItself(t *testing.T) {
	c, _ := connected(t, map[string]http.HandlerFunc{
		"GET /version": gives(200, map[string]any{"Version": "26.1.5", "ApiVersion": "1.45", "KernelVersion": "6.12"}),
		"GET /info": gives(200, map[string]any{
			"CgroupDriver": "systemd", "CgroupVersion": "2", "SecurityOptions": []string{"name=seccomp,profile=builtin"}, "NCPU": 2,
		}),
	})
	got, err := c.Info(t.Context())
	if err != nil || got.ServerVersion != "26.1.5" || got.CgroupDriver != "systemd" || got.CgroupVersion != "2" || got.CPUs != 2 || len(got.SecurityOptions) != 1 {
		t.Errorf("Info = %+v, %v", got, err)
	}
}

func TestAnImageIsDescribedAndAnAbsentOneIsToldApart(t *testing.T) {
	c, _ := connected(t, map[string]http.HandlerFunc{
		"GET /images/lang:local/json": gives(200, map[string]any{
			"Id": "sha256:1", "RootFS": map[string]any{"Type": "layers", "Layers": []string{"sha256:a", "sha256:b"}},
			"Config": map[string]any{
				"User": "65534:65534", "Env": []string{"PATH=/bin"}, "Entrypoint": []string{"/e"}, "Cmd": []string{"c"}, "WorkingDir": "/w",
				"Volumes": map[string]any{"/z": map[string]any{}, "/a": map[string]any{}}, "Healthcheck": map[string]any{"Test": []string{"CMD", "x"}},
			},
		}),
		"GET /images/broken/json": says(500, "disk on fire"),
	})
	img, err := c.Image(t.Context(), "lang:local")
	if err != nil || img.ID != "sha256:1" || len(img.Layers) != 2 || img.User != "65534:65534" || strings.Join(img.Volumes, " ") != "/a /z" ||
		img.Healthcheck[1] != "x" || img.WorkingDir != "/w" || img.Entrypoint[0] != "/e" || img.Cmd[0] != "c" || img.Env[0] != "PATH=/bin" {
		t.Errorf("Image = %+v, %v", img, err)
	}
	if _, err := c.Image(t.Context(), "gone:local"); !errors.Is(err, ErrImageAbsent) || !strings.Contains(err.Error(), "gone:local") {
		t.Errorf("an absent image: %v", err)
	}
	if _, err := c.Image(t.Context(), "broken"); err == nil || errors.Is(err, ErrImageAbsent) || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("a daemon in trouble: %v", err)
	}
}

func TestAContainerIsCreatedUnderItsNameAndAsDescribed(t *testing.T) {
	var sent map[string]any
	c, d := connected(t, map[string]http.HandlerFunc{
		"POST /containers/create": func(w http.ResponseWriter, r *http.Request) {
			json.NewDecoder(r.Body).Decode(&sent)
			gives(201, map[string]any{"Id": "0123"})(w, r)
		},
	})
	id, err := c.Create(t.Context(), plain())
	if err != nil || id != "0123" {
		t.Fatalf("Create = %q, %v", id, err)
	}
	if got := d.asked[len(d.asked)-1]; got != "POST /containers/create?name=evalhost-x" {
		t.Errorf("asked %q", got)
	}
	if sent["User"] != Nobody || sent["HostConfig"].(map[string]any)["ReadonlyRootfs"] != true {
		t.Errorf("sent %v", sent)
	}
}

func TestAContainerThatIsBeingCreatedWhenItsCallerGivesUpIsWaitedForAndNotForEver(t *testing.T) {
	asked, answer := make(chan struct{}, 2), make(chan struct{})
	c, _ := connected(t, map[string]http.HandlerFunc{
		"POST /containers/create": func(w http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			select {
			case <-answer:
				gives(201, map[string]any{"Id": "0123"})(w, r)
			case <-r.Context().Done(): // a daemon goes on all the same; this one only need not outlive the test
			}
		},
	})
	create := func() (cancel context.CancelFunc, created chan string, failed chan error) {
		ctx, cancel := context.WithCancel(t.Context())
		created, failed = make(chan string, 1), make(chan error, 1)
		go func() {
			id, err := c.Create(ctx, plain())
			created <- id
			failed <- err
		}()
		return cancel, created, failed
	}

	cancel, created, failed := create()
	<-asked
	cancel()
	select {
	case id := <-created:
		t.Fatalf("it did not wait for the daemon: %q, %v", id, <-failed)
	case <-time.After(100 * time.Millisecond):
	}
	close(answer)
	if id, err := <-created, <-failed; id != "0123" || err != nil {
		t.Errorf("the daemon made it, and Create = %q, %v", id, err)
	}

	answer, c.createGrace = make(chan struct{}), time.Millisecond
	cancel, created, failed = create()
	<-asked
	cancel()
	if id, err := <-created, <-failed; id != "" || err == nil {
		t.Errorf("a daemon that does not answer: Create = %q, %v", id, err)
	}

	given, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Create(given, plain()); err == nil || len(asked) > 0 {
		t.Errorf("given up before it began: %v, and the daemon was asked", err)
	}
}

func TestADaemonThatRefusesAMountIsExplained(t *testing.T) {
	c, _ := connected(t, map[string]http.HandlerFunc{
		"POST /containers/create": says(400, `invalid mount config for type "bind": bind source path does not exist: /scratch/x`),
	})
	_, err := c.Create(t.Context(), plain())
	for _, want := range []string{"evalhost-x", "bind source path does not exist", "infrastructure failure", "same mount namespace"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error %v does not say %q", err, want)
		}
	}
	var e *Error
	if !errors.As(err, &e) || e.Object != "evalhost-x" {
		t.Errorf("the error is %#v", err)
	}
}

func TestTheEndOfAContainerIsWaitedForAndBounded(t *testing.T) {
	c, d := connected(t, map[string]http.HandlerFunc{
		"POST /containers/ended/wait":  gives(200, map[string]any{"StatusCode": 42}),
		"POST /containers/failed/wait": gives(200, map[string]any{"StatusCode": 0, "Error": map[string]string{"Message": "runtime lost it"}}),
		"POST /containers/endless/wait": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	})
	if code, err := c.Wait(t.Context(), "ended", time.Minute); code != 42 || err != nil {
		t.Errorf("Wait = %d, %v", code, err)
	}
	if got := d.asked[len(d.asked)-1]; !strings.Contains(got, "condition=not-running") {
		t.Errorf("asked %q", got)
	}
	if _, err := c.Wait(t.Context(), "failed", time.Minute); err == nil || !strings.Contains(err.Error(), "runtime lost it") {
		t.Errorf("an error in the answer: %v", err)
	}
	if _, err := c.Wait(t.Context(), "endless", 30*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a container that does not end: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := c.Wait(ctx, "endless", time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller that gives up: %v", err)
	}
}

func TestKillingAndRemovingWhatIsGoneIsNoError(t *testing.T) {
	c, _ := connected(t, map[string]http.HandlerFunc{
		"POST /containers/stopped/kill": says(409, "container stopped is not running"),
		"POST /containers/sick/kill":    says(500, "cannot kill"),
		"DELETE /containers/sick":       says(500, "cannot remove"),
	})
	for id, ok := range map[string]bool{"stopped": true, "gone": true, "sick": false} {
		if err := c.Kill(t.Context(), id); (err == nil) != ok {
			t.Errorf("Kill(%s) = %v", id, err)
		}
	}
	if err := c.Remove(t.Context(), "gone"); err != nil {
		t.Errorf("Remove(gone) = %v", err)
	}
	if err := c.Remove(t.Context(), "sick"); err == nil || !strings.Contains(err.Error(), "next sweep") {
		t.Errorf("Remove(sick) = %v", err)
	}
}

func TestRemovingWaitsForARemovalThatIsUnderWayAndIgnoresACancelledJob(t *testing.T) {
	tries := 0
	c, d := connected(t, nil)
	d.answers = map[string]http.HandlerFunc{"DELETE /containers/x": func(w http.ResponseWriter, r *http.Request) {
		if tries++; tries < 3 {
			says(409, "removal of container x is already in progress")(w, r)
			return
		}
		w.WriteHeader(204)
	}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Remove(ctx, "x"); err != nil || tries != 3 {
		t.Errorf("Remove = %v after %d tries", err, tries)
	}
	if got := d.asked[len(d.asked)-1]; !strings.Contains(got, "force=1") || !strings.Contains(got, "v=1") {
		t.Errorf("asked %q", got)
	}
}

func TestContainersAreListedWithTheirInstances(t *testing.T) {
	c, d := connected(t, map[string]http.HandlerFunc{
		"GET /containers/json": gives(200, []map[string]any{
			{"Id": "1", "Names": []string{"/evalhost-a"}, "State": "created", "Labels": map[string]string{"algojudge.sandbox": "1", "algojudge.instance": "a"}},
			{"Id": "2", "Names": []string{"/old"}, "State": "exited", "Labels": map[string]string{"algojudge.sandbox": "1"}},
		}),
	})
	got, err := c.Sandboxes(t.Context())
	if err != nil || len(got) != 2 || got[0] != (Found{"1", "evalhost-a", "a", true, "created"}) || got[1] != (Found{"2", "old", "", false, "exited"}) {
		t.Errorf("Sandboxes = %+v, %v", got, err)
	}
	if asked := d.asked[len(d.asked)-1]; !strings.Contains(asked, "all=1") || !strings.Contains(asked, "algojudge.sandbox") {
		t.Errorf("asked %q", asked)
	}
}

func TestAPathIsReadAsAnArchiveAndAnAbsentOneIsToldApart(t *testing.T) {
	stat := base64.StdEncoding.EncodeToString([]byte(`{"name":"program"}`))
	c, _ := connected(t, map[string]http.HandlerFunc{
		"GET /containers/x/archive": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("path") != "/out/program" {
				says(404, "Could not find the file")(w, r)
				return
			}
			w.Header().Set("X-Docker-Container-Path-Stat", stat)
			tw := tar.NewWriter(w)
			tw.WriteHeader(&tar.Header{Name: "program", Typeflag: tar.TypeReg, Size: 4, Mode: 0o755})
			fmt.Fprint(tw, "ELF!")
			tw.Close()
		},
	})
	stream, found, err := c.Archive(t.Context(), "x", "/out/program", time.Minute)
	if err != nil || !found {
		t.Fatalf("Archive = found %v, %v", found, err)
	}
	defer stream.Close()
	if all, err := io.ReadAll(stream); err != nil || !bytes.Contains(all, []byte("ELF!")) {
		t.Errorf("read %d bytes, %v", len(all), err)
	}
	if _, found, err := c.Archive(t.Context(), "x", "/out/none", time.Minute); found || err != nil {
		t.Errorf("an absent path: found %v, %v", found, err)
	}
}

func TestAStateWithoutAStateIsAnError(t *testing.T) {
	c, _ := connected(t, map[string]http.HandlerFunc{
		"GET /containers/x/json": gives(200, map[string]any{"Id": "x", "State": map[string]any{"OOMKilled": true, "ExitCode": 137, "Pid": 7}}),
		"GET /containers/y/json": gives(200, map[string]any{"Id": "y"}),
	})
	if s, err := c.Inspect(t.Context(), "x"); err != nil || !s.OOMKilled || s.ExitCode != 137 || s.Pid != 7 {
		t.Errorf("Inspect = %+v, %v", s, err)
	}
	if _, err := c.Inspect(t.Context(), "y"); err == nil {
		t.Error("an answer without a state was believed")
	}
}
