package guest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
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

// built is where the results of a build are.
type built struct {
	root  string // of the project's tree
	cache string
	qemu  string // unpacked tree with QEMU
	disk  string // directory with disk.raw, vmlinuz and initrd
	key   string // of the disk and of QEMU together
}

// plan works out the stages and their keys from the tree's state.
func plan(root, cache string) (*built, []*stage, error) {
	key := func(name string, needs []*stage, add func(*keyHash)) (string, error) {
		var k keyHash
		k.value("stage", name)
		for _, need := range needs {
			k.value("needs "+need.name, need.key)
		}
		add(&k)
		return k.sum()
	}
	var err error
	qemu := &stage{name: "qemu"}
	if qemu.key, err = key("qemu", nil, func(k *keyHash) {
		k.value("packages", strings.Join(qemuPackages, " "))
		k.files(root, "checks/guest/build/tree.sh")
	}); err != nil {
		return nil, nil, err
	}
	qemu.make = func(ctx context.Context, dir string) error {
		return script(ctx, root, "checks/guest/build/tree.sh", suite, filepath.Join(dir, "root"), strings.Join(qemuPackages, ","))
	}
	base := &stage{name: "base"}
	if base.key, err = key("base", nil, func(k *keyHash) {
		k.value("packages", strings.Join(basePackages, " "))
		k.files(root, "checks/guest/build/base.sh")
	}); err != nil {
		return nil, nil, err
	}
	base.make = func(ctx context.Context, dir string) error {
		return script(ctx, root, "checks/guest/build/base.sh", suite, filepath.Join(dir, "root"), strings.Join(basePackages, ","))
	}
	images, err := imageStages(root, qemu, key)
	if err != nil {
		return nil, nil, err
	}
	store := &stage{name: "store", needs: append([]*stage{qemu}, images...)}
	if store.key, err = key("store", store.needs, func(k *keyHash) {
		k.files(root, "checks/guest/build/import.sh")
	}); err != nil {
		return nil, nil, err
	}
	store.make = func(ctx context.Context, dir string) error { return makeStore(ctx, root, dir, qemu, images) }
	tests := images[len(images)-1]
	old := &stage{name: "docker20", needs: []*stage{tests}}
	if old.key, err = key("docker20", old.needs, func(k *keyHash) {
		k.value("packages", strings.Join(oldPackages, " "))
		k.files(root, "checks/guest/build/tree.sh", "checks/guest/build/docker20.sh", "checks/guest/build/import.sh")
	}); err != nil {
		return nil, nil, err
	}
	old.make = func(ctx context.Context, dir string) error { return makeOldDocker(ctx, root, dir, tests) }
	disk := &stage{name: "disk", needs: []*stage{base, store, old}}
	if disk.key, err = key("disk", disk.needs, func(k *keyHash) {
		k.value("go", runtime.Version())
		k.value("layout", diskLayout)
		k.files(root, "nixos/host", "checks/guest/files", "checks/guest/agent", "checks/guest/wire")
	}); err != nil {
		return nil, nil, err
	}
	disk.make = func(ctx context.Context, dir string) error { return makeDisk(ctx, root, dir, base, store, old) }
	// In this order when there is a choice: what takes longest first.
	stages := slices.Concat([]*stage{base, qemu}, images, []*stage{old, store, disk})
	if err := place(cache, stages); err != nil {
		return nil, nil, err
	}
	return &built{
		root: root, cache: cache, qemu: filepath.Join(qemu.dir, "root"), disk: disk.dir, key: disk.key + "." + qemu.key,
	}, stages, nil
}

// imageOrder is by how long an image takes to build.
var imageOrder = map[string]int{"clang": 1, "gcc": 2, "pypy": 3, "cpython": 4}

// imageStages are the language images, those that take longest first, and the two images for tests, last.
func imageStages(root string, qemu *stage, key func(string, []*stage, func(*keyHash)) (string, error)) ([]*stage, error) {
	spec, err := readDebianImages(root)
	if err != nil {
		return nil, err
	}
	order := slices.SortedFunc(maps.Keys(spec.Images), func(a, b string) int {
		return cmp.Or(cmp.Compare(imageOrder[a], imageOrder[b]), cmp.Compare(a, b))
	})
	var stages []*stage
	for _, name := range order {
		image := spec.Images[name]
		packages := slices.Concat(spec.Common, image.Packages)
		s := &stage{name: "image-" + name}
		if s.key, err = key(s.name, nil, func(k *keyHash) {
			k.value("suite", spec.Suite)
			k.value("packages", strings.Join(packages, " "))
			k.value("versions", strings.Join(image.Versions, " "))
			k.value("env", strings.Join(image.Env, "\n"))
			k.value("layout", imageLayout)
			k.files(root, "langimages/build/rootfs.sh")
		}); err != nil {
			return nil, err
		}
		s.make = func(ctx context.Context, dir string) error {
			layer := filepath.Join(dir, "layer.tar")
			if err := script(ctx, root, "langimages/build/rootfs.sh", spec.Suite, layer,
				strings.Join(packages, " "), strings.Join(image.Versions, " ")); err != nil {
				return err
			}
			return finishImage(dir, name, layer, "evalhost/lang-"+name+":local", languageConfig(image))
		}
		stages = append(stages, s)
	}
	tests := &stage{name: "image-tests", needs: []*stage{qemu}}
	if tests.key, err = key(tests.name, tests.needs, func(k *keyHash) {
		k.value("layout", imageLayout)
		k.files(root, "checks/guest/testimages.go")
	}); err != nil {
		return nil, err
	}
	tests.make = func(_ context.Context, dir string) error { return makeTestImages(filepath.Join(qemu.dir, "root"), dir) }
	return append(stages, tests), nil
}

// finishImage turns a layer into an archive to load, and notes what the image must look like.
func finishImage(dir, name, layer, reference string, config imageConfig) error {
	image, err := writeImage(filepath.Join(dir, name+".tar"), layer, reference, config)
	if err != nil {
		return err
	}
	if err := os.Remove(layer); err != nil {
		return err
	}
	data, err := json.MarshalIndent(image, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".json"), data, 0o644)
}

func script(ctx context.Context, root, path string, args ...string) error {
	_, err := command{args: append([]string{"sh", filepath.Join(root, path)}, args...)}.run(ctx)
	return err
}

// tools are the programs of the building machine, by the package that brings them.
var tools = map[string]string{"mmdebstrap": "mmdebstrap", "mkfs.ext4": "e2fsprogs", "tar": "tar", "xz": "xz-utils"}

// needTools installs what the building machine lacks.
func needTools(ctx context.Context, log io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("the guest is built as root: its file system has owners, and its images are loaded by a Docker daemon")
	}
	var missing []string
	for _, tool := range slices.Sorted(maps.Keys(tools)) {
		if _, err := exec.LookPath(tool); err != nil {
			missing = append(missing, tools[tool])
		}
	}
	if len(missing) == 0 {
		return nil
	}
	fmt.Fprintf(log, "guest build: installing %s\n", strings.Join(missing, " "))
	install := append([]string{"apt-get", "install", "--yes", "--quiet", "--no-install-recommends"}, missing...)
	env := []string{"DEBIAN_FRONTEND=noninteractive"}
	if _, err := (command{args: install, env: env}).run(ctx); err == nil {
		return nil
	}
	if _, err := (command{args: []string{"apt-get", "update", "--quiet"}, env: env}).run(ctx); err != nil {
		return err
	}
	_, err := command{args: install, env: env}.run(ctx)
	return err
}

// Build makes the guest's disk unless it is there already, and says where the time went. It is safe to call from several
// processes: one builds, the others wait.
func Build(ctx context.Context, log io.Writer) error {
	_, err := build(ctx, log)
	return err
}

func build(ctx context.Context, log io.Writer) (*built, error) {
	root, err := treeRoot()
	if err != nil {
		return nil, err
	}
	cache, err := Cache()
	if err != nil {
		return nil, err
	}
	b, stages, err := plan(root, cache)
	if err != nil {
		return nil, err
	}
	if exists(b.disk) && exists(b.qemu) {
		now := time.Now()
		_ = os.Chtimes(b.disk, now, now)
		return b, nil
	}
	unlock, err := lock(ctx, filepath.Join(cache, "build.lock"), func() {
		fmt.Fprintln(log, "guest build: waiting for another build to finish")
	})
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := needTools(ctx, log); err != nil {
		return nil, err
	}
	// Whatever an interrupted build left: nobody else builds while the lock is held.
	if err := os.RemoveAll(filepath.Join(cache, "tmp")); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(cache, "tmp"), 0o755); err != nil {
		return nil, err
	}
	fmt.Fprintf(log, "guest build: into %s\n", cache)
	return b, makeAll(ctx, cache, stages, log)
}
