package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// diskSize is the guest's disk: sparse here, so its size costs nothing, and small enough for a test to fill.
const diskSize = "8G"

// installed maps the plain files of nixos/host to their places in the guest. Any other *.service there is installed too, and a
// file that has no place is an error: it would be a part of the host that no suite ever meets.
var installed = map[string]string{
	"daemon.json":         "etc/docker/daemon.json",
	"evalhost.slice":      "etc/systemd/system/evalhost.slice",
	"firewall.nft.in":     "etc/nftables.conf", // filled in
	"firewall-refresh.sh": "usr/lib/evalhost/firewall-refresh.sh",
	"modprobe.conf":       "etc/modprobe.d/evalhost.conf",
	"sysctl.conf":         "etc/sysctl.d/60-evalhost.conf",
	"tmpfiles.conf":       "etc/tmpfiles.d/evalhost.conf",
}

// fillRules fills the rules in for a host that opens no port and has been told of no address yet.
func fillRules(template []byte) ([]byte, error) {
	text := string(template)
	for _, place := range []string{"\n@INBOUND@\n", "\n@ELEMENTS@\n"} {
		if strings.Count(text, place) != 1 {
			return nil, fmt.Errorf("firewall.nft.in has not one line %s", strings.TrimSpace(place))
		}
		text = strings.Replace(text, place, "\n", 1)
	}
	return []byte(text), nil
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
			return fmt.Errorf("nixos/host/%s has no place in the guest: give it one in checks/guest/disk.go", e.Name())
		}
		data, err := os.ReadFile(filepath.Join(host, e.Name()))
		if err == nil && e.Name() == "firewall.nft.in" {
			data, err = fillRules(data)
		}
		if err != nil {
			return err
		}
		if err := writeNew(filepath.Join(tree, dst), data, 0o644); err != nil {
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
	for _, l := range []struct{ in, unit, from string }{
		{"sysinit.target.wants", "evalhost-guest-agent.service", "../"},
		{"docker.service.requires", "evalhost-guest-variant.service", "../"},
		{"sysinit.target.wants", "nftables.service", "/usr/lib/systemd/system/"}, // the distribution's, which loads /etc/nftables.conf
	} {
		if err := os.MkdirAll(filepath.Join(units, l.in), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(l.from+l.unit, filepath.Join(units, l.in, l.unit)); err != nil && !errors.Is(err, fs.ErrExist) {
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
