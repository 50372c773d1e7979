package guest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
)

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
