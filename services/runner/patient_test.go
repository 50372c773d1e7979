package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evalhost/evalhost/services/internal/judge"
)

// busy is a machine on which somebody judges for so long.
type busy time.Duration

func (b busy) OpenJob(ctx context.Context) (judge.Job, error) {
	select {
	case <-time.After(time.Duration(b)):
		return nil, errors.New("opened")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A long evalhost verify on the same host must not end the start of the daemon: it asks for more time as long as it waits.
func TestAStartThatWaitsForTheMachineAsksForMoreTimeAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var until time.Time
		var said []string
		late := false
		needs := func(d time.Duration) {
			late = late || time.Now().After(until)
			until = time.Now().Add(d)
		}
		p := patient{needs: needs, status: func(text string) { said = append(said, text) }, checking: "checking this machine"}
		until = time.Now().Add(startAtMost) // asked for before the check
		p.Box = busy(time.Second)
		if _, err := p.OpenJob(t.Context()); err == nil || err.Error() != "opened" || said != nil {
			t.Errorf("a machine that is free: %v, said %q", err, said)
		}
		p.Box = busy(5 * time.Hour)
		if _, err := p.OpenJob(t.Context()); err == nil || err.Error() != "opened" {
			t.Errorf("%v", err)
		}
		late = late || time.Now().After(until)
		if late || time.Until(until) < startAtMost {
			t.Errorf("the time ran out: %v; when the wait was over %v were left", late, time.Until(until))
		}
		last := len(said) - 1
		if last < 250 || !strings.Contains(said[0], "waiting for another program that judges on it") || !strings.Contains(said[0], "/run/evalhost/host.lock") ||
			!strings.Contains(said[last-1], "for 4h59m") || said[last] != "checking this machine" {
			t.Errorf("said %d times, from %q to %q", len(said), said[0], said[max(0, last-1):])
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, stop)
		began := time.Now()
		if _, err := p.OpenJob(ctx); !errors.Is(err, context.Canceled) || time.Since(began) != time.Hour {
			t.Errorf("a stop after an hour: %v after %v", err, time.Since(began))
		}
	})
}
