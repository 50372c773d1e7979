package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// diskLayout changes whenever this file does something else with the same inputs.
const diskLayout = "4"

// diskSize is the guest's disk: sparse here, so its size costs nothing, and small enough for a test to fill.
const diskSize = "8G"

// installed maps the plain files of nixos/host to their places in the guest. Any other *.service there is installed too.
var installed = map[string]string{
	"daemon.json":    "etc/docker/daemon.json",
	"evalhost.slice": "etc/systemd/system/evalhost.slice",
	"modprobe.conf":  "etc/modprobe.d/evalhost.conf",
	"sysctl.conf":    "etc/sysctl.d/60-evalhost.conf",
	"tmpfiles.conf":  "etc/tmpfiles.d/evalhost.conf",
}

// makeDisk puts the guest's tree together out of links, writes this project's files into it and makes a file system of it.
func makeDisk(ctx context.Context, root, dir string, base, store, old *stage) error {
	tree := filepath.Join(filepath.Dir(dir), "tree") // beside the result: removed with the stage's temporary directory
	if _, err := (command{args: []string{"cp", "-al", filepath.Join(base.dir, "root"), tree}}).run(ctx); err != nil {
		return err
	}
	for _, part := range []struct{ from, to string }{
		{filepath.Join(store.dir, "docker"), "var/lib/docker"},
		{filepath.Join(old.dir, "docker"), "var/lib/docker20"},
		{filepath.Join(old.dir, "opt"), "opt/docker20"},
	} {
		to := filepath.Join(tree, part.to)
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if _, err := (command{args: []string{"cp", "-al", part.from, to}}).run(ctx); err != nil {
			return err
		}
	}
	if err := installFiles(ctx, root, tree, store); err != nil {
		return err
	}
	kernel, err := single(filepath.Join(tree, "boot/vmlinuz-*"))
	if err != nil {
		return err
	}
	if err := copyFile(kernel, filepath.Join(dir, "vmlinuz"), 0o644); err != nil {
		return err
	}
	if err := makeInitrd(ctx, tree, filepath.Join(dir, "initrd")); err != nil {
		return err
	}
	disk := filepath.Join(dir, "disk.raw")
	_, err = command{args: []string{
		"mkfs.ext4", "-q", "-F", "-L", "evalhost-guest", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=1,nodiscard",
		"-N", "200000", "-d", tree, disk, diskSize,
	}}.run(ctx)
	return err
}

func installFiles(ctx context.Context, root, tree string, store *stage) error {
	host := filepath.Join(root, "nixos/host")
	entries, err := os.ReadDir(host)
	if err != nil {
		return err
	}
	for _, e := range entries {
		dst := installed[e.Name()]
		if dst == "" && strings.HasSuffix(e.Name(), ".service") {
			dst = "etc/systemd/system/" + e.Name()
		}
		if dst == "" {
			continue
		}
		if err := copyFile(filepath.Join(host, e.Name()), filepath.Join(tree, dst), 0o644); err != nil {
			return err
		}
	}
	if err := copyFile(filepath.Join(store.dir, "images.json"), filepath.Join(tree, "etc/evalhost/images.json"), 0o644); err != nil {
		return err
	}
	units := filepath.Join(tree, "etc/systemd/system")
	if err := copyUnits(filepath.Join(root, "checks/guest/files"), units); err != nil {
		return err
	}
	for link, unit := range map[string]string{
		"sysinit.target.wants":    "evalhost-guest-agent.service",
		"docker.service.requires": "evalhost-guest-variant.service",
	} {
		if err := os.MkdirAll(filepath.Join(units, link), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("../"+unit, filepath.Join(units, link, unit)); err != nil {
			return err
		}
	}
	if err := copyFile(filepath.Join(root, "checks/guest/files/containerd.toml"), filepath.Join(tree, "etc/containerd/config.toml"), 0o644); err != nil {
		return err
	}
	masked, err := os.ReadFile(filepath.Join(root, "checks/guest/files/masked"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(masked)) {
		path := strings.TrimSpace(line)
		if path == "" || strings.HasPrefix(path, "#") {
			continue
		}
		if err := mask(filepath.Join(tree, path)); err != nil {
			return err
		}
	}
	agent := filepath.Join(tree, "usr/local/lib/evalhost-guest/agent")
	if err := os.MkdirAll(filepath.Dir(agent), 0o755); err != nil {
		return err
	}
	_, err = command{
		args: []string{"go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", agent, "./checks/guest/agent"},
		dir:  root, env: []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64"},
	}.run(ctx)
	return err
}

// copyUnits copies the units of a directory and what is in their drop-in directories.
func copyUnits(from, to string) error {
	for _, pattern := range []string{"*.service", "*.d/*.conf"} {
		files, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			rel, err := filepath.Rel(from, file)
			if err != nil {
				return err
			}
			if err := copyFile(file, filepath.Join(to, rel), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyFile writes a new file: the tree is made of links to a kept stage, and writing through one would change that stage.
func copyFile(src, dst string, mode fs.FileMode) error {
	data, err := os.ReadFile(src)
	if err != nil {
		return err
	}
	return writeNew(dst, data, mode)
}

func writeNew(dst string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	if err := os.Remove(dst); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(dst, data, mode)
}

// mask puts a link to the null device in a file's place, which is how systemd is told to do without a unit or generator.
func mask(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink("/dev/null", path)
}

func single(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s matches %d files instead of one", pattern, len(found))
	}
	return found[0], nil
}

// initrdInit mounts the root and goes there. Everything but the block device's driver is built into the kernel.
const initrdInit = `#!/bin/busybox sh
/bin/busybox mount -t devtmpfs none /dev
/bin/busybox insmod /virtio_blk.ko
i=0
while [ ! -b /dev/vda ] && [ $i -lt 600 ]; do i=$((i+1)); /bin/busybox sleep 0.05; done
/bin/busybox mount -t ext4 -o rw,noatime /dev/vda /root || { echo "evalhost guest: no root file system on /dev/vda"; /bin/busybox poweroff -f; }
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root /sbin/init
`

// makeInitrd writes the smallest initial file system that finds the root: the distribution's own takes an emulated machine
// several seconds to unpack.
func makeInitrd(ctx context.Context, tree, dst string) error {
	module, err := single(filepath.Join(tree, "usr/lib/modules/*/kernel/drivers/block/virtio_blk.ko.xz"))
	if err != nil {
		return err
	}
	ko, err := command{args: []string{"xz", "-dc", module}}.run(ctx)
	if err != nil {
		return err
	}
	busybox, err := os.ReadFile(filepath.Join(tree, "usr/bin/busybox"))
	if err != nil {
		return err
	}
	var archive cpio
	for _, d := range []string{"bin", "dev", "proc", "root"} {
		archive.add(d, 0o040755, nil)
	}
	archive.device("dev/console", 0o020600, 5, 1)
	archive.add("bin/busybox", 0o100755, busybox)
	archive.add("virtio_blk.ko", 0o100644, []byte(ko))
	archive.add("init", 0o100755, []byte(initrdInit))
	archive.add("TRAILER!!!", 0, nil)
	return os.WriteFile(dst, archive.Bytes(), 0o644)
}

// cpio is an archive in the "newc" format, the one the kernel unpacks.
type cpio struct {
	bytes.Buffer
	entries int
}

func (c *cpio) add(name string, mode uint32, content []byte) { c.entry(name, mode, content, 0, 0) }

func (c *cpio) device(name string, mode, major, minor uint32) { c.entry(name, mode, nil, major, minor) }

func (c *cpio) entry(name string, mode uint32, content []byte, major, minor uint32) {
	c.entries++
	fmt.Fprintf(c, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		c.entries, mode, 0, 0, 1, 0, len(content), 0, 0, major, minor, len(name)+1, 0, name)
	c.pad()
	c.Write(content)
	c.pad()
}

func (c *cpio) pad() {
	for c.Len()%4 != 0 {
		c.WriteByte(0)
	}
}
