package sandbox

import "sync"

// sink keeps what it gets and settles at a number of bytes; zero for never.
type sink struct {
	mu  sync.Mutex
	got []byte
	at  int
}

func (s *sink) Write(p []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, p...)
	return s.at > 0 && len(s.got) >= s.at
}
