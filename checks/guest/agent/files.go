package main

import (
	"context"

	"github.com/evalhost/evalhost/checks/guest/wire"
)

func push(ctx context.Context, s *wire.Session, path string, into bool) error {
	defer context.AfterFunc(ctx, s.Abort)()
	r := s.Reader(0)
	defer r.Close()
	return wire.Unpack(r, path, into)
}

func pull(ctx context.Context, s *wire.Session, path string) error {
	defer context.AfterFunc(ctx, s.Abort)()
	w := s.Writer(1)
	err := wire.Pack(w, []string{path})
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return err
}
