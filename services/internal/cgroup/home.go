package cgroup

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/evalhost/evalhost/services/internal/mutant"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// Name is the name of one run, unique on this host: `<safe instance>_r<16 hex digits>`. Containers, slices and cgroup
// directories are all called by it, so that one search finds everything that belongs to a run.
type Name string

// NewName makes a name that was never used before.
func NewName(instance string) Name {
	var random [8]byte
	rand.Read(random[:]) //nolint:errcheck // never returns an error
	return Name(Safe(instance) + "_r" + hex.EncodeToString(random[:]))
}

// Safe turns an instance into what may stand in a unit's name: its first 64 bytes with everything that is no ASCII
// letter, digit or underscore replaced by an underscore. A dash would be a level of nesting to systemd.
func Safe(instance string) string {
	if len(instance) > 64 {
		instance = instance[:64]
	}
	safe := []byte(instance)
	for i, c := range safe {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			safe[i] = '_'
		}
	}
	if len(safe) == 0 {
		return "_"
	}
	return string(safe)
}

// runsOf recognises the names of one instance's runs, and of no other's: an instance called "a_r1" is not "a".
func runsOf(instance string) *regexp.Regexp {
	if mutant.Off(mutant.SweepNames) {
		return regexp.MustCompile(`^` + regexp.QuoteMeta(Safe(instance)))
	}
	return regexp.MustCompile(`^` + regexp.QuoteMeta(Safe(instance)) + `_r[0-9a-f]{16}$`)
}

// Home is the cgroup of one run. The container's own cgroup is made inside it by the daemon.
type Home struct {
	// Parent is what the container is told as its cgroup parent.
	Parent string
	// Dir is the cgroup's directory as this process sees it; Source the same directory as the daemon sees it, the
	// source of the mount for the shim.
	Dir, Source string

	close func(ctx context.Context) error
}

// NewHome describes a home somebody else made, and how it is removed. Drivers and tests make homes.
func NewHome(parent, dir, source string, remove func(ctx context.Context) error) *Home {
	return &Home{Parent: parent, Dir: dir, Source: source, close: remove}
}

// Read looks at the home's files.
func (h *Home) Read() (Reading, error) { return Read(h.Dir) }

// Kill ends every process in the home with SIGKILL, however many there are and whatever they do meanwhile. A kernel
// before 5.14 has no such file, and the error wraps fs.ErrNotExist.
func (h *Home) Kill() error {
	path := filepath.Join(h.Dir, "cgroup.kill")
	if _, err := os.Lstat(path); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	return writeControl(path, "1")
}

// BoxPeak is memory.peak of the box the shim made inside the container's cgroup; nil when there is no box. It can only
// be read while the container exists.
func (h *Home) BoxPeak(box string) *verdict.Bytes {
	// Directly inside the container's cgroup, or one level further down where a runtime makes a cgroup of its own.
	for _, above := range []string{"*", "*/*"} {
		found, err := filepath.Glob(filepath.Join(h.Dir, above, box))
		if err != nil || len(found) != 1 {
			continue
		}
		if peak, err := readFile(found[0], "memory.peak", ParseBytes); err == nil && peak != nil {
			return peak
		}
	}
	return nil
}

// BoxUntouched says that no program was let go in the container. Either whatever lives there, a shim, has not made the box yet; or
// nothing is in the box, and nothing in it ever used a microsecond. A program runs its first instruction inside of the box
// and never leaves it, and a shim keeps the box for as long as it lives: so no program can bring this about. What cannot be
// read says no.
func (h *Home) BoxUntouched(box string) bool {
	var found []string
	err := filepath.WalkDir(h.Dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && e.Name() == box && path != h.Dir {
			found = append(found, path)
		}
		return err
	})
	if err != nil || len(found) > 1 {
		return false
	}
	populated := func(dir string, want bool) bool {
		is, err := readFile(dir, "cgroup.events", ParsePopulated)
		return err == nil && is != nil && *is == want
	}
	if len(found) == 0 {
		// Asked after the box was looked for: with the container a box would be gone.
		return populated(h.Dir, true)
	}
	// The time is asked for last: what had ended by then has used some.
	if !populated(found[0], false) {
		return false
	}
	used, err := readFile(found[0], "cpu.stat", ParseCPUStat)
	return err == nil && used != nil && used.Usage == 0
}

// Processors is the kernel's list of the processors that the home may use, such as "2-5": its own, or where the cpuset
// controller is not handed down so far that of the nearest cgroup above. Empty when there is none to be read.
func (h *Home) Processors() string {
	for dir := h.Dir; exists(filepath.Join(dir, "cgroup.controllers")); dir = filepath.Dir(dir) {
		if content, err := os.ReadFile(filepath.Join(dir, "cpuset.cpus.effective")); err == nil {
			return strings.TrimSpace(string(content))
		}
	}
	return ""
}

// Procs lists the processes in the home, by their numbers in this process's namespace.
func (h *Home) Procs() []int {
	var pids []int
	_ = filepath.WalkDir(h.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return nil // it went while we looked
		}
		content, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for _, word := range strings.Fields(string(content)) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// Close removes the home. The container must have been removed before. Safe to call twice.
func (h *Home) Close(ctx context.Context) error {
	if h.close == nil {
		return nil
	}
	return h.close(ctx)
}

// Driver makes homes in the way the daemon's own cgroup driver needs.
type Driver interface {
	// Name is the daemon's word for the driver.
	Name() string
	// Open makes the home of one run. It must not exist.
	Open(ctx context.Context, run Name) (*Home, error)
	// Sweep removes every home of an instance, and says how many there were. The instance's containers must have been
	// removed before.
	Sweep(ctx context.Context, instance string) (int, error)
	// Instances lists the instances (in their safe spelling) that have homes.
	Instances(ctx context.Context) ([]string, error)
	// Close drops what the driver holds. Homes stay.
	Close()
}

// Open chooses the driver by the daemon's word, never by trying (spec/sandbox.md 4.3). root is where this process sees
// the cgroup hierarchy; empty for Root.
func Open(ctx context.Context, driver, root string) (Driver, error) {
	if root == "" {
		root = Root
	}
	switch driver {
	case "systemd":
		return openSystemd(ctx, root)
	case "cgroupfs":
		return openFS(root)
	}
	return nil, fmt.Errorf("cgroup: the daemon reports the cgroup driver %q, and only systemd and cgroupfs are known: "+
		"a time limit is processor time read from a cgroup, so every job here would fail", driver)
}

// family is the name of the cgroup that holds every home.
const family = "evalhost"

// owner takes the instance out of a run's name.
var owner = regexp.MustCompile(`^([A-Za-z0-9_]+)_r[0-9a-f]{16}$`)

// instanceOf gives the safe instance of a run's name, and whether it is the name of a run at all.
func instanceOf(run string) (string, bool) {
	m := owner.FindStringSubmatch(run)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// CheckHierarchy says whether root is a unified hierarchy with everything a judged run needs.
func CheckHierarchy(root string) error {
	path := filepath.Join(root, "cgroup.controllers")
	content, err := os.ReadFile(path)
	if err != nil || len(strings.TrimSpace(string(content))) == 0 {
		return fmt.Errorf("cgroup: %s cannot be read or is blank (%w): this is no unified cgroup v2 hierarchy, and a time "+
			"limit is processor time read from one; boot with systemd.unified_cgroup_hierarchy=1", path, orBlank(err))
	}
	have := strings.Fields(string(content))
	for _, need := range []string{"cpu", "memory", "pids"} {
		found := false
		for _, c := range have {
			found = found || c == need
		}
		if !found {
			return fmt.Errorf("cgroup: %s names no controller %q, only %q: its limit would silently not be applied", path, need, have)
		}
	}
	return nil
}

func orBlank(err error) error {
	if err == nil {
		return errors.New("it holds nothing")
	}
	return err
}

// writeControl writes one value into a control file that must exist. A cgroup that is gone meanwhile is no error.
func writeControl(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	defer f.Close()
	if _, err := f.WriteString(value); err != nil && !errors.Is(err, syscall.ENODEV) {
		return fmt.Errorf("cgroup: writing %q into %s: %w", value, path, err)
	}
	return nil
}

// isUnsupported recognises the kernel's way of saying that a file has nothing behind it.
func isUnsupported(err error) bool {
	return errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOTSUP)
}
