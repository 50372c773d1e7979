package compare

import (
	"errors"
	"io"
	"unicode/utf8"
)

// windowSize is how much of a reference is in memory at once, before it is decoded.
const windowSize = 64 << 10

// reference is the expected side, read as far as the answer has come and no further: a window of valid UTF-8, always whole
// characters. What lies before the window is forgotten, so a reference of any length costs the window alone.
type reference struct {
	from io.Reader
	raw  []byte // the window as it was read
	text []byte // the window as it is compared: raw itself if that is valid UTF-8, else decoded into spare
	// spare is made the first time a window is not valid as it stands.
	spare   []byte
	at      int // what of the window has been passed
	pending decoder
	over    bool
	// err is why no more could be read. It ends the reference like its end does, and it is never an answer's fault: whoever
	// asks for a result gets the error instead.
	err error
}

// peek makes sure that a character lies ahead; false at the end of the reference.
func (r *reference) peek() bool {
	for r.at == len(r.text) {
		if r.over {
			return false
		}
		r.fill()
	}
	return true
}

// fill reads the next window. It may be empty: then the reference is over, or what was read ends no character.
func (r *reference) fill() {
	n, err := r.read()
	r.at, r.text = 0, r.raw[:n]
	if r.pending.n > 0 || !utf8.Valid(r.text) {
		r.text = r.decode(r.text)
	}
	if err == nil {
		return
	}
	r.over = true
	if !errors.Is(err, io.EOF) {
		r.err = err
		return
	}
	if r.pending.n > 0 { // the text ends within a character
		r.pending.n = 0
		r.text = append(r.text, string(utf8.RuneError)...)
	}
}

// read reads something, or says why there is nothing.
func (r *reference) read() (int, error) {
	const patience = 100 // a reader that hands out nothing for so long never will
	for range patience {
		if n, err := r.from.Read(r.raw); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// decode returns a part of the text as valid UTF-8. A character that is not complete waits for the next part.
func (r *reference) decode(part []byte) []byte {
	text := r.spare[:0]
	for i := 0; i < len(part); {
		scalar, complete, consumed := r.pending.next(part[i])
		if complete {
			text = utf8.AppendRune(text, scalar)
		}
		if consumed {
			i++
		}
	}
	r.spare = text
	return text
}

// skipSpace passes over white space.
func (r *reference) skipSpace() {
	for r.peek() {
		size := r.space()
		if size == 0 {
			return
		}
		r.at += size
	}
}

// space is the length of the white space character that lies ahead; 0 if that is none. One must lie ahead.
func (r *reference) space() int {
	scalar, size := rune(r.text[r.at]), 1
	if scalar >= utf8.RuneSelf {
		scalar, size = utf8.DecodeRune(r.text[r.at:])
	}
	if !isSpace(scalar) {
		return 0
	}
	return size
}
