package main

import (
	"context"
	"fmt"
	"io"

	"github.com/evalhost/evalhost/services/internal/sandbox"
)

// lockHost waits until this process is the only one that judges here, and says whom it waits for. It ends early only with ctx.
func lockHost(ctx context.Context, path string, messages io.Writer) (unlock func(), err error) {
	unlock, err = sandbox.WaitLock(ctx, path, func(holder string) {
		fmt.Fprintf(messages, "evalhost: waiting for %s, which is judging on this machine\n", holder)
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, unfit(fmt.Errorf("cannot take the lock that keeps two from judging at once: %w", err))
	}
	return unlock, nil
}
