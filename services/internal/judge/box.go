package judge

import (
	"context"

	"github.com/evalhost/evalhost/services/internal/sandbox"
)

// InSandbox is the box that judges for real.
func InSandbox(s *sandbox.Sandbox) Box { return sandboxBox{s} }

type sandboxBox struct{ *sandbox.Sandbox }

func (b sandboxBox) OpenJob(ctx context.Context) (Job, error) {
	job, err := b.Sandbox.OpenJob(ctx)
	if err != nil {
		return nil, err
	}
	return sandboxJob{job}, nil
}

type sandboxJob struct{ *sandbox.Job }

func (j sandboxJob) Prepare(ctx context.Context, run sandbox.Run) (Run, error) {
	prepared, err := j.Job.Prepare(ctx, run)
	if err != nil {
		return nil, err
	}
	return prepared, nil
}
