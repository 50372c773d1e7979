package sandbox

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/evalhost/evalhost/services/internal/mutant"
	"github.com/evalhost/evalhost/services/internal/verdict"
	"github.com/evalhost/evalhost/shim/wire"
)

const (
	// collectTimeout bounds reading an artefact.
	collectTimeout = 60 * time.Second
	// artefactSpare is what an artefact may have above the largest file a build may write (decisions 11).
	artefactSpare = verdict.MiB
)

// collector keeps what a container says on its two channels, counted together against one limit. Past it the container
// is stopped; the rest is read and dropped (spec/sandbox.md 6.5).
type collector struct {
	limit   verdict.Bytes
	onFlood func()

	mu             sync.Mutex
	stdout, stderr []byte
	total          verdict.Bytes
	flooded        bool

	readers []*inlet
	tasks   sync.WaitGroup
	err     error // the first
	stop    context.CancelFunc
}

// newCollector makes the two channels in dir and opens their reading ends, before there is a container: whoever writes
// finds a reader. Everybody may write into them and only root may read.
func newCollector(dir string, limit verdict.Bytes) (_ *collector, err error) {
	k := &collector{limit: limit, onFlood: func() {}, stop: func() {}}
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	for _, name := range []string{saidOut, saidErr} {
		path := filepath.Join(dir, name)
		if err := makeFIFO(path, 0o622); err != nil {
			return nil, err
		}
		in, err := openInlet(path)
		if err != nil {
			return nil, err
		}
		k.readers = append(k.readers, in)
	}
	return k, nil
}

// follow reads both channels of a started container until it has ended.
func (k *collector) follow(ctx context.Context, c *contained, life time.Duration) {
	k.onFlood = func() { c.ending.choose(Output) }
	ctx, k.stop = context.WithCancel(context.WithoutCancel(ctx))
	for i, into := range []*[]byte{&k.stdout, &k.stderr} {
		in := k.readers[i]
		k.tasks.Go(func() {
			release := in.stopOn(ctx)
			defer release()
			err := in.await(ctx, c.exited, plus(life, spareLife))
			if errors.Is(err, errNobody) {
				return // it ended before its shell had opened the channel
			}
			if err == nil {
				_, err = io.Copy(stream{k, into}, in)
			}
			if err != nil {
				k.mu.Lock()
				k.err = errors.Join(k.err, err)
				k.mu.Unlock()
			}
		})
	}
}

// stream is one of a collector's two streams.
type stream struct {
	k    *collector
	into *[]byte
}

// Write keeps what the limit leaves room for and never fails.
func (s stream) Write(p []byte) (int, error) {
	k := s.k
	k.mu.Lock()
	defer k.mu.Unlock()
	room := max(k.limit-k.total, 0)
	k.total += verdict.Bytes(len(p))
	*s.into = append(*s.into, p[:min(verdict.Bytes(len(p)), room)]...)
	if k.total > k.limit && !k.flooded && !mutant.Off(mutant.BuildOutput) {
		k.flooded = true
		k.onFlood()
	}
	return len(p), nil
}

// join waits for the end of what a container that has ended said, and says whether it was too much. Only now is that
// known: a program may write past the limit and exit before anybody has read it (spec/sandbox.md 9.1 #1).
func (k *collector) join() (flooded bool, err error) {
	done := make(chan struct{})
	go func() {
		k.tasks.Wait()
		close(done)
	}()
	if !isClosedWithin(done, drainDeadline) {
		k.stop()
		<-done // they have ended with their context
	}
	return k.flooded, k.err
}

// close gives the channels up, wherever their reading is.
func (k *collector) close() {
	k.stop()
	k.tasks.Wait()
	for _, in := range k.readers {
		_ = in.Close()
	}
}

// errTooLarge says that an artefact is over its cap.
var errTooLarge = errors.New("the artefact is larger than its cap")

// errNothing says that a build left nothing at the artefact's path.
var errNothing = errors.New("the build left nothing to collect")

// oddArtefact says what is in the artefact's place instead of a regular file.
type oddArtefact struct{ what string }

func (e *oddArtefact) Error() string {
	return "the artefact is no regular file but " + e.what + "; links and devices are not followed"
}

// kinds names the entries of an archive that are no regular files.
var kinds = map[byte]string{
	tar.TypeSymlink: "a symbolic link", tar.TypeLink: "a hard link", tar.TypeDir: "a directory",
	tar.TypeChar: "a device", tar.TypeBlock: "a device", tar.TypeFifo: "a named pipe",
}

// fetchArtefact reads /out/<name> of a build's container into a new file of mode 0555 in dir (C56; decisions 11).
func (c *contained) fetchArtefact(ctx context.Context, name string, limit verdict.Bytes, dir *os.Root) error {
	body, found, err := c.box.engine.Archive(ctx, c.id, wire.BuildDir+"/"+name, collectTimeout)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("sandbox: %s/%s: %w", wire.BuildDir, name, errNothing)
	}
	defer body.Close()
	return unpackArtefact(body, name, limit, dir)
}

// unpackArtefact takes exactly one regular file out of a tar stream made from a file system that hostile code has
// written. It believes nothing of it: not the name, not the kind, not the size.
func unpackArtefact(stream io.Reader, name string, limit verdict.Bytes, dir *os.Root) error {
	// The stream may be larger than the file by headers and padding, and by no more.
	archive := tar.NewReader(io.LimitReader(stream, int64(addBytes(limit, verdict.MiB))))
	header, err := archive.Next()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("sandbox: %s: %w", name, errNothing)
	}
	if err != nil {
		return fmt.Errorf("sandbox: reading the artefact %s: %w", name, err)
	}
	if what, odd := kinds[header.Typeflag]; odd && !mutant.Off(mutant.RegularFile) {
		return fmt.Errorf("sandbox: %s: %w", name, &oddArtefact{what})
	}
	if header.Typeflag != tar.TypeReg && !mutant.Off(mutant.RegularFile) {
		return fmt.Errorf("sandbox: the artefact %s is of the unknown tar type %q", name, header.Typeflag)
	}
	if header.Name != name && !mutant.Off(mutant.ArtefactName) {
		return fmt.Errorf("sandbox: the artefact %s is called %q in the archive", name, header.Name)
	}
	if mutant.Off(mutant.ArtefactCap) {
		limit = 1 << 40
	}
	if header.Size > int64(limit) {
		return fmt.Errorf("sandbox: %s: %w: %s, and at most %s is taken", name, errTooLarge, verdict.Bytes(header.Size), limit)
	}
	out, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("sandbox: writing the artefact: %w", err)
	}
	defer out.Close()
	n, err := io.Copy(out, io.LimitReader(archive, int64(limit)+1))
	switch {
	case err != nil:
		return fmt.Errorf("sandbox: reading the artefact %s: %w", name, err)
	case n > int64(limit):
		return fmt.Errorf("sandbox: %s: %w of %s", name, errTooLarge, limit)
	case n != header.Size:
		return fmt.Errorf("sandbox: the artefact %s says it has %d bytes and has %d", name, header.Size, n)
	}
	if _, err := archive.Next(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("sandbox: the archive of the artefact %s holds more than one file", name)
	}
	if err := out.Chmod(0o555); err != nil {
		return fmt.Errorf("sandbox: writing the artefact: %w", err)
	}
	return nil
}
