package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/evalhost/evalhost/shim/wire"
)

// whoseExec decides about a start command that the kernel would not execute (spec/sandbox.md 3.8). nil: the submission's own
// doing, because what could not be executed is what its source made, such as a program whose loader exists nowhere or whose
// format nobody loads. An error: the machinery's doing, because the command is the image's (an interpreter that is not there),
// or because the program is not in its place any more.
func (g *going) whoseExec(failure string) error {
	r := g.Prepared.run
	if own := wire.ProgramDir + "/" + r.Program.Name(); r.Command[0] != own {
		return fmt.Errorf("sandbox: the start command %s cannot be executed in the image %s (%s): it belongs to the image and not to the "+
			"submission, so nothing is known about the submission; the image is not the one that was built for this language, or it is "+
			"damaged: load it again", r.Command[0], r.Image, failure)
	}
	placed := filepath.Join(g.program, r.Program.Name())
	if err := sameFile(r.Program.Path(), placed); err != nil {
		return fmt.Errorf("sandbox: the submission's program could not be executed (%s), and its copy %s is not what was placed there: %w; "+
			"nothing is known about the submission; look at the disk and at who writes into the scratch directory", failure, placed, err)
	}
	return nil
}

// sameFile compares two regular files byte by byte.
func sameFile(want, got string) error {
	info, err := os.Lstat(got)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("it is %v, which nobody can execute", info.Mode())
	}
	a, err := os.Open(want)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := os.Open(got)
	if err != nil {
		return err
	}
	defer b.Close()
	left, right := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errA := io.ReadFull(a, left)
		m, errB := io.ReadFull(b, right)
		if !bytes.Equal(left[:n], right[:m]) {
			return errors.New("it has other bytes")
		}
		for _, err := range []error{errA, errB} {
			if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
				return err
			}
		}
		if errA != nil {
			return nil
		}
	}
}
