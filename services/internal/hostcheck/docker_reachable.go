package hostcheck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
)

var dockerReachable = requirement{
	id:    "docker.reachable",
	asked: "a Docker daemon that answers",
	why:   "every program is compiled and run in a container; without Docker nothing can be judged",
	look: func(ctx context.Context, m *Machine) finding {
		if f := socketAnswers(ctx, m.Socket); f.status != OK {
			return f
		}
		docker, err := m.Docker(ctx)
		if err != nil {
			return failed(fmt.Sprintf("%s accepts connections but does not answer as Docker: %v", m.Socket, err),
				"look at journalctl -u docker; restart it: systemctl restart docker")
		}
		m.docker = docker
		return met(fmt.Sprintf("Docker %s at %s", docker.ServerVersion, m.Socket))
	},
}

// socketAnswers opens the daemon's socket by hand: Docker's own client does not tell a missing socket from one that may
// not be opened or that nobody listens on, and each has another cure.
func socketAnswers(ctx context.Context, socket string) finding {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return socketRefused(socket, err)
	}
	_ = conn.Close()
	return met("")
}

// socketRefused says what the error of opening the socket means.
func socketRefused(socket string, err error) finding {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failed("there is no socket at "+socket, "install Docker, and start it: systemctl start docker")
	case errors.Is(err, fs.ErrPermission):
		return failed("the socket "+socket+" may not be opened by this user", "run it as root, for example with sudo")
	case errors.Is(err, syscall.ECONNREFUSED):
		return failed("nobody listens at "+socket+": the daemon is not running", "start Docker: systemctl start docker")
	}
	return failed(err.Error(), "look at journalctl -u docker")
}
