package runner_test

import (
	"archive/zip"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/policy"
	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/refserver"
	"github.com/evalhost/evalhost/services/internal/runner"
	"github.com/evalhost/evalhost/services/internal/sandbox"
)

// The tests in this file are the cases of spec/protocol.md 9.5: everything of a Runner is real but its containers.

// adder is a package of two tests: two numbers and their sum.
var adder = map[string]string{
	"config.yml": "type: standard-io@1\nlimits: { timeMs: 2000, memoryBytes: 67108864 }\n" +
		"groups: [ { group: 1, points: 40 }, { group: 2, points: 60 } ]\n" +
		"modelSolutions: [ { source: solutions/add.py, language: python3 }, { source: solutions/add.c, language: c11-gcc } ]\n",
	"tests/1a.in": "1 2\n", "tests/1a.out": "3\n", "tests/2a.in": "20 30\n", "tests/2a.out": "50\n",
	"solutions/add.py": "ADDS\n", "solutions/add.c": "ADDS\n",
}

func zipped(t testing.TB, layers ...map[string]string) []byte {
	t.Helper()
	files := map[string]string{}
	for _, layer := range layers {
		for name, content := range layer {
			files[name] = content
		}
	}
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, content := range files {
		f, err := w.Create(name)
		must(t, err)
		_, err = io.WriteString(f, content)
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

// shelf is a cache that keeps everything, in a directory.
type shelf struct {
	t   testing.TB
	dir string

	mu                          sync.Mutex
	downloads, unpacked, builds int
	held                        int
	// taken is how long somebody else has each package, for the first who wants its tree or its program.
	taken time.Duration
}

func (s *shelf) Hold(ctx context.Context, ref protocol.PackageRef, from runner.Source, waits func(bool)) (runner.Package, error) {
	dir := filepath.Join(s.dir, string(ref.ID))
	if _, err := os.Stat(dir); err != nil {
		var b bytes.Buffer
		if _, err := from.Download(ctx, protocol.Wanted{ID: ref.ID, SHA256: ref.SHA256, Max: protocol.PackageLimit, What: "the package"}, &b); err != nil {
			return nil, err
		}
		s.downloads++
		must(s.t, os.MkdirAll(filepath.Join(dir, "out"), 0o755))
		must(s.t, os.WriteFile(filepath.Join(dir, "file"), b.Bytes(), 0o644))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held++
	return shelved{s, dir, waits}, nil
}

type shelved struct {
	s     *shelf
	dir   string
	waits func(bool)
}

// wait waits for whoever has the package.
func (p shelved) wait() {
	if p.s.taken > 0 {
		p.waits(true)
		time.Sleep(p.s.taken)
		p.waits(false)
	}
}

func (p shelved) Tree(ctx context.Context, unpack func(context.Context, string, string) (int, error)) (string, error) {
	p.wait()
	tree := filepath.Join(p.dir, "tree")
	if _, err := os.Stat(tree); err == nil {
		return tree, nil
	}
	p.s.unpacked++
	_, err := unpack(ctx, filepath.Join(p.dir, "file"), tree)
	return tree, err
}

func (p shelved) Program(ctx context.Context, program judge.JudgingProgram, build func(context.Context, string) error) (string, error) {
	p.wait()
	path := filepath.Join(p.dir, "out", program.Toolchain.Artifact)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	p.s.builds++
	return path, build(ctx, filepath.Join(p.dir, "out"))
}

func (p shelved) Release() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.held--
}

// court is a Runner with everything but containers.
type court struct {
	*rig
	*play
	box   *box
	shelf *shelf
}

func (r *rig) court(change ...func(*runner.MachineConfig, *runner.Options)) *court {
	r.t.Helper()
	rules, err := policy.Default()
	must(r.t, err)
	c := &court{
		rig: r, box: &box{dir: r.t.TempDir(), builds: map[sandbox.BuildKind]int{}}, shelf: &shelf{t: r.t, dir: r.t.TempDir()},
	}
	images := map[string]string{}
	for _, image := range langimages.Default().Images() {
		images[image.Key] = "sha256:" + image.Key
	}
	c.play = r.newPlay(&evaluator{}, func(o *runner.Options) {
		m := runner.MachineConfig{
			Source: o.Client, Packages: c.shelf, Box: c.box, Table: langimages.Default(), Rules: rules, Lanes: 1, Scratch: r.t.TempDir(),
			Check: func(context.Context) (map[string]string, error) { return images, nil }, Log: o.Log,
		}
		o.Registration.ProblemTypes = []string{"standard-io@1", "output-only@1", "uva@1"}
		for _, f := range change {
			f(&m, o)
		}
		machine := runner.NewMachine(m, images)
		o.Evaluator, o.Measurer = machine, machine
	})
	c.start()
	r.approve(c.play)
	r.t.Cleanup(func() {
		if c.shelf.held != 0 {
			r.t.Errorf("%d packages are still held", c.shelf.held)
		}
	})
	return c
}

// hand hands in a file for a package.
func (r *rig) hand(problemType string, archive []byte, name, language, content, config string) refserver.Job {
	r.t.Helper()
	p, err := r.AddPackage(refserver.Package{Type: problemType, Content: bytes.NewReader(archive)})
	must(r.t, err)
	s := refserver.BytesSubmission(p.ID, name, language, []byte(content))
	if config != "" {
		s.Config = []byte(config)
	}
	j, err := r.Submit(s)
	must(r.t, err)
	return j
}

func TestARunnerJudgesEveryOutcomeAParticipantCanGet(t *testing.T) {
	for _, c := range []struct {
		name, file, language, source, config string
		verdict                              string
		score                                float64
		log                                  string
	}{
		{"correct C", "main.c", "c11-gcc", "ADDS", "", "Accepted", 100, ""},
		{"correct Python", "main.py", "python3", "ADDS", "", "Accepted", 100, ""},
		{"wrong", "main.c", "c11-gcc", "WRONG", "", "Wrong answer", 0, ""},
		{"an endless loop", "main.c", "c11-gcc", "LOOPS", "", "Time limit exceeded", 0, ""},
		{"does not compile", "main.c", "c11-gcc", "BROKEN", "", "Compilation error", 0, "error: BROKEN"},
		{"a forbidden include", "main.c", "c11-gcc", "#include <unistd.h>\n", "", "PolicyViolation", 0, "unistd.h"},
		{"another extension", "main.txt", "c11-gcc", "ADDS", "", "Compilation error", 0, "main.txt"},
		{"a language that is not allowed", "main.c", "c11-gcc", "ADDS", `{"languages":["cpp17-gcc"]}`, "PolicyViolation", 0, "not accepted"},
		{"within the limit", "main.c", "c11-gcc", "SLOWLY", "", "Accepted", 100, ""},
		// An assignment's own limits are what the submission is judged under (9.5).
		{"an assignment's own limit", "main.c", "c11-gcc", "SLOWLY", `{"limits":{"timeMs":10}}`, "Time limit exceeded", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
				r.court()
				j := r.final(r.hand("", zipped(t, adder), c.file, c.language, c.source, c.config).ID, time.Minute)
				if j.State != refserver.Completed || j.Result.Verdict != c.verdict || *j.Result.Score != c.score || *j.Result.MaxScore != 100 {
					t.Fatalf("ended as %s with %+v, reason %q", j.State, j.Result, j.FailureReason)
				}
				if log := string(r.Attachment(j.ID, "log")); !strings.Contains(log, c.log) || (c.log == "") != (log == "") {
					t.Errorf("the log is %q", log)
				}
				if details := string(r.Attachment(j.ID, "details")); !strings.Contains(details, `"no":"2a"`) {
					t.Errorf("the details are %s", details)
				}
			})
		})
	}
}

// Whatever is wrong with the package, the job or this machine ends as failed, without a score and without a verdict.
func TestWhatIsNotTheSubmissionsDoingIsNoVerdict(t *testing.T) {
	for _, c := range []struct {
		name, kind, language, config string
		archive                      []byte
		change                       func(*runner.MachineConfig, *runner.Options)
		says                         string
		failure                      runner.FailureKind
	}{
		{name: "a package that will not open", archive: []byte("no archive"), language: "c11-gcc", says: "archive", failure: runner.BadPackage},
		{
			name: "a package without an expected output", archive: zipped(t, adder, map[string]string{"tests/3a.in": "1 1\n"}), language: "c11-gcc", says: "3a",
			failure: runner.BadPackage,
		},
		{name: "no language", archive: zipped(t, adder), says: "language", failure: runner.BadJob},
		{name: "an unknown language", archive: zipped(t, adder), language: "cobol", says: "cobol", failure: runner.BadJob},
		{name: "an unknown type", kind: "uva@1", archive: zipped(t, adder), language: "c11-gcc", says: "uva@1", failure: runner.BadJob},
		{name: "an overlay that is none", archive: zipped(t, adder), language: "c11-gcc", config: `{"limits":{"timeMs":"a"}}`, says: "timeMs", failure: runner.BadPackage},
		{
			name: "a checker that does not build", archive: zipped(t, adder, map[string]string{
				"config.yml": "type: standard-io@1\nlimits: { timeMs: 2000, memoryBytes: 67108864 }\ngroups: [ { group: 1, points: 40 }, { group: 2, points: 60 } ]\n" +
					"checker: { source: check.c, language: c11-gcc }\n", "check.c": "BROKEN\n",
			}), language: "c11-gcc", says: "check.c", failure: runner.BadPackage,
		},
		{
			name: "a machine that cannot build", archive: zipped(t, adder), language: "c11-gcc", says: "the daemon said no", failure: runner.BadMachine,
			change: func(m *runner.MachineConfig, _ *runner.Options) { m.Box.(*box).fails = errMachine },
		},
		{
			name: "a machine that cannot measure", archive: zipped(t, adder), language: "c11-gcc", says: "cannot measure", failure: runner.BadMachine,
			change: func(m *runner.MachineConfig, _ *runner.Options) {
				m.Unmeasured, m.Box = "this machine cannot measure", nil
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
				change := c.change
				if change == nil {
					change = func(*runner.MachineConfig, *runner.Options) {}
				}
				court := r.court(change)
				j := r.final(r.hand(c.kind, c.archive, "main.c", c.language, "ADDS", c.config).ID, 10*time.Minute)
				if j.State != refserver.Failed || j.Result.Verdict != "" || j.Result.Score != nil || !strings.Contains(j.FailureReason, c.says) {
					t.Errorf("ended as %s with %+v, reason %q", j.State, j.Result, j.FailureReason)
				}
				if court.box.runs != 0 {
					t.Errorf("%d runs", court.box.runs)
				}
				court.stops()
				if w := court.ended[0]; w.Failure != c.failure {
					t.Errorf("counted as %v", w.Failure)
				}
			})
		})
	}
}

// A package whose bytes are not the announced ones is an infrastructure failure, and the next delivery is judged.
func TestADownloadThatIsNotWhatWasAnnouncedIsNoVerdict(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault refserver.Fault
	}{
		{"a harmed package", refserver.Fault{Method: "GET", Path: "/runner/files/*", Kind: refserver.FaultCorrupt, Bytes: 30, Times: 1}},
		{"a harmed submission", refserver.Fault{Method: "GET", Path: "/runner/files/*", Kind: refserver.FaultCorrupt, Bytes: 1, Times: 1, Skip: 1}},
		{"another checksum", refserver.Fault{Path: "/runner/jobs/claim", Kind: refserver.FaultWrongSHA, Times: 1}},
		{"a file that is not there", refserver.Fault{Method: "GET", Path: "/runner/files/*", Kind: refserver.FaultStatus, Status: 404, Code: "not_found", Times: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
				court := r.court()
				time.Sleep(26 * time.Second)
				r.fault(c.fault)
				time.Sleep(25 * time.Second) // the next claim is hit
				j := r.accepted(r.hand("", zipped(t, adder), "main.c", "c11-gcc", "ADDS", "").ID, time.Minute)
				court.stops()
				if w := court.ended[0]; j.Deliveries != 2 || w.Ending != runner.Failed || w.Failure != runner.BadDownload {
					t.Errorf("%d deliveries, %+v", j.Deliveries, court.ended)
				}
			})
		})
	}
}

func TestASecondProblemTypeIsJudgedWithoutTheServerLearningAboutIt(t *testing.T) {
	archive := zipped(t, map[string]string{
		"config.yml":  "type: output-only@1\nlimits: { timeMs: 1000, memoryBytes: 67108864 }\ngroups: [ { group: 1, points: 50 }, { group: 2, points: 50 } ]\n",
		"tests/1a.in": "a\n", "tests/1a.out": "3\n", "tests/2a.in": "b\n", "tests/2a.out": "50\n",
	})
	for answer, want := range map[string]struct {
		verdict string
		score   float64
	}{"50\n": {"Accepted", 100}, "51\n": {"Wrong answer", 50}} {
		inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
			c := r.court()
			answers := zipped(t, map[string]string{"1a.out": "3\n", "2a.out": answer})
			j := r.final(r.hand("output-only@1", archive, "answers.zip", "", string(answers), "").ID, time.Minute)
			if j.State != refserver.Completed || j.Result.Verdict != want.verdict || *j.Result.Score != want.score {
				t.Errorf("ended as %s with %+v, reason %q", j.State, j.Result, j.FailureReason)
			}
			if c.box.runs != 0 || len(c.box.builds) != 0 {
				t.Error("something was executed")
			}
		})
	}
}

func TestOnePackageIsPreparedOnceHoweverManySubmissionsArrive(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		c := r.court()
		p, err := r.AddPackage(refserver.Package{Content: bytes.NewReader(zipped(t, adder, map[string]string{
			"config.yml": "type: standard-io@1\nlimits: { timeMs: 2000, memoryBytes: 67108864 }\ngroups: [ { group: 1, points: 40 }, { group: 2, points: 60 } ]\n" +
				"checker: { source: check.c, language: c11-gcc }\n", "check.c": "CHECKS\n",
		}))})
		must(t, err)
		for range 3 {
			j, err := r.Submit(refserver.BytesSubmission(p.ID, "main.c", "c11-gcc", []byte("ADDS")))
			must(t, err)
			if got := r.final(j.ID, time.Minute); got.State != refserver.Completed || got.Result.Verdict != "Partial" {
				t.Fatalf("ended as %s with %+v, %q", got.State, got.Result, got.FailureReason)
			}
		}
		if c.shelf.downloads != 1 || c.shelf.unpacked != 1 || c.box.builds[sandbox.JudgeBuild] != 1 || c.box.builds[sandbox.SubmissionBuild] != 3 {
			t.Errorf("%d downloads, %d times unpacked, builds %v", c.shelf.downloads, c.shelf.unpacked, c.box.builds)
		}
	})
}

// What a Server calls something may be as long as its answers; a line of the log and the Status are for people.
func TestLongNamesOfTheServerAreCutWhereTheyAreShown(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		long := strings.Repeat("éx", 50<<10) + "@1"
		c := r.court(func(_ *runner.MachineConfig, o *runner.Options) {
			o.Registration.ProblemTypes = []string{"standard-io@1", long}
		})
		trial, err := r.AddTrial(long, bytes.NewReader(zipped(t, adder)))
		must(t, err)
		jobs := []refserver.Job{
			r.hand(long, zipped(t, adder), "main.c", "c11-gcc", "ADDS", ""), r.hand("standard-io@1", zipped(t, adder), "main.c", long, "ADDS", ""),
		}
		for _, j := range jobs {
			if got := r.final(j.ID, 10*time.Minute); got.State != refserver.Failed || len(got.FailureReason) > 1000 {
				t.Errorf("the job ended as %s, with a reason of %d bytes", got.State, len(got.FailureReason))
			}
		}
		r.eventually("the trial is over", 10*time.Minute, func() bool {
			got, _ := r.Trial(trial.ID)
			return got.State.Final()
		})
		c.stops()
		if !c.said("a job was handed out", "problemType=éxéx") || !c.said("a trial was handed out", "problemType=éxéx") ||
			!c.said("infrastructure failure: there is no verdict", "is not offered by this Runner") {
			t.Error("the names were not shown at all, so this shows nothing")
		}
		for line := range strings.Lines(c.log.String()) {
			if len(line) > 2000 {
				t.Errorf("a line of %d bytes: %.300s", len(line), line)
			}
		}
		for _, status := range c.statuses {
			if len(status) > 1000 {
				t.Errorf("a Status of %d bytes: %.300s", len(status), status)
			}
		}
	})
}
