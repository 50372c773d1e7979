//go:build guest

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"
)

// The shim's suite drives Docker by its HTTP interface and a few lines of its own: the project's engine lies behind a
// door the shim cannot open, and a suite should not share its faults.

const (
	dockerSocket = "/var/run/docker.sock"
	testLabel    = "evalhost.shim-suite"
	testImage    = "evalhost/test-busybox:local"
)

var dockerClient = &http.Client{Transport: &http.Transport{
	DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", dockerSocket)
	},
}}

// docker makes one call and decodes its answer, if there is somewhere to put it. Any status that is not one of success
// is an error with the daemon's words.
func docker(method, path string, body, answer any) error {
	var sent io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(encoded)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://docker"+path, sent)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := dockerClient.Do(request)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// daemon is what the suite asks of GET /info.
type daemon struct {
	CgroupDriver  string
	CgroupVersion string
	Runtimes      map[string]json.RawMessage
}

func askDaemon(t *testing.T) daemon {
	t.Helper()
	var info daemon
	must(t, docker(http.MethodGet, "/info", nil, &info))
	if info.CgroupVersion != "2" {
		t.Fatalf("cgroup version %q, want 2", info.CgroupVersion)
	}
	return info
}

// containersLeft lists every container of this suite.
func containersLeft() ([]string, error) {
	filter := url.QueryEscape(`{"label":["` + testLabel + `"]}`)
	var found []struct{ Id string }
	if err := docker(http.MethodGet, "/containers/json?all=1&filters="+filter, nil, &found); err != nil {
		return nil, err
	}
	var ids []string
	for _, one := range found {
		ids = append(ids, one.Id)
	}
	return ids, nil
}

func removeContainer(id string) error {
	return docker(http.MethodDelete, "/containers/"+id+"?force=1&v=1", nil, nil)
}
