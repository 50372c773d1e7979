package judge

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/sandbox"
)

// saying is a fake whose build leaves this file.
func saying(t *testing.T, content string) *fake {
	f := newFake(t)
	f.build = func(b sandbox.Build) (sandbox.Built, error) {
		built := f.builds1(b.Artifact)
		return built, os.WriteFile(built.Program.Path(), []byte(content), 0o644)
	}
	return f
}

func TestTheVersionsOfAnImageAreReadFromItsPrograms(t *testing.T) {
	const gcc, gpp = "gcc (Debian 14.2.0-19) 14.2.0", "g++ (Debian 14.2.0-19) 14.2.0"
	f := saying(t, gcc+"\nCopyright (C) 2024\n\x00"+gpp+"\nCopyright (C) 2024\n\x00")
	got, err := ReadVersions(t.Context(), f, langimages.Default(), "gcc", "sha256:gcc")
	want := Versions{
		"c89-gcc": gcc, "c99-gcc": gcc, "c11-gcc": gcc, "c23-gcc": gcc,
		"cpp11-gcc": gpp, "cpp17-gcc": gpp, "cpp20-gcc": gpp, "cpp23-gcc": gpp,
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if b := f.builds[0]; b.Image != "sha256:gcc" || b.Kind != sandbox.JudgeBuild {
		t.Errorf("build %+v", b)
	}
	got, err = ReadVersions(t.Context(), saying(t, "Python 3.11.11 (0.1, May 01 2025)\n[PyPy 7.3.19 with GCC 14.2.0]\n\x00"), langimages.Default(), "pypy", "i")
	if want := "Python 3.11.11 (0.1, May 01 2025) [PyPy 7.3.19 with GCC 14.2.0]"; err != nil || got["pypy3"] != want {
		t.Errorf("%q, %v", got, err)
	}
}

func TestEveryImageOfATableIsAskedAndMustHaveBeenProved(t *testing.T) {
	python, err := langimages.Default().Restrict([]string{"python"})
	if err != nil {
		t.Fatal(err)
	}
	f := saying(t, "Python 3.13\n\x00")
	got, err := ReadEveryVersion(t.Context(), f, python, map[string]string{"cpython": "a", "pypy": "b"})
	if len(got) != 2 || err != nil || len(f.builds) != 2 {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := ReadEveryVersion(t.Context(), f, python, map[string]string{"cpython": "a"}); err == nil {
		t.Errorf("an image that was not proved: %q", got)
	}
}

func TestAnImageThatDoesNotSayItsVersionsIsAFailure(t *testing.T) {
	for name, content := range map[string]string{
		"nothing": "", "no end": "gcc 1\n", "one of two": "gcc 1\n\x00", "an empty one": "gcc 1\n\x00 \n\x00", "three": "a\x00b\x00c\x00",
		"something behind": "a\x00b\x00c", "too much": strings.Repeat("x", int(maxVersions)) + "\x00b\x00",
	} {
		if got, err := ReadVersions(t.Context(), saying(t, content), langimages.Default(), "gcc", "i"); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
	f := newFake(t)
	f.build = func(sandbox.Build) (sandbox.Built, error) { return ended(127), nil }
	if _, err := ReadVersions(t.Context(), f, langimages.Default(), "gcc", "i"); err == nil || !strings.Contains(err.Error(), "cannot be started") {
		t.Errorf("no compiler: %v", err)
	}
	f.build = func(sandbox.Build) (sandbox.Built, error) { return sandbox.Built{}, errors.New("the daemon is gone") }
	if _, err := ReadVersions(t.Context(), f, langimages.Default(), "gcc", "i"); err == nil || !strings.Contains(err.Error(), "the daemon is gone") {
		t.Errorf("no daemon: %v", err)
	}
	if _, err := ReadVersions(t.Context(), f, langimages.Default(), "cobol", "i"); err == nil {
		t.Error("an image that is not there has versions")
	}
}

// The script itself, by a real shell, with programs whose words hold what a shell would act on.
func TestTheProgramsAreAskedOneAfterTheOther(t *testing.T) {
	dir := t.TempDir()
	command := versionsCommand([][]string{{"echo", "a $HOME 'b'"}, {"printf", "%s\n", "second", "line"}})
	command[2] = strings.ReplaceAll(command[2], "/out", dir)
	if out, err := exec.CommandContext(context.Background(), command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, err := readVersions(filepath.Join(dir, versionsFile), 2)
	if err != nil || got[0] != "a $HOME 'b'" || got[1] != "second" {
		t.Errorf("%q, %v", got, err)
	}
	failing := versionsCommand([][]string{{"false"}, {"echo", "x"}})
	failing[2] = strings.ReplaceAll(failing[2], "/out", dir)
	if exec.CommandContext(context.Background(), failing[0], failing[1:]...).Run() == nil {
		t.Error("a program that fails is passed over")
	}
}

func TestTheVersionStandsInTheLogOfACompilerThatHadSomethingToSay(t *testing.T) {
	for _, c := range []struct {
		name   string
		stderr string
		code   int
		log    string
	}{
		{"warnings", "main.c: warning\n", 0, "main.c: warning\nC11 (GCC): gcc 14\n"},
		{"an error", "main.c: error\n", 1, "main.c: error\nC11 (GCC): gcc 14\n"},
		{"nothing", "", 0, ""},
	} {
		f := newFake(t)
		f.build = func(b sandbox.Build) (sandbox.Built, error) {
			built := f.builds1(b.Artifact)
			built.Stderr, built.ExitCode = []byte(c.stderr), c.code
			return built, nil
		}
		b, err := bench(t, f, open(t), 1)
		if err != nil {
			t.Fatal(err)
		}
		b.Versions = Versions{"c11-gcc": "gcc 14"}
		j, err := b.Judge(t.Context(), program, nil)
		if err != nil || j.Log != c.log || j.Version != "gcc 14" || j.Toolchain.ID != "c11-gcc" {
			t.Errorf("%s: %+v, %v", c.name, j, err)
		}
		if c.code != 0 && j.Document.Compilation.Log != c.stderr {
			t.Errorf("the document says %q, want the compiler's words alone", j.Document.Compilation.Log)
		}
	}
	// What no compiler saw has no version to tell.
	b, err := bench(t, newFake(t), open(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	b.Versions = Versions{"c11-gcc": "gcc 14"}
	j, err := b.Judge(t.Context(), Submission{FileName: "x.py", Toolchain: "c11-gcc"}, nil)
	if err != nil || strings.Contains(j.Log, "gcc 14") {
		t.Errorf("%+v, %v", j, err)
	}
}
