//go:build !guest

package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Two Runners of one host that start, prove themselves, sweep and leave in the same moment, each with its own name in the same
// directories: neither removes what the other is just proving itself with (spec/sandbox.md 8.1 #40, 8.3, 9.1 #7).
func TestTwoRunnersStartAtOnceTwoHundredTimes(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"homes", "scratch"} {
		if err := os.Mkdir(at(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(at("shim"), []byte("#!/bin/sh\nexit 125\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	daemon := &fakeDaemon{containers: map[string]*box{}}
	for round := range 200 {
		var both sync.WaitGroup
		for _, instance := range []string{"runner", "runner-2"} {
			both.Go(func() {
				s, err := open(t.Context(), daemon, fakeDriver{at("homes")}, Config{
					Instance: instance, Scratch: at("scratch"), Shim: at("shim"), Lanes: []Lane{{}}, Locks: at("locks"),
				})
				if err != nil {
					t.Errorf("round %d: %s: %v", round, instance, err)
					return
				}
				if err := s.Close(context.Background()); err != nil {
					t.Errorf("round %d: %s: %v", round, instance, err)
				}
			})
		}
		both.Wait()
	}
	for _, name := range []string{"homes", "scratch", "locks"} {
		entries, err := os.ReadDir(at(name))
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			t.Errorf("%s/%s was left behind", name, e.Name())
		}
	}
}
