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
	needs: "scratch",
	look: func(_ context.Context, m *Machine) finding {
		dir, err := nearest(m.Scratch)
		if err != nil {
			return failed(err.Error(), "see that it stays")
		}
		free, err := m.Free(dir)
		cure := "free space on the file system of " + m.Scratch + ", or set EVALHOST_SCRATCH to a larger one"
		switch {
		case err != nil:
			return failed(err.Error(), cure)
		case free < diskLeast:
			return failed(free.String()+" free", cure)
		case free < diskEasy:
			return warning(free.String()+" free", cure)
		}
		return met(free.String() + " free")
	},
}
