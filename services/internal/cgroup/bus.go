package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// bus talks to systemd's manager, over the system bus or, as root, over systemd's own socket. A connection that was lost,
// because the bus or systemd was restarted, is made anew at the next call. Safe for use by several goroutines.
type bus struct {
	mu   sync.Mutex
	live *link
}

// link is one connection.
type link struct {
	*sd.Conn
	over string // which way it goes, for messages
	end  context.CancelFunc
}

func (l *link) close() {
	l.Conn.Close()
	l.end()
}

// dialManager reaches systemd or says why neither way works.
func dialManager(ctx context.Context) (manager, error) {
	b := &bus{}
	if _, err := b.link(ctx); err != nil {
		return nil, fmt.Errorf("cgroup: systemd cannot be reached: %w: with Docker's systemd driver every run is measured in a "+
			"slice that is started and stopped over the bus, so nothing could be judged; make /run/dbus/system_bus_socket "+
			"accessible, or run as root where /run/systemd/private is", err)
	}
	return b, nil
}

// link gives the live connection, or makes one.
func (b *bus) link(ctx context.Context) (*link, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.live != nil {
		if b.live.Connected() {
			return b.live, nil
		}
		b.live.close()
		b.live = nil
	}
	made, err := dial(ctx, "the system bus", sd.NewSystemConnectionContext)
	if err != nil && os.Geteuid() == 0 {
		var privateErr error
		made, privateErr = dial(ctx, "systemd's own socket", sd.NewSystemdConnectionContext)
		if privateErr == nil {
			err = nil
		} else {
			err = errors.Join(err, privateErr)
		}
	}
	if err != nil {
		return nil, err
	}
	b.live = made
	return made, nil
}

// dial makes a connection within busTimeout. The connection lives longer than the call that needed it, and the library
// closes a connection with its context; so it gets a context of its own. A dial that takes too long ends by itself.
func dial(ctx context.Context, over string, how func(context.Context) (*sd.Conn, error)) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	life, end := context.WithCancel(context.Background())
	made := make(chan error, 1)
	var conn *sd.Conn
	go func() {
		var err error
		conn, err = how(life)
		made <- err
	}()
	var err error
	select {
	case err = <-made:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("over %s: %w", over, err)
	}
	return &link{Conn: conn, over: over, end: end}, nil
}

func (b *bus) Start(ctx context.Context, unit string, properties []sd.Property) error {
	return b.job(ctx, unit, true, func(ctx context.Context, conn *sd.Conn, done chan<- string) error {
		_, err := conn.StartTransientUnitContext(ctx, unit, "fail", properties, done)
		return err
	})
}

func (b *bus) Stop(ctx context.Context, unit string) error {
	err := b.job(ctx, unit, false, func(ctx context.Context, conn *sd.Conn, done chan<- string) error {
		_, err := conn.StopUnitContext(ctx, unit, "replace", done)
		return err
	})
	if isNoSuchUnit(err) {
		return nil
	}
	return err
}

// job asks for a change of a unit and waits for systemd to report the end of it. The report is a signal, and signals can be
// lost with a connection; so every askAgain the unit itself is asked whether it is as wished.
func (b *bus) job(ctx context.Context, unit string, active bool, ask func(context.Context, *sd.Conn, chan<- string) error) error {
	ctx, cancel := context.WithTimeout(ctx, unitTimeout)
	defer cancel()
	// Room for the answer: the library hands it over while it holds its lock, and must not wait for one who has left.
	done := make(chan string, 1)
	err := b.call(ctx, func(conn *sd.Conn) error { return ask(ctx, conn, done) })
	if err != nil {
		return err
	}
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for {
		select {
		case result := <-done:
			if result != "done" && result != "skipped" {
				return fmt.Errorf("systemd's job ended as %q", result)
			}
			return nil
		case <-again.C:
			if is, err := b.active(ctx, unit); err == nil && is == active {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("systemd did not say within %v how its job ended: %w", unitTimeout, ctx.Err())
		}
	}
}

// active says whether a unit is active. One that is not loaded is not.
func (b *bus) active(ctx context.Context, unit string) (is bool, err error) {
	err = b.call(ctx, func(conn *sd.Conn) error {
		units, err := conn.ListUnitsByNamesContext(ctx, []string{unit})
		for _, u := range units {
			is = is || u.Name == unit && u.ActiveState == "active"
		}
		return err
	})
	return is, err
}

// call makes one call over the live connection, and once more over a new one if the connection turns out to be gone.
func (b *bus) call(ctx context.Context, do func(*sd.Conn) error) error {
	var err error
	for range 2 {
		var l *link
		if l, err = b.link(ctx); err != nil {
			return err
		}
		if err = do(l.Conn); !errors.Is(err, dbus.ErrClosed) {
			if err != nil {
				return fmt.Errorf("over %s: %w", l.over, err)
			}
			return nil
		}
	}
	return err
}

func (b *bus) List(ctx context.Context, pattern string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	var names []string
	err := b.call(ctx, func(conn *sd.Conn) error {
		units, err := conn.ListUnitsByPatternsContext(ctx, nil, []string{pattern})
		for _, u := range units {
			names = append(names, u.Name)
		}
		return err
	})
	return names, err
}

func (b *bus) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.live != nil {
		b.live.close()
		b.live = nil
	}
}

// isNoSuchUnit recognises systemd's answer about a unit that is not loaded.
func isNoSuchUnit(err error) bool {
	var said dbus.Error
	return errors.As(err, &said) && said.Name == "org.freedesktop.systemd1.NoSuchUnit"
}

// isUnitExists recognises systemd's answer about a name that is taken.
func isUnitExists(err error) bool {
	var said dbus.Error
	return errors.As(err, &said) && said.Name == "org.freedesktop.systemd1.UnitExists"
}
