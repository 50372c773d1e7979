package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/services/internal/mutant"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// A build writes into a layer on the daemon's file system, and its artefact is collected into the scratch directory. A
// compiler that finds either of them full says so in the words of any other error, and no one but the host knows better.
const (
	// spaceBefore must be free before a build begins: its largest file twice, and as much for what others write meanwhile.
	spaceBefore = 4 * buildFileSize
	// spaceAfter must still be free when a build has failed, or its failure says nothing. A build alone cannot use up the
	// difference: the source has no say in what is written but the temporary files, which are on a file system of their own
	// and limited, and the artefact.
	spaceAfter = 2 * buildFileSize
	// inodesLeast is how many files a file system must have room for; one without a number of files has room.
	inodesLeast = 64
)

// space is what is free on a file system for somebody who is not root.
type space struct {
	bytes verdict.Bytes
	// files is how many can still be made; -1 where the file system has no such number.
	files int64
}

// freeAt asks the kernel.
func freeAt(path string) (space, error) {
	var fs unix.Statfs_t
	for {
		err := unix.Statfs(path, &fs)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return space{}, fmt.Errorf("statfs %s: %w", path, err)
		}
	}
	s := space{bytes: verdict.Bytes(fs.Bavail) * verdict.Bytes(fs.Bsize), files: -1}
	if fs.Files > 0 {
		s.files = int64(fs.Ffree)
	}
	return s, nil
}

// hasRoom says whether the file systems that a build writes to have room. The error is one of the host and never of a source
// (C76).
func (s *Sandbox) hasRoom(least verdict.Bytes, means string) error {
	for _, dir := range []string{s.dir, s.layers} {
		if mutant.Off(mutant.BuildRoom) {
			break
		}
		if dir == "" {
			continue // the daemon did not say where its layers are
		}
		got, err := s.free(dir)
		switch {
		case err != nil:
			return fmt.Errorf("sandbox: how much is free on the file system of %s is not known: %w; %s", dir, err, means)
		case got.bytes < least:
			return fmt.Errorf("sandbox: the file system of %s has %s free, and a build needs %s; %s; free space there", dir, got.bytes, least, means)
		case got.files >= 0 && got.files < inodesLeast:
			return fmt.Errorf("sandbox: the file system of %s has room for %d more files, and a build needs %d; %s; remove files there", dir,
				got.files, inodesLeast, means)
		}
	}
	return nil
}
