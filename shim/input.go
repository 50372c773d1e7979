package main

import (
	"strconv"
	"syscall"
)

// openInput opens what becomes the submission's standard input: a file, a FIFO, or a Unix socket that hands over a
// descriptor (spec/sandbox.md 6.4). Any failure ends the run: a program without its input would be judged on a run that
// never happened.
func openInput(path string) (int, error) {
	var about syscall.Stat_t
	if err := syscall.Stat(path, &about); err != nil {
		return -1, &failure{what: "open input " + path, err: err}
	}
	switch about.Mode & syscall.S_IFMT {
	case syscall.S_IFSOCK:
		return receiveInput(path)
	case syscall.S_IFDIR:
		return -1, &failure{what: "open input " + path, err: syscall.EISDIR}
	}
	fd, err := open(path, syscall.O_RDONLY)
	if err != nil {
		return -1, &failure{what: "open input " + path, err: err}
	}
	return fd, nil
}

// inputPatience is how long the other end of a socket may take, as long as every other channel's open may.
const inputPatience = 30 // seconds

// receiveInput connects to a Unix stream socket and receives exactly one descriptor: one byte of data with SCM_RIGHTS.
func receiveInput(path string) (int, error) {
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, &failure{what: "make a socket for input " + path, err: err}
	}
	defer syscall.Close(socket)
	patience := syscall.Timeval{Sec: inputPatience}
	for _, option := range [...]int{syscall.SO_SNDTIMEO, syscall.SO_RCVTIMEO} { // the first bounds connect
		if err := syscall.SetsockoptTimeval(socket, syscall.SOL_SOCKET, option, &patience); err != nil {
			return -1, &failure{what: "bound the wait for input socket " + path, err: err}
		}
	}
	if err := syscall.Connect(socket, &syscall.SockaddrUnix{Name: path}); err != nil {
		return -1, &failure{what: "connect to input socket " + path, err: err}
	}
	var data [1]byte
	control := make([]byte, syscall.CmsgSpace(4*4)) // room to notice more than one
	n, controlled, flags, _, err := receive(socket, data[:], control)
	if err != nil {
		return -1, &failure{what: "receive from input socket " + path, err: err}
	}
	fds, err := descriptors(control[:controlled])
	if err == nil && n == 1 && len(fds) == 1 && flags&syscall.MSG_CTRUNC == 0 {
		return fds[0], nil
	}
	for _, fd := range fds {
		_ = syscall.Close(fd)
	}
	return -1, &failure{
		what: "receive from input socket " + path,
		reason: "one byte and one descriptor were expected, " + strconv.Itoa(n) + " and " + strconv.Itoa(len(fds)) +
			" came",
	}
}

func receive(socket int, data, control []byte) (n, controlled, flags int, from syscall.Sockaddr, err error) {
	for {
		n, controlled, flags, from, err = syscall.Recvmsg(socket, data, control, syscall.MSG_CMSG_CLOEXEC)
		if err != syscall.EINTR {
			return n, controlled, flags, from, err
		}
	}
}

// descriptors reads every descriptor out of a message's control data.
func descriptors(control []byte) ([]int, error) {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	var all []int
	for i := range messages {
		fds, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			continue // not a message of descriptors
		}
		all = append(all, fds...)
	}
	return all, nil
}
