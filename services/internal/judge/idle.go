package judge

import (
	"context"
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
	what := fmt.Sprintf("a program in %s that does nothing", toolchain.Label)
	job, c, err := b.buildOurs(ctx, toolchain, source, what)
	if err != nil {
		return nil, err
	}
	defer b.closeJob(job)
	var tried []Idle
	for _, limits := range under {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		nothing := &output{comparison: compare.New(strings.NewReader(""))}
		run := c.on(b.problem.Tests[0], limits)
		run.Input = strings.NewReader("")
		d, outcome, err := b.decided(ctx, job, run, nothing)
		if err != nil {
			return nil, failure(err, "trying %s", what)
		}
		tried = append(tried, Idle{Note: d.note, Reason: d.reason, Time: *outcome.CPU, Memory: outcome.Peak})
	}
	return tried, nil
}
