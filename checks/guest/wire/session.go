package wire

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Streams is how many streams a session has in each direction. By custom 0, 1 and 2 are standard input, output and
// error of a command.
const Streams = 3

// Session is one request and its streams.
type Session struct {
	id     uint32
	c      *Conn
	in     [Streams]*inStream
	out    [Streams]*outStream
	ctx    context.Context
	stop   context.CancelFunc
	mu     sync.Mutex
	result []byte
	over   chan struct{}
	err    error
}

func newSession(parent context.Context, c *Conn, id uint32) *Session {
	ctx, stop := context.WithCancel(parent)
	s := &Session{id: id, c: c, ctx: ctx, stop: stop, over: make(chan struct{})}
	for i := range Streams {
		s.in[i] = newInStream(s, byte(i))
		s.out[i] = newOutStream(s, byte(i))
	}
	return s
}

// Reader returns the receiving end of a stream.
func (s *Session) Reader(stream int) io.ReadCloser { return s.in[stream] }

// Writer returns the sending end of a stream; Close says that no more will follow.
func (s *Session) Writer(stream int) io.WriteCloser { return s.out[stream] }

// Cancel asks the agent to stop the session. The result still arrives.
func (s *Session) Cancel() { _ = s.c.send(Frame{Kind: KindCancel, Session: s.id}) }

// Abort ends every stream on this side, whatever the peer does. The result can still be sent or received.
func (s *Session) Abort() {
	for i := range Streams {
		s.in[i].finish(ErrClosed)
		s.out[i].drop()
	}
}

// Over is closed when the result has arrived or the connection has ended.
func (s *Session) Over() <-chan struct{} { return s.over }

// Result waits for the session's result and decodes it into v.
func (s *Session) Result(ctx context.Context, v any) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.over:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.result == nil {
		return s.err
	}
	var failure Failure
	if err := json.Unmarshal(s.result, &failure); err == nil && failure.Error != "" {
		return fmt.Errorf("the guest's agent: %s", failure.Error)
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(s.result, v)
}

func (s *Session) cancel() { s.stop() }

// setResult ends the session on the client's side. Streams keep what has arrived, so that a reader drains them.
func (s *Session) setResult(payload []byte) {
	s.mu.Lock()
	if s.result == nil && s.err == nil {
		s.result = payload
		close(s.over)
	}
	s.mu.Unlock()
	s.c.forget(s.id)
	for i := range Streams {
		s.in[i].finish(io.EOF)
		s.out[i].drop()
	}
	s.stop()
}

// end tells everything that waits on this session that the connection is gone.
func (s *Session) end(err error) {
	s.mu.Lock()
	if s.result == nil && s.err == nil {
		s.err = err
		close(s.over)
	}
	s.mu.Unlock()
	for i := range Streams {
		s.in[i].finish(err)
		s.out[i].drop()
	}
	s.stop()
}

// reply sends the result and ends the session on the agent's side.
func (s *Session) reply(result any, err error) {
	if err != nil {
		result = Failure{Error: err.Error()}
	}
	payload, merr := json.Marshal(result)
	if merr != nil || len(payload) > MaxPayload {
		payload, _ = json.Marshal(Failure{Error: fmt.Sprintf("a result of %d bytes cannot be sent (%v)", len(payload), merr)})
	}
	_ = s.c.send(Frame{Kind: KindResult, Session: s.id, Payload: payload})
	s.c.forget(s.id)
	s.end(ErrClosed)
}

// inStream buffers what arrives, at most Window bytes, and grants room as it is consumed.
type inStream struct {
	s       *Session
	index   byte
	mu      sync.Mutex
	cond    *sync.Cond
	buf     []byte
	owed    int // consumed and not yet granted back
	err     error
	dropped bool
}

func newInStream(s *Session, index byte) *inStream {
	in := &inStream{s: s, index: index}
	in.cond = sync.NewCond(&in.mu)
	return in
}

func (in *inStream) add(p []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.dropped || in.err != nil {
		return
	}
	in.buf = append(in.buf, p...)
	in.cond.Broadcast()
}

func (in *inStream) finish(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.err == nil {
		in.err = err
	}
	in.cond.Broadcast()
}

// Read implements io.Reader.
func (in *inStream) Read(p []byte) (int, error) {
	in.mu.Lock()
	for len(in.buf) == 0 && in.err == nil {
		in.cond.Wait()
	}
	if len(in.buf) == 0 {
		defer in.mu.Unlock()
		return 0, in.err
	}
	n := copy(p, in.buf)
	in.buf = in.buf[n:]
	if len(in.buf) == 0 {
		in.buf = nil
	}
	in.owed += n
	grant := 0
	if in.owed >= Window/4 && in.err == nil {
		grant, in.owed = in.owed, 0
	}
	in.mu.Unlock()
	if grant > 0 {
		var payload [4]byte
		binary.BigEndian.PutUint32(payload[:], uint32(grant))
		_ = in.s.c.send(Frame{Kind: KindCredit, Session: in.s.id, Stream: in.index, Payload: payload[:]})
	}
	return n, nil
}

// Close says that no more of this stream is wanted; what the peer still sends is discarded.
func (in *inStream) Close() error {
	in.mu.Lock()
	already := in.dropped || in.err != nil
	in.dropped = true
	in.buf = nil
	if in.err == nil {
		in.err = io.ErrClosedPipe
	}
	in.cond.Broadcast()
	in.mu.Unlock()
	if already {
		return nil
	}
	return in.s.c.send(Frame{Kind: KindDrop, Session: in.s.id, Stream: in.index})
}

// outStream sends as much as the receiver has room for.
type outStream struct {
	s       *Session
	index   byte
	wmu     sync.Mutex // one writer at a time
	mu      sync.Mutex
	cond    *sync.Cond
	room    int
	dropped bool
	ended   bool
}

func newOutStream(s *Session, index byte) *outStream {
	out := &outStream{s: s, index: index, room: Window}
	out.cond = sync.NewCond(&out.mu)
	return out
}

func (out *outStream) grant(n int) {
	out.mu.Lock()
	defer out.mu.Unlock()
	out.room += n
	out.cond.Broadcast()
}

func (out *outStream) drop() {
	out.mu.Lock()
	defer out.mu.Unlock()
	out.dropped = true
	out.cond.Broadcast()
}

// Write implements io.Writer. It fails with io.ErrClosedPipe when the receiver wants no more.
func (out *outStream) Write(p []byte) (int, error) {
	out.wmu.Lock()
	defer out.wmu.Unlock()
	written := 0
	for len(p) > 0 {
		out.mu.Lock()
		for out.room == 0 && !out.dropped {
			out.cond.Wait()
		}
		if out.dropped || out.ended {
			out.mu.Unlock()
			return written, io.ErrClosedPipe
		}
		n := min(len(p), out.room, MaxPayload)
		out.room -= n
		out.mu.Unlock()
		if err := out.s.c.send(Frame{Kind: KindData, Session: out.s.id, Stream: out.index, Payload: p[:n]}); err != nil {
			return written, err
		}
		written += n
		p = p[n:]
	}
	return written, nil
}

// Close ends the stream.
func (out *outStream) Close() error {
	out.wmu.Lock()
	defer out.wmu.Unlock()
	out.mu.Lock()
	skip := out.dropped || out.ended
	out.ended = true
	out.mu.Unlock()
	if skip {
		return nil
	}
	return out.s.c.send(Frame{Kind: KindEnd, Session: out.s.id, Stream: out.index})
}
