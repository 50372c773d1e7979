//go:build !guest

package sandbox

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// relayed runs a relay over a stream and returns it, what the target got, and what it asked for.
func relayed(t *testing.T, stream io.Reader, limit verdict.Bytes, settleAt int) (*relay, []byte, []Stop) {
	t.Helper()
	var got []byte
	var asked []Stop
	r := &relay{
		limit: limit,
		target: func(p []byte) bool {
			got = append(got, p...)
			return settleAt > 0 && len(got) >= settleAt
		},
		enough: func(s Stop) { asked = append(asked, s) },
		moved:  new(atomic.Int64),
	}
	if err := r.copyAll(stream); err != nil {
		t.Fatal(err)
	}
	return r, got, asked
}

func TestEverythingUpToTheCapIsPassedOn(t *testing.T) {
	r, got, asked := relayed(t, bytes.NewReader(make([]byte, 100_000)), 100_000, 0)
	if len(got) != 100_000 || asked != nil || r.capped || r.total != 100_000 || r.moved.Load() != 100_000 {
		t.Errorf("passed on %d, asked for %v, capped %v, total %d, moved %d", len(got), asked, r.capped, r.total, r.moved.Load())
	}
}

func TestOneByteMoreThanTheCapStopsOnceAndTheRestIsDrained(t *testing.T) {
	r, got, asked := relayed(t, iotest.OneByteReader(bytes.NewReader(make([]byte, 5000))), 1000, 0)
	if len(got) != 1000 || len(asked) != 1 || asked[0] != Output || !r.capped || r.total != 5000 {
		t.Errorf("passed on %d, asked for %v, capped %v, total %d", len(got), asked, r.capped, r.total)
	}
}

func TestAfterTheAnswerIsSettledTheRestIsDrainedAndNeverCapped(t *testing.T) {
	r, got, asked := relayed(t, iotest.OneByteReader(bytes.NewReader(make([]byte, 5000))), 1000, 10)
	if len(got) != 10 || len(asked) != 1 || asked[0] != Decided || r.capped || r.total != 5000 || r.moved.Load() != 5000 {
		t.Errorf("passed on %d, asked for %v, capped %v, total %d, moved %d", len(got), asked, r.capped, r.total, r.moved.Load())
	}
}

func TestAQueueKeepsOrderAndEnds(t *testing.T) {
	q := newQueue()
	p := []byte("one")
	q.push(p)
	copy(p, "xxx") // the queue has a copy
	q.push([]byte("two"))
	q.push(make([]byte, relayBuffer))
	q.end()
	q.push([]byte("late"))
	var got [][]byte
	for {
		p, more := q.pop()
		if !more {
			break
		}
		got = append(got, p)
	}
	// Small pieces share a chunk, and none grows past a buffer.
	if len(got) != 2 || string(got[0]) != "onetwo" || len(got[1]) != relayBuffer {
		t.Errorf("popped %d chunks, the first is %.10q", len(got), got)
	}
}

func TestADroppedQueueIsEmptyAndWakesItsReader(t *testing.T) {
	q := newQueue()
	popped := make(chan bool)
	go func() {
		_, more := q.pop()
		popped <- more
	}()
	q.drop()
	select {
	case more := <-popped:
		if more {
			t.Error("a dropped queue gave something")
		}
	case <-time.After(soon):
		t.Fatal("the reader of a dropped queue hangs")
	}
}

// delivery starts a delivery of some pieces to path.
func delivery(t *testing.T, ctx context.Context, path string, gone chan struct{}, pieces int) chan error {
	t.Helper()
	q := newQueue()
	for range pieces {
		q.push(bytes.Repeat([]byte("x"), 1<<16))
	}
	q.end()
	done := make(chan error, 1)
	go func() { done <- deliver(ctx, q, path, gone, soon) }()
	return done
}

func ends(t *testing.T, done chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(soon):
		t.Fatal("the delivery hangs")
		return nil
	}
}

func TestADeliveryReachesAReaderThatComesLate(t *testing.T) {
	path := fifo(t)
	done := delivery(t, t.Context(), path, nil, 8)
	time.Sleep(20 * time.Millisecond)
	got, err := os.ReadFile(path)
	if err != nil || len(got) != 8<<16 {
		t.Errorf("the reader got %d bytes, %v; want %d", len(got), err, 8<<16)
	}
	if err := ends(t, done); err != nil {
		t.Error(err)
	}
}

func TestAReaderThatLeavesEndsOnlyTheDelivery(t *testing.T) {
	path := fifo(t)
	done := delivery(t, t.Context(), path, nil, 100)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	io.ReadFull(f, make([]byte, 10))
	f.Close()
	if err := ends(t, done); err == nil {
		t.Error("a broken pipe was no error")
	}
}

func TestADeliveryNobodyReadsEndsWithTheReadersProgram(t *testing.T) {
	gone := make(chan struct{})
	done := delivery(t, t.Context(), fifo(t), gone, 1)
	close(gone)
	if err := ends(t, done); err == nil {
		t.Error("nobody read, and that was no error")
	}
}

func TestADeliveryToAReaderThatDoesNotReadEndsWithItsContext(t *testing.T) {
	path := fifo(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := delivery(t, ctx, path, nil, 100) // more than the channel holds
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	time.Sleep(20 * time.Millisecond)
	cancel()
	if err := ends(t, done); err == nil {
		t.Error("a delivery that was given up was no error")
	}
}
