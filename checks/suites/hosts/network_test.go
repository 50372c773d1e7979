//go:build guest

package hosts

import (
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// network is a network namespace: another machine, as far as packets can tell. It lives as long as its thread and whatever
// listens in it.
type network struct {
	t    *testing.T
	tid  int
	jobs chan func()
}

// newNetwork makes a namespace with its loopback up.
func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{t: t, jobs: make(chan func())}
	ready := make(chan error)
	over := make(chan struct{})
	go func() {
		defer close(over)
		runtime.LockOSThread() // never given back: the thread ends with the namespace it is in
		n.tid = unix.Gettid()
		err := unix.Unshare(unix.CLONE_NEWNET)
		ready <- err
		for job := range n.jobs {
			job()
		}
	}()
	if err := <-ready; err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	t.Cleanup(func() { close(n.jobs); <-over })
	n.run("ip", "link", "set", "lo", "up")
	return n
}

// do runs f on the namespace's thread: what it opens and starts belongs there.
func (n *network) do(f func()) {
	done := make(chan struct{})
	n.jobs <- func() { defer close(done); f() }
	<-done
}

func (n *network) run(words ...string) {
	n.t.Helper()
	n.do(func() { run(n.t, words...) })
}

// run starts a program and waits for it; it must succeed.
func run(t *testing.T, words ...string) string {
	t.Helper()
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

// listener answers every connection, or datagram, with a word, and counts them.
type listener struct {
	protocol, address string
	count             atomic.Int64
	close             func() error
}

// listen listens on an address until the test ends.
func listen(t *testing.T, protocol, address string) *listener {
	t.Helper()
	l := &listener{protocol: protocol, address: address}
	if strings.HasPrefix(protocol, "udp") {
		conn, err := net.ListenPacket(protocol, address)
		if err != nil {
			t.Errorf("listen on %s: %v", address, err)
			return l
		}
		l.close = conn.Close
		go func() {
			buffer := make([]byte, 100)
			for {
				_, from, err := conn.ReadFrom(buffer)
				if err != nil {
					return
				}
				l.count.Add(1)
				_, _ = conn.WriteTo([]byte("reached"), from)
			}
		}()
	} else {
		ln, err := net.Listen(protocol, address)
		if err != nil {
			t.Errorf("listen on %s: %v", address, err)
			return l
		}
		l.close = ln.Close
		go func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				l.count.Add(1)
				_, _ = conn.Write([]byte("reached"))
				_ = conn.Close()
			}
		}()
	}
	t.Cleanup(func() { _ = l.close() })
	return l
}

func (n *network) listen(protocol, address string) (l *listener) {
	n.t.Helper()
	n.do(func() { l = listen(n.t, protocol, address) })
	return l
}

// reach says whether an address answers. A packet that is dropped is waited for; one that is refused is not.
func reach(protocol, address string) error {
	const patience = 3 * time.Second
	conn, err := net.DialTimeout(protocol, address, patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if strings.HasPrefix(protocol, "udp") {
		if _, err := conn.Write([]byte("?")); err != nil {
			return err
		}
	}
	buffer := make([]byte, 100)
	length, err := conn.Read(buffer)
	if err == nil && string(buffer[:length]) != "reached" {
		err = fmt.Errorf("it answered %q", buffer[:length])
	}
	return err
}

func (n *network) reach(protocol, address string) (err error) {
	n.do(func() { err = reach(protocol, address) })
	return err
}
