package guest

import (
	"context"
	"path/filepath"
	"strings"
)

// The distribution's releases: the guest's own, and the one that still has Docker 20.10.
const (
	suite    = "trixie"
	oldSuite = "bookworm"
)

// Packages of the trees the build unpacks. The QEMU tree also carries the Docker that fills the guest's image store.
var (
	qemuPackages = []string{
		"qemu-system-x86", "qemu-utils", "seabios", "ipxe-qemu", "docker.io", "docker-cli", "containerd", "runc", "busybox-static",
	}
	basePackages = []string{
		"systemd", "systemd-sysv", "dbus", "udev", "docker.io", "docker-cli", "containerd", "runc", "crun", "apparmor", "nftables",
		"linux-image-cloud-amd64", "iproute2", "procps", "psmisc", "kmod", "util-linux", "mount", "passwd", "e2fsprogs", "busybox-static",
	}
	oldPackages = []string{"docker.io", "containerd", "runc"}
)

func makeQEMUTree(ctx context.Context, root, dir string) error {
	return script(ctx, root, "checks/guest/build/tree.sh", suite, filepath.Join(dir, "root"), strings.Join(qemuPackages, ","))
}

func makeBaseTree(ctx context.Context, root, dir string) error {
	return script(ctx, root, "checks/guest/build/base.sh", suite, filepath.Join(dir, "root"), strings.Join(basePackages, ","))
}
