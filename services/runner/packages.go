package main

import (
	"context"

	"github.com/evalhost/evalhost/services/internal/cache"
	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/runner"
)

// packages is the cache as a Runner wants it.
type packages struct{ *cache.Cache }

// Hold makes a package available.
func (p packages) Hold(
	ctx context.Context, ref protocol.PackageRef, from runner.Source, waits func(waiting bool),
) (runner.Package, error) {
	held, err := p.Get(ctx, cache.Ref{File: ref.ID, SHA256: ref.SHA256}, from)
	if err != nil {
		if cache.ProblemOf(err) == cache.BadName {
			return nil, &runner.Failure{Kind: runner.BadJob, Err: err}
		}
		return nil, err
	}
	held.OnWait(waits)
	return heldPackage{held}, nil
}

type heldPackage struct{ *cache.Held }

// Tree is the unpacked package.
func (h heldPackage) Tree(ctx context.Context, unpack func(ctx context.Context, src, target string) (int, error)) (string, error) {
	return h.Held.Tree(ctx, unpack)
}

// Program is a judging program: kept, or built now.
func (h heldPackage) Program(ctx context.Context, p judge.JudgingProgram, build func(ctx context.Context, dir string) error) (string, error) {
	return h.Held.Program(ctx, cache.Build{
		Source: p.Source, Language: p.Toolchain.ID, Image: p.Toolchain.Image, ImageID: p.Image, Command: p.Toolchain.Build,
	}, build)
}
