//go:build guest

package adversarial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/services/sandboxlab"
)

// host compares the machine with what it was, after every container.
type host struct {
	eng    *sandboxlab.Engine
	dirs   []string
	before sandboxlab.Snapshot
	free   unix.Statfs_t
	clock  time.Duration
	log    *kernelLog
}

// patience is how long the host is given to be what it was: the daemon and systemd clean up a little after they said so.
const patience = 60 * time.Second

// The machine may have so much less room after a container: journals and databases of its own grow.
const (
	roomBytes = 32 << 20
	roomFiles = 256
)

func watch(t *testing.T, eng *sandboxlab.Engine, dirs ...string) *host {
	t.Helper()
	h := &host{eng: eng, dirs: dirs, log: openKernelLog(t)}
	var err error
	if h.before, err = h.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.free, h.clock = room(t), clockGap()
	return h
}

// look takes everything that a submission must not change.
func (h *host) look(ctx context.Context) (sandboxlab.Snapshot, error) {
	s, err := sandboxlab.Snap(ctx, h.eng, h.dirs...)
	if err != nil {
		return nil, err
	}
	return s, settings(s)
}

// settings are the kernel's, and what is loaded into it.
func settings(s sandboxlab.Snapshot) error {
	for _, path := range []string{
		"kernel/core_pattern", "kernel/hostname", "kernel/domainname", "kernel/modprobe", "kernel/printk", "kernel/sysrq",
		"kernel/randomize_va_space", "kernel/tainted", "kernel/yama/ptrace_scope", "kernel/dmesg_restrict", "kernel/perf_event_paranoid",
		"kernel/sched_rt_runtime_us", "net/ipv4/ip_forward", "vm/overcommit_memory", "vm/swappiness", "fs/suid_dumpable",
	} {
		content, err := os.ReadFile("/proc/sys/" + path)
		if err != nil {
			return err
		}
		s["setting "+path+" "+string(bytes.TrimSpace(content))] = struct{}{}
	}
	for _, table := range []string{"/proc/modules", "/proc/swaps", "/proc/key-users"} {
		content, err := os.ReadFile(table)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(content)) {
			if f := strings.Fields(line); len(f) > 0 && (table != "/proc/key-users" || f[0] == "65534:") {
				s[filepath.Base(table)+" "+f[0]] = struct{}{}
			}
		}
	}
	for path, kind := range map[string]string{"/etc/evalhost-planted": "secret", "/var/lib/evalhost-planted/runner.key": "secret"} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		s[fmt.Sprintf("%s %s %v %v %d", kind, path, info.Mode(), info.ModTime(), info.Size())] = struct{}{}
	}
	return nil
}

// unchanged is said of every container. allowed is what the kernel may have said about this one.
func (h *host) unchanged(t *testing.T, allowed []string) {
	t.Helper()
	h.settled(t)
	free := room(t)
	if less := int64(h.free.Bfree-free.Bfree) * free.Bsize; less > roomBytes {
		t.Errorf("the host's disk has %d bytes less", less)
	}
	if less := int64(h.free.Ffree) - int64(free.Ffree); less > roomFiles {
		t.Errorf("the host's disk has %d files more", less)
	}
	h.free = free
	if moved := (clockGap() - h.clock).Abs(); moved > time.Second {
		t.Errorf("the host's clock was moved by %v", moved)
	}
	for _, line := range surprises(h.log.news(t), allowed) {
		t.Errorf("the kernel said: %s", line)
	}
}

// settled waits until the host is what it was, and says what is not.
func (h *host) settled(t *testing.T) {
	t.Helper()
	var changed []string
	var now sandboxlab.Snapshot
	for end := time.Now().Add(patience); ; time.Sleep(500 * time.Millisecond) {
		var err error
		if now, err = h.look(context.Background()); err != nil {
			t.Fatal(err)
		}
		changed = now.Changed(h.before)
		// What is loaded or set does not go away by itself.
		lasting := slices.ContainsFunc(changed, func(c string) bool { return strings.Contains(c, "modules ") || strings.Contains(c, "setting ") })
		if len(changed) == 0 || lasting || time.Now().After(end) {
			break
		}
	}
	for _, c := range changed {
		t.Errorf("the host is not what it was: %s", c)
	}
	h.before = now // what one attack left is not laid at the next one's door
}

func room(t *testing.T) (free unix.Statfs_t) {
	t.Helper()
	if err := unix.Statfs("/var/lib", &free); err != nil {
		t.Fatal(err)
	}
	return free
}

// clockGap is what the wall clock has over the monotonic one.
func clockGap() time.Duration {
	var wall, mono unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_REALTIME, &wall)
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono)
	return time.Duration(wall.Nano() - mono.Nano())
}

// kernelLog reads the kernel's log from now on.
type kernelLog struct{ f *os.File }

func openKernelLog(t *testing.T) *kernelLog {
	t.Helper()
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Seek(fd, 0, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	l := &kernelLog{os.NewFile(uintptr(fd), "/dev/kmsg")}
	t.Cleanup(func() { l.f.Close() })
	return l
}

// news are the lines since the last look. Those of a fork bomb may have pushed others out of the log, which is no news.
func (l *kernelLog) news(t *testing.T) (lines []string) {
	t.Helper()
	record := make([]byte, 8192)
	for {
		// Not through the file: it would wait for more.
		n, err := unix.Read(int(l.f.Fd()), record)
		switch {
		case errors.Is(err, syscall.EAGAIN):
			return lines
		case errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			t.Fatal(err)
		}
		_, line, _ := strings.Cut(string(record[:n]), ";")
		line, _, _ = strings.Cut(line, "\n")
		lines = append(lines, line)
	}
}

// quiet is what the kernel says of containers that come and go, of programs that crash, and of a machine that is emulated.
var quiet = regexp.MustCompile(`^(systemd\[1\]|systemd-journald|cgroup: fork rejected by pids controller|clocksource|hrtimer|` +
	`perf: interrupt took|overlayfs|audit: |Code: |ICMPv6: process|__vm_enough_memory: |\S+\[\d+\]: segfault|traps: \S+\[\d+\]|ptrace attach of)`)

// surprises are those of the kernel's lines that nobody expects. What it says of a kill for memory takes many lines; they
// begin and end with words that are known.
func surprises(lines, allowed []string) (unexpected []string) {
	killing := false
	for _, line := range lines {
		known := quiet.MatchString(line)
		for _, a := range allowed {
			if a != memoryKill {
				known = known || strings.Contains(line, a)
				continue
			}
			switch {
			case strings.Contains(line, "invoked oom-killer"):
				killing = true
			case strings.Contains(line, "oom-kill:") || strings.Contains(line, "out of memory: Killed process") ||
				strings.Contains(line, "oom_reaper: ") || strings.Contains(line, "OOM victim") || strings.Contains(line, "are going to be killed due to memory.oom.group set"):
				killing, known = false, true
			}
		}
		if !known && !killing {
			unexpected = append(unexpected, line)
		}
	}
	return unexpected
}

// files describes every regular file below a directory: whoever writes into one, or replaces it, changes its line.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().IsRegular() {
			s := info.Sys().(*syscall.Stat_t)
			lines = append(lines, fmt.Sprintf("%s %v %d %v inode %d owner %d:%d links %d", path, info.Mode(), info.Size(), info.ModTime(), s.Ino, s.Uid, s.Gid, s.Nlink))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}
