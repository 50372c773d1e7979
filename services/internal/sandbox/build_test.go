//go:build !guest

package sandbox

import (
	"archive/tar"
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

func TestAnOddArtefactIsTheSubmissionsDoing(t *testing.T) {
	for what, header := range map[string]tar.Header{
		"a symbolic link": {Name: "program", Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"},
		"a hard link":     {Name: "program", Typeflag: tar.TypeLink, Linkname: "/etc/shadow"},
		"a directory":     {Name: "program/", Typeflag: tar.TypeDir},
		"a device":        {Name: "program", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 9},
		"a named pipe":    {Name: "program", Typeflag: tar.TypeFifo},
	} {
		b, err := builds(t, &fakeDaemon{other: func(context.Context, *box) int { return 0 }, archive: func(string) io.ReadCloser {
			return io.NopCloser(archive(t, header))
		}})
		if err != nil || b.Odd != what || b.Program != nil || b.TooLarge {
			t.Errorf("%s: built %+v, %v", what, b, err)
		}
	}
}

func TestAFullDiskOfTheHostIsNotTheSourcesFault(t *testing.T) {
	room := func(s space, err error) func(*lab, string) {
		return func(l *lab, of string) {
			before := l.box.free
			l.box.free = func(path string) (space, error) {
				if (path == l.box.layers) == (of == "layers") {
					return s, err
				}
				return before(path)
			}
		}
	}
	for name, test := range map[string]struct {
		change func(l *lab, of string)
		says   string
	}{
		"no bytes":      {room(space{bytes: 0, files: -1}, nil), "0 B free"},
		"too few bytes": {room(space{bytes: spaceAfter - 1, files: 1 << 20}, nil), "free, and a build needs"},
		"no files":      {room(space{bytes: verdict.GiB, files: 3}, nil), "room for 3 more files"},
		"not known":     {room(space{}, errAsked), "not known"},
	} {
		for _, of := range []string{"layers", "scratch"} {
			t.Run(name+", "+of, func(t *testing.T) {
				// The disk is full before the build, or fills up while it runs.
				for _, during := range []bool{false, true} {
					var l *lab
					ran := false
					l = newLab(t, &fakeDaemon{other: func(_ context.Context, c *box) int {
						ran = true
						c.say(true, "cannot write: No space left on device")
						if during {
							test.change(l, of)
						}
						return 1
					}})
					l.box.layers = "/layers"
					l.box.free = func(string) (space, error) { return space{bytes: verdict.GiB, files: 1 << 20}, nil }
					if !during {
						test.change(l, of)
					}
					b, err := l.job.Build(t.Context(), Build{
						Kind: SubmissionBuild, Image: "lang", Command: []string{"cc"}, SourceName: "main.c", Artifact: "program",
					})
					if err == nil || !strings.Contains(err.Error(), test.says) || ran != during {
						t.Errorf("during the build %t: built %+v, it ran %t, error %v", during, b, ran, err)
					}
				}
			})
		}
	}
}

// The same words, while the host has room: then it was the build's own space that was full.
func TestTheBuildsOwnSpaceFullIsTheSourcesFault(t *testing.T) {
	for _, s := range []space{{bytes: spaceBefore, files: -1}, {bytes: spaceBefore, files: inodesLeast}} {
		l := newLab(t, &fakeDaemon{other: func(_ context.Context, c *box) int {
			c.say(true, "/tmp/cc.s: No space left on device")
			return 1
		}})
		l.box.layers = "/layers"
		l.box.free = func(string) (space, error) { return s, nil }
		b, err := l.job.Build(t.Context(), Build{
			Kind: SubmissionBuild, Image: "lang", Command: []string{"cc"}, SourceName: "main.c", Artifact: "program",
		})
		if err != nil || b.Stop != OnItsOwn || b.ExitCode != 1 {
			t.Errorf("built %+v, %v", b, err)
		}
	}
}

func TestTheKernelSaysWhatIsFree(t *testing.T) {
	if s, err := freeAt(t.TempDir()); err != nil || s.bytes <= 0 {
		t.Errorf("free here: %+v, %v", s, err)
	}
	if _, err := freeAt("/nonexistent"); err == nil {
		t.Error("something is free where nothing is")
	}
}
