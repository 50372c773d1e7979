package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	hangingQEMU  = "exec sleep 120"
	dyingQEMU    = "echo 'kvm run failed' >&2; echo 'RIP=fff0' >&2; exit 1"
	speakingQEMU = "echo 'Linux version 6.12' >>console.log; exec sleep 120"
)

// fakeQEMU is a build whose QEMU says its version and is otherwise that script.
func fakeQEMU(t *testing.T, script string) *built {
	t.Helper()
	root := t.TempDir()
	b := &built{cache: filepath.Join(root, "cache"), qemu: filepath.Join(root, "qemu"), disk: filepath.Join(root, "disk"), key: "1"}
	write(t, filepath.Join(b.qemu, "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"), "#!/bin/sh\nshift 2\nexec \"$@\"\n", 0o755)
	write(t, filepath.Join(b.qemu, "usr/bin/qemu-img"), "#!/bin/sh\n", 0o755)
	write(t, filepath.Join(b.qemu, "usr/bin/qemu-system-x86_64"), fmt.Sprintf(`#!/bin/sh
case $1 in --version) echo 'QEMU emulator version 10.0.13'; echo 'Copyright'; exit;; esac
echo "$*" >>'%s/boots'
%s
`, root, script), 0o755)
	if err := os.MkdirAll(filepath.Join(b.cache, "instances"), 0o755); err != nil {
		t.Fatal(err)
	}
	return b
}

// boots are the command lines with which a fake QEMU was started.
func boots(t *testing.T, b *built) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(filepath.Dir(b.qemu), "boots"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return slices.Collect(strings.Lines(string(data)))
}

// processesIn are the processes whose working directory is at or below a directory, or was before it was removed, and those
// whose arguments name it.
func processesIn(t *testing.T, dir string) []string {
	t.Helper()
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(regexp.QuoteMeta(dir) + `($|[^a-zA-Z0-9._-])`)
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if _, err := startTime(pid); err != nil {
			continue // it has ended
		}
		cwd, _ := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		args, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if names.MatchString(cwd) || names.Match(args) {
			found = append(found, fmt.Sprintf("%d in %s: %q", pid, cwd, args))
		}
	}
	return found
}

// leftNothing checks that of what was started in a cache no process runs and no instance is there.
func leftNothing(t *testing.T, b *built) {
	t.Helper()
	if left := processesIn(t, b.cache); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
	if left, err := os.ReadDir(filepath.Join(b.cache, "instances")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// kvmDevice is a chooser on a machine that has KVM, as far as its device says.
func kvmDevice(t *testing.T, bound time.Duration) accelChooser {
	t.Helper()
	device := filepath.Join(t.TempDir(), "kvm")
	write(t, device, "", 0o600)
	return accelChooser{device: device, bound: bound}
}

// chooses expects an answer that is said in one line, with QEMU's version and some words.
func (c accelChooser) chooses(t *testing.T, b *built, want string, words ...string) {
	t.Helper()
	var log strings.Builder
	accel, err := c.choose(t.Context(), b, &log)
	if err != nil || accel != want {
		t.Errorf("%q %v, want %q", accel, err, want)
	}
	said := log.String()
	if strings.Count(said, "\n") != 1 || !strings.HasSuffix(said, "\n") {
		t.Errorf("not one line: %q", said)
	}
	for _, word := range append(words, "QEMU emulator version 10.0.13;") {
		if !strings.Contains(said, word) {
			t.Errorf("no %q in %q", word, said)
		}
	}
}

func TestKVMIsTakenOnlyWhenAMachineThatItRunsHasSpoken(t *testing.T) {
	const patient = 2 * time.Minute // decides nothing
	for name, c := range map[string]struct {
		qemu, want    string
		bound         time.Duration
		first, second []string
	}{
		"it says nothing": {
			qemu: hangingQEMU, want: tcg, bound: 300 * time.Millisecond,
			first:  []string{"does not run a guest (it said nothing within 300ms)", "are emulated, several times slower"},
			second: []string{"did not run a guest when that was tried", "are emulated, several times slower"},
		},
		"its QEMU dies": {
			qemu: dyingQEMU, want: tcg, bound: patient,
			first:  []string{"does not run a guest (QEMU ", "kvm run failed / RIP=fff0)", "are emulated, several times slower"},
			second: []string{"did not run a guest when that was tried", "are emulated, several times slower"},
		},
		"it speaks": {
			qemu: speakingQEMU, want: kvm, bound: patient,
			first:  []string{"are run by KVM\n"},
			second: []string{"are run by KVM, as it was found to work before\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, chooser := fakeQEMU(t, c.qemu), kvmDevice(t, c.bound)
			began := time.Now()
			chooser.chooses(t, b, c.want, c.first...)
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %v", took)
			}
			leftNothing(t, b)
			// One that is ended early has not come to write it down.
			if started := boots(t, b); c.bound == patient && (len(started) != 1 || !strings.Contains(started[0], " -accel kvm ")) {
				t.Errorf("tried out with %q", started)
			}
			// The answer is kept, and said all the same.
			tried := len(boots(t, b))
			chooser.chooses(t, b, c.want, c.second...)
			if again := len(boots(t, b)) - tried; again != 0 {
				t.Errorf("tried out %d times more", again)
			}
			// For this build only.
			b.key = "2"
			chooser.chooses(t, b, c.want, c.first...)
			// Half an answer is none.
			memo, err := accelMemo(b)
			if err != nil {
				t.Fatal(err)
			}
			for _, half := range []string{"", c.want[:2]} {
				write(t, memo, half, 0o644)
				chooser.chooses(t, b, c.want, c.first...)
			}
			// Whatever was kept: without a device there is no KVM.
			chooser.device += ".gone"
			chooser.chooses(t, b, tcg, "this machine has no "+chooser.device, "are emulated, several times slower")
		})
	}
}

func TestATrialThatCannotBeMadeSaysNothingAboutKVM(t *testing.T) {
	refused := func(t *testing.T, ctx context.Context, c accelChooser, b *built, want string) {
		t.Helper()
		var log strings.Builder
		accel, err := c.choose(ctx, b, &log)
		if err == nil || accel != "" || !strings.Contains(err.Error(), want) || log.Len() > 0 {
			t.Errorf("%q %v, it says %q", accel, err, log.String())
		}
		memo, err := accelMemo(b)
		if err != nil || exists(memo) {
			t.Errorf("it is kept: %v", err)
		}
		leftNothing(t, b)
	}
	t.Run("no disk", func(t *testing.T) {
		b := fakeQEMU(t, speakingQEMU)
		write(t, filepath.Join(b.qemu, "usr/bin/qemu-img"), "#!/bin/sh\necho 'No space left on device' >&2; exit 1\n", 0o755)
		refused(t, t.Context(), kvmDevice(t, time.Minute), b, "No space left on device")
	})
	t.Run("nobody waits", func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("interrupted"))
		defer cancel()
		refused(t, ctx, kvmDevice(t, 10*time.Minute), fakeQEMU(t, hangingQEMU), "interrupted")
	})
	t.Run("taken down", func(t *testing.T) {
		// The mark of "guest down --all", set before the process is ended.
		refused(t, t.Context(), kvmDevice(t, time.Minute), fakeQEMU(t, ": >"+downFile+"; kill -TERM $$; exec sleep 120"), errTakenDown.Error())
	})
}

func TestAGuestThatKVMRunsAndThatDoesNotComeUpMakesTheNextStartTryAgain(t *testing.T) {
	for name, c := range map[string]struct {
		accel, qemu string
		timeout     time.Duration
		says        string
		next        string // what the next start chooses
	}{
		"its time is up":        {kvm, speakingQEMU, time.Second, "did not become ready (it had 1s)", kvm},
		"its QEMU ends":         {kvm, "echo 'Linux version 6.12' >>console.log; sleep 0.5", time.Minute, "Linux version 6.12", kvm},
		"its QEMU ends at once": {kvm, dyingQEMU, time.Minute, "kvm run failed", tcg},
		"it is emulated":        {tcg, speakingQEMU, time.Second, "did not become ready (it had 1s)", tcg},
	} {
		t.Run(name, func(t *testing.T) {
			b, chooser := fakeQEMU(t, c.qemu), kvmDevice(t, 2*time.Minute)
			memo, err := accelMemo(b)
			if err != nil {
				t.Fatal(err)
			}
			write(t, memo, c.accel, 0o644)
			variant, err := FindVariant(DefaultVariant)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(b.cache, "instances", "x")
			_, err = booted(t.Context(), b, c.accel, variant, dir, Options{Name: "x", Timeout: c.timeout}, "")
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
			leftNothing(t, b)
			if exists(memo) != (c.accel == tcg) {
				t.Errorf("the answer is still there: %t", exists(memo))
			}
			tried := len(boots(t, b))
			chooser.chooses(t, b, c.next)
			if again := len(boots(t, b)) > tried; again != (c.accel == kvm) {
				t.Errorf("the next start tries KVM out: %t", again)
			}
		})
	}
}

func TestKVMThatSaysItsFirstWordAndNoMoreIsGivenUpTheSecondTime(t *testing.T) {
	b, chooser := fakeQEMU(t, speakingQEMU), kvmDevice(t, 2*time.Minute)
	variant, err := FindVariant(DefaultVariant)
	if err != nil {
		t.Fatal(err)
	}
	boot := func(ctx context.Context, timeout time.Duration) {
		t.Helper()
		chooser.chooses(t, b, kvm)
		dir := filepath.Join(b.cache, "instances", "x")
		if _, err := booted(ctx, b, kvm, variant, dir, Options{Name: "x", Timeout: timeout}, ""); err == nil {
			t.Fatal("a guest that says one word came up")
		}
		leftNothing(t, b)
	}
	boot(t.Context(), time.Second)
	// A start that is given up says nothing about KVM.
	given, giveUp := context.WithTimeout(t.Context(), time.Second)
	defer giveUp()
	boot(given, time.Minute)
	// Nor do two failures with a guest between them that came up.
	if err := trustAccel(b, kvm); err != nil {
		t.Fatal(err)
	}
	boot(t.Context(), time.Second)
	boot(t.Context(), time.Second)
	chooser.chooses(t, b, tcg)
}
