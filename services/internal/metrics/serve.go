package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler tells the figures in the text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// Listen takes a loopback address, so that an address that is taken is known before anything starts. Anything else than
// loopback is refused: a judging host opens no port.
func Listen(ctx context.Context, address netip.AddrPort) (net.Listener, error) {
	if !address.Addr().IsLoopback() {
		return nil, fmt.Errorf("metrics: listening at %s: only loopback is allowed; set EVALHOST_METRICS to something like 127.0.0.1:9464", address)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address.String())
	if err != nil {
		return nil, fmt.Errorf("metrics: listening at %s: %w; nothing is judged differently without figures; free the address or set "+
			"EVALHOST_METRICS to another", address, err)
	}
	return listener, nil
}

// Serve tells the figures at /metrics until ctx ends, and returns when nobody is served any more.
func (m *Metrics) Serve(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler())
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("metrics: serving at %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	// Who is being told figures may hear them to the end, briefly.
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err := server.Shutdown(patience)
	if err != nil {
		err = server.Close()
	}
	if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}
