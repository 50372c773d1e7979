package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/evalhost/evalhost/shim/wire"
)

// must ends a test that cannot go on.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// boxOf makes a directory that reads like a box.
func boxOf(t *testing.T, files map[string]string) *box {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return &box{place{dir: dir, name: "/box"}}
}

func rusage(user, system time.Duration, maxrssKiB int64) syscall.Rusage {
	return syscall.Rusage{
		Utime:  syscall.NsecToTimeval(user.Nanoseconds()),
		Stime:  syscall.NsecToTimeval(system.Nanoseconds()),
		Maxrss: maxrssKiB,
	}
}

func TestTheLargerOfTheTwoReadingsIsReportedWithHalvesThatAddUp(t *testing.T) {
	const ms = time.Millisecond
	inBox := boxOf(t, map[string]string{
		"cpu.stat":    "usage_usec 813001\nuser_usec 800000\nsystem_usec 13000\nnice_usec 0\ncore_sched.force_idle_usec 0\n",
		"memory.peak": "299008\n",
	})
	report, err := measure(fate{exitCode: 3, usage: rusage(10*ms, 1*ms, 9999)}, time.Second, inBox)
	want := wire.Report{
		ExitCode: 3, CPU: 813001 * time.Microsecond, Peak: 299008, Wall: time.Second,
		User: 800 * ms, System: 13001 * time.Microsecond,
	}
	if err != nil || report != want {
		t.Errorf("an orphan's work: %+v, %v, want %+v", report, err, want)
	}

	report, err = measure(fate{signal: 9, usage: rusage(900*ms, 1*ms, 9999)}, time.Second, inBox)
	want = wire.Report{Signal: 9, CPU: 901 * ms, Peak: 299008, Wall: time.Second, User: 900 * ms, System: 1 * ms}
	if err != nil || report != want {
		t.Errorf("the first process's own work: %+v, %v, want %+v", report, err, want)
	}

	report, err = measure(fate{usage: rusage(5*ms, 2*ms, 100)}, time.Second, nil)
	want = wire.Report{CPU: 7 * ms, Peak: 100 * 1024, Wall: time.Second, User: 5 * ms, System: 2 * ms}
	if err != nil || report != want {
		t.Errorf("without a box: %+v, %v, want %+v", report, err, want)
	}
}

func TestABoxWhoseProcessorTimeCannotBeReadFailsTheRun(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"absent":       {},
		"empty":        {"cpu.stat": ""},
		"no usage":     {"cpu.stat": "user_usec 1\nsystem_usec 1\n"},
		"no user half": {"cpu.stat": "usage_usec 1\n"},
		"not a number": {"cpu.stat": "usage_usec x\nuser_usec 1\n"},
		"negative":     {"cpu.stat": "usage_usec -5\nuser_usec 1\n"},
		"too large":    {"cpu.stat": "usage_usec 9223372036854775807\nuser_usec 1\n"},
	} {
		if report, err := measure(fate{}, 0, boxOf(t, files)); err == nil {
			t.Errorf("%s: reported %+v, want an error", name, report)
		}
	}
}

func TestAPeakThatCannotBeReadIsZeroAndNeverAnotherQuantity(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"absent":       {"cpu.stat": "usage_usec 1\nuser_usec 1\n"},
		"not a number": {"cpu.stat": "usage_usec 1\nuser_usec 1\n", "memory.peak": "max\n"},
	} {
		report, err := measure(fate{usage: rusage(0, 0, 4242)}, 0, boxOf(t, files))
		if err != nil || report.Peak != 0 {
			t.Errorf("%s: peak %d, %v, want 0", name, report.Peak, err)
		}
	}
}

func TestAHalfLargerThanTheWholeIsCut(t *testing.T) {
	got, err := parseCPUStat("cpu.stat", "usage_usec 10\nuser_usec 11\nsystem_usec 0\n")
	if want := (processorTime{user: 10 * time.Microsecond}); err != nil || got != want {
		t.Errorf("parseCPUStat = %+v, %v, want %+v", got, err, want)
	}
}
