package guest

import (
	"cmp"
	"context"
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

// built is where the results of a build are.
type built struct {
	root  string // of the project's tree
	cache string
	qemu  string // unpacked tree with QEMU
	disk  string // directory with disk.raw, vmlinuz and initrd
	key   string // of the disk and of QEMU together
}

// The Go files of this package that decide what a stage's result is, by what they make. All others run the result or the
// build itself; a test knows every file of this package by name.
var (
	treeSources  = []string{"command.go", "trees.go"}
	imageSources = []string{"command.go", "images.go"}
	testSources  = []string{"images.go", "testimages.go"}
	storeSources = []string{"command.go", "store.go", "trees.go"}
	diskSources  = []string{"command.go", "disk.go", "initrd.go"}
)

// How long a stage may take: several times what it takes two cores that have other work as well.
const (
	treeLimit  = 25 * time.Minute // downloads packages
	storeLimit = 15 * time.Minute
	diskLimit  = 10 * time.Minute
)

// plan works out the stages and their keys from the tree's state.
func plan(root, cache string) (*built, []*stage, error) {
	var firstErr error
	add := func(s *stage, sources []string, inputs func(*keyHash)) *stage {
		var k keyHash
		k.value("stage", s.name)
		for _, need := range s.needs {
			k.value("needs "+need.name, need.key)
		}
		for _, source := range sources {
			k.files(root, "checks/guest/"+source)
		}
		inputs(&k)
		var err error
		if s.key, err = k.sum(); err != nil && firstErr == nil {
			firstErr = err
		}
		return s
	}
	qemu := add(&stage{name: "qemu", limit: treeLimit, make: func(ctx context.Context, dir string) error {
		return makeQEMUTree(ctx, root, dir)
	}}, treeSources, func(k *keyHash) { k.files(root, "checks/guest/build/tree.sh") })
	base := add(&stage{name: "base", limit: treeLimit, make: func(ctx context.Context, dir string) error {
		return makeBaseTree(ctx, root, dir)
	}}, treeSources, func(k *keyHash) { k.files(root, "checks/guest/build/base.sh") })
	images, err := imageStages(root, qemu, add)
	if err != nil {
		return nil, nil, err
	}
	store := add(&stage{
		name: "store", limit: storeLimit, needs: append([]*stage{qemu}, images...),
		make: func(ctx context.Context, dir string) error { return makeStore(ctx, root, dir, qemu, images) },
	}, storeSources, func(k *keyHash) { k.files(root, "checks/guest/build/import.sh", "langimages/manifest.go") })
	// The oldest Docker judges too, in the language whose image is smallest.
	few := slices.DeleteFunc(slices.Clone(images), func(s *stage) bool { return s.name != "image-tests" && s.name != "image-cpython" })
	old := add(&stage{
		name: "docker20", limit: treeLimit, needs: few,
		make: func(ctx context.Context, dir string) error { return makeOldDocker(ctx, root, dir, few) },
	}, storeSources, func(k *keyHash) {
		k.files(root, "checks/guest/build/tree.sh", "checks/guest/build/docker20.sh", "checks/guest/build/import.sh")
	})
	disk := add(&stage{
		name: "disk", limit: diskLimit, needs: []*stage{base, store, old},
		make: func(ctx context.Context, dir string) error { return makeDisk(ctx, root, dir, base, store, old) },
	}, diskSources, func(k *keyHash) {
		k.value("go", runtime.Version())
		k.files(root, "nixos/host", "checks/guest/files", "checks/guest/agent", "checks/guest/wire", "go.mod", "go.sum")
	})
	if firstErr != nil {
		return nil, nil, firstErr
	}
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

// imageStages are the language images, those that take longest first, and the images for tests, last.
func imageStages(root string, qemu *stage, add func(*stage, []string, func(*keyHash)) *stage) ([]*stage, error) {
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
		stages = append(stages, add(&stage{
			name: "image-" + name, limit: treeLimit,
			make: func(ctx context.Context, dir string) error {
				return makeLanguageImage(ctx, root, dir, name, spec.Suite, packages, image)
			},
		}, imageSources, func(k *keyHash) {
			k.value("suite", spec.Suite)
			k.value("packages", strings.Join(packages, " "))
			k.value("versions", strings.Join(image.Versions, " "))
			k.value("env", strings.Join(image.Env, "\n"))
			k.files(root, "langimages/build/rootfs.sh", "langimages/manifest.go")
		}))
	}
	return append(stages, add(&stage{
		name: "image-tests", limit: storeLimit, needs: []*stage{qemu},
		make: func(_ context.Context, dir string) error { return makeTestImages(filepath.Join(qemu.dir, "root"), dir) },
	}, testSources, func(k *keyHash) { k.files(root, "langimages/manifest.go") })), nil
}

// tools are the programs of the building machine, by the package that brings them.
var tools = map[string]string{"mmdebstrap": "mmdebstrap", "mkfs.ext4": "e2fsprogs", "tar": "tar", "xz": "xz-utils"}

// toolsLimit bounds the installation of what the building machine lacks.
const toolsLimit = 10 * time.Minute

// needTools installs what the building machine lacks.
func needTools(ctx context.Context, log io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, toolsLimit, fmt.Errorf("installing packages took longer than %v", toolsLimit))
	defer cancel()
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

// Made is one result that a build had to make.
type Made struct {
	Stage string
	Took  time.Duration
}

// Build makes the guest's disk unless it is there already, and says where the time went: two stages are made at a time. It is
// safe to call from several processes: one builds, the others wait.
func Build(ctx context.Context, log io.Writer) ([]Made, error) {
	_, made, err := build(ctx, log)
	return made, err
}

func build(ctx context.Context, log io.Writer) (*built, []Made, error) {
	b, stages, err := planHere()
	if err != nil {
		return nil, nil, err
	}
	if exists(b.disk) && exists(b.qemu) {
		now := time.Now()
		_ = os.Chtimes(b.disk, now, now)
		return b, nil, nil
	}
	made, unlock, err := makeLocked(ctx, b.cache, stages, log)
	if err != nil {
		return nil, made, err
	}
	unlock()
	return b, made, nil
}

// makeStages makes the stages that are asked for, with those they need, and no others. What is there afterwards stays until
// unlock is called, however long it was not used.
func makeStages(ctx context.Context, log io.Writer, wanted func(*stage) bool) (picked []*stage, unlock func(), err error) {
	b, stages, err := planHere()
	if err != nil {
		return nil, nil, err
	}
	needed := map[*stage]bool{}
	var need func(*stage)
	need = func(s *stage) {
		needed[s] = true
		for _, n := range s.needs {
			need(n)
		}
	}
	for _, s := range stages {
		if wanted(s) {
			picked = append(picked, s)
			need(s)
		}
	}
	_, unlock, err = makeLocked(ctx, b.cache, slices.DeleteFunc(stages, func(s *stage) bool { return !needed[s] }), log)
	return picked, unlock, err
}

func planHere() (*built, []*stage, error) {
	root, err := treeRoot()
	if err != nil {
		return nil, nil, err
	}
	cache, err := Cache()
	if err != nil {
		return nil, nil, err
	}
	return plan(root, cache)
}

// makeLocked makes stages with the build lock held. Without an error, the caller releases it.
func makeLocked(ctx context.Context, cache string, stages []*stage, log io.Writer) (made []Made, unlock func(), err error) {
	unlock, err = lock(ctx, filepath.Join(cache, "build.lock"), func() {
		fmt.Fprintln(log, "guest build: waiting for another build to finish")
	})
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			unlock()
		}
	}()
	if slices.ContainsFunc(stages, func(s *stage) bool { return !exists(s.dir) }) {
		if err := needTools(ctx, log); err != nil {
			return nil, nil, err
		}
		fmt.Fprintf(log, "guest build: into %s\n", cache)
	}
	// Whatever an interrupted build left: nobody else builds while the lock is held.
	if err := os.RemoveAll(filepath.Join(cache, "tmp")); err != nil {
		return nil, nil, err
	}
	if err := os.Mkdir(filepath.Join(cache, "tmp"), 0o755); err != nil {
		return nil, nil, err
	}
	made, err = makeAll(ctx, cache, stages, log)
	return made, unlock, err
}
