package hostcheck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

var scratch = requirement{
	id:    "scratch",
	asked: "a scratch directory that executables can be started from",
	why:   "compiled programs and the shim are mounted into containers from there",
	look: func(ctx context.Context, m *Machine) finding {
		if strings.HasPrefix(m.Scratch+"/", "/run/") || strings.HasPrefix(m.Scratch+"/", "/var/run/") {
			return failed(m.Scratch+" is below /run", "set EVALHOST_SCRATCH to a directory on a disk, such as /var/lib/evalhost/scratch")
		}
		dir, err := nearest(m.Scratch)
		if err != nil {
			return failed(err.Error(), "make it, or set EVALHOST_SCRATCH to a directory that can be written")
		}
		if err := m.Execute(ctx, dir); err != nil {
			return failed("an executable in "+dir+" cannot be started: "+err.Error(),
				"mount it without noexec, or set EVALHOST_SCRATCH to a directory elsewhere")
		}
		return met("executables start from " + dir)
	},
}

// nearest returns the directory itself, or the nearest one above it where it does not exist yet: asking must not make it.
func nearest(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("%q is no absolute path", dir)
	}
	for {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir):
			dir = filepath.Dir(dir)
		case err != nil:
			return "", err
		case !info.IsDir():
			return "", errors.New(dir + " is not a directory")
		default:
			return dir, nil
		}
	}
}
