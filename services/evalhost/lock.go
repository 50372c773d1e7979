package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/services/internal/sandbox"
)

// hostLock is held by whoever judges on this machine, command or daemon: two at once would disturb each other's
// measurements. It lies where only root can make files, so that nobody else can hold it.
const hostLock = sandbox.DefaultLocks + "/host.lock"

// lockPoll is how often a taken lock is tried again.
const lockPoll = 200 * time.Millisecond

// lockHost waits until this process is the only one that judges here, and says whom it waits for. The returned function
// gives the lock back. It ends early only with ctx.
func lockHost(ctx context.Context, path string, messages io.Writer) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, unfit(fmt.Errorf("cannot make the place of the lock that keeps two from judging at once: %w", err))
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for told := false; ; told = true {
		file, holder, err := tryHostLock(path)
		switch {
		case err != nil:
			return nil, unfit(fmt.Errorf("cannot take the lock that keeps two from judging at once: %w", err))
		case file != nil:
			// The name goes first: whoever opens the path from now on makes a new file.
			return func() { _ = os.Remove(path); _ = file.Close() }, nil
		case !told:
			fmt.Fprintf(messages, "evalhost: waiting for %s, which is judging on this machine\n", holder)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// tryHostLock takes the lock if it is free; otherwise file is nil and holder says who has it. Giving a lock up removes
// its file, so one that was locked may already have lost its name: then it is not the lock, and is tried again.
func tryHostLock(path string) (file *os.File, holder string, err error) {
	for {
		file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, "", err
		}
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			holder := holderOf(file)
			_ = file.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, holder, nil
			}
			return nil, "", &os.PathError{Op: "flock", Path: path, Err: err}
		}
		held, err1 := file.Stat()
		named, err2 := os.Lstat(path)
		if err1 == nil && err2 == nil && os.SameFile(held, named) {
			break
		}
		_ = file.Close()
	}
	// Who holds it is for the message of one who waits; the lock is what counts.
	_ = file.Truncate(0)
	_, _ = file.WriteAt(fmt.Appendf(nil, "process %d", os.Getpid()), 0)
	return file, "", nil
}

// holderOf reads who wrote its name into the lock.
func holderOf(file *os.File) string {
	name := make([]byte, 64)
	n, _ := file.ReadAt(name, 0)
	if text := strings.TrimSpace(string(name[:n])); text != "" {
		return text
	}
	return "another process"
}
