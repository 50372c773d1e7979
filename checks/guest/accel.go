package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The ways to run the guest's processors, as QEMU's -accel takes them.
const (
	kvm = "kvm"
	tcg = "tcg,thread=multi" // in software, each on a thread of its own
)

// accelChooser decides how a guest's processors are run.
type accelChooser struct {
	device string        // that a machine with KVM has
	bound  time.Duration // how long a machine that is tried out may say nothing
}

// thisMachine bounds the trial by several times what it takes: a guest that is run by the processor itself says its first word
// in well under a second. A machine that offers KVM and cannot run a guest hangs or aborts in its first instructions.
var thisMachine = accelChooser{device: "/dev/kvm", bound: 8 * time.Second}

// choose says how the guest's processors are run, decided by booting: /dev/kvm can be there, open and accept a machine, and
// still not run it. The answer is kept until this machine restarts or a guest that KVM runs does not come up (doubtAccel). Each call says
// it in one line, with QEMU's version. An error is a trial that could not be made: it says nothing about KVM, and nothing is
// kept.
func (c accelChooser) choose(ctx context.Context, b *built, log io.Writer) (string, error) {
	version, err := command{args: append(loader(b.qemu, "qemu-system-x86_64"), "--version")}.run(ctx)
	if err != nil {
		return "", err
	}
	version, _, _ = strings.Cut(strings.TrimSpace(version), "\n")
	say := func(how string) { fmt.Fprintf(log, "guest: %s; %s\n", version, how) }
	if _, err := os.Stat(c.device); err != nil {
		say(fmt.Sprintf("this machine has no %s, so the guest's processors are emulated, several times slower", c.device))
		return tcg, nil
	}
	memo, err := accelMemo(b)
	if err != nil {
		return "", err
	}
	// Anything else in it, as an interrupted write leaves, is no answer.
	switch answer, _ := os.ReadFile(memo); string(answer) {
	case kvm:
		say("the guest's processors are run by KVM, as it was found to work before")
		return kvm, nil
	case tcg:
		say(fmt.Sprintf("%s is there and did not run a guest when that was tried, so the guest's processors are emulated, several times slower"+
			" (to try again remove %s)", c.device, memo))
		return tcg, nil
	}
	failed, err := c.probeKVM(ctx, b)
	if err != nil {
		return "", fmt.Errorf("try out whether %s runs a guest: %w", c.device, err)
	}
	accel := kvm
	if failed != "" {
		accel = tcg
		say(fmt.Sprintf("%s is there and does not run a guest (%s), so the guest's processors are emulated, several times slower",
			c.device, strings.ReplaceAll(failed, "\n", " / ")))
	} else {
		say("the guest's processors are run by KVM")
	}
	return accel, os.WriteFile(memo, []byte(accel), 0o644)
}

// accelMemo is the file in which the choice for this build is kept while this machine is up.
func accelMemo(b *built) (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("how the guest's processors are run is kept for one boot of this machine: %w", err)
	}
	var k keyHash
	k.value("boot", string(boot))
	k.value("built", b.key)
	key, err := k.sum()
	return filepath.Join(b.cache, "accel-"+key), err
}

// doubtAccel is called when a guest did not come up. A first word is not yet a boot, and what worked an hour ago may not work
// now, so the next start tries KVM out anew; when the next guest does not come up either, KVM says its first word here and no
// more, and processors are emulated from then on. That they are emulated is not doubted by a guest that does not come up, and
// given says that the start was given up, which speaks against nothing.
func doubtAccel(b *built, accel string, given bool) error {
	if accel != kvm {
		return nil
	}
	memo, err := accelMemo(b)
	if err != nil {
		return err
	}
	doubt := memo + doubted
	switch _, err = os.Stat(doubt); {
	case given:
		err = nil
	case err == nil:
		return errors.Join(os.WriteFile(memo, []byte(tcg), 0o644), os.Remove(doubt))
	default:
		err = os.WriteFile(doubt, nil, 0o644)
	}
	if err == nil {
		err = removeFile(memo)
	}
	if err != nil {
		return fmt.Errorf("make the next start try KVM out anew: %w", err)
	}
	return nil
}

// trustAccel is called when a guest has come up.
func trustAccel(b *built, accel string) error {
	if accel != kvm {
		return nil
	}
	memo, err := accelMemo(b)
	if err != nil {
		return err
	}
	return removeFile(memo + doubted)
}

// doubted ends the name of the file that is there while the last guest that KVM ran did not come up.
const doubted = ".doubted"

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// probeKVM boots the kernel until it says something, and returns "" when it did, otherwise what speaks against KVM. An error is
// a machine that could not be tried out: nothing is known then.
func (c accelChooser) probeKVM(ctx context.Context, b *built) (failed string, err error) {
	dir, err := os.MkdirTemp(filepath.Join(b.cache, "instances"), ".probe-")
	if err != nil {
		return "", err
	}
	// A process that could not be ended keeps its directory, and with it the record that "guest down --all" ends it by.
	defer func() { err = errors.Join(err, remove(dir)) }()
	if err := newMemory(filepath.Join(dir, memoryFile)); err != nil {
		return "", err
	}
	variant, err := FindVariant(DefaultVariant)
	if err != nil {
		return "", err
	}
	if err := overlay(ctx, b.qemu, filepath.Join(b.disk, "disk.raw"), "raw", filepath.Join(dir, "disk.qcow2")); err != nil {
		return "", err
	}
	p, err := machine{qemu: b.qemu, disk: b.disk, accel: kvm, variant: variant, memory: memoryFile}.start(dir)
	if err != nil { // the same program has just said its version
		return err.Error(), nil
	}
	// So that it can be ended when this process is killed in the middle.
	if err := (record{Name: filepath.Base(dir), Variant: variant.Name, QEMU: p, Accel: kvm, Key: b.key, Started: time.Now()}).write(dir); err != nil {
		return "", errors.Join(err, p.kill())
	}
	deadline := time.After(c.bound)
	for {
		if info, err := os.Stat(filepath.Join(dir, "console.log")); err == nil && info.Size() > 0 {
			return "", nil
		}
		if !p.alive() {
			if takenDown(dir) {
				return "", errTakenDown
			}
			return "QEMU has ended: " + tail(filepath.Join(dir, "qemu.log"), 3), nil
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-deadline:
			return fmt.Sprintf("it said nothing within %v", c.bound), nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}
