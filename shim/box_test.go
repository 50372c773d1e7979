package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestEveryLimitIsWrittenAndOnlyAnAbsentFileIsForgiven(t *testing.T) {
	files := func() map[string]string {
		return map[string]string{"memory.max": "", "pids.max": "", "memory.swap.max": "", "memory.oom.group": ""}
	}
	whole := boxOf(t, files())
	must(t, whole.limit(4<<20))
	for file, want := range map[string]string{
		"memory.max": "4194304", "pids.max": "15", "memory.swap.max": "0", "memory.oom.group": "1",
	} {
		got, err := os.ReadFile(filepath.Join(whole.dir, file))
		must(t, err)
		if string(got) != want {
			t.Errorf("%s says %q, want %q", file, got, want)
		}
	}
	for file, forgiven := range map[string]bool{
		"memory.max": false, "pids.max": false, "memory.swap.max": true, "memory.oom.group": true,
	} {
		there := files()
		delete(there, file)
		err := boxOf(t, there).limit(4 << 20)
		if (err == nil) != forgiven {
			t.Errorf("without %s: %v, want forgiven %v", file, err, forgiven)
		}

		// A file that is there and refuses: a directory cannot be opened for writing, not even by root.
		refusing := boxOf(t, there)
		must(t, os.Mkdir(filepath.Join(refusing.dir, file), 0o700))
		err = refusing.limit(4 << 20)
		if !errors.Is(err, syscall.EISDIR) || !strings.Contains(err.Error(), file) {
			t.Errorf("a %s that refuses: %v, want its name and what the kernel said", file, err)
		}
	}
}

func TestACgroupThatDoesNotHoldTheShimIsNotItsOwn(t *testing.T) {
	for members, want := range map[string]bool{"1\n22\n": true, "22": true, "": false, "1\n2\n": false, "122\n221\n": false} {
		if got := holds(members, 22); got != want {
			t.Errorf("%q holds 22: %t, want %t", members, got, want)
		}
	}
}

func TestAProgramIsInItsBoxBeforeItIsLetGo(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: the shim drops privileges here")
	}
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	null, err := open("/dev/null", syscall.O_RDWR)
	must(t, err)
	defer syscall.Close(null)
	p := program{argv: []string{"/bin/true"}, files: [3]int{null, null, null}}
	must(t, p.start())
	defer func() {
		_ = ptrace(syscall.PTRACE_CONT, p.pid, uintptr(syscall.SIGKILL))
		_, _ = syscall.Wait4(p.pid, nil, syscall.WALL, nil)
	}()
	status, _, err := p.waitStopped()
	must(t, err)
	if !status.Stopped() {
		t.Fatalf("the program is not stopped: %v", status)
	}
	box := boxOf(t, map[string]string{"cgroup.procs": ""})
	// A directory is no cgroup, so the inspection refuses the program: it is not where it was put.
	if err := p.prepare(box); err == nil {
		t.Error("a program that is not in its box passed the inspection")
	}
	got, err := os.ReadFile(filepath.Join(box.dir, "cgroup.procs"))
	must(t, err)
	if string(got) != strconv.Itoa(p.pid) {
		t.Errorf("the box was given %q, want the stopped program %d", got, p.pid)
	}
}
