package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/services/internal/mutant"
	"github.com/evalhost/evalhost/shim/wire/nonce"
)

// Job is the scratch of one job: every path its containers mount is in it, and two jobs share no inode
// (spec/sandbox.md; decisions 6 and 8).
//
//	<scratch>/<instance>/<job>/
//	  shim                    this job's copy of the shim, 0500 root
//	  build-<id>/src, out     one build: its source, and what was collected
//	  program-<n>/            one copy of a program, for one lane or for judges
//	  run-<id>/in, run, beside  one judged run: its input, its channels, its judge's channels
type Job struct {
	box  *Sandbox
	dir  string
	shim string // empty when the images' own is used
	lock *lock  // of the whole host; nil without one

	mu       sync.Mutex
	programs map[placement]string
	closed   bool
}

// placement says for whom a copy of a program was made.
type placement struct {
	path string
	lane int // -1 for judges
}

// OpenJob makes a job's scratch. With a host-wide lock it waits until nobody else judges on this host.
func (s *Sandbox) OpenJob(ctx context.Context) (*Job, error) {
	var host *lock
	if s.cfg.HostLock != "" {
		var err error
		if host, err = waitLock(ctx, s.cfg.HostLock, nil); err != nil {
			return nil, err
		}
	}
	j := &Job{box: s, lock: host, programs: map[placement]string{}}
	j.dir = filepath.Join(s.dir, "job-"+shortID())
	if err := os.Mkdir(j.dir, 0o700); err != nil {
		host.release()
		return nil, fmt.Errorf("sandbox: making the scratch of a job: %w; the job cannot be judged", err)
	}
	if s.cfg.Shim != "" {
		j.shim = filepath.Join(j.dir, "shim")
		if err := copyFile(s.cfg.Shim, j.shim, shimMode()); err != nil {
			return nil, errors.Join(err, j.Close())
		}
	}
	return j, nil
}

// shimMode lets root alone execute the shim, and nobody read it.
func shimMode() os.FileMode {
	if mutant.Off(mutant.ShimClosed) {
		return 0o555
	}
	return 0o500
}

// Close removes the job's scratch. Its runs must have been closed before. Safe to call twice.
func (j *Job) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	defer j.lock.release()
	if err := os.RemoveAll(j.dir); err != nil {
		return fmt.Errorf("sandbox: removing the scratch of a job: %w; it stays until the next sweep", err)
	}
	return nil
}

// mkdir makes a directory of the job's scratch that containers may look into.
func (j *Job) mkdir(parts ...string) (string, error) {
	dir := filepath.Join(append([]string{j.dir}, parts...)...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("sandbox: making scratch: %w; the step cannot be run", err)
	}
	// Whatever the umask is: a directory that a container's nobody cannot enter is an error nobody would understand.
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", fmt.Errorf("sandbox: making scratch: %w; the step cannot be run", err)
	}
	return dir, nil
}

// shortID makes a part of a name that is used once.
func shortID() string { return nonce.New()[:12] }

// Program is one built file. It is mounted read-only as a directory of its own, under /program, and always as a copy: no
// inode that a submission can open is mounted anywhere else (decisions 8).
type Program struct{ path string }

// ProgramAt takes an existing regular file for a program, such as a judging program kept in the cache. Its base name is
// its name under /program.
func ProgramAt(path string) (*Program, error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return nil, fmt.Errorf("sandbox: a program at %q: expected a clean absolute path", path)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("sandbox: a program: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("sandbox: the program %s is no regular file but %v", path, info.Mode().Type())
	}
	return &Program{path}, nil
}

// Path of the file on the host. A built program lives as long as its job.
func (p *Program) Path() string { return p.path }

// Name of the file under /program.
func (p *Program) Name() string { return filepath.Base(p.path) }

// place gives the directory to mount at /program: the program's copy for one lane, or for all judges (lane -1).
func (j *Job) place(p *Program, lane int) (string, error) {
	if p == nil {
		return "", errors.New("sandbox: there is no program to run")
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if mutant.Off(mutant.OwnProgram) {
		lane = -1
	}
	key := placement{p.path, lane}
	if dir, ok := j.programs[key]; ok {
		return dir, nil
	}
	dir, err := j.mkdir("program-" + shortID())
	if err != nil {
		return "", err
	}
	if err := copyFile(p.path, filepath.Join(dir, p.Name()), 0o555); err != nil {
		return "", err
	}
	j.programs[key] = dir
	return dir, nil
}

// copyFile copies a regular file into a new one. Links are not followed at either end.
func copyFile(from, to string, mode os.FileMode) error {
	flags := os.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
	if mutant.Off(mutant.NoLinks) {
		flags &^= unix.O_NOFOLLOW
	}
	in, err := os.OpenFile(from, flags, 0)
	if err != nil {
		return fmt.Errorf("sandbox: copying into scratch: %w", err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return fmt.Errorf("sandbox: copying into scratch: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("sandbox: copying into scratch: %s is no regular file", from)
	}
	return writeFile(to, in, mode)
}

// writeFile makes a new file with exactly this mode and fills it.
func writeFile(to string, from io.Reader, mode os.FileMode) (err error) {
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("sandbox: writing into scratch: %w", err)
	}
	defer func() {
		if e := out.Close(); e != nil && err == nil {
			err = fmt.Errorf("sandbox: writing into scratch: %w", e)
		}
	}()
	if _, err := io.Copy(out, from); err != nil {
		return fmt.Errorf("sandbox: writing %s: %w", to, err)
	}
	if err := out.Chmod(mode.Perm()); err != nil {
		return fmt.Errorf("sandbox: writing into scratch: %w", err)
	}
	return nil
}
