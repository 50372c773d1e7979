//go:build !guest

package main

import (
	"strings"
	"testing"
)

// In these tests the shim is PID 1 with the capabilities it has in a judged container, and without a box.

func TestAsTheFirstProcessTheShimKeepsOnlyItsTwoCapabilitiesFromTheProgram(t *testing.T) {
	got := trial{init: true, program: []string{"sh", "-c", "echo parent $PPID; grep ^Cap /proc/self/status; kill -9 1 || echo refused"}}.run(t)
	got.mustReport(t, 0)
	for _, line := range []string{
		"parent 1\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "CapBnd:\t00000000000000c0\n", "refused\n",
	} {
		if !strings.Contains(got.stdout, line) {
			t.Errorf("no %q in %q", line, got.stdout)
		}
	}
}

func TestWithoutABoxAnEscapeeIsDeadBeforeTheReport(t *testing.T) {
	// The way that is left where a box has no cgroup.kill. The escapee holds the output, so its end is the escapee's.
	output, reading := trial{
		init:    true,
		program: []string{"sh", "-c", "(setsid sh -c 'echo escaped; sleep 100; echo late' &); sleep 0.3; echo done"},
	}.runUnreported(t)
	if output != "escaped\ndone\n" || reading.Report == nil {
		t.Errorf("the output is %q, the report %+v", output, reading)
	}
}

func TestTheFirstProcessBuriesTheDeadAndReportsItsOwnChild(t *testing.T) {
	got := trial{init: true, program: []string{"sh", "-c", `
		i=0
		while [ $i -lt 50 ]; do (sh -c 'exit 9' &); i=$((i+1)); done
		sleep 0.5
		grep -l 'State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l
		exit 5`}}.run(t)
	got.mustReport(t, 5)
	if got.stdout != "0\n" {
		t.Errorf("%s dead are unburied", strings.TrimSpace(got.stdout))
	}
}
