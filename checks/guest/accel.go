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

// tcg runs the guest's processors in software, each on a thread of its own.
const tcg = "tcg,thread=multi"

// kvmProbe is how long a guest that is run by the processor itself may take to say its first word. It needs well under a
// second; a machine that offers KVM and cannot run a guest hangs or aborts in its first instructions.
const kvmProbe = 8 * time.Second

// chooseAccel says how the guest's processors are run, decided by booting: /dev/kvm can be there, open and accept a machine,
// and still not run it. The answer is kept until this machine restarts.
func chooseAccel(ctx context.Context, b *built, log io.Writer) (string, error) {
	version, err := command{args: append(loader(b.qemu, "qemu-system-x86_64"), "--version")}.run(ctx)
	if err != nil {
		return "", err
	}
	version, _, _ = strings.Cut(strings.TrimSpace(version), "\n")
	if _, err := os.Stat("/dev/kvm"); err != nil {
		fmt.Fprintf(log, "guest: %s; this machine has no /dev/kvm, so the guest's processors are emulated, several times slower\n", version)
		return tcg, nil
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	var k keyHash
	k.value("boot", string(boot))
	k.value("built", b.key)
	key, err := k.sum()
	if err != nil {
		return "", err
	}
	memo := filepath.Join(b.cache, "accel-"+key)
	if answer, err := os.ReadFile(memo); err == nil {
		return string(answer), nil
	}
	accel := "kvm"
	if err := probeKVM(ctx, b); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		fmt.Fprintf(log, "guest: %s; /dev/kvm is there and does not run a guest (%v), so its processors are emulated, several times slower\n", version, err)
		accel = tcg
	} else {
		fmt.Fprintf(log, "guest: %s; the guest's processors are run by KVM\n", version)
	}
	return accel, os.WriteFile(memo, []byte(accel), 0o644)
}

// probeKVM boots the kernel until it says something.
func probeKVM(ctx context.Context, b *built) (err error) {
	dir, err := os.MkdirTemp(filepath.Join(b.cache, "instances"), ".probe-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := newMemory(filepath.Join(dir, memoryFile)); err != nil {
		return err
	}
	variant, err := FindVariant(DefaultVariant)
	if err != nil {
		return err
	}
	if err := overlay(ctx, b.qemu, filepath.Join(b.disk, "disk.raw"), "raw", filepath.Join(dir, "disk.qcow2")); err != nil {
		return err
	}
	p, err := machine{qemu: b.qemu, disk: b.disk, accel: "kvm", variant: variant, memory: memoryFile}.start(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.kill()) }()
	// So that it can be ended when this process is killed in the middle.
	if err := (record{Name: filepath.Base(dir), Variant: variant.Name, QEMU: p, Accel: "kvm", Key: b.key, Started: time.Now()}).write(dir); err != nil {
		return err
	}
	deadline := time.After(kvmProbe)
	for {
		if info, err := os.Stat(filepath.Join(dir, "console.log")); err == nil && info.Size() > 0 {
			return nil
		}
		if !p.alive() {
			return fmt.Errorf("QEMU has ended: %s", tail(filepath.Join(dir, "qemu.log"), 3))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline:
			return fmt.Errorf("it said nothing within %v", kvmProbe)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
