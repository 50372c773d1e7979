package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/evalhost/evalhost/checks/guest/wire"
)

// record is what is kept of a running guest, in its directory.
type record struct {
	Name    string  `json:"name"`
	Variant string  `json:"variant"`
	QEMU    process `json:"qemu"`
	Accel   string  `json:"accel"`
	// Processors of the machine.
	Processors int       `json:"processors"`
	Key        string    `json:"key"` // of the disk
	Started    time.Time `json:"started"`
	Restored   bool      `json:"restored"` // from a snapshot
	Ready      bool      `json:"ready"`    // Up has returned
}

const recordFile = "instance.json"

func readRecord(dir string) (record, error) {
	var r record
	data, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("%s: %w", filepath.Join(dir, recordFile), err)
	}
	return r, nil
}

func (r record) write(dir string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, recordFile+".tmp")
	if err := os.WriteFile(tmp, append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, recordFile))
}

// Options say which guest Up starts.
type Options struct {
	Name    string // of the instance, "default" when empty
	Variant string // DefaultVariant when empty
	// Processors of the machine, 1 to MaxProcessors, which zero means as well. Where several emulated guests share a machine, one each
	// is faster than two: a processor that waits for a lock of another one that is not running burns its time.
	Processors int
	// Reuse takes a guest of this name, variant and build that is up already, whatever was done to it.
	Reuse bool
	// Boot boots instead of restoring a snapshot.
	Boot bool
	// Timeout bounds a boot; zero means DefaultBootTimeout.
	Timeout time.Duration
	// Log says what is going on; nil means standard error.
	Log io.Writer
}

// DefaultName is the instance used when none is named.
const DefaultName = "default"

// DefaultBootTimeout is several times what a boot takes an emulated machine that has its processors to itself.
const DefaultBootTimeout = 6 * time.Minute

func (o *Options) fill() {
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.Log == nil {
		o.Log = os.Stderr
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultBootTimeout
	}
}

// Up builds the guest if need be and starts a pristine one under the given name, replacing one that is up. It returns once
// the guest is ready: systemd has finished booting and Docker answers. When it fails nothing is left running.
func Up(ctx context.Context, o Options) (*Guest, error) {
	o.fill()
	variant, err := o.find()
	if err != nil {
		return nil, err
	}
	dir, err := instanceDir(o.Name)
	if err != nil {
		return nil, err
	}
	b, _, err := build(ctx, o.Log)
	if err != nil {
		return nil, err
	}
	unlock, err := lock(ctx, dir+".lock", func() { fmt.Fprintf(o.Log, "guest %s: waiting for another command on it\n", o.Name) })
	if err != nil {
		return nil, err
	}
	defer unlock()
	if o.Reuse {
		if r, err := readRecord(dir); err == nil && r.QEMU.alive() && r.Ready && r.Variant == variant.Name && r.Processors == variant.Processors && r.Key == b.key {
			g := newGuest(dir, r)
			return g, g.ping(ctx)
		}
	}
	if err := remove(dir); err != nil {
		return nil, err
	}
	accel, err := thisMachine.choose(ctx, b, o.Log)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	var g *Guest
	if variant.Keep && !o.Boot {
		g, err = restored(ctx, b, accel, variant, dir, o)
	} else {
		g, err = booted(ctx, b, accel, variant, dir, o, "")
	}
	if err != nil {
		return nil, err
	}
	how := "booted"
	if g.record.Restored {
		how = "restored"
	}
	fmt.Fprintf(o.Log, "guest %s: %s, variant %s, processors %d, %s in %.1f s\n", o.Name, g.about(), variant.Name, variant.Processors, how, time.Since(start).Seconds())
	return g, nil
}

// booted starts a guest from the disk and waits until it is ready. With memory its memory lives in that file.
func booted(ctx context.Context, b *built, accel string, variant Variant, dir string, o Options, memory string) (_ *Guest, err error) {
	m := machine{qemu: b.qemu, disk: b.disk, accel: accel, variant: variant, memory: memory, shared: memory != ""}
	if memory == "" {
		m.memory = memoryFile // private: the file itself stays empty
	}
	if err := prepareDir(dir, memory == ""); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = clearAway(dir, o.Name, err)
		}
	}()
	if err := overlay(ctx, b.qemu, filepath.Join(b.disk, "disk.raw"), "raw", filepath.Join(dir, "disk.qcow2")); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, doubtAccel(b, accel, ctx.Err() != nil))
		}
	}()
	p, err := m.start(dir)
	if err != nil {
		return nil, err
	}
	r := record{Name: o.Name, Variant: variant.Name, QEMU: p, Accel: accel, Processors: variant.Processors, Key: b.key, Started: time.Now()}
	if err := r.write(dir); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	g := newGuest(dir, r)
	if err := g.waitReady(ctx, o.Timeout); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !p.alive() { // then the error shows the console already
			return nil, fmt.Errorf("the guest did not become ready: %w", err)
		}
		return nil, fmt.Errorf("the guest did not become ready (it had %v): %w\nthe last lines of its console:\n%s\nQEMU said: %s",
			o.Timeout, err, tail(filepath.Join(dir, "console.log"), 25), tail(filepath.Join(dir, "qemu.log"), 10))
	}
	return g, errors.Join(g.markReady(), trustAccel(b, accel))
}

const memoryFile = "memory"

// prepareDir makes an instance's directory, with the file its memory is mapped from when the instance brings its own.
func prepareDir(dir string, memory bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if !memory {
		return nil
	}
	return newMemory(filepath.Join(dir, memoryFile))
}

// newMemory makes the sparse file a guest's memory is mapped from.
func newMemory(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Truncate(memoryMiB << 20)
}

// overlay makes a disk that begins as backing and keeps what is written. It names its backing relative to itself, so that a
// cache can be moved as a whole.
func overlay(ctx context.Context, qemu, backing, format, path string) error {
	backing, err := filepath.Rel(filepath.Dir(path), backing)
	if err != nil {
		return err
	}
	_, err = command{args: append(loader(qemu, "qemu-img"), "create", "-q", "-f", "qcow2", "-b", backing, "-F", format, path)}.run(ctx)
	return err
}

// Attach connects to a guest that is up.
func Attach(ctx context.Context, name string) (*Guest, error) {
	if name == "" {
		name = DefaultName
	}
	dir, err := instanceDir(name)
	if err != nil {
		return nil, err
	}
	r, err := readRecord(dir)
	if err != nil || !r.QEMU.alive() || !r.Ready {
		return nil, fmt.Errorf("the guest %q is not up: start it with guest up --name %s", name, name)
	}
	return newGuest(dir, r), ctx.Err()
}

// Status describes one instance.
type Status struct {
	Name, Variant, Accel string
	Running, Ready       bool
	Restored             bool
	PID                  int
	Since                time.Time
}

// List describes every instance there is.
func List() ([]Status, error) {
	cache, err := Cache()
	if err != nil {
		return nil, err
	}
	dirs, err := filepath.Glob(filepath.Join(cache, "instances", "[a-z0-9]*", recordFile))
	if err != nil {
		return nil, err
	}
	var list []Status
	for _, file := range dirs {
		r, err := readRecord(filepath.Dir(file))
		if err != nil {
			continue // being removed
		}
		list = append(list, Status{
			Name: r.Name, Variant: r.Variant, Accel: r.Accel, Running: r.QEMU.alive(), Ready: r.Ready, Restored: r.Restored,
			PID: r.QEMU.PID, Since: r.Started,
		})
	}
	return list, nil
}

// ConsoleLog returns the path of an instance's console log.
func ConsoleLog(name string) (string, error) {
	if name == "" {
		name = DefaultName
	}
	dir, err := instanceDir(name)
	return filepath.Join(dir, "console.log"), err
}

// waitReady waits for the agent and then for what the agent waits for. QEMU's own end is noticed at once.
func (g *Guest) waitReady(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errors.New("its time is up"))
	defer cancel()
	ctx, gone := context.WithCancelCause(ctx)
	defer gone(nil)
	watcher := make(chan struct{})
	go func() {
		defer close(watcher)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(200 * time.Millisecond):
				if !g.record.QEMU.alive() {
					gone(errors.New("QEMU has ended"))
				}
			}
		}
	}()
	defer func() { gone(nil); <-watcher }()
	var result wire.ReadyResult
	wait := timeout
	if d, ok := ctx.Deadline(); ok {
		wait = time.Until(d)
	}
	if err := g.request(ctx, wire.Request{Op: wire.OpReady, Wait: wait}, &result); err != nil {
		return err
	}
	g.ready = result
	return nil
}

func (g *Guest) markReady() error {
	g.record.Ready = true
	return g.record.write(g.dir)
}
