package sandbox

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evalhost/evalhost/services/internal/mutant"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// outputCap is how much a judged run may write before it is stopped. It bounds what one submission makes the Runner hold.
const outputCap = 64 * verdict.MiB

// relayBuffer is the size of one read.
const relayBuffer = 64 << 10

// relay carries a submission's standard output to whoever judges it, and counts (spec/sandbox.md 6.2). It never stops
// reading before the end of the stream: a reader that stops is a full pipe, and the participant would be charged for
// blocking in a write.
type relay struct {
	limit verdict.Bytes
	// target takes the bytes; it returns true once nothing that follows can change the answer.
	target func(p []byte) (settled bool)
	// enough asks for the run to be stopped: Decided or Output.
	enough func(Stop)
	// moved counts for the no-progress window, beside the bytes that cross the other way.
	moved *atomic.Int64

	total   verdict.Bytes // read after copyAll has returned
	capped  bool
	settled bool
}

// copyAll reads the stream to its end.
func (r *relay) copyAll(in io.Reader) error {
	buf := make([]byte, relayBuffer)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			r.take(buf[:n])
		}
		if mutant.Off(mutant.Drain) && (r.settled || r.capped) {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// take counts one piece and passes it on.
func (r *relay) take(p []byte) {
	r.moved.Add(int64(len(p)))
	r.total += verdict.Bytes(len(p))
	switch {
	case r.settled || r.capped: // drained and dropped
	case r.total > r.limit && !mutant.Off(mutant.OutputCap):
		r.capped = true
		r.enough(Output)
	case r.target(p):
		r.settled = true
		r.enough(Decided)
	}
}

// queue holds what the submission wrote and its judge has not read yet. Without it a judge that is slow, or whose container
// is slower to start, would make the submission block in a write and be charged for that. What it holds is bounded by the
// relay's limit. The zero queue is empty and open.
type queue struct {
	mu     sync.Mutex
	wake   *sync.Cond
	chunks [][]byte
	closed bool
	// lost says that something was thrown away that had been queued before the end.
	lost bool
}

func newQueue() *queue {
	q := &queue{}
	q.wake = sync.NewCond(&q.mu)
	return q
}

// push appends a copy. After end it does nothing.
func (q *queue) push(p []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	// Small pieces share a chunk: a program that writes byte by byte must not cost a multiple of what it wrote.
	if last := len(q.chunks) - 1; last >= 0 && len(q.chunks[last])+len(p) <= relayBuffer {
		q.chunks[last] = append(q.chunks[last], p...)
	} else {
		q.chunks = append(q.chunks, append([]byte(nil), p...))
	}
	q.wake.Signal()
}

// end says that nothing more comes. What is queued can still be taken.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake.Broadcast()
}

// drop ends the queue and throws away what it holds.
func (q *queue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost = q.lost || len(q.chunks) > 0
	q.closed, q.chunks = true, nil
	q.wake.Broadcast()
}

// wasLeft says whether the reader left something in the queue, besides what its channel held and the piece that was on its way.
func (q *queue) wasLeft() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// pop takes the oldest piece, waiting for one; false at the end.
func (q *queue) pop() ([]byte, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.chunks) == 0 && !q.closed {
		q.wake.Wait()
	}
	if len(q.chunks) == 0 {
		return nil, false
	}
	p := q.chunks[0]
	q.chunks[0] = nil
	q.chunks = q.chunks[1:]
	return p, true
}

// deliver writes the queue into the channel at path until the queue ends, then closes the channel, so that its reader
// sees the end. It waits for the reader for as long as the reader's program lives: a judge may open its channel late, or
// never. A reader that goes away ends nothing but the delivery: what is left is thrown away (spec/sandbox.md 6.2, C7).
func deliver(ctx context.Context, q *queue, path string, gone <-chan struct{}, atMost time.Duration) error {
	defer q.drop()
	out, err := openOutlet(ctx, path, gone, atMost)
	if err != nil {
		return err
	}
	defer out.Close()
	release := writeUntil(ctx, out)
	defer release()
	// A queue that nobody fills any more must not keep the delivery waiting after its context is over.
	wake := context.AfterFunc(ctx, q.drop)
	defer wake()
	for {
		p, more := q.pop()
		if !more {
			return nil
		}
		if _, err := out.Write(p); err != nil {
			return err
		}
	}
}

// writeUntil makes parked writes return once the context is over.
func writeUntil(ctx context.Context, out *os.File) (release func() bool) {
	return context.AfterFunc(ctx, func() { _ = out.SetWriteDeadline(time.Unix(1, 0)) })
}
