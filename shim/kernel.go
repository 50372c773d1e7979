package main

import "syscall"

// failure is what a `failed` line says: what was attempted, on which path, and what the kernel answered or what this
// program found.
type failure struct {
	what   string
	reason string
	err    error
}

func (f *failure) Error() string {
	if f.err != nil {
		return f.what + ": " + f.err.Error()
	}
	return f.what + ": " + f.reason
}

func (f *failure) Unwrap() error { return f.err }

// The files of this program are opened with plain open(2), not with package os: opening a FIFO must block, the order of
// the opens is part of the contract, and package os would set up a poller and take descriptors for it.

// open opens a path close-on-exec. It blocks for a FIFO without an other end.
func open(path string, flags int) (int, error) {
	for {
		fd, err := syscall.Open(path, flags|syscall.O_CLOEXEC, 0)
		if err != syscall.EINTR {
			return fd, err
		}
	}
}

// readFile reads a whole file of the kernel's, whose size is never known beforehand.
func readFile(path string) ([]byte, error) {
	fd, err := open(path, syscall.O_RDONLY)
	if err != nil {
		return nil, &failure{what: "open " + path, err: err}
	}
	defer syscall.Close(fd)
	text := make([]byte, 0, 4096)
	for {
		if len(text) == cap(text) {
			text = append(text, 0)[:len(text)]
		}
		n, err := syscall.Read(fd, text[len(text):cap(text)])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil, &failure{what: "read " + path, err: err}
		}
		if n == 0 {
			return text, nil
		}
		text = text[:len(text)+n]
	}
}

// writeFile writes one word to an existing file of the kernel's in one write. It creates nothing.
func writeFile(path, word string) error {
	fd, err := open(path, syscall.O_WRONLY)
	if err != nil {
		return &failure{what: "open " + path, err: err}
	}
	defer syscall.Close(fd)
	if err := writeAll(fd, []byte(word)); err != nil {
		return &failure{what: "write " + word + " to " + path, err: err}
	}
	return nil
}

// writeAll writes bytes in one write(2), so that lines of two writers cannot mix. A short write is an error.
func writeAll(fd int, text []byte) error {
	for {
		n, err := syscall.Write(fd, text)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return err
		case n != len(text):
			return syscall.EIO
		default:
			return nil
		}
	}
}

// closeOnExec marks every descriptor above standard error, so that the submission inherits nothing the container's
// runtime may have left open.
func closeOnExec() error {
	const path = "/proc/self/fd"
	dir, err := open(path, syscall.O_RDONLY|syscall.O_DIRECTORY)
	if err != nil {
		return &failure{what: "open " + path, err: err}
	}
	defer syscall.Close(dir)
	buffer := make([]byte, 4096)
	for {
		n, err := syscall.ReadDirent(dir, buffer)
		if err != nil {
			return &failure{what: "read " + path, err: err}
		}
		if n == 0 {
			return nil
		}
		_, _, names := syscall.ParseDirent(buffer[:n], -1, nil)
		for _, name := range names {
			if fd, isNumber := decimal(name); isNumber && fd > syscall.Stderr && !off("mutant.shim.descriptors") {
				syscall.CloseOnExec(fd)
			}
		}
	}
}

// decimal reads a number made of digits only.
func decimal(text string) (int, bool) {
	if text == "" || len(text) > 18 {
		return 0, false
	}
	number := 0
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		number = number*10 + int(text[i]-'0')
	}
	return number, true
}
