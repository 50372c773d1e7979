package wire

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Window is how many bytes of one stream may be under way without the receiver having consumed them. The dispatcher of
// a connection only ever buffers, so a stream nobody reads never stops the others.
const Window = 512 << 10

// ErrClosed is returned by everything on a connection that has ended.
var ErrClosed = errors.New("the connection to the guest has ended")

// Conn multiplexes sessions over one port.
type Conn struct {
	id   uint32
	fw   *FrameWriter
	mu   sync.Mutex
	open map[uint32]*Session
	next uint32
	err  error
	done chan struct{}
}

func newConn(id uint32, fw *FrameWriter) *Conn {
	return &Conn{id: id, fw: fw, open: map[uint32]*Session{}, done: make(chan struct{})}
}

func (c *Conn) send(f Frame) error {
	select {
	case <-c.done:
		return c.Err()
	default:
	}
	f.Conn = c.id
	return c.fw.Write(f)
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err says why the connection ended, nil while it lives.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *Conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	sessions := make([]*Session, 0, len(c.open))
	for _, s := range c.open {
		sessions = append(sessions, s)
	}
	c.open = map[uint32]*Session{}
	close(c.done)
	c.mu.Unlock()
	for _, s := range sessions {
		s.end(err)
	}
}

func (c *Conn) session(id uint32) *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[id]
}

func (c *Conn) forget(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, id)
}

// dispatch hands one frame to its session. It never blocks on a consumer.
func (c *Conn) dispatch(f Frame) {
	s := c.session(f.Session)
	if s == nil || int(f.Stream) >= len(s.in) {
		return // a session that is over on this side
	}
	switch f.Kind {
	case KindData:
		s.in[f.Stream].add(f.Payload)
	case KindEnd:
		s.in[f.Stream].finish(io.EOF)
	case KindCredit:
		if len(f.Payload) == 4 {
			s.out[f.Stream].grant(int(binary.BigEndian.Uint32(f.Payload)))
		}
	case KindDrop:
		s.out[f.Stream].drop()
	case KindCancel:
		s.cancel()
	case KindResult:
		s.setResult(f.Payload)
	case KindHello, KindReady, KindOpen:
	}
}

// Dial begins a connection over rw and returns once the agent has answered. Closing rw ends the connection; the
// goroutine that reads it ends with it.
func Dial(ctx context.Context, rw io.ReadWriteCloser) (*Conn, error) {
	var nonce [4]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return nil, err
	}
	c := newConn(binary.BigEndian.Uint32(nonce[:]), NewFrameWriter(rw))
	ready := make(chan struct{})
	go func() {
		fr := NewFrameReader(rw)
		answered := false
		for {
			f, err := fr.Read()
			if err != nil {
				c.fail(fmt.Errorf("%w: %w", ErrClosed, err))
				return
			}
			if f.Conn != c.id {
				continue // meant for an earlier client of this port
			}
			if f.Kind == KindReady {
				if !answered {
					answered = true
					close(ready)
				}
				continue
			}
			c.dispatch(f)
		}
	}()
	hello := make(chan error, 1)
	go func() { hello <- c.send(Frame{Kind: KindHello}) }() // can block until the guest reads; closing rw ends it
	for {
		select {
		case <-ctx.Done():
			_ = rw.Close()
			<-c.done
			return nil, context.Cause(ctx)
		case err := <-hello:
			if err != nil {
				_ = rw.Close()
				<-c.done
				return nil, err
			}
			hello = nil
		case <-c.done:
			_ = rw.Close()
			return nil, c.Err()
		case <-ready:
			return c, nil
		}
	}
}

// Open begins a session with the request, which is sent as JSON.
func (c *Conn) Open(request any) (*Session, error) {
	payload, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, c.err
	}
	c.next++
	s := newSession(context.Background(), c, c.next)
	c.open[s.id] = s
	c.mu.Unlock()
	if err := c.send(Frame{Kind: KindOpen, Session: s.id, Payload: payload}); err != nil {
		c.forget(s.id)
		return nil, err
	}
	return s, nil
}

// Handler answers one session on the agent's side. The context ends when the client cancels or goes away. What it
// returns is sent as the session's result.
type Handler func(ctx context.Context, s *Session, request json.RawMessage) (any, error)

// Failure is the result of a session whose handler returned an error.
type Failure struct {
	Error string `json:"error,omitempty"`
}

// Serve answers the connections that arrive on rw, one after the other, until reading fails; a hello displaces the
// connection before it. It returns when every handler has returned.
func Serve(ctx context.Context, rw io.ReadWriter, handle Handler) error {
	fr, fw := NewFrameReader(rw), NewFrameWriter(rw)
	var handlers sync.WaitGroup
	defer handlers.Wait()
	var c *Conn
	defer func() {
		if c != nil {
			c.fail(ErrClosed)
		}
	}()
	for {
		f, err := fr.Read()
		if err != nil {
			return err
		}
		switch {
		case f.Kind == KindHello:
			if c != nil {
				c.fail(ErrClosed)
			}
			c = newConn(f.Conn, fw)
			if err := c.send(Frame{Kind: KindReady}); err != nil {
				return err
			}
		case c == nil || f.Conn != c.id:
			// A client that has gone.
		case f.Kind == KindOpen:
			s := newSession(ctx, c, f.Session)
			c.mu.Lock()
			c.open[s.id] = s
			c.mu.Unlock()
			handlers.Go(func() {
				result, err := handle(s.ctx, s, f.Payload)
				s.reply(result, err)
			})
		default:
			c.dispatch(f)
		}
	}
}
