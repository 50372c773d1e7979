package refserver

import (
	"context"
	"net"
	"sync"
)

// Network is a network in memory with one Server on it, for tests in a bubble of testing/synctest, where waits on real
// connections would keep time from moving. It is a net.Listener for the Server and dials for its clients.
type Network struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// NewNetwork makes an empty network. Close it.
func NewNetwork() *Network { return &Network{conns: make(chan net.Conn), done: make(chan struct{})} }

// Dial connects to the Server, whatever the address. It fails with net.ErrClosed once the network is closed.
func (n *Network) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case n.conns <- there:
		return here, nil
	case <-n.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept waits for a client.
func (n *Network) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.done:
		return nil, net.ErrClosed
	}
}

// Close refuses everybody from now on.
func (n *Network) Close() error {
	n.once.Do(func() { close(n.done) })
	return nil
}

// Addr is a loopback address that nobody listens on.
func (n *Network) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
