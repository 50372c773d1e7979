//go:build guest

package adversarial

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/sandboxlab"
)

// memoryKill is what the kernel says when it kills for memory.
const memoryKill = "memory kill"

// impatience is what builds that never end are given: so many seconds on any machine.
const impatience = 10 * time.Second

// Builds' own wall clock is a minute, times a factor.
const buildMinute = 60 * time.Second

func toolchain(t *testing.T, id string) langimages.Toolchain {
	t.Helper()
	row, ok := langimages.Default().Resolve(id)
	if !ok {
		t.Fatalf("there is no toolchain %q", id)
	}
	return row
}

// reference is the image of a toolchain, as this host has it.
func reference(t *testing.T, row langimages.Toolchain) string {
	t.Helper()
	for _, image := range langimages.Default().Images() {
		if image.Key == row.Image {
			return image.Reference
		}
	}
	t.Fatalf("the image %q of %s is not in the table", row.Image, row.ID)
	return ""
}

// Builds that never end have a sandbox of their own, which gives them less time than a real build has.
func TestBuildsWithoutEndAreStopped(t *testing.T) {
	l := open(t, impatience.Seconds()/buildMinute.Seconds())
	built, err := l.job.Build(t.Context(), shell("cp /src/main.c /out/program", "int main;\n"))
	must(t, err)
	if built.Program == nil {
		t.Fatalf("not built: %s", shown(built.Outcome))
	}
	l.attackBuilds(t, true)
}

func (l *lab) attackBuilds(t *testing.T, impatient bool) {
	l.besideBuilds(t)
	began, n, all := time.Now(), 0, 0
	for _, b := range slices.Concat(compilerBuilds, hijackedBuilds) {
		if b.impatient != impatient {
			continue
		}
		if all++; !b.driver && !everything() {
			continue
		}
		n++
		t.Run(b.name, func(t *testing.T) { l.attackBuild(t, b) })
	}
	t.Logf("%d of %d attacks in %v", n, all, time.Since(began).Round(time.Second))
}

// besideBuilds begins to compare the machine without the job's scratch, where every build leaves its source until the
// job's end.
func (l *lab) besideBuilds(t *testing.T) { l.host = watch(t, l.eng, sandboxlab.DefaultLocks) }

// shell describes a build that is a script in the small image.
func shell(script, source string) sandboxlab.Build {
	return sandboxlab.Build{
		Kind: sandboxlab.SubmissionBuild, Image: testImage, SourceName: "main.c", Source: []byte(source), Artifact: "program",
		Command: []string{"/bin/sh", "-c", script},
	}
}

func (l *lab) attackBuild(t *testing.T, b build) {
	source := b.source
	if source == "" {
		source = "int main;\n"
	}
	described := shell(b.command, source)
	if b.toolchain != "" {
		row := toolchain(t, b.toolchain)
		described.Image, described.SourceName, described.Artifact, described.Command = reference(t, row), row.Source, row.Artifact, row.Build
	}
	built, err := l.build(t, described)
	switch {
	case b.want.refused != "":
		if err == nil || !strings.Contains(err.Error(), b.want.refused) || built.Program != nil {
			t.Errorf("%v, want an error that says %q", err, b.want.refused)
		}
	case err != nil:
		t.Error(err)
	default:
		b.want.check(t, built)
	}
	var allowed []string
	if oneOf("memory", b.want.stop) {
		allowed = []string{memoryKill}
	}
	l.host.unchanged(t, allowed)
}

// build carries out one build and looks at what is said of any: that no secret is in what it said or left.
func (l *lab) build(t *testing.T, described sandboxlab.Build) (sandboxlab.Built, error) {
	t.Helper()
	began := time.Now()
	built, err := l.job.Build(t.Context(), described)
	t.Logf("%v: %s; it said %.600q, %.600q", time.Since(began).Round(time.Millisecond), shown(built.Outcome), built.Stdout, built.Stderr)
	l.noSecret(t, "what it said", append(bytes.Clone(built.Stdout), built.Stderr...))
	if built.Program != nil {
		info, e := os.Lstat(built.Program.Path())
		must(t, e)
		if info.Mode() != 0o555 {
			t.Errorf("the artefact is %v, want a regular file of mode 0555", info.Mode())
		}
		content, e := os.ReadFile(built.Program.Path())
		must(t, e)
		l.noSecret(t, "the artefact", content)
	}
	return built, err
}

func (want builtExpected) check(t *testing.T, built sandboxlab.Built) {
	t.Helper()
	if !oneOf(built.Stop.String(), want.stop) {
		t.Errorf("it ended as %q, want %q", built.Stop, want.stop)
	}
	if built.Stop.String() == "on its own" && (built.ExitCode != 0) != want.fails {
		t.Errorf("its exit code is %d, want failure %v", built.ExitCode, want.fails)
	}
	if (built.Program != nil) != want.artefact {
		t.Errorf("an artefact is there: %v, want %v", built.Program != nil, want.artefact)
	}
	if built.Odd != want.odd {
		t.Errorf("it left %q, want %q", built.Odd, want.odd)
	}
	if built.Capped != want.capped && built.Stop.String() == "output" {
		t.Errorf("over the cap: %v, want %v", built.Capped, want.capped)
	}
	if len(built.Stdout)+len(built.Stderr) > 256<<10 {
		t.Errorf("%d bytes were kept", len(built.Stdout)+len(built.Stderr))
	}
	saying(t, string(built.Stdout)+string(built.Stderr), want.says, want.silent)
}

// Each snippet goes to the compiler of the real build profile, with the toolchain's own options, in one container. What a
// toolchain's build line does besides is done around all of them.
func (l *lab) compilers(t *testing.T) {
	if !everything() {
		return
	}
	l.besideBuilds(t)
	for _, group := range []struct {
		toolchain, plusplus string
		snippets            []snippet
	}{
		{"c11-gcc", "g++ -x c++ -std=c++20", gccSnippets},
		{"c23-clang", "clang++ -x c++ -std=c++20", clangSnippets},
	} {
		t.Run(group.toolchain, func(t *testing.T) {
			row := toolchain(t, group.toolchain)
			script, ok := strings.CutPrefix(row.Build[len(row.Build)-1], "mkdir -p /out && ")
			if !ok || !strings.Contains(script, " -std=") {
				t.Fatalf("the build line of %s is not the one this test takes apart: %q", row.ID, row.Build)
			}
			described := shell("", "")
			described.Image, described.SourceName = reference(t, row), "main.c"
			described.Source = combined(group.snippets)
			described.Command = []string{"/bin/sh", "-c", everySnippet(script, group.plusplus, group.snippets)}
			built, err := l.build(t, described)
			if err != nil {
				t.Fatal(err)
			}
			if built.Stop.String() != "on its own" || built.ExitCode != 0 {
				t.Errorf("the container: %s", shown(built.Outcome))
			}
			for i, s := range group.snippets {
				t.Run(s.name, func(t *testing.T) { s.check(t, i, string(built.Stdout)) })
			}
			l.host.unchanged(t, nil)
		})
	}
}

// combined puts the snippets into one source, one after a line that names it. A snippet is cut out by line numbers.
func combined(snippets []snippet) []byte {
	var b bytes.Buffer
	for i, s := range snippets {
		fmt.Fprintf(&b, "@@@ %d\n%s\n", i, s.source)
	}
	return b.Bytes()
}

// everySnippet is a script that cuts each snippet out and compiles it, and says how that ended.
func everySnippet(script, plusplus string, snippets []snippet) string {
	var b strings.Builder
	b.WriteString("cd /tmp\n")
	line := 1
	for i, s := range snippets {
		lines := strings.Count(s.source, "\n") + 1
		fmt.Fprintf(&b, "head -n %d /src/main.c | tail -n %d >/tmp/main.c\n", line+lines, lines) // an image has no sed
		line += 1 + lines
		command := strings.ReplaceAll(script, "/src/main.c", "/tmp/main.c")
		if s.language == "c++" {
			command = regexp.MustCompile(`^\S+`).ReplaceAllString(command, plusplus)
			command = regexp.MustCompile(` -std=c\d+`).ReplaceAllString(command, "")
		}
		fmt.Fprintf(&b, "rm -f /out/program; timeout -k 1 %d %s >/tmp/said 2>&1; status=$?; echo; head -c 3000 /tmp/said; echo; echo '@@@ %d' $status\n",
			int(impatience.Seconds()*10), command, i)
	}
	b.WriteString("rm -f /out/program; cp /src/main.c /out/program\n")
	return b.String()
}

// check finds what was said of a snippet.
func (s snippet) check(t *testing.T, i int, said string) {
	t.Helper()
	before, after, ok := strings.Cut(said, fmt.Sprintf("\n@@@ %d ", i))
	if !ok {
		t.Fatal("nothing was said of it")
	}
	if i > 0 {
		_, before, _ = strings.Cut(before, fmt.Sprintf("\n@@@ %d ", i-1))
	}
	status, _, _ := strings.Cut(after, "\n")
	got := "fails"
	switch status {
	case "0":
		got = "builds"
	case "124", "125", "126", "127", "137", "143":
		got = "ends with " + status + ", which no compiler may"
	}
	t.Logf("%s: %s; it said %.300q", got, status, before)
	if !oneOf(got, s.want) {
		t.Errorf("it %s, want %s", got, s.want)
	}
	if !strings.Contains(before, s.says) {
		t.Errorf("it did not say %q", s.says)
	}
}
