//go:build guest

package sandboxlab

import (
	"context"

	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/sandbox/hoststate"
	"github.com/evalhost/evalhost/services/internal/verdict"
	"github.com/evalhost/evalhost/shim/wire/nonce"
)

// What a suite describes and what it gets back.
type (
	Bytes      = verdict.Bytes
	Engine     = engine.Client
	Sandbox    = sandbox.Sandbox
	Config     = sandbox.Config
	Lane       = sandbox.Lane
	Job        = sandbox.Job
	Build      = sandbox.Build
	Built      = sandbox.Built
	Run        = sandbox.Run
	RunOutcome = sandbox.RunOutcome
	Outcome    = sandbox.Outcome
	Limits     = sandbox.Limits
	Judge      = sandbox.Judge
	Prepared   = sandbox.Prepared
	Program    = sandbox.Program
	Snapshot   = hoststate.Snapshot
)

// The two kinds a suite needs.
const (
	SubmissionBuild = sandbox.SubmissionBuild
	Checker         = sandbox.Checker
)

// DefaultLocks is where instances' locks live.
const DefaultLocks = sandbox.DefaultLocks

// Connect reaches the daemon.
func Connect(ctx context.Context) (*Engine, error) { return engine.Connect(ctx, engine.Options{}) }

// Open opens a sandbox.
func Open(ctx context.Context, eng *Engine, cfg Config) (*Sandbox, error) {
	return sandbox.Open(ctx, eng, cfg)
}

// ProgramAt takes an existing file for a program.
func ProgramAt(path string) (*Program, error) { return sandbox.ProgramAt(path) }

// Cpusets are those of the lanes of a test on this host, two or one.
func Cpusets() []string { return hoststate.Cpusets() }

// Snap looks at the host.
func Snap(ctx context.Context, eng *Engine, dirs ...string) (Snapshot, error) {
	return hoststate.Take(ctx, eng, dirs...)
}

// Secret makes a word that nobody can guess.
func Secret() string { return nonce.New() }
