package sandbox

import (
	"bytes"
	"context"
	"sync"

	"github.com/evalhost/evalhost/services/internal/mutant"
	"github.com/evalhost/evalhost/shim/wire"
)

// reportLimit is more than any report.
const reportLimit = 64 << 10

// reportReader reads a run's report channel, from before its shim is started until its container is gone. Only the shim
// can open the channel, and only what carries the run's secret is a report (spec/sandbox.md 3.7).
type reportReader struct {
	nonce  string
	in     *inlet
	cancel context.CancelFunc
	gone   chan struct{}
	over   sync.Once
	done   chan struct{}
	bytes  []byte // after done
}

// readReport starts reading. arrived is called once, when the first measurement is there.
func readReport(path, nonce string, arrived func()) (*reportReader, error) {
	in, err := openInlet(path)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &reportReader{nonce: nonce, in: in, cancel: cancel, gone: make(chan struct{}), done: make(chan struct{})}
	release := in.stopOn(ctx)
	go func() {
		defer close(r.done)
		defer release()
		if in.await(ctx, r.gone, spareLife) == nil {
			r.read(arrived)
		}
	}()
	return r, nil
}

// read reads the channel to its end. Past the limit it only drains, so that nobody blocks in a write.
func (r *reportReader) read(arrived func()) {
	buf := make([]byte, 4096)
	told := false
	for {
		n, err := r.in.Read(buf)
		r.bytes = append(r.bytes, buf[:min(n, reportLimit-len(r.bytes))]...)
		if !told && parse(r.bytes, r.nonce).Report != nil {
			told = true
			arrived()
		}
		if err != nil {
			return
		}
	}
}

// parse takes the lines of one secret alone for the shim's.
func parse(stream []byte, nonce string) wire.Reading {
	if words := bytes.Fields(stream); len(words) > 0 && mutant.Off(mutant.Nonce) {
		nonce = string(words[0]) // whoever speaks first is believed
	}
	return wire.Parse(stream, nonce)
}

// join waits for the end of the channel of a container that is gone, and reads what the shim said.
func (r *reportReader) join() wire.Reading {
	r.over.Do(func() { close(r.gone) })
	if !isClosedWithin(r.done, drainDeadline) {
		r.cancel()
		<-r.done
	}
	return parse(r.bytes, r.nonce)
}

// close ends the reading wherever it is.
func (r *reportReader) close() {
	r.cancel()
	<-r.done
	_ = r.in.Close()
}
