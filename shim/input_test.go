//go:build !guest

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func listenUnix(path string) (int, error) {
	listener, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := syscall.Bind(listener, &syscall.SockaddrUnix{Name: path}); err != nil {
		return -1, err
	}
	return listener, syscall.Listen(listener, 1)
}

// serve answers one connection as a Runner does, with these bytes and descriptors.
func serve(t *testing.T, listener int, data []byte, fds ...int) {
	t.Helper()
	socket, _, err := syscall.Accept(listener)
	if err != nil {
		t.Error(err)
		return
	}
	defer syscall.Close(socket)
	var control []byte
	if len(fds) > 0 {
		control = syscall.UnixRights(fds...)
	}
	if len(data) == 0 {
		return
	}
	if err := syscall.Sendmsg(socket, data, control, nil, syscall.MSG_NOSIGNAL); err != nil {
		t.Error(err)
	}
}

func TestInputIsHandedOverASocket(t *testing.T) {
	dir := scratch(t)
	socket := filepath.Join(dir, "stdin")
	listener, err := listenUnix(socket)
	must(t, err)
	defer syscall.Close(listener)
	input, err := os.Open(newFile(t, filepath.Join(dir, "1.in"), "seven\n"))
	must(t, err)
	defer input.Close()
	_, wait := trial{input: socket, program: asHelper("twice")}.start(t)
	serve(t, listener, []byte{0}, int(input.Fd()))
	got := wait()
	got.mustReport(t, 0)
	if got.stdout != "seven\nseven\n" {
		t.Errorf("%v", got)
	}
}

func TestASocketThatHandsOverAnythingButOneDescriptorIsRefused(t *testing.T) {
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	fd := int(null.Fd())
	for name, test := range map[string]struct {
		data []byte
		fds  []int
	}{
		"nothing":          {nil, nil},
		"a byte alone":     {[]byte{0}, nil},
		"two descriptors":  {[]byte{0}, []int{fd, fd}},
		"many descriptors": {[]byte{0}, []int{fd, fd, fd, fd, fd, fd, fd, fd, fd}},
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(scratch(t), "stdin")
			listener, err := listenUnix(socket)
			must(t, err)
			defer syscall.Close(listener)
			_, wait := trial{input: socket, program: []string{"/bin/true"}}.start(t)
			serve(t, listener, test.data, test.fds...)
			wait().mustFail(t, "input socket "+socket)
		})
	}
}
