// Package cgroup reads the kernel's control files and gives every run a cgroup of its own, a Home, under either of the
// daemon's two drivers (spec/sandbox.md 4, 10.2, 10.3; decisions 1 and 3).
//
// A Home is made before the container and outlives it, so what it counted can be read after the last process is gone.
package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Root is where the kernel's cgroup v2 hierarchy is mounted, for the daemon always and for this process by default.
const Root = "/sys/fs/cgroup"

// CPUStat is processor time, of a cgroup and everything below it, since it was made.
type CPUStat struct {
	Usage, User, System time.Duration
}

// MemoryEvents counts what happened for lack of memory in a cgroup and everything below it.
type MemoryEvents struct {
	// OOM counts how often an allocation hit a limit at or below the cgroup and reclaim could not help.
	OOM uint64
	// OOMKill counts processes killed by any out-of-memory killer, the whole host's included.
	OOMKill uint64
}

// ParseCPUStat reads the content of cpu.stat. The split into user and system is optional.
func ParseCPUStat(content []byte) (CPUStat, error) {
	usage, ok, err := field(content, "usage_usec ")
	if err != nil {
		return CPUStat{}, err
	}
	if !ok {
		return CPUStat{}, errors.New(`there is no line "usage_usec <number>"`)
	}
	user, _, err := field(content, "user_usec ")
	if err != nil {
		return CPUStat{}, err
	}
	system, _, err := field(content, "system_usec ")
	if err != nil {
		return CPUStat{}, err
	}
	return CPUStat{Usage: micros(usage), User: micros(user), System: micros(system)}, nil
}

// ParseMemoryEvents reads the content of memory.events: both counts or an error.
func ParseMemoryEvents(content []byte) (MemoryEvents, error) {
	oom, hasOOM, err := field(content, "oom ")
	if err != nil {
		return MemoryEvents{}, err
	}
	kill, hasKill, err := field(content, "oom_kill ")
	if err != nil {
		return MemoryEvents{}, err
	}
	if !hasOOM || !hasKill {
		return MemoryEvents{}, errors.New(`there are no lines "oom <number>" and "oom_kill <number>"`)
	}
	return MemoryEvents{OOM: oom, OOMKill: kill}, nil
}

// ParseBytes reads a file that holds one size, such as memory.peak. The word "max" is an error: it is no size.
func ParseBytes(content []byte) (verdict.Bytes, error) {
	n, err := strconv.ParseUint(string(bytes.TrimSuffix(content, []byte("\n"))), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("expected one decimal number of bytes: %w", err)
	}
	return verdict.Bytes(n), nil
}

// ParsePressure reads the content of cpu.pressure: the time in which some task was runnable and had no processor.
func ParsePressure(content []byte) (time.Duration, error) {
	for line := range bytes.Lines(content) {
		rest, ok := bytes.CutPrefix(line, []byte("some "))
		if !ok {
			continue
		}
		for word := range bytes.FieldsSeq(rest) {
			if digits, ok := bytes.CutPrefix(word, []byte("total=")); ok {
				n, err := strconv.ParseUint(string(digits), 10, 64)
				if err != nil {
					return 0, fmt.Errorf("the total of the line \"some\" is no number: %w", err)
				}
				return micros(n), nil
			}
		}
	}
	return 0, errors.New(`there is no line "some … total=<number>"`)
}

// ParsePopulated reads the content of cgroup.events: whether a process is in the cgroup or below it.
func ParsePopulated(content []byte) (bool, error) {
	n, ok, err := field(content, "populated ")
	if err != nil {
		return false, err
	}
	if !ok || n > 1 {
		return false, errors.New(`there is no line "populated 0" or "populated 1"`)
	}
	return n == 1, nil
}

// field finds the line that begins with exactly this prefix, its space included, and reads the number after it.
func field(content []byte, prefix string) (value uint64, found bool, err error) {
	for line := range bytes.Lines(content) {
		digits, ok := bytes.CutPrefix(line, []byte(prefix))
		if !ok {
			continue
		}
		value, err = strconv.ParseUint(string(bytes.TrimSuffix(digits, []byte("\n"))), 10, 64)
		if err != nil {
			return 0, false, fmt.Errorf("the line %q holds no number: %w", bytes.TrimSpace(line), err)
		}
		return value, true, nil
	}
	return 0, false, nil
}

// micros turns a kernel counter of microseconds into a Duration, saturating: a counter that large is a broken one, and
// must read as too much rather than as negative.
func micros(n uint64) time.Duration {
	const most = uint64(1<<63-1) / uint64(time.Microsecond)
	if n > most {
		return 1<<63 - 1
	}
	return time.Duration(n) * time.Microsecond
}

// Reading is one look at a cgroup. A field is nil when its file is not there: a kernel without pressure information, a
// controller that is not enabled. A file that is there and cannot be understood is an error, never an absence.
type Reading struct {
	CPU      *CPUStat
	Pressure *time.Duration
	Memory   *MemoryEvents
	Peak     *verdict.Bytes
	// Populated says whether any process is in the cgroup or below it.
	Populated *bool
}

// Read looks at the files of the cgroup at dir.
func Read(dir string) (Reading, error) {
	var r Reading
	var err error
	if r.CPU, err = readFile(dir, "cpu.stat", ParseCPUStat); err != nil {
		return Reading{}, err
	}
	if r.Pressure, err = readFile(dir, "cpu.pressure", ParsePressure); err != nil {
		return Reading{}, err
	}
	if r.Memory, err = readFile(dir, "memory.events", ParseMemoryEvents); err != nil {
		return Reading{}, err
	}
	if r.Peak, err = readFile(dir, "memory.peak", ParseBytes); err != nil {
		return Reading{}, err
	}
	if r.Populated, err = readFile(dir, "cgroup.events", ParsePopulated); err != nil {
		return Reading{}, err
	}
	return r, nil
}

// readFile reads and parses one control file; nil when there is no such file.
func readFile[T any](dir, name string, parse func([]byte) (T, error)) (*T, error) {
	path := filepath.Join(dir, name)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	// A kernel without pressure information shows the file and refuses to read it.
	if name == "cpu.pressure" && isUnsupported(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cgroup: reading %s: %w; the run cannot be measured", path, err)
	}
	value, err := parse(content)
	if err != nil {
		return nil, fmt.Errorf("cgroup: %s: %w; the run cannot be measured", path, err)
	}
	return &value, nil
}
