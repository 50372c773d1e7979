package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOnlyOneJudgesOnAHost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "host.lock")
	unlock, err := lockHost(t.Context(), path, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	got := make(chan error, 1)
	go func() {
		second, err := lockHost(t.Context(), path, &said)
		if err == nil {
			second()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("the second did not wait: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	unlock()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "waiting for process") || strings.Count(said.String(), "\n") != 1 {
		t.Errorf("while waiting it said %q", said.String())
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock's file stayed: %v", err)
	}
}

func TestWaitingForTheHostEndsWhenAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.lock")
	unlock, err := lockHost(t.Context(), path, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interrupted{2})
	var i interrupted
	if _, err := lockHost(ctx, path, &bytes.Buffer{}); !errors.As(err, &i) {
		t.Errorf("lockHost = %v", err)
	}
}

func TestALockThatCannotBeMadeIsTheMachinesFault(t *testing.T) {
	var status statusError
	_, err := lockHost(t.Context(), "/proc/none/host.lock", os.Stderr)
	if !errors.As(err, &status) || status.status != exitUnfit {
		t.Errorf("lockHost = %v", err)
	}
}
