package guest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// monitor is a connection to QEMU's control socket.
type monitor struct {
	conn net.Conn
	dec  *json.Decoder
}

func dialMonitor(ctx context.Context, dir string) (*monitor, error) {
	conn, err := dialSocket(ctx, dir, "qmp.sock")
	if err != nil {
		return nil, err
	}
	m := &monitor{conn: conn, dec: json.NewDecoder(bufio.NewReader(conn))}
	var greeting struct{ QMP any }
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if err := m.dec.Decode(&greeting); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("QEMU's control socket: %w", err)
	}
	if err := m.do(ctx, "qmp_capabilities", nil, nil); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return m, nil
}

func (m *monitor) close() { _ = m.conn.Close() }

// do carries out one command and decodes what it returns into result.
func (m *monitor) do(ctx context.Context, name string, arguments, result any) error {
	deadline := time.Now().Add(30 * time.Second)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	_ = m.conn.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = m.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	request := map[string]any{"execute": name}
	if arguments != nil {
		request["arguments"] = arguments
	}
	if err := json.NewEncoder(m.conn).Encode(request); err != nil {
		return fmt.Errorf("QEMU command %s: %w", name, err)
	}
	for {
		var answer struct {
			Event  string
			Return json.RawMessage
			Error  *struct{ Class, Desc string }
		}
		if err := m.dec.Decode(&answer); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return fmt.Errorf("QEMU command %s: %w", name, err)
		}
		switch {
		case answer.Event != "":
			continue
		case answer.Error != nil:
			return fmt.Errorf("QEMU refused %s: %s", name, answer.Error.Desc)
		case result == nil:
			return nil
		}
		return json.Unmarshal(answer.Return, result)
	}
}

// event waits for an event of that name; what QEMU said before this connection was made is not seen.
func (m *monitor) event(ctx context.Context, name string) error {
	_ = m.conn.SetDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { _ = m.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		var said struct{ Event string }
		if err := m.dec.Decode(&said); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return fmt.Errorf("QEMU event %s: %w", name, err)
		}
		if said.Event == name {
			return nil
		}
	}
}

// migrationDone waits until a saved state is written or loaded.
func (m *monitor) migrationDone(ctx context.Context) error {
	for {
		var info struct {
			Status string `json:"status"`
			Error  string `json:"error-desc"`
		}
		if err := m.do(ctx, "query-migrate", nil, &info); err != nil {
			return err
		}
		switch info.Status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return fmt.Errorf("QEMU: the machine's state: %s: %s", info.Status, info.Error)
		}
		select {
		case <-ctx.Done():
			return errors.Join(errors.New("the machine's state took too long"), context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ignoreShared leaves memory that lives in a file out of a saved state: the file is that part of it.
func (m *monitor) ignoreShared(ctx context.Context) error {
	return m.do(ctx, "migrate-set-capabilities", map[string]any{
		"capabilities": []any{map[string]any{"capability": "x-ignore-shared", "state": true}},
	}, nil)
}
