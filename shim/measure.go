package main

import (
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/evalhost/evalhost/shim/wire"
)

// fate is how the submission's first process ended, and what wait4(2) says it used.
type fate struct {
	exitCode int
	signal   int
	usage    syscall.Rusage
	// unloaded says that the kernel ended it while it loaded it: not one instruction of it has run.
	unloaded bool
}

// processorTime is processor time in its two halves.
type processorTime struct{ user, system time.Duration }

func (p processorTime) total() time.Duration { return p.user + p.system }

// measure makes the report. The time is the larger of two readings: wait4 counts the first process and the descendants
// somebody waited for, the box counts everything that was ever in it. Taking wait4 alone would make work in an orphan
// free of charge.
//
// A box whose processor time cannot be read fails the run; the smaller reading would pass for the whole.
func measure(fate fate, wall time.Duration, box *box) (wire.Report, error) {
	spent := processorTime{user: fromTimeval(fate.usage.Utime), system: fromTimeval(fate.usage.Stime)}
	peak := wire.Bytes(fate.usage.Maxrss) * 1024 // the kernel counts KiB
	if box != nil {
		whole, err := box.processorTime()
		if err != nil {
			return wire.Report{}, err
		}
		if whole.total() > spent.total() && !off("mutant.shim.orphans") {
			spent = whole
		}
		peak = box.peak()
	}
	return wire.Report{
		ExitCode: fate.exitCode,
		Signal:   fate.signal,
		CPU:      spent.total(),
		Peak:     peak,
		Wall:     wall,
		User:     spent.user,
		System:   spent.system,
	}, nil
}

func fromTimeval(tv syscall.Timeval) time.Duration {
	return time.Duration(tv.Sec)*time.Second + time.Duration(tv.Usec)*time.Microsecond
}

// parseCPUStat reads a cgroup's cpu.stat (microseconds). The total is usage_usec; user_usec is cut to it and the rest is
// system time, because the kernel rounds the three down one by one and the report's halves must add up.
func parseCPUStat(path, text string) (processorTime, error) {
	usage, hasUsage := flatKey(text, "usage_usec")
	user, hasUser := flatKey(text, "user_usec")
	if !hasUsage || !hasUser {
		return processorTime{}, &failure{what: "read " + path, reason: "no usage_usec and user_usec in it"}
	}
	user = min(user, usage)
	return processorTime{user: user, system: usage - user}, nil
}

// flatKey reads the microseconds after `<key> ` in a file of such lines.
func flatKey(text, key string) (time.Duration, bool) {
	for line := range strings.Lines(text) {
		value, isIt := strings.CutPrefix(strings.TrimSuffix(line, "\n"), key+" ")
		if !isIt {
			continue
		}
		number, err := strconv.ParseInt(value, 10, 64)
		if err != nil || number < 0 || number > int64(maxDuration/time.Microsecond) {
			return 0, false
		}
		return time.Duration(number) * time.Microsecond, true
	}
	return 0, false
}

const maxDuration = time.Duration(1<<63 - 1)
