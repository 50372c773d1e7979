package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/evalhost/evalhost/checks/guest/wire"
)

// A template is a ready guest, stopped and kept: the file its memory lives in, its disk and the state of its devices. A
// guest restored from it maps the memory file privately and writes to a disk of its own on top, so that any number of
// guests begin as the same one, at once, and none changes the template.
type template struct {
	dir string
}

const (
	templateDisk  = "disk.qcow2"
	templateState = "state"
	templateReady = "ready.json"
)

// templateKey names a template: everything that has to be the same for its memory to be understood.
func templateKey(b *built, accel string, variant Variant) (string, error) {
	var k keyHash
	k.value("built", b.key)
	m := machine{qemu: "/qemu", disk: "/disk", accel: accel, variant: variant, memory: memoryFile}
	for i, arg := range m.args() {
		k.value(fmt.Sprintf("argument %d", i), arg)
	}
	k.value("warm-up", fmt.Sprint(warmUp))
	return k.sum()
}

// warmUp is run before the machine is kept, so that a restored guest has the programs that start a container in its page
// cache and the daemon has started one.
var warmUp = []Cmd{
	{Args: []string{"docker", "run", "--rm", "--network", "none", TestImage, "/bin/true"}, Timeout: 2 * time.Minute},
	{Args: []string{"sync"}, Timeout: time.Minute},
}

// noSnapshot is a snapshot that could not be made although the guest was up: the disk is full, or this QEMU cannot.
type noSnapshot struct{ err error }

func (n noSnapshot) Error() string { return "the snapshot could not be made: " + n.err.Error() }
func (n noSnapshot) Unwrap() error { return n.err }

// restored starts a guest from the variant's template, which is made first if it is not there.
func restored(ctx context.Context, b *built, accel string, variant Variant, dir string, o Options) (*Guest, error) {
	return restoredOrBooted(ctx, o,
		func() (template, error) { return ensureTemplate(ctx, b, accel, variant, o) },
		func(t template) (*Guest, error) { return t.restore(ctx, b, accel, variant, dir, o) },
		func() (*Guest, error) { return booted(ctx, b, accel, variant, dir, o, "") })
}

// restoredOrBooted boots where a snapshot can be neither made nor restored. A guest that does not come up for its snapshot
// does not come up by itself either, and booting it again would only take as long once more.
func restoredOrBooted(
	ctx context.Context, o Options, ensure func() (template, error), restore func(template) (*Guest, error), boot func() (*Guest, error),
) (*Guest, error) {
	t, err := ensure()
	var none noSnapshot
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case errors.As(err, &none):
		fmt.Fprintf(o.Log, "guest %s: %v; booting instead\n", o.Name, err)
		return boot()
	case err != nil:
		return nil, err
	}
	g, err := restore(t)
	if err == nil || ctx.Err() != nil || errors.Is(err, errTakenDown) {
		return g, err
	}
	fmt.Fprintf(o.Log, "guest %s: the snapshot could not be restored, booting instead: %v\n", o.Name, err)
	return boot()
}

func ensureTemplate(ctx context.Context, b *built, accel string, variant Variant, o Options) (template, error) {
	key, err := templateKey(b, accel, variant)
	if err != nil {
		return template{}, err
	}
	t := template{dir: filepath.Join(b.cache, "templates", variant.Name+"-"+key)}
	if exists(t.dir) {
		now := time.Now()
		_ = os.Chtimes(t.dir, now, now)
		return t, nil
	}
	unlock, err := lock(ctx, filepath.Join(b.cache, "templates", variant.Name+".lock"), func() {
		fmt.Fprintf(o.Log, "guest %s: waiting for another process to take the snapshot of %s\n", o.Name, variant.Name)
	})
	if err != nil {
		return template{}, err
	}
	defer unlock()
	if exists(t.dir) {
		return t, nil
	}
	return t, t.take(ctx, b, accel, variant, o)
}

// take boots the variant, waits until it is ready, and keeps the machine.
func (t template) take(ctx context.Context, b *built, accel string, variant Variant, o Options) (err error) {
	tmp := filepath.Join(b.cache, "instances", ".template-"+variant.Name)
	if err := remove(tmp); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove(tmp)) }()
	if err := prepareDir(tmp, true); err != nil {
		return noSnapshot{err}
	}
	fmt.Fprintf(o.Log, "guest: booting %s (%s) for its snapshot\n", variant.Name, accel)
	start := time.Now()
	g, err := booted(ctx, b, accel, variant, tmp, Options{Name: ".template-" + variant.Name, Timeout: o.Timeout, Log: o.Log}, memoryFile)
	if err != nil {
		return err
	}
	defer g.Close()
	if err := t.keep(ctx, g, tmp, start, o); err != nil {
		if takenDown(tmp) {
			return fmt.Errorf("the guest for the snapshot of %s: %w", variant.Name, errTakenDown)
		}
		return noSnapshot{err}
	}
	prune(filepath.Dir(t.dir), variant.Name)
	return nil
}

// keep warms the ready guest in tmp up, stops it, and puts what a restore needs of it into place.
func (t template) keep(ctx context.Context, g *Guest, tmp string, start time.Time, o Options) error {
	up := time.Now()
	for _, c := range warmUp {
		res, err := g.Exec(ctx, c)
		if err != nil {
			return err
		}
		if !res.OK() {
			return fmt.Errorf("the guest is up, but %v failed: %s", c.Args, res)
		}
	}
	ready, err := json.Marshal(g.ready)
	if err != nil {
		return err
	}
	g.Close() // no port is connected in the snapshot
	warm := time.Now()
	if err := saveState(ctx, tmp); err != nil {
		return err
	}
	if err := g.record.QEMU.kill(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tmp, templateReady), ready, 0o644); err != nil {
		return err
	}
	if err := keepOnly(tmp, memoryFile, templateDisk, templateState, templateReady); err != nil {
		return err
	}
	if err := os.Rename(tmp, t.dir); err != nil {
		return err
	}
	fmt.Fprintf(o.Log, "guest: snapshot of %s: boot %.1f s, first container %.1f s, snapshot %.1f s; %s\n", g.record.Variant,
		up.Sub(start).Seconds(), warm.Sub(up).Seconds(), time.Since(warm).Seconds(), g.about())
	return nil
}

// saveState stops the machine and writes the state of its devices. Its memory is in its file already.
func saveState(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("QEMU did not write the machine's state"))
	defer cancel()
	m, err := dialMonitor(ctx, dir)
	if err != nil {
		return err
	}
	defer m.close()
	if err := m.do(ctx, "stop", nil, nil); err != nil {
		return err
	}
	if err := m.ignoreShared(ctx); err != nil {
		return err
	}
	if err := m.do(ctx, "migrate", map[string]any{"uri": "file:" + templateState}, nil); err != nil {
		return err
	}
	if err := m.migrationDone(ctx); err != nil {
		return err
	}
	return m.do(ctx, "quit", nil, nil)
}

func keepOnly(dir string, names ...string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		keep := false
		for _, name := range names {
			keep = keep || e.Name() == name
		}
		if !keep {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// restoreTimeout bounds a restore: it takes seconds, even where the template has to be read from a slow disk.
const restoreTimeout = time.Minute

func (t template) restore(ctx context.Context, b *built, accel string, variant Variant, dir string, o Options) (_ *Guest, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, restoreTimeout, errors.New("restoring the snapshot took too long"))
	defer cancel()
	m := machine{
		qemu: b.qemu, disk: b.disk, accel: accel, variant: variant, memory: filepath.Join(t.dir, memoryFile), incoming: true,
	}
	if err := prepareDir(dir, false); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = clearAway(dir, o.Name, err)
		}
	}()
	if err := overlay(ctx, b.qemu, filepath.Join(t.dir, templateDisk), "qcow2", filepath.Join(dir, "disk.qcow2")); err != nil {
		return nil, err
	}
	p, err := m.start(dir)
	if err != nil {
		return nil, err
	}
	r := record{
		Name: o.Name, Variant: variant.Name, QEMU: p, Accel: accel, Processors: variant.Processors, Key: b.key, Started: time.Now(), Restored: true,
	}
	if err := r.write(dir); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	if err := t.load(ctx, dir, p); err != nil {
		return nil, fmt.Errorf("%w\nQEMU said: %s", err, tail(filepath.Join(dir, "qemu.log"), 10))
	}
	g := newGuest(dir, r)
	data, err := os.ReadFile(filepath.Join(t.dir, templateReady))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &g.ready); err != nil {
		return nil, err
	}
	// The guest's clock stands where it stood when the snapshot was taken.
	if err := g.setClock(ctx); err != nil {
		return nil, fmt.Errorf("%w\nthe last lines of its console:\n%s", err, tail(filepath.Join(dir, "console.log"), 15))
	}
	var answer wire.ReadyResult
	if err := g.request(ctx, wire.Request{Op: wire.OpReady, Wait: restoreTimeout}, &answer); err != nil {
		return nil, err
	}
	g.ready = answer
	return g, g.markReady()
}

// load reads the state of the devices into a machine that waits for it, and lets it run.
func (t template) load(ctx context.Context, dir string, p process) error {
	var m *monitor
	for {
		var err error
		if m, err = dialMonitor(ctx, dir); err == nil {
			break
		}
		if !p.alive() {
			return errors.New("QEMU has ended")
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond): // its socket is not there yet
		}
	}
	defer m.close()
	if err := m.ignoreShared(ctx); err != nil {
		return err
	}
	if err := m.do(ctx, "migrate-incoming", map[string]any{"uri": "file:" + filepath.Join(t.dir, templateState)}, nil); err != nil {
		return err
	}
	if err := m.migrationDone(ctx); err != nil {
		return err
	}
	return m.do(ctx, "cont", nil, nil)
}
