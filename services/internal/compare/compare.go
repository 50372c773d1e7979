// Package compare is the built-in comparison of an answer with the reference: token by token, while the answer is still
// being written (spec/judging.md section 5).
//
// Both sides are decoded as UTF-8 and split at Unicode white space; the two sequences of tokens must be the same. However
// the answer is cut into chunks, the result is the same. A comparison holds on to no part of the answer but the first 32
// characters of the token being compared, and to a window of the reference, so that texts of any length, or one endless token,
// cost no memory.
package compare

import (
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"
)

// shownScalars is how much of the participant's own token a note shows.
const shownScalars = 32

// Result is what a comparison came to. The zero Result is not equal.
type Result struct {
	Equal bool
	// Token is the number of the first token that differs, from 1; 0 if none does.
	Token int
	// Note tells the participant what differs, in words that contain nothing but their own answer. It is empty if the
	// answer is equal.
	Note string
}

type state int

const (
	between   state = iota // no token has been begun since the last white space
	matching               // in a token that so far is the beginning of the expected one
	differing              // in a token that is not the expected one
	over                   // that token has ended, but no ASCII white space has come since
	settled                // decided: nothing that follows can change it
)

// Comparison compares one answer as it arrives.
type Comparison struct {
	want  reference
	begin int // where in the window the part of the token being matched begins that is not yet in shown
	state state
	token int // number of tokens begun

	shown  [shownScalars * utf8.UTFMax]byte // the beginning of the token, as far as it left the window or differs
	length int
	count  int  // scalars in shown
	cut    bool // the token was longer

	pending decoder
	result  *Result
}

// New begins a comparison with a reference, which is read while it lasts.
func New(expected io.Reader) *Comparison { return begin(expected, windowSize) }

func begin(expected io.Reader, window int) *Comparison {
	return &Comparison{want: reference{from: expected, raw: make([]byte, window)}}
}

// Whole compares an answer that is there in full, as is the reference.
func Whole(expected, answer []byte) Result {
	c := begin(bytes.NewReader(expected), min(len(expected)+1, windowSize))
	c.Write(answer)
	result, _ := c.Finish() // a reader of bytes in memory does not fail
	return result
}

// Write takes the next part of the answer and reports whether the comparison is settled: the answer differs, and the
// token in which it does is complete. A token counts as complete once ASCII white space has followed it (5.2), so a
// program writing one endless token is not stopped here but by its output limit. An answer is never settled as equal
// before its end. A reference that cannot be read settles the comparison too, and Finish says so.
func (c *Comparison) Write(chunk []byte) bool {
	for i := 0; i < len(chunk); {
		switch {
		case c.state == settled, c.want.err != nil:
			return true
		case c.state == over:
			if endsToken(chunk[i]) {
				c.state = settled
			}
			i++
		case chunk[i] < utf8.RuneSelf && c.pending.n == 0:
			if n := c.skip(chunk[i:]); n > 0 {
				i += n
				continue
			}
			c.take(rune(chunk[i]), chunk[i:i+1])
			if c.state == over && endsToken(chunk[i]) {
				c.state = settled
			}
			i++
		default:
			// Above ASCII, or in the middle of a character. The byte that shows a character to be broken is looked at again.
			scalar, complete, consumed := c.pending.next(chunk[i])
			if complete {
				var buffer [utf8.UTFMax]byte
				c.take(scalar, buffer[:utf8.EncodeRune(buffer[:], scalar)])
			}
			if consumed {
				i++
			}
		}
	}
	return c.state == settled || c.want.err != nil
}

// skip passes over the ASCII characters for which nothing has to be decided: those that match the window, and those of
// a differing token of which enough has been seen.
func (c *Comparison) skip(chunk []byte) int {
	n := 0
	switch {
	case c.state == matching:
		want := c.want.text[c.want.at:]
		for n < len(chunk) && n < len(want) && chunk[n] == want[n] && ' ' < chunk[n] && chunk[n] < utf8.RuneSelf {
			n++
		}
		c.want.at += n
	case c.state == differing && c.cut:
		for n < len(chunk) && ' ' < chunk[n] && chunk[n] < utf8.RuneSelf {
			n++
		}
	}
	return n
}

// take takes one character of the answer, given as a scalar and in UTF-8.
func (c *Comparison) take(scalar rune, text []byte) {
	if isSpace(scalar) {
		switch c.state {
		case matching:
			c.endToken()
		case differing:
			c.state = over
		}
		return
	}
	if c.state == between {
		c.token++
		c.length, c.count, c.cut = 0, 0, false
		c.want.skipSpace()
		c.begin = c.want.at
		c.state = matching
	}
	if c.state == matching {
		// The window is of whole characters, so one of them is enough to compare with.
		if c.ahead() && bytes.HasPrefix(c.want.text[c.want.at:], text) {
			c.want.at += len(text)
			return
		}
		c.differ()
	}
	c.show(text)
}

// ahead makes sure that a character of the reference lies ahead; false at its end. What was matched of the token leaves the
// window with it, so its beginning is remembered first.
func (c *Comparison) ahead() bool {
	if c.want.at < len(c.want.text) {
		return true
	}
	c.remember()
	there := c.want.peek()
	c.begin = c.want.at
	return there
}

// endToken ends a token that matched up to here. It is the expected one only if that ends here as well.
func (c *Comparison) endToken() {
	if !c.ahead() || c.want.space() > 0 {
		c.state = between
		return
	}
	c.differ()
	c.state = over
}

// differ begins to show the token being read. What was read of it so far is what was matched in the reference.
func (c *Comparison) differ() {
	c.state = differing
	c.remember()
}

// remember shows what was matched of the token and is in the window.
func (c *Comparison) remember() {
	for c.begin < c.want.at && !c.cut {
		_, size := utf8.DecodeRune(c.want.text[c.begin:])
		c.show(c.want.text[c.begin : c.begin+size])
		c.begin += size
	}
	c.begin = c.want.at
}

func (c *Comparison) show(text []byte) {
	if c.count == shownScalars {
		c.cut = true
		return
	}
	c.length += copy(c.shown[c.length:], text)
	c.count++
}

// Finish ends the answer and returns the result. Nothing may be written afterwards. An error means that the reference could not
// be read: then nothing is known about the answer, whatever was compared before.
func (c *Comparison) Finish() (Result, error) {
	if c.result == nil {
		result := c.finish()
		c.result, c.state = &result, settled
	}
	if c.want.err != nil {
		return Result{}, fmt.Errorf("reading the expected output: %w", c.want.err)
	}
	return *c.result, nil
}

func (c *Comparison) finish() Result {
	if c.pending.n > 0 && c.state < over {
		c.take(utf8.RuneError, []byte(string(utf8.RuneError)))
	}
	if c.state == matching {
		c.endToken()
	}
	if c.state != between {
		more := ""
		if c.cut {
			more = "…"
		}
		return Result{Token: c.token, Note: fmt.Sprintf("token %d differs: got \"%s%s\"", c.token, c.shown[:c.length], more)}
	}
	if c.want.skipSpace(); c.want.peek() {
		return Result{Token: c.token + 1, Note: fmt.Sprintf("token %d differs: got nothing", c.token+1)}
	}
	return Result{Equal: true}
}
