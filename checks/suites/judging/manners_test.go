//go:build guest

package judging

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func TestBadInputIsToldAndLeavesNothing(t *testing.T) {
	unchanged(t)
	pkg, source := sum(t)
	for _, c := range []struct {
		name string
		args []string
		says string
	}{
		{"no package", []string{"judge", "/nonexistent", source}, "/nonexistent"},
		{"no zip", []string{"judge", source, source}, "not a zip archive"},
		{"an unknown field", []string{"judge", single(1, 1).config("limit: 5").dir(t), source}, "limit"},
		{"an unknown toolchain", []string{"judge", pkg, source, "--toolchain", "cobol"}, "cobol"},
		{"no source", []string{"judge", pkg, "/nonexistent.c"}, "/nonexistent.c"},
		{"no label", []string{"verify", pkg}, "no labelled solution"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := evalhost(t, options{}, c.args...)
			r.wantsNoVerdict(t, 2, c.says)
			if strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("more than a line:\n%s", r.stderr)
			}
		})
	}
}

func TestLabelledSolutionsAreHeldToTheirLabels(t *testing.T) {
	unchanged(t)
	pkg := single(10000, 64<<20).with(files{
		"solutions/accepted/add.c":                add,
		"solutions/wrong_answer/add.c":            strings.Replace(add, "a + b", "a - b", 1),
		"solutions/time_limit_exceeded/quick.c":   add,
		"solutions/policy_violation/asm.c":        "int main(void) { asm(\"nop\"); return 0; }\n",
		"solutions/compile_error/prose.c89-gcc.c": "// not C89\nint main(void) { return 0; }\n",
	}).dir(t)
	r := evalhost(t, options{}, "verify", "--json", pkg)
	r.wants(t, 1, pkg+`/solutions/time_limit_exceeded/quick.c got "Accepted", its label says "Time limit exceeded"`)
	if strings.Count(r.stderr, "its label says") != 1 {
		t.Errorf("more than one is named: %s", r.stderr)
	}
	var report struct {
		AsExpected bool
		Packages   []struct {
			Solutions []struct {
				Path, Toolchain, Expected, Actual string
				AsExpected                        bool
				Slowest, Largest                  *struct{ Test string }
				WallMs                            int64
			}
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil || len(report.Packages) != 1 || len(report.Packages[0].Solutions) != 5 {
		t.Fatalf("%v\n%s", err, r.stdout)
	}
	for _, s := range report.Packages[0].Solutions {
		quick := s.Path == "solutions/time_limit_exceeded/quick.c"
		if s.AsExpected == quick || (s.Expected == s.Actual) == quick || s.WallMs < 0 {
			t.Errorf("%+v", s)
		}
		if quick && (s.Actual != "Accepted" || s.Toolchain != "c11-gcc" || s.Slowest == nil || s.Largest == nil || s.WallMs == 0) {
			t.Errorf("%+v", s)
		}
	}
	if report.AsExpected {
		t.Error("asExpected")
	}
}

func TestWhatWasMadeIsKeptOnRequest(t *testing.T) {
	unchanged(t)
	pkg, source := sum(t)
	r := evalhost(t, options{}, "judge", "--keep", pkg, source)
	r.wants(t, 0)
	kept := regexp.MustCompile(`kept (/\S+)`).FindStringSubmatch(r.stderr)
	if kept == nil {
		t.Fatalf("it does not say where:\n%s", r.stderr)
	}
	defer os.RemoveAll(kept[1])
	for name, want := range map[string]string{"main.c": add, "1a.out": "3\n"} {
		if got, err := os.ReadFile(filepath.Join(kept[1], name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if info, err := os.Stat(filepath.Join(kept[1], "program")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("the program: %v", err)
	}
}

func TestAskedToStopItCleansUp(t *testing.T) {
	unchanged(t)
	pkg, source := waiting(t)
	r := evalhost(t, options{started: func(p *os.Process) {
		awaitProgram(t)
		if err := p.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}}, "judge", pkg, source)
	r.wantsNoVerdict(t, 128+int(syscall.SIGTERM), "stopped by", "no verdict")
}

func TestWhatAKilledCommandLeftIsSweptByTheNext(t *testing.T) {
	unchanged(t)
	pkg, source := waiting(t)
	r := evalhost(t, options{started: func(p *os.Process) {
		awaitProgram(t)
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	}}, "judge", pkg, source)
	if r.stdout != "" {
		t.Errorf("standard output:\n%s", r.stdout)
	}
	if len(containers(t)) == 0 {
		t.Error("the killed command left no container: this test shows nothing")
	}
	good, correct := sum(t)
	if r := evalhost(t, options{}, "judge", good, correct); r.status != 0 || !strings.Contains(r.stdout, "verdict Accepted") {
		t.Errorf("the next command: status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
}

func TestTwoCommandsDoNotDisturbEachOther(t *testing.T) {
	unchanged(t)
	pkg, source := sum(t)
	var results [2]ran
	var both sync.WaitGroup
	for i := range results {
		both.Go(func() { results[i] = evalhost(t, options{}, "judge", pkg, source) })
	}
	both.Wait()
	waited := 0
	for _, r := range results {
		if r.status != 0 || !strings.Contains(r.stdout, "verdict Accepted") {
			t.Errorf("status %d\n%s%s", r.status, r.stdout, r.stderr)
		}
		waited += strings.Count(r.stderr, "waiting for process")
	}
	if waited != 1 {
		t.Errorf("%d of the two said that they wait:\n%s%s", waited, results[0].stderr, results[1].stderr)
	}
}

// waiting is a package and a source that sleeps longer than any test waits.
func waiting(t *testing.T) (pkg, source string) {
	t.Helper()
	pkg = single(120000, 64<<20).dir(t)
	source = filepath.Join(t.TempDir(), "wait.c")
	if err := os.WriteFile(source, []byte(instead(sleeps(600))), 0o644); err != nil {
		t.Fatal(err)
	}
	return pkg, source
}
