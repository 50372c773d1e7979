//go:build guest

package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/engine"
)

// compile describes a build of C source.
func compile(source string) Build {
	return Build{
		Kind: SubmissionBuild, Image: langImage, SourceName: "main.c", Source: []byte(source), Artifact: "program",
		Command: []string{"/bin/sh", "-c", "mkdir -p /out && gcc -O2 -std=c11 -static -o /out/program /src/main.c"},
	}
}

// shell describes a build that is a shell script in the small image.
func shell(script string) Build {
	return Build{
		Kind: SubmissionBuild, Image: testImage, SourceName: "main.c", Source: []byte("int main;\n"), Artifact: "program",
		Command: []string{"/bin/sh", "-c", script},
	}
}

func (g *guest) build(b Build) Built {
	g.t.Helper()
	began := time.Now()
	built, err := g.job.Build(g.t.Context(), b)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Logf("built in %v: %s", time.Since(began).Round(time.Millisecond), shown(built.Outcome))
	return built
}

func TestABuildAndARunOfWhatItMade(t *testing.T) {
	g := onAHost(t)
	built := g.build(compile("#include <stdio.h>\nint main(){int a,b;scanf(\"%d%d\",&a,&b);printf(\"%d\\n\",a+b);return 0;}\n"))
	if built.Stop != OnItsOwn || built.ExitCode != 0 || built.Program == nil || built.CPU == nil || built.Peak == nil {
		t.Fatalf("built: %s; %s%s", shown(built.Outcome), built.Stdout, built.Stderr)
	}
	if info, err := os.Lstat(built.Program.Path()); err != nil || info.Mode() != 0o555 {
		t.Errorf("the artefact is %v, %v; want a regular file of mode 0555", info.Mode(), err)
	}
	r := g.actor()
	r.Image, r.Command, r.Program, r.Input = langImage, []string{"/program/program", "add"}, built.Program, strings.NewReader("20 22\n")
	ended(t, g.mustRun(r), 0)
	if output(r) != "42\n" {
		t.Errorf("20 and 22 make %q", output(r))
	}
	broken := g.build(compile("int main( { return 0; }\n"))
	if broken.Stop != OnItsOwn || broken.ExitCode == 0 || broken.Program != nil || !strings.Contains(string(broken.Stderr), "error:") {
		t.Errorf("a broken source: %s; %s", shown(broken.Outcome), broken.Stderr)
	}
}

func TestABuildsContainerIsClosed(t *testing.T) {
	g := onAHost(t)
	built := g.build(shell(`
		id -u; grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status
		touch /src/main.c /src/x 2>/dev/null && echo "SOURCE WRITABLE"
		cp /bin/busybox /tmp/echo && chmod +x /tmp/echo && /tmp/echo 2>/dev/null && echo "TMP EXECUTES"
		grep ' /tmp ' /proc/mounts
		ls /sys/class/net; ls /in /program /aj-out 2>/dev/null; env
		cat /src/main.c >/out/program`))
	said := string(built.Stdout)
	t.Logf("it said:\n%s%s", said, built.Stderr)
	if built.Program == nil {
		t.Fatalf("not built: %s", shown(built.Outcome))
	}
	for _, want := range []string{"65534\n", "CapBnd:\t0000000000000000", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", ",size=65536k"} {
		if !strings.Contains(said, want) {
			t.Errorf("a build does not show %q", want)
		}
	}
	for _, bad := range []string{"SOURCE WRITABLE", "TMP EXECUTES", "eth0", "AJ_"} {
		if strings.Contains(said, bad) {
			t.Errorf("a build shows %q", bad)
		}
	}
}

func TestABuildIsStopped(t *testing.T) {
	g := onAHost(t)
	if b := g.build(shell("yes")); b.Stop != Output || !b.Capped || len(b.Stdout) != int(buildOutput) {
		t.Errorf("C49 an endless complaint: %s, kept %d bytes", shown(b.Outcome), len(b.Stdout))
	}
	if b := g.build(shell("dd if=/dev/zero bs=300k count=1")); b.Stop != Output || !b.Capped {
		t.Errorf("more than the cap and an end: %s", shown(b.Outcome))
	}
	if b := g.build(shell("dd if=/dev/zero of=/dev/null bs=600M count=1")); b.Stop != Memory {
		t.Errorf("C50 a build that eats memory: %s", shown(b.Outcome))
	}
	if b := g.build(shell("dd if=/dev/zero of=/out/program bs=1M count=70")); b.Program != nil || b.Stop != OnItsOwn || b.ExitCode == 0 {
		t.Errorf("C47 an artefact beyond the largest file: %s", shown(b.Outcome))
	}
	g.box.cfg.BuildWallFactor = 0.1 // six seconds
	if b := g.build(shell("while :; do :; done")); b.Stop != WallClock || b.Wall < b.Deadlines.Window {
		t.Errorf("a build that does not end: %s", shown(b.Outcome))
	}
}

func TestOnlyTheArtefactLeavesABuild(t *testing.T) {
	g := onAHost(t)
	for script, odd := range map[string]string{
		"ln -s /etc/passwd /out/program":  "a symbolic link",
		"ln -s /dev/urandom /out/program": "a symbolic link",
		"mkfifo /out/program":             "a named pipe",
		"mkdir /out/program; echo x >/out/program/program; ln -s / /out/program/root": "a directory",
	} {
		if b := g.build(shell(script)); b.Odd != odd || b.Program != nil || b.Stop != OnItsOwn || b.ExitCode != 0 {
			t.Errorf("C56 %s: %q, program %v, %s", script, b.Odd, b.Program, shown(b.Outcome))
		}
	}
	// A second name of a file, and bits that would make somebody else of whoever runs it: the bytes are taken and nothing else.
	b := g.build(shell("echo '#!/bin/true' >/out/program; ln /out/program /out/second; chmod 6777 /out/program"))
	if b.Program == nil || b.Odd != "" {
		t.Fatalf("a hard link: %q, %s", b.Odd, shown(b.Outcome))
	}
	if info, err := os.Lstat(b.Program.Path()); err != nil || info.Mode() != 0o555 {
		t.Errorf("the artefact of a set-user-id file is %v, %v", info.Mode(), err)
	}
	built, err := g.job.Build(t.Context(), shell("true"))
	if err == nil || !strings.Contains(err.Error(), "left nothing") || built.Program != nil {
		t.Errorf("C56 a build that leaves nothing: %v", err)
	}
}

// C76: nothing here fills the machine's own disk; a small file system takes the place of the scratch directory.
func TestC76AFullDiskOfTheHostIsNoCompilationError(t *testing.T) {
	dir := filepath.Join(scratch(), "small")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=320m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(unix.Unmount(dir, unix.MNT_DETACH), os.Remove(dir)); err != nil {
			t.Error(err)
		}
	})
	g := onAHost(t, func(c *Config) { c.Scratch = dir })
	// The build's own space: full, and the source's fault.
	own := shell("for i in 1 2 3; do dd if=/dev/zero of=/tmp/full$i bs=1M count=50; done; exit 1") // each below what one file may be
	if b := g.build(own); b.Stop != OnItsOwn || b.ExitCode != 1 || !strings.Contains(string(b.Stderr), "No space left on device") {
		t.Errorf("a build that fills its own space: %s; %s", shown(b.Outcome), b.Stderr)
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 220<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := g.job.Build(t.Context(), own); err == nil || !strings.Contains(err.Error(), "free, and a build needs") {
		t.Errorf("a build on a full disk: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Error(err)
	}
}

func TestAnImageThatDeclaresAVolumeIsRefused(t *testing.T) {
	g := onAHost(t)
	r := g.actor("exit", "0")
	r.Image = hostileImage
	if _, err := g.run(r); err == nil || !strings.Contains(err.Error(), "/data") {
		t.Errorf("N9 a judged run: %v", err)
	}
	if _, err := g.job.Build(t.Context(), Build{
		Kind: JudgeBuild, Image: hostileImage, Command: []string{"/bin/true"}, SourceName: "a", Artifact: "b",
	}); err == nil {
		t.Error("a build in it was run")
	}
}

func TestASweepFindsWhatADeadOwnerLeft(t *testing.T) {
	g := onAHost(t)
	img, err := g.eng.Image(t.Context(), testImage)
	if err != nil {
		t.Fatal(err)
	}
	// leave makes what an owner that was killed leaves behind: a created container, or a running one, its home and scratch.
	leave := func(instance string, start bool) (id string) {
		run := cgroup.NewName(instance)
		home, err := g.box.driver.Open(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		spec := buildProfile(step{run: run, instance: instance, image: img, home: home}, nil, scratch(), scratch())
		spec.Argv = []string{"/bin/sleep", "3600"}
		if id, err = g.eng.Create(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		if start {
			if err := g.eng.Start(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(filepath.Join(scratch(), cgroup.Safe(instance), "job-x", "run-y"), 0o755); err != nil {
			t.Fatal(err)
		}
		return id
	}
	left := []string{leave(g.box.cfg.Instance, false), leave(g.box.cfg.Instance, true), leave("cli-dead", false)}
	neighbour, err := lockInstance(DefaultLocks, "cli-alive")
	if err != nil {
		t.Fatal(err)
	}
	kept := []string{leave("neighbour", true), leave("cli-alive", false)}

	if n, err := g.box.Sweep(t.Context()); n != 6 || err != nil {
		t.Errorf("swept %d, %v; want 3 containers and 3 cgroups", n, err)
	}
	if n, err := g.box.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("a second sweep finds %d, %v", n, err)
	}
	found, err := g.eng.Sandboxes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range left {
		if slices.ContainsFunc(found, func(f engine.Found) bool { return f.ID == id }) {
			t.Errorf("C73 the container %s is still there", id)
		}
	}
	for _, id := range kept {
		if !slices.ContainsFunc(found, func(f engine.Found) bool { return f.ID == id }) {
			t.Errorf("C73 the neighbour's container %s is gone", id)
		}
		if s, err := g.eng.Inspect(t.Context(), id); err != nil || s.Running != (id == kept[0]) {
			t.Errorf("the neighbour's container is running %v, %v", s.Running, err)
		}
		if err := g.eng.Remove(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	neighbour.release()
	for _, instance := range []string{"neighbour", "cli-alive"} {
		if n, err := g.box.driver.Sweep(t.Context(), instance); n != 1 || err != nil {
			t.Errorf("the neighbour %s had %d cgroups, %v", instance, n, err)
		}
		os.RemoveAll(filepath.Join(scratch(), cgroup.Safe(instance)))
	}
}

func TestTwoInstancesDoNotTouchEachOther(t *testing.T) {
	g := onAHost(t)
	cfg := g.box.cfg
	cfg.Instance += "-too"
	p, err := g.job.Prepare(t.Context(), g.actor("exit", "6"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	// The other one starts and sweeps while a container of the first waits at its barrier, runs one of its own, and leaves.
	other, err := Open(t.Context(), g.eng, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), g.eng, cfg); err == nil {
		t.Error("one instance was opened twice")
	}
	job, err := other.OpenJob(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	q, err := job.Prepare(t.Context(), g.actor("exit", "7"))
	if err != nil {
		t.Fatal(err)
	}
	if o, err := q.Go(t.Context()); err != nil || o.ExitCode != 7 {
		t.Errorf("the other's run: %s, %v", shown(o.Outcome), err)
	}
	for _, closing := range []func() error{q.Close, job.Close, func() error { return other.Close(context.Background()) }} {
		if err := closing(); err != nil {
			t.Error(err)
		}
	}
	o, err := p.Go(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended(t, o, 6)
}

func TestSystemdIsReachedWithoutABusToo(t *testing.T) {
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus")
	g := onAHost(t) // makes and removes a home to prove itself
	home, err := g.box.driver.Open(t.Context(), cgroup.NewName(g.box.cfg.Instance))
	if err != nil {
		t.Fatal(err)
	}
	if err := home.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
