//go:build !guest

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// builds runs one build of the fake daemon.
func builds(t *testing.T, d *fakeDaemon, change ...func(*Config)) (Built, error) {
	t.Helper()
	l := newLab(t, d, change...)
	b, err := l.job.Build(t.Context(), Build{
		Kind: SubmissionBuild, Image: "lang", Command: []string{"/bin/sh", "-c", "cc"}, SourceName: "main.c", Source: []byte("int main;"),
		Artifact: "program",
	})
	if b.Program != nil { // read it while the job lives
		content, err := os.ReadFile(b.Program.Path())
		if err != nil || len(content) != 77 {
			t.Errorf("the artefact has %d bytes, %v", len(content), err)
		}
	}
	return b, err
}

func holding(t *testing.T, size int64) func(string) io.ReadCloser {
	return func(path string) io.ReadCloser {
		if path != "/out/program" {
			t.Errorf("the path %s was read out of a build", path)
		}
		return io.NopCloser(archive(t, tarFile("program", size)))
	}
}

func TestABuildSeesItsSourceAndItsArtefactIsCollected(t *testing.T) {
	b, err := builds(t, &fakeDaemon{archive: holding(t, 77), other: func(_ context.Context, c *box) int {
		source, _ := os.ReadFile(c.host("/src/main.c"))
		c.say(false, "read "+string(source))
		c.say(true, "a warning")
		c.burn(250 * ms)
		return 0
	}})
	if err != nil || b.Stop != OnItsOwn || b.ExitCode != 0 || b.Program == nil || b.Program.Name() != "program" || b.TooLarge {
		t.Fatalf("built %+v, %v", b, err)
	}
	if string(b.Stdout) != "read int main;" || string(b.Stderr) != "a warning" || *b.CPU != 200*ms || *b.Peak != verdict.MiB {
		t.Errorf("said %q and %q, cpu %v, peak %v", b.Stdout, b.Stderr, *b.CPU, *b.Peak)
	}
}

func TestAFailedBuildCollectsNothing(t *testing.T) {
	b, err := builds(t, &fakeDaemon{archive: holding(t, 77), other: func(_ context.Context, c *box) int {
		c.say(true, "error: no")
		return 1
	}})
	if err != nil || b.ExitCode != 1 || b.Program != nil || string(b.Stderr) != "error: no" {
		t.Errorf("built %+v, %v", b, err)
	}
}

func TestABuildThatSucceedsAndLeavesNothingIsAFailure(t *testing.T) {
	if _, err := builds(t, &fakeDaemon{other: func(context.Context, *box) int { return 0 }}); !errors.Is(err, errNothing) {
		t.Errorf("error %v", err)
	}
}

func TestC47AnArtefactThatIsTooLargeIsTheSubmissionsDoing(t *testing.T) {
	b, err := builds(t, &fakeDaemon{other: func(context.Context, *box) int { return 0 }, archive: func(string) io.ReadCloser {
		header := archive(t, tarFile("program", 1)).Bytes()[:512]
		return io.NopCloser(bytes.NewReader(resized(header, int64(buildFileSize+artefactSpare)+1)))
	}})
	if err != nil || !b.TooLarge || b.Program != nil {
		t.Errorf("built %+v, %v", b, err)
	}
}

func TestC49ABuildThatTalksForEverIsStopped(t *testing.T) {
	b, err := builds(t, &fakeDaemon{other: func(ctx context.Context, c *box) int {
		for ctx.Err() == nil {
			c.say(true, strings.Repeat("x", 10_000))
			time.Sleep(ms)
		}
		return 0
	}})
	if err != nil || b.Stop != Output || !b.Capped || verdict.Bytes(len(b.Stderr)) != buildOutput {
		t.Errorf("stopped as %v, capped %v, kept %d bytes, %v", b.Stop, b.Capped, len(b.Stderr), err)
	}
}

func TestABuildThatTalksTooMuchAndExitsAtOnceIsNoticed(t *testing.T) {
	b, err := builds(t, &fakeDaemon{other: func(_ context.Context, c *box) int {
		c.say(false, strings.Repeat("x", int(buildOutput)+1))
		return 0
	}})
	if err != nil || b.Stop != Output || !b.Capped || b.Program != nil {
		t.Errorf("stopped as %v, capped %v, %v", b.Stop, b.Capped, err)
	}
}

func TestABuildHasAWallClockThatCanBeStretched(t *testing.T) {
	b, err := builds(t, &fakeDaemon{other: func(ctx context.Context, _ *box) int {
		<-ctx.Done()
		return 0
	}}, func(c *Config) { c.BuildWallFactor = 0.005 })
	if err != nil || b.Stop != WallClock || b.Deadlines.Window != 300*ms || b.Wall < 300*ms {
		t.Errorf("stopped as %v after %v of %v, %v", b.Stop, b.Wall, b.Deadlines.Window, err)
	}
}

func TestASourceOrArtefactWithAPathIsRefused(t *testing.T) {
	l := newLab(t, &fakeDaemon{})
	for _, name := range []string{"", ".", "..", "a/b", "/etc/passwd", "../x", "a\x00b"} {
		good := Build{Kind: JudgeBuild, Image: "i", Command: []string{"c"}, SourceName: "main.c", Artifact: "program"}
		source, artefact := good, good
		source.SourceName, artefact.Artifact = name, name
		for _, b := range []Build{source, artefact} {
			if _, err := l.job.Build(t.Context(), b); err == nil {
				t.Errorf("a build with source %q and artefact %q was run", b.SourceName, b.Artifact)
			}
		}
	}
}

func TestC23TheDaemonsDelayIsNotTheCompilersTime(t *testing.T) {
	// The home has no process left, so the build has ended, whenever the daemon says so.
	b, err := builds(t, &fakeDaemon{slowWait: 4 * time.Second, archive: holding(t, 77), other: func(context.Context, *box) int { return 0 }},
		func(c *Config) { c.BuildWallFactor = 0.05 }) // three seconds
	if err != nil || b.Stop != OnItsOwn || b.Program == nil || b.Wall > 3*time.Second {
		t.Errorf("built %+v, %v", b.Outcome, err)
	}
}
