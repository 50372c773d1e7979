package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/policy"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/report"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Source downloads files from the Server. *protocol.Client is one.
type Source interface {
	Download(ctx context.Context, f protocol.Wanted, w io.Writer) (verdict.Bytes, error)
}

// Packages is where packages are kept between jobs.
type Packages interface {
	// Hold makes a package available until it is released, downloading it from a source if need be. Its errors are the
	// source's, which keep their class, or a *Failure. waits is told when Tree or Program begins to wait for somebody else who
	// prepares the package, and when it has waited.
	Hold(ctx context.Context, ref protocol.PackageRef, from Source, waits func(waiting bool)) (Package, error)
}

// Package is one that is here until Release. Its errors are as Hold's; what unpack and build say passes through.
type Package interface {
	// Tree is the unpacked package, to be read only.
	Tree(ctx context.Context, unpack func(ctx context.Context, src, target string) (files int, err error)) (dir string, err error)
	// Program is a judging program of the package: kept, or built now. build puts exactly one file into dir.
	Program(ctx context.Context, p judge.JudgingProgram, build func(ctx context.Context, dir string) error) (path string, err error)
	Release()
}

// MachineConfig is what a Machine judges with. All members are required but where it is said.
type MachineConfig struct {
	Source   Source
	Packages Packages
	Box      judge.Box
	Table    *langimages.Table
	// Versions are what the compilers and interpreters of the images proved at start call themselves; may be nil.
	Versions judge.Versions
	Rules    *policy.Profile
	// Lanes is how many tests are judged at once.
	Lanes int
	// WallFactor is the sandbox's BuildWallFactor, for what the watchdog allows; 0 is 1.
	WallFactor float64
	// Scratch is an existing directory for answers to output-only problems.
	Scratch string
	// Check asks whether this machine can judge, and returns the daemon's ids of the proved images, by key. It is called once
	// before the first job, and after infrastructure failures.
	Check func(ctx context.Context) (images map[string]string, err error)
	// Unmeasured, if it is not empty, is why this machine must not judge although it was started (decisions 18): every job
	// fails with it, before any container is made.
	Unmeasured string
	// Current is told what is judged, for the log of the sandbox; may be nil.
	Current *Current
	// Log may be nil.
	Log *slog.Logger
}

// Machine judges on this machine. It is the daemon's Evaluator and Measurer.
type Machine struct {
	c MachineConfig

	first  map[string]string // the images that Versions were read from
	mu     sync.Mutex
	images map[string]string
}

// NewMachine makes a Machine that knows the images that were proved at start.
func NewMachine(c MachineConfig, images map[string]string) *Machine {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.WallFactor <= 0 {
		c.WallFactor = 1
	}
	return &Machine{c: c, first: images, images: images}
}

// Ready asks the machine again. An image that was loaded anew is taken with its new id.
func (m *Machine) Ready(ctx context.Context) error {
	images, err := m.c.Check(ctx)
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.images = images
	return nil
}

// How long the steps around the judging may take for the watchdog. What waits for somebody else has a bound of its own: the
// machine's lock and a package's are held by whoever judges beside us, by hand perhaps.
const (
	unpackAtMost = 30 * time.Minute
	waitForHost  = 24 * time.Hour
	slack        = 5 * time.Minute // removing containers on a busy machine, reading back, scoring
)

// Judge fetches the package and the submission, and judges (4.4).
func (m *Machine) Judge(ctx context.Context, job protocol.Job, step func(Step)) (Answer, error) {
	m.c.Current.set(slog.String("job", string(job.Lease.ID)), slog.Int("attempt", job.Attempt))
	defer m.c.Current.set()
	s := &steps{say: step}
	held, p, err := m.open(ctx, job.Package, problem.Options{Type: problem.Type(job.ProblemType), Overlay: job.Config}, s)
	if err != nil {
		return Answer{}, err
	}
	defer held.Release()
	file, err := job.Source()
	if err != nil {
		return Answer{}, &Failure{BadJob, err}
	}
	source := kept{most: problem.MaxSourceBytes}
	_, err = moving{m.c.Source, s.begin}.Download(ctx, protocol.Wanted{
		ID: file.ID, SHA256: file.SHA256, Max: mostOfSubmission(p.Type), What: "the submission",
	}, &source)
	if err != nil {
		return Answer{}, downloadFailure(ctx, err)
	}
	var judged *judge.Judged
	if p.Type == problem.OutputOnly {
		judged, err = m.mark(ctx, p, file.FileName, source.Bytes(), s)
	} else {
		judged, err = m.run(ctx, job, held, p, file.FileName, source.Bytes(), s)
	}
	if err != nil {
		return Answer{}, judgeFailure(ctx, err)
	}
	details, err := judged.Document.JSON()
	if err != nil {
		return Answer{}, &Failure{BadMachine, err}
	}
	return Answer{
		Score: judged.Document.Score, Max: judged.Document.MaxScore, Verdict: judged.Verdict, Log: judged.Log, Details: details,
	}, nil
}

// mostOfSubmission is the largest file that is downloaded. A source that is too large is a verdict (4.4): it is read to its end,
// because nothing is said about bytes that are not proved to be the participant's, and its beginning is enough to tell that. Of
// answers a beginning is nothing.
func mostOfSubmission(t problem.Type) verdict.Bytes {
	if t == problem.OutputOnly {
		return problem.MaxSourceBytes
	}
	return protocol.PackageLimit
}

// kept keeps the beginning of what is written.
type kept struct {
	bytes.Buffer
	most verdict.Bytes
}

// Write takes everything.
func (k *kept) Write(p []byte) (int, error) {
	if room := max(0, int(k.most)-k.Len()); room < len(p) {
		k.Buffer.Write(p[:room])
		return len(p), nil
	}
	return k.Buffer.Write(p)
}

// open makes a package available and loads it. What it returns must be released.
func (m *Machine) open(ctx context.Context, ref protocol.PackageRef, o problem.Options, s *steps) (_ Package, _ *problem.Problem, err error) {
	s.begin(Step{Doing: "fetching the package", AtMost: quietDownload})
	held, err := m.c.Packages.Hold(ctx, ref, moving{m.c.Source, s.begin}, s.waits("waiting for another Runner that prepares the package"))
	if err != nil {
		return nil, nil, downloadFailure(ctx, err)
	}
	defer func() {
		if err != nil {
			held.Release()
		}
	}()
	unpacking := Step{Doing: "unpacking the package", AtMost: unpackAtMost}
	s.begin(unpacking)
	tree, err := held.Tree(ctx, func(ctx context.Context, src, target string) (int, error) {
		s.begin(unpacking) // it may have had to be fetched again
		return problem.UnpackPackage(ctx, src, target)
	})
	if err != nil {
		return nil, nil, packageFailure(ctx, err)
	}
	p, err := problem.Load(tree, o)
	if err != nil {
		return nil, nil, packageFailure(ctx, err)
	}
	if m.c.Unmeasured != "" {
		return nil, nil, &Failure{BadMachine, errors.New(m.c.Unmeasured)}
	}
	return held, p, nil
}

// bench prepares the judging of one problem.
func (m *Machine) bench(ctx context.Context, held Package, p *problem.Problem, s *steps) (*judge.Bench, error) {
	m.mu.Lock()
	images := m.images
	m.mu.Unlock()
	versions := m.c.Versions
	if !maps.Equal(images, m.first) {
		versions = nil // of images that are not there any more
	}
	preparing := Step{Doing: "preparing the problem", AtMost: m.buildAtMost()}
	s.begin(preparing)
	kept := func(ctx context.Context, p judge.JudgingProgram, build func(ctx context.Context, dir string) error) (string, error) {
		return held.Program(ctx, p, func(ctx context.Context, dir string) error {
			s.begin(preparing) // as above
			return build(ctx, dir)
		})
	}
	return judge.Open(ctx, judge.Config{
		Box: patient{m.c.Box, s}, Table: m.c.Table, Rules: m.c.Rules, Images: images, Versions: versions, Kept: kept, Lanes: m.c.Lanes, Log: m.c.Log,
	}, p)
}

// run judges a submission of standard-io@1.
func (m *Machine) run(
	ctx context.Context, job protocol.Job, held Package, p *problem.Problem, name string, source []byte, s *steps,
) (*judge.Judged, error) {
	language, err := job.Language()
	if err != nil {
		return nil, &Failure{BadJob, err}
	}
	if _, ok := m.c.Table.Resolve(language); !ok {
		return nil, &Failure{BadJob, fmt.Errorf("props: the language %q is not offered by this Runner", shown(language))}
	}
	bench, err := m.bench(ctx, held, p, s)
	if err != nil {
		return nil, err
	}
	return bench.Judge(ctx, judge.Submission{FileName: name, Source: source, Toolchain: language}, m.progress(p, "", s))
}

// mark marks the answers to a problem of output-only@1.
func (m *Machine) mark(ctx context.Context, p *problem.Problem, name string, answers []byte, s *steps) (*judge.Judged, error) {
	s.begin(Step{Doing: "marking the answers", AtMost: unpackAtMost})
	dir, err := os.MkdirTemp(m.c.Scratch, "answers-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			m.c.Log.Error("the answers to a problem could not be removed", "path", dir, "error", err)
		}
	}()
	path := filepath.Join(dir, "submission")
	if err := os.WriteFile(path, answers, 0o600); err != nil {
		return nil, err
	}
	return judge.Marker{Scratch: dir, Log: m.c.Log}.Mark(ctx, p, judge.Answers{FileName: name, Path: path})
}

// Measure times the model solutions of a package (section 7).
func (m *Machine) Measure(ctx context.Context, trial protocol.Trial, step func(Step)) ([]protocol.Measured, error) {
	m.c.Current.set(slog.String("trial", string(trial.Lease.ID)))
	defer m.c.Current.set()
	if trial.ProblemType != string(problem.StandardIO) {
		return nil, &Failure{BadJob, fmt.Errorf("problems of type %q are not measured", shown(trial.ProblemType))}
	}
	s := &steps{say: step}
	held, p, err := m.open(ctx, trial.Package, problem.Options{Type: problem.StandardIO}, s)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	bench, err := m.bench(ctx, held, p, s)
	if err != nil {
		return nil, judgeFailure(ctx, err)
	}
	measured, err := bench.Trial(ctx, func(model string, e judge.Event) { m.progress(p, model+": ", s)(e) })
	if err != nil {
		return nil, judgeFailure(ctx, err)
	}
	var rows []protocol.Measured
	for _, row := range measured {
		rows = append(rows, protocol.Measured{
			Group: int(row.Group), Language: row.Language, TimeMs: report.Millis(row.Time), MemoryBytes: row.Memory,
		})
	}
	return rows, nil
}

// progress turns the judge's words into steps with the time that they may take.
func (m *Machine) progress(p *problem.Problem, prefix string, s *steps) judge.Progress {
	longest := time.Duration(0)
	for _, t := range p.Tests {
		for _, toolchain := range m.c.Table.Offered() {
			longest = max(longest, p.Limits(toolchain.Family, toolchain.ID, t.Group).Time)
		}
	}
	// A run ends by its cap, a judging program 30 s after it; getting a container to its start has a deadline of its own.
	test := sandbox.DeadlinesFor(longest).Cap
	if test < waitForHost {
		test += 30*time.Second + m.stretched(30*time.Second) + slack
	}
	return func(e judge.Event) {
		switch e.Stage {
		case judge.Compiling:
			s.begin(Step{Doing: prefix + "compiling", AtMost: m.buildAtMost()})
		case judge.Testing:
			s.begin(Step{Doing: prefix + "test " + e.Test, Test: e.Test, Number: e.Number, Of: e.Of, AtMost: test})
		}
	}
}

// buildAtMost is a build's wall clock of a minute and what comes before it, on this machine.
func (m *Machine) buildAtMost() time.Duration { return m.stretched(2*time.Minute) + slack }

func (m *Machine) stretched(d time.Duration) time.Duration {
	return time.Duration(float64(d) * m.c.WallFactor)
}

// downloadFailure sorts what went wrong while something was fetched (4.4): the Server is away, it does not want this Runner
// any more, the file is not what was announced, or this machine could not keep it.
func downloadFailure(ctx context.Context, err error) error {
	var known *Failure
	switch class := protocol.ClassOf(err); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &known), unwanted(err), class == protocol.Stopped:
		return err
	case protocol.Retryable(err):
		return &Away{err}
	case class == protocol.Local, class == 0:
		return &Failure{BadMachine, err}
	}
	return &Failure{BadDownload, err}
}

// packageFailure sorts what went wrong while a package was prepared. Making it anew may have meant to fetch it again.
func packageFailure(ctx context.Context, err error) error {
	var bad *problem.Error
	if !errors.As(err, &bad) {
		return downloadFailure(ctx, err)
	}
	switch bad.Code {
	case problem.CodeTarget:
		return &Failure{BadMachine, err}
	case problem.CodeTypeUnknown:
		return &Failure{BadJob, err}
	}
	return &Failure{BadPackage, err}
}

// judgeFailure tells a package at fault from a machine at fault. Preparing a judging program may have meant to fetch its package
// again: what the Server said of that is no fault of either.
func judgeFailure(ctx context.Context, err error) error {
	var known *Failure
	var bad *judge.PackageFault
	switch {
	case errors.As(err, &known):
		return err
	case protocol.ClassOf(err) != 0 && protocol.ClassOf(err) != protocol.Local:
		return downloadFailure(ctx, err)
	case errors.As(err, &bad):
		return &Failure{BadPackage, err}
	}
	return &Failure{BadMachine, err}
}
