//go:build !guest

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/engine"
)

// removals is a daemon that has some containers already and notes which are removed.
type removals struct {
	*fakeDaemon
	found   []engine.Found
	removed []string
}

func (d *removals) Sandboxes(context.Context) ([]engine.Found, error) { return d.found, nil }

func (d *removals) Remove(_ context.Context, id string) error {
	d.removed = append(d.removed, id)
	if id == "stuck" {
		return errAsked
	}
	return nil
}

func found(id, instance string) engine.Found {
	return engine.Found{ID: id, Name: id, Instance: instance, HasInstance: true, State: "created"}
}

// sweeper opens a Sandbox, which sweeps, over a host with all kinds of leavings. It returns what was removed and the host.
func sweeper(t *testing.T, instance string) (*removals, string) {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"homes", "scratch", "locks"} {
		os.Mkdir(filepath.Join(dir, d), 0o755)
	}
	for _, owner := range []string{"mine", "other", "cli_dead", "cli_alive", "cli_homeonly"} {
		os.Mkdir(filepath.Join(dir, "homes", string(cgroup.NewName(owner))), 0o755)
		os.MkdirAll(filepath.Join(dir, "scratch", owner, "job-1", "run"), 0o755)
	}
	alive, err := lockInstance(filepath.Join(dir, "locks"), "cli-alive")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(alive.release)
	d := &removals{fakeDaemon: &fakeDaemon{containers: map[string]*box{}}, found: []engine.Found{
		found("mine-created", "mine"), found("stuck", "mine"), found("other", "other"), found("cli-dead", "cli-dead"),
		found("cli-alive", "cli-alive"),
		{ID: "old", Name: "old"},
		found("mine-too", "mine-too"), // another's name that begins like ours
	}}
	s, err := open(t.Context(), d, fakeDriver{filepath.Join(dir, "homes")}, Config{
		Instance: instance, Scratch: filepath.Join(dir, "scratch"), Lanes: []Lane{{}}, Locks: filepath.Join(dir, "locks"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.lock.release)
	return d, dir
}

func TestASweepRemovesItsOwnTheDeadAndTheNamelessAndNothingElse(t *testing.T) {
	d, dir := sweeper(t, "mine")
	slices.Sort(d.removed)
	if got, want := strings.Join(d.removed, " "), "cli-dead mine-created old stuck"; got != want {
		t.Errorf("removed %q, want %q", got, want)
	}
	for where, want := range map[string]string{"scratch": "cli_alive mine other", "homes": "cli_alive other"} {
		entries, _ := os.ReadDir(filepath.Join(dir, where))
		var got []string
		for _, e := range entries {
			name, _, _ := strings.Cut(e.Name(), "_r")
			got = append(got, name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("in %s there are %q, want %q", where, got, want)
		}
	}
	if entries, _ := os.ReadDir(filepath.Join(dir, "scratch", "mine")); len(entries) != 0 {
		t.Errorf("%d entries of an earlier life are in the scratch directory", len(entries))
	}
	if entries, _ := os.ReadDir(filepath.Join(dir, "locks")); len(entries) != 2 {
		t.Errorf("there are %d locks, want the two of those alive", len(entries))
	}
}

func TestC73ALocalCommandLeavesADaemonsContainersAlone(t *testing.T) {
	d, _ := sweeper(t, "cli-new")
	slices.Sort(d.removed)
	if got, want := strings.Join(d.removed, " "), "cli-dead old"; got != want {
		t.Errorf("removed %q, want %q", got, want)
	}
}

func TestTwoOfOneInstanceCannotLiveAtOnce(t *testing.T) {
	dir := t.TempDir()
	first, err := lockInstance(dir, "me")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockInstance(dir, "me"); !errors.Is(err, errLocked) {
		t.Errorf("the second lock: %v", err)
	}
	first.release()
	first.release()
	second, err := lockInstance(dir, "me")
	if err != nil {
		t.Fatal(err)
	}
	second.release()
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Error("a lock that was given up left its file")
	}
}

func TestALockWhoseFileLostItsNameIsNobodys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	f := open()
	os.Remove(path) // as its owner did between our opening and our locking
	if l, err := claim(f, path); l != nil || err != nil {
		t.Errorf("without a name: %v, %v", l, err)
	}
	open() // and somebody made a new one
	if l, err := claim(f, path); l != nil || err != nil {
		t.Errorf("with another's name: %v, %v", l, err)
	}
	if l, err := claim(open(), path); l == nil || err != nil {
		t.Errorf("with its own name: %v, %v", l, err)
	}
}

func TestTwoHundredStartsAtOnceTakeALockOneAfterTheOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	holders := make(chan int, 1)
	errs := make(chan error)
	const n = 20
	for range n {
		go func() {
			for range 10 {
				l, err := waitLock(t.Context(), path, nil)
				if err != nil {
					errs <- err
					return
				}
				select {
				case holders <- 1:
				default:
					errs <- errors.New("two held the lock at once")
					return
				}
				<-holders
				l.release()
			}
			errs <- nil
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestOneJobAtATimeOnAHostThatIsLocked(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "host.lock")
	l := newLab(t, &fakeDaemon{}, func(c *Config) { c.HostLock = lock })
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	if _, err := l.box.OpenJob(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second job was opened: %v", err)
	}
	l.job.Close()
	second, err := l.box.OpenJob(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}

func TestWhoeverWaitsForALockIsToldOnceForWhom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "host.lock")
	release, err := WaitLock(t.Context(), path, func(string) { t.Error("the first had to wait") })
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 10)
	got := make(chan error, 1)
	go func() {
		second, err := WaitLock(t.Context(), path, func(holder string) { told <- holder })
		if err == nil {
			second()
		}
		got <- err
	}()
	holder := <-told
	select {
	case err := <-got:
		t.Fatalf("the second did not wait: %v", err)
	case <-time.After(3 * lockPoll):
	}
	release()
	if err := <-got; err != nil || holder != fmt.Sprintf("process %d", os.Getpid()) || len(told) > 0 {
		t.Errorf("%v, waited for %q, told %d times more", err, holder, len(told))
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock's file stayed: %v", err)
	}
}

func TestAnInstanceIsHeldByOne(t *testing.T) {
	dir := t.TempDir()
	release, err := HoldInstance(dir, "cli-x")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := HoldInstance(dir, "cli-x"); err == nil {
		again()
		t.Error("held by two")
	}
	release()
	if again, err := HoldInstance(dir, "cli-x"); err != nil {
		t.Error(err)
	} else {
		again()
	}
}

func TestScratchThatWasMadeIsUnmadeAndNoMore(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b", "c")
	made, err := MakeScratch(dir, 0o711)
	if err != nil || len(made) != 3 {
		t.Fatalf("%q, %v", made, err)
	}
	if again, err := MakeScratch(dir, 0o711); err != nil || len(again) != 0 {
		t.Errorf("made again: %q, %v", again, err)
	}
	if err := os.WriteFile(filepath.Join(root, "a", "kept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	made.Unmake()
	if left, err := os.ReadDir(filepath.Join(root, "a")); err != nil || len(left) != 1 || left[0].Name() != "kept" {
		t.Errorf("left %v, %v", left, err)
	}
	if _, err := MakeScratch(filepath.Join(root, "a", "kept", "x"), 0o711); err == nil {
		t.Error("a directory was made below a file")
	}
}

func TestAConfigNothingCanBeJudgedWithIsRefused(t *testing.T) {
	good := Config{Instance: "i", Scratch: "/var/lib/evalhost/scratch", Shim: "/shim", Lanes: []Lane{{}}}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Config){
		"no instance":                    func(c *Config) { c.Instance = "" },
		"relative scratch":               func(c *Config) { c.Scratch = "scratch" },
		"scratch that is not clean":      func(c *Config) { c.Scratch = "/var/../run/x" },
		"scratch under /run":             func(c *Config) { c.Scratch = "/run/evalhost" },
		"the root for scratch":           func(c *Config) { c.Scratch = "/" },
		"a relative shim":                func(c *Config) { c.Shim = "shim" },
		"no lanes":                       func(c *Config) { c.Lanes = nil },
		"lanes in one another":           func(c *Config) { c.Lanes = []Lane{{"0-1"}, {"1"}} },
		"a negative factor":              func(c *Config) { c.BuildWallFactor = -1 },
		"a factor beyond any emulation":  func(c *Config) { c.BuildWallFactor = 1e9 },
		"a factor that is not a number":  func(c *Config) { c.BuildWallFactor = nan() },
		"a factor that is without bound": func(c *Config) { c.BuildWallFactor = 1 / zero() },
	} {
		c := good
		spoil(&c)
		if c.check() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func zero() float64 { return 0 }
func nan() float64  { return zero() / zero() }

func TestScratchThatCannotExecuteIsFoundOut(t *testing.T) {
	dir := t.TempDir()
	shim := filepath.Join(dir, "shim")
	os.WriteFile(shim, []byte("this cannot be executed"), 0o755)
	os.Mkdir(filepath.Join(dir, "homes"), 0o755)
	_, err := open(t.Context(), &fakeDaemon{}, fakeDriver{filepath.Join(dir, "homes")}, Config{
		Instance: "i", Scratch: filepath.Join(dir, "scratch"), Shim: shim, Lanes: []Lane{{}}, Locks: filepath.Join(dir, "locks"),
	})
	if err == nil || !strings.Contains(err.Error(), "exec") {
		t.Errorf("open: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "scratch")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a failed start leaves the scratch directory it made: %v", err)
	}
	if l, err := tryLock(filepath.Join(dir, "locks", "i.lock")); err != nil {
		t.Errorf("a failed start keeps the lock: %v", err)
	} else {
		l.release()
	}
}

func TestBuildsGetAllLanesTogether(t *testing.T) {
	for want, lanes := range map[string][]Lane{"": {{}}, "2-3,6": {{"2-3"}, {"6"}}, "1": {{"1"}}} {
		s := Sandbox{cfg: Config{Lanes: lanes}}
		if got := s.buildCpuset(); got != want {
			t.Errorf("lanes %v: builds get %q, want %q", lanes, got, want)
		}
	}
	s := Sandbox{cfg: Config{Lanes: []Lane{{"1"}, {}}}}
	if got := s.buildCpuset(); got != "" {
		t.Errorf("with an unpinned lane builds get %q", got)
	}
}

func TestAProgramIsARegularFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	os.WriteFile(file, nil, 0o644)
	link := filepath.Join(dir, "link")
	os.Symlink(file, link)
	for path, ok := range map[string]bool{file: true, link: false, dir: false, "file": false, dir + "/../" + filepath.Base(dir) + "/file": false, dir + "/none": false} {
		if _, err := ProgramAt(path); (err == nil) != ok {
			t.Errorf("ProgramAt(%s) = %v, want accepted %v", path, err, ok)
		}
	}
}

func TestCopiesFollowNoLinks(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	os.WriteFile(secret, []byte("secret"), 0o600)
	link := filepath.Join(dir, "link")
	os.Symlink(secret, link)
	if err := copyFile(link, filepath.Join(dir, "copy"), 0o444); err == nil {
		t.Error("a link was copied from")
	}
	if err := copyFile(secret, link, 0o444); err == nil {
		t.Error("a link was written through")
	}
	fifo := filepath.Join(dir, "fifo")
	if err := makeFIFO(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := copyFile(fifo, filepath.Join(dir, "copy2"), 0o444); err == nil || !strings.Contains(fmt.Sprint(err), "regular") {
		t.Errorf("a channel was copied: %v", err)
	}
}
