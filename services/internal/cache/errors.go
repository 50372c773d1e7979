package cache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Problem is what an error of the cache means. The zero Problem is invalid.
type Problem int

const (
	_ Problem = iota
	// BadName: an id or a checksum from the Server cannot be part of a path (5.3).
	BadName
	// NoSpace: the disk is full although everything that nobody holds was evicted. The machine cannot judge.
	NoSpace
	// Vanished: somebody removed an entry that was held, several times in a row (10.11).
	Vanished
	// Disk: another failure of the file system. The machine cannot judge.
	Disk
	// Stopped: the context ended.
	Stopped
)

// String names the problem for logs.
func (p Problem) String() string {
	switch p {
	case BadName:
		return "bad name"
	case NoSpace:
		return "no space"
	case Vanished:
		return "vanished"
	case Disk:
		return "disk"
	case Stopped:
		return "stopped"
	}
	return "invalid problem"
}

// Error is a failure of the cache itself. Downloads fail with the errors of their source, and unpacking and building with
// those of the functions that do them.
type Error struct {
	Problem Problem
	// Doing says what was attempted, with the path.
	Doing string
	Err   error
}

// Error says what was attempted, what happened, what it means and what to do.
func (e *Error) Error() string {
	text := fmt.Sprintf("cache: %s: %v", e.Doing, e.Err)
	switch e.Problem {
	case NoSpace:
		text += "; what nobody holds was evicted and it is not enough: the package cannot be used on this host; make room there, or " +
			"give the cache another place with AJ_Cache__Path"
	case Vanished:
		text += "; somebody removes what is in use: the cache's directory must belong to Runners alone"
	case Disk:
		text += "; the package cannot be used on this host"
	}
	return text
}

// Unwrap gives the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// Retryable says that the same job may be judged later, here or elsewhere: its package was taken away (10.11).
func (e *Error) Retryable() bool { return e.Problem == Vanished }

// ProblemOf is what an error of this package means; 0 for any other error.
func ProblemOf(err error) Problem {
	var e *Error
	if errors.As(err, &e) {
		return e.Problem
	}
	return 0
}

// trouble makes an *Error of what the file system said; nil stays nil, and an *Error what it is.
func trouble(err error, doing string, args ...any) error {
	var own *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return err
	}
	e := &Error{Problem: Disk, Doing: fmt.Sprintf(doing, args...), Err: err}
	switch {
	case noSpace(err):
		e.Problem = NoSpace
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Problem = Stopped
	}
	return e
}

// stopped is the end of the context.
func stopped(ctx context.Context, doing string) error {
	return &Error{Problem: Stopped, Doing: doing, Err: context.Cause(ctx)}
}

// noSpace reports whether the disk, its inodes or a quota are used up.
func noSpace(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

func notThere(err error) bool { return errors.Is(err, fs.ErrNotExist) }
