// Command agent runs inside the test guest. It answers the host over virtio serial ports, which neither the guest's
// firewall nor an attack on its network reaches, and it writes the Docker configuration of the variant booted.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/evalhost/evalhost/checks/guest/wire"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "guest agent:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) == 2 && os.Args[1] == "variant" {
		return applyVariant("/proc/cmdline", "/etc/docker/daemon.json")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ignoreOOM()
	cells, err := newCells()
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest agent: commands are ended by process group only:", err)
	}
	a := &agent{cells: cells}
	var ports sync.WaitGroup
	for i := range wire.Ports {
		p, err := openPort(ctx, wire.PortName(i))
		if err != nil {
			return err
		}
		ports.Go(func() {
			defer p.Close()
			for ctx.Err() == nil {
				if err := p.waitConnected(ctx); err != nil {
					return
				}
				_ = wire.Serve(ctx, p, a.handle) // ends when the host side closes the port
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
	}
	<-ctx.Done()
	ports.Wait()
	return nil
}

// ignoreOOM keeps the agent alive while a test exhausts the guest's memory. Commands get the ordinary score back.
func ignoreOOM() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0o644)
}
