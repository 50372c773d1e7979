//go:build !guest

package sandbox

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/cgroup"
)

// waiter starts a process that stands in the opening of a channel, and gives a container that holds it.
func waiter(t *testing.T) (*contained, *exec.Cmd, string) {
	t.Helper()
	path := fifo(t)
	cmd := exec.Command("/bin/sh", "-c", "sleep 0.2; exec 3>"+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	setFile(dir, "cgroup.procs", strconv.Itoa(cmd.Process.Pid)+"\n")
	return &contained{home: cgroup.NewHome("", dir, "", nil), exited: make(chan struct{})}, cmd, path
}

func TestTheBarrierIsReachedWhenTheOutputIsBeingOpened(t *testing.T) {
	if _, known := opensForWriting(os.Getpid()); !known {
		t.Skip("this kernel does not say where a thread stands")
	}
	c, cmd, path := waiter(t)
	c.awaitBarrier(t.Context())
	if stands, _ := opensForWriting(cmd.Process.Pid); !stands {
		t.Error("the process was not waited for until it stood at its barrier")
	}
	in := inletOf(t, path) // lets it go
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	_ = in
}

func TestAContainerThatIsGoneOrCannotBeLookedAtIsNotWaitedFor(t *testing.T) {
	began := time.Now()
	c := &contained{home: cgroup.NewHome("", t.TempDir(), "", nil), exited: make(chan struct{})}
	c.awaitBarrier(t.Context())
	dir := t.TempDir()
	setFile(dir, "cgroup.procs", strconv.Itoa(os.Getpid())+"\n") // never stands in an opening
	c = &contained{home: cgroup.NewHome("", dir, "", nil), exited: make(chan struct{})}
	close(c.exited)
	c.awaitBarrier(t.Context())
	if time.Since(began) > barrierPatience/2 {
		t.Errorf("they were waited for %v", time.Since(began))
	}
}
