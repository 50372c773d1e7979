package hostcheck

import (
	"context"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

const (
	// diskLeast is what one job may need at once: two artefacts, the input of a test, the layers of its containers.
	diskLeast = verdict.GiB
	// diskEasy leaves room for images and packages too.
	diskEasy = 4 * verdict.GiB
)

var disk = requirement{
	id:    "disk",
	asked: "at least " + diskEasy.String() + " free for scratch",
	why:   "a disk that fills up while judging fails the job: no verdict can be given",
	needs: []string{"scratch"},
	look: func(_ context.Context, m *Machine) finding {
		return m.space(m.Scratch, "free space there, or set EVALHOST_SCRATCH to a larger file system")
	},
}

// space looks at what is free where a directory is, or will be.
func (m *Machine) space(dir, cure string) finding {
	dir, err := nearest(dir)
	if err != nil {
		return failed(err.Error(), cure)
	}
	free, err := m.Free(dir)
	found := free.String() + " free at " + dir
	switch {
	case err != nil:
		return failed(err.Error(), cure)
	case free < diskLeast:
		return failed(found, cure)
	case free < diskEasy:
		return warning(found, cure)
	}
	return met(found)
}
