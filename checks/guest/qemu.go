package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/evalhost/evalhost/checks/guest/wire"
)

// The machine. A snapshot is restored only into the very same one, so these are part of its key.
const (
	memoryMiB = 3072
	cpu       = "max,-svm,-la57" // no nested guests; four levels of page tables, as most hosts have, are walked faster than five when emulated
)

// machine says how one QEMU process is started. Relative paths are relative to its working directory, the instance's.
type machine struct {
	qemu    string // unpacked tree
	disk    string // directory with vmlinuz and initrd
	accel   string // as -accel takes it
	variant Variant
	// memory is the file behind the guest's memory. Shared, what the guest writes goes into the file; otherwise the file
	// is only what the memory began as.
	memory string
	shared bool
	// incoming leaves the machine stopped until a saved state is loaded.
	incoming bool
}

// loader returns the command that runs a program of an unpacked tree with that tree's own libraries.
func loader(tree, program string) []string {
	lib := filepath.Join(tree, "usr/lib")
	arch := filepath.Join(lib, "x86_64-linux-gnu")
	return []string{
		filepath.Join(arch, "ld-linux-x86-64.so.2"), "--library-path", arch + ":" + lib, filepath.Join(tree, "usr/bin", program),
	}
}

// args is QEMU's whole command line.
func (m machine) args() []string {
	share := "off"
	if m.shared {
		share = "on"
	}
	args := append(loader(m.qemu, "qemu-system-x86_64"),
		"-L", filepath.Join(m.qemu, "usr/share/qemu"), "-L", filepath.Join(m.qemu, "usr/share/seabios"),
		"-name", "evalhost-guest", "-nodefaults", "-no-user-config", "-display", "none",
		"-object", fmt.Sprintf("memory-backend-file,id=ram,size=%dM,mem-path=%s,share=%s", memoryMiB, m.memory, share),
		"-machine", "q35,memory-backend=ram,usb=off,vmport=off,smm=off,sata=off", "-accel", m.accel, "-cpu", cpu,
		"-m", strconv.Itoa(memoryMiB), "-smp", strconv.Itoa(m.variant.Processors), "-rtc", "base=utc",
		"-kernel", filepath.Join(m.disk, "vmlinuz"), "-initrd", filepath.Join(m.disk, "initrd"),
		"-append", m.variant.kernelCommandLine(),
		"-blockdev", "driver=file,node-name=file0,filename=disk.qcow2,cache.direct=off,cache.no-flush=on",
		"-blockdev", "driver=qcow2,node-name=disk0,file=file0,cache.no-flush=on",
		"-device", "virtio-blk-pci,drive=disk0",
		"-device", fmt.Sprintf("virtio-serial-pci,max_ports=%d", wire.Ports+2),
		"-chardev", "file,id=console,path=console.log,append=on", "-device", "virtconsole,chardev=console",
		// What the kernel says before it has found that console.
		"-chardev", "file,id=early,path=console.log,append=on", "-serial", "chardev:early",
		"-chardev", "socket,id=qmp,path=qmp.sock,server=on,wait=off", "-mon", "chardev=qmp,mode=control",
	)
	for i := range wire.Ports {
		args = append(args,
			"-chardev", fmt.Sprintf("socket,id=port%d,path=%s,server=on,wait=off", i, portSocket(i)),
			"-device", fmt.Sprintf("virtserialport,chardev=port%d,nr=%d,name=%s", i, i+1, wire.PortName(i)))
	}
	if m.incoming {
		args = append(args, "-incoming", "defer")
	}
	return args
}

func portSocket(i int) string { return fmt.Sprintf("port%d.sock", i) }

// start starts QEMU in the background, in a session of its own: it outlives the process that started it.
func (m machine) start(dir string) (process, error) {
	log, err := os.Create(filepath.Join(dir, "qemu.log"))
	if err != nil {
		return process{}, err
	}
	defer log.Close()
	args := m.args()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return process{}, fmt.Errorf("start QEMU: %w", err)
	}
	p := process{PID: cmd.Process.Pid}
	p.Start, err = startTime(p.PID)
	// Reaps the process when it ends before this one; ends with this one at the latest.
	go func() { _ = cmd.Wait() }()
	if err != nil {
		_ = cmd.Process.Kill()
		return process{}, fmt.Errorf("QEMU ended at once; it said: %s", tail(filepath.Join(dir, "qemu.log"), 20))
	}
	return p, nil
}

// process names a process for good: a number alone may be given to another one later.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot, from /proc/<pid>/stat
}

func startTime(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := cutLast(string(data), ")")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, data)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, os.ErrProcessDone
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func (p process) alive() bool {
	if p.PID <= 0 {
		return false
	}
	start, err := startTime(p.PID)
	return err == nil && start == p.Start
}

// kill ends the process and returns when it is gone.
func (p process) kill() error {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if !p.alive() {
			return nil
		}
		if err := syscall.Kill(p.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end QEMU, process %d: %w", p.PID, err)
		}
		for deadline := time.Now().Add(5 * time.Second); p.alive() && time.Now().Before(deadline); {
			time.Sleep(20 * time.Millisecond)
		}
	}
	if p.alive() {
		return fmt.Errorf("QEMU, process %d, is still there after SIGKILL", p.PID)
	}
	return nil
}

// dialSocket connects to a Unix socket in a directory whose path may be longer than a socket address takes.
func dialSocket(ctx context.Context, dir, name string) (net.Conn, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", filepath.Join(dir, name), err)
	}
	return conn, nil
}

// tail returns the last lines of a file, without control characters.
func tail(path string, lines int) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	const most = 32 << 10
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd)
	}
	data, _ := io.ReadAll(f)
	text := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r >= ' ' {
			return r
		}
		return -1
	}, string(data))
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
