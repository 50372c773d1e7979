package main

import (
	"context"
	"fmt"
	"time"

	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/sandbox"
)

const (
	// quietWait is how long getting hold of the machine may take before the Status says what is waited for.
	quietWait = 3 * time.Second
	// extendEvery is how often a start that waits asks for more time. systemd counts an extension from when it was asked for.
	extendEvery = time.Minute
)

// patient is a box of a start that may have to wait for the machine: somebody may judge here by hand, for hours (decisions
// 20). Until the machine is free the service manager is asked for more time, again and again, and the Status says what is
// waited for, so that a start neither runs out of its time nor waits without a word. A stop ends the wait.
type patient struct {
	judge.Box
	// needs asks for more time to start in, status is the Status line, checking what it says when nothing is waited for.
	needs    func(time.Duration)
	status   func(string)
	checking string
}

// OpenJob waits for the machine.
func (p patient) OpenJob(ctx context.Context) (judge.Job, error) {
	type opened struct {
		job judge.Job
		err error
	}
	done := make(chan opened, 1)
	go func() {
		job, err := p.Box.OpenJob(ctx)
		done <- opened{job, err}
	}()
	began := time.Now()
	for tick := time.After(quietWait); ; tick = time.After(extendEvery) {
		select {
		case o := <-done:
			if time.Since(began) >= quietWait {
				p.needs(startAtMost)
				p.status(p.checking)
			}
			return o.job, o.err
		case <-tick:
			p.needs(startAtMost)
			p.status(fmt.Sprintf("%s: waiting for another program that judges on it, for %v by now; %s names it",
				p.checking, time.Since(began).Round(time.Second), sandbox.HostLock))
		}
	}
}
