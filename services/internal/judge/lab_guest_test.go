//go:build guest

package judge

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/policy"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/sandbox/hoststate"
	"github.com/evalhost/evalhost/services/internal/verdict"
	"github.com/evalhost/evalhost/shim/wire/nonce"
)

// The guest suite of this package drives the pipeline over the real sandbox, as root, on a real host: what needs many
// containers, several lanes, or a look at what the command does not show. Starting the command for each of these cases would
// cost more than the cases do.
//
// Nothing here asserts how fast anything is. Every test ends with a comparison of the host with what it was before.
const guestScratch = "/var/lib/evalhost-test"

// guestRig is one sandbox over the real daemon.
type guestRig struct {
	t     *testing.T
	eng   *engine.Client
	box   *sandbox.Sandbox
	spans *spans
	log   *bytes.Buffer
}

func onAHost(t *testing.T, change ...func(*sandbox.Config)) *guestRig {
	t.Helper()
	g := &guestRig{t: t, log: &bytes.Buffer{}}
	var err error
	if g.eng, err = engine.Connect(t.Context(), engine.Options{}); err != nil {
		t.Fatal(err)
	}
	factor := 1.0
	if given := os.Getenv("EVALHOST_BUILD_WALL_FACTOR"); given != "" {
		if factor, err = strconv.ParseFloat(given, 64); err != nil {
			t.Fatal(err)
		}
	}
	var lanes []sandbox.Lane
	for _, cpuset := range hoststate.Cpusets() {
		lanes = append(lanes, sandbox.Lane{Cpuset: cpuset})
	}
	cfg := sandbox.Config{
		Instance: "judge-" + nonce.New()[:8], Scratch: guestScratch, Shim: os.Getenv("EVALHOST_TEST_SHIM"),
		Lanes: lanes, BuildWallFactor: factor, Log: slog.New(slog.NewTextHandler(g.log, nil)),
	}
	for _, c := range change {
		c(&cfg)
	}
	if err := os.MkdirAll(cfg.Scratch, 0o755); err != nil {
		t.Fatal(err)
	}
	before, err := hoststate.Take(t.Context(), g.eng, cfg.Scratch, sandbox.DefaultLocks)
	if err != nil {
		t.Fatal(err)
	}
	if g.box, err = sandbox.Open(t.Context(), g.eng, cfg); err != nil {
		t.Fatal(err)
	}
	g.spans = &spans{Box: InSandbox(g.box), dir: t.TempDir()}
	t.Cleanup(func() {
		if n, err := g.box.Sweep(context.Background()); n != 0 || err != nil {
			t.Errorf("a sweep at the end finds %d, %v; want nothing", n, err)
		}
		if err := g.box.Close(context.Background()); err != nil {
			t.Error(err)
		}
		changed, err := hoststate.Settled(context.Background(), g.eng, before, 40*time.Second, cfg.Scratch, sandbox.DefaultLocks)
		if err != nil {
			t.Error(err)
		}
		for _, c := range changed {
			t.Errorf("the host is not what it was: %s", c)
		}
		g.eng.Close()
		if g.log.Len() > 0 {
			t.Logf("the log:\n%s", g.log)
		}
	})
	return g
}

// bench opens a problem for judging in so many lanes.
// bench has as many lanes as asked for, or as the host has where that is fewer.
func (g *guestRig) bench(p *problem.Problem, lanes int) *Bench {
	g.t.Helper()
	b, err := g.open(p, min(lanes, len(hoststate.Cpusets())))
	if err != nil {
		g.t.Fatal(err)
	}
	return b
}

func (g *guestRig) open(p *problem.Problem, lanes int) (*Bench, error) {
	rules, err := policy.Default()
	if err != nil {
		return nil, err
	}
	table := langimages.Default()
	images := map[string]string{}
	for _, image := range table.Images() {
		images[image.Key] = image.Reference
	}
	return Open(g.t.Context(), Config{
		Box: g.spans, Table: table, Rules: rules, Products: g.t.TempDir(), Lanes: lanes, Images: images,
	}, p)
}

// judge judges one submission and logs what came of it.
func (g *guestRig) judge(b *Bench, s Submission) *Judged {
	g.t.Helper()
	began := time.Now()
	j, err := b.Judge(g.t.Context(), s, nil)
	if err != nil {
		g.t.Fatalf("%s in %s: %v", s.FileName, s.Toolchain, err)
	}
	g.t.Logf("%s in %s: %s, %v points, after %v", s.FileName, s.Toolchain, j.Verdict, j.Document.Score, time.Since(began).Round(100*time.Millisecond))
	for _, tested := range j.Tests {
		g.t.Log(row(tested))
	}
	return j
}

// row is one line on a test.
func row(t Tested) string {
	memory := "no memory"
	if t.Memory != nil {
		memory = t.Memory.String()
	}
	return fmt.Sprintf("  %-4s %s %s, %v, %s, wall %v, %d %%, %q", t.Name, t.Status, t.Reason, t.Time, memory, t.Wall.Round(time.Millisecond), t.Percentage, t.Note)
}

// result is how one test ended: with a word about the submission, or without.
type result struct {
	Tested
	err error
}

// each builds a submission once and judges every test of the problem, whatever the others came to. Judge itself stops at the
// first failure of the machinery, and here they are what is looked for.
func (g *guestRig) each(b *Bench, s Submission) map[string]result {
	g.t.Helper()
	began := time.Now()
	toolchain, ok := b.Table.Resolve(s.Toolchain)
	if !ok {
		g.t.Fatalf("no toolchain %s", s.Toolchain)
	}
	image, err := b.image(toolchain)
	if err != nil {
		g.t.Fatal(err)
	}
	job, err := b.Box.OpenJob(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	defer func() {
		if err := job.Close(); err != nil {
			g.t.Error(err)
		}
	}()
	built, err := compile(g.t.Context(), job, image, toolchain, s.Source)
	if err != nil {
		g.t.Fatal(err)
	}
	if built.program == nil {
		g.t.Fatalf("%s does not build:\n%s", s.FileName, built.log)
	}
	c := candidate{toolchain: toolchain, image: image, program: built.program}
	results := make([]result, len(b.problem.Tests))
	free := newLanes(b.Lanes)
	var running sync.WaitGroup
	for i, t := range b.problem.Tests {
		lane, _ := free.take()
		running.Go(func() {
			results[i].Tested, results[i].err = b.judgeTest(g.t.Context(), job, c, t, lane)
			free.give(lane, true)
		})
	}
	running.Wait()
	named := map[string]result{}
	for i, t := range b.problem.Tests {
		named[t.Name] = results[i]
		if results[i].err != nil {
			g.t.Logf("  %-4s no verdict: %v", t.Name, results[i].err)
		} else {
			g.t.Log(row(results[i].Tested))
		}
	}
	g.t.Logf("%s: %d tests after %v", s.FileName, len(results), time.Since(began).Round(100*time.Millisecond))
	return named
}

// span is when a run went.
type span struct {
	test     string
	lane     int
	from, to time.Time
}

// spans is a box that remembers when its runs went, and builds nothing twice: under emulation a build takes as long as many
// runs, and most cases here are about the running of the same few programs.
type spans struct {
	Box
	dir string // where programs that were built before are put
	mu  sync.Mutex
	all []span
}

// builds are the successful builds of this process, by everything that went into them. What does not build is built each time.
var builds sync.Map // string to earlier

// earlier is what a build left.
type earlier struct {
	built   sandbox.Built
	program []byte
}

func (s *spans) OpenJob(ctx context.Context) (Job, error) {
	job, err := s.Box.OpenJob(ctx)
	if err != nil {
		return nil, err
	}
	return spanJob{job, s}, nil
}

type spanJob struct {
	Job
	spans *spans
}

func (j spanJob) Build(ctx context.Context, b sandbox.Build) (sandbox.Built, error) {
	key := fmt.Sprintf("%d %q %q %q %q %q", b.Kind, b.Image, b.Command, b.SourceName, b.Artifact, b.Source)
	if known, ok := builds.Load(key); ok {
		dir, err := os.MkdirTemp(j.spans.dir, "built-")
		if err != nil {
			return sandbox.Built{}, err
		}
		before, path := known.(earlier), filepath.Join(dir, b.Artifact)
		if err := os.WriteFile(path, before.program, 0o755); err != nil {
			return sandbox.Built{}, err
		}
		before.built.Program, err = sandbox.ProgramAt(path)
		return before.built, err
	}
	built, err := j.Job.Build(ctx, b)
	if err == nil && built.Program != nil {
		program, err := os.ReadFile(built.Program.Path())
		if err != nil {
			return built, err
		}
		builds.Store(key, earlier{built, program})
	}
	return built, err
}

func (j spanJob) Prepare(ctx context.Context, run sandbox.Run) (Run, error) {
	prepared, err := j.Job.Prepare(ctx, run)
	if err != nil {
		return nil, err
	}
	return spanRun{prepared, j.spans, run}, nil
}

type spanRun struct {
	Run
	spans *spans
	run   sandbox.Run
}

func (r spanRun) Go(ctx context.Context) (sandbox.RunOutcome, error) {
	from := time.Now()
	o, err := r.Run.Go(ctx)
	r.spans.mu.Lock()
	defer r.spans.mu.Unlock()
	r.spans.all = append(r.spans.all, span{r.run.Test, r.run.Lane, from, time.Now()})
	return o, err
}

// take returns the spans since the last time.
func (s *spans) take() []span {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	s.all = nil
	return all
}

// single is a package with one test, `1 2` to `3`, under these limits.
func single(timeMs, memoryBytes int64) map[string]string {
	return map[string]string{
		"config.yml": fmt.Sprintf("type: standard-io@1\nlimits: { timeMs: %d, memoryBytes: %d }\ngroups: [ { group: 1, points: 100 } ]\n",
			timeMs, memoryBytes),
		"tests/0a.in": "", "tests/0a.out": "", "tests/1a.in": "1 2\n", "tests/1a.out": "3\n", "tests/2a.in": "", "tests/2a.out": "",
	}
}

// inC is a submission in C11 that the source rules are not asked about: many cases need what they forbid.
func inC(name, source string) Submission {
	return Submission{FileName: name, Source: []byte(source), Toolchain: "c11-gcc", NoPolicy: true}
}

// says checks what a test came to. The note is a prefix.
func (r result) says(t *testing.T, status verdict.Status, reason verdict.Reason, note string) {
	t.Helper()
	if r.err != nil || r.Status != status || r.Reason != reason || !strings.HasPrefix(r.Note, note) {
		t.Errorf("%s %s, note %q, error %v; want %s %s, %q", r.Status, r.Reason, r.Note, r.err, status, reason, note)
	}
}

// nearly checks that a peak is within 1 MiB of the limit and not above it.
func nearly(t *testing.T, peak *verdict.Bytes, limit verdict.Bytes) {
	t.Helper()
	if peak == nil || *peak > limit || *peak < limit-verdict.MiB {
		t.Errorf("the peak is %v, want at most %v and at most 1 MiB less", peak, limit)
	}
}

func guestFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
