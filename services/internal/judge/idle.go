package judge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/compare"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Idle is what a program that does nothing came to under some limits.
type Idle struct {
	// Note is why it was not accepted, as a participant would be told; empty if it was.
	Note   string
	Reason verdict.Reason
	// Time is the processor time charged; Memory the peak, nil if it was not measured.
	Time   time.Duration
	Memory *verdict.Bytes
}

// TryIdle builds a program of the toolchain that does nothing and runs it once under each of the limits. Where it is not
// accepted, no program of the language is, on this machine: what it needs is what starting any program costs. An error is the
// machinery's.
func (b *Bench) TryIdle(ctx context.Context, toolchain langimages.Toolchain, under []sandbox.Limits) ([]Idle, error) {
	source, ok := silents[toolchain.Family]
	if !ok {
		return nil, fmt.Errorf("there is no program in %s that does nothing", toolchain.Label)
	}
	image, err := b.image(toolchain)
	if err != nil {
		return nil, err
	}
	job, err := b.Box.OpenJob(ctx)
	if err != nil {
		return nil, err
	}
	defer b.closeJob(job)
	built, err := compile(ctx, job, image, toolchain, []byte(source))
	if err == nil && built.program == nil {
		err = errors.New(built.log)
	}
	if err != nil {
		return nil, failure(err, "building a program in %s that does nothing", toolchain.Label)
	}
	var tried []Idle
	for _, limits := range under {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		comparison := compare.New(nil)
		outcome, err := b.contained(ctx, job, sandbox.Run{
			Image: image, Command: toolchain.Run, Program: built.program, Test: b.problem.Tests[0].Name, Input: strings.NewReader(""),
			Limits: limits, Output: &output{comparison: comparison},
		})
		if err != nil {
			return nil, failure(err, "trying a program in %s that does nothing", toolchain.Label)
		}
		result := comparison.Finish()
		decided, err := decide(ending{run: outcome, limit: limits.Time, compared: &result})
		if err != nil {
			return nil, failure(err, "trying a program in %s that does nothing", toolchain.Label)
		}
		tried = append(tried, Idle{Note: decided.note, Reason: decided.reason, Time: *outcome.CPU, Memory: outcome.Peak})
	}
	return tried, nil
}
