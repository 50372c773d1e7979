package main

import (
	"io"

	"github.com/evalhost/evalhost/checks/guest/wire"
)

func push(r io.ReadCloser, path string, into bool) error {
	defer r.Close()
	return wire.Unpack(r, path, into)
}

func pull(w io.WriteCloser, path string) error {
	err := wire.Pack(w, []string{path})
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return err
}
