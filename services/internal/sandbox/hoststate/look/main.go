// Command look takes a snapshot of a host before the suites run, and compares the host with it afterwards.
//
//	look take FILE       writes the snapshot to FILE
//	look compare FILE    prints what is counted and what was left behind since, as one JSON object
//
// It is for the machines that suites run on, never for one that judges. The exit status says whether the host could be looked
// at, not what was found.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/sandbox/hoststate"
)

// dirs are where the product and its tests keep files.
var dirs = []string{"/var/lib/evalhost", "/var/lib/evalhost-test", "/run/evalhost", "/tmp", "/var/tmp"}

// patience is how long the daemon and systemd get to finish cleaning up: they do so after they said that they had, and a machine that is
// emulated is slow.
const patience = time.Minute

// atMost bounds the whole command.
const atMost = 3 * time.Minute

// difference is what compare prints.
type difference struct {
	Counts []hoststate.Count `json:"counts"`
	Left   []string          `json:"left"`
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "look:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 2 || args[0] != "take" && args[0] != "compare" {
		return errors.New("usage: look take FILE | look compare FILE")
	}
	client, err := engine.Connect(ctx, engine.Options{})
	if err != nil {
		return fmt.Errorf("look at the containers: %w", err)
	}
	defer client.Close()
	if args[0] == "take" {
		now, err := hoststate.Take(ctx, client, dirs...)
		if err != nil {
			return err
		}
		text, err := json.Marshal(now)
		if err != nil {
			return err
		}
		return os.WriteFile(args[1], text, 0o600)
	}
	text, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	before := hoststate.Snapshot{}
	if err := json.Unmarshal(text, &before); err != nil {
		return fmt.Errorf("%s: %w", args[1], err)
	}
	if len(before) == 0 {
		return fmt.Errorf("%s holds nothing: it is no snapshot of a host", args[1])
	}
	for end := time.Now().Add(patience); ; {
		now, err := hoststate.Take(ctx, client, dirs...)
		if err != nil {
			return err
		}
		left := now.Left(before)
		if len(left) == 0 || time.Now().After(end) {
			return json.NewEncoder(out).Encode(difference{Counts: hoststate.Counts(before, now), Left: left})
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
