package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// barrierPatience is how long a prepared run is given to reach its barrier before it counts as prepared all the same.
const barrierPatience = 10 * time.Second

// openat is the number of the system call on x86-64, the one architecture judged on.
const openat = "257"

// awaitBarrier waits until the shim of a started container stands in its opening of the output. Starting returns when the
// runtime has executed the shim, which has still to start itself; what that costs must be in the home's reading at go, and
// must not be done while another lane is measured.
//
// The kernel says in /proc/<pid>/task/<tid>/syscall where each thread stands. Where it does not say so, because this
// process may not look or the container is gone, nothing is waited for: this makes the measurement better and is no part
// of its correctness.
func (c *contained) awaitBarrier(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, barrierPatience)
	defer cancel()
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		pids := c.home.Procs()
		stands, known := false, false
		for _, pid := range pids {
			s, k := opensForWriting(pid)
			stands, known = stands || s, known || k
		}
		if stands || !known {
			return
		}
		select {
		case <-time.After(pause):
		case <-c.exited:
			return
		case <-ctx.Done():
			return
		}
	}
}

// opensForWriting says whether any thread of a process waits in an opening for writing, and whether that could be found
// out. What a program opens while it starts, it opens for reading.
func opensForWriting(pid int) (opens, known bool) {
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/syscall")
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		known = true
		// The number, then its arguments in hexadecimal: directory, path, flags.
		fields := strings.Fields(string(content))
		if len(fields) < 4 || fields[0] != openat {
			continue
		}
		flags, err := strconv.ParseUint(strings.TrimPrefix(fields[3], "0x"), 16, 64)
		if err == nil && flags&unix.O_ACCMODE == unix.O_WRONLY {
			return true, true
		}
	}
	return false, known
}
