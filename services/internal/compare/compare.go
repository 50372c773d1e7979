// Package compare is the built-in comparison of an answer with the reference: token by token, while the answer is still
// being written (spec/judging.md section 5).
//
// Both sides are decoded as UTF-8 and split at Unicode white space; the two sequences of tokens must be the same. However
// the answer is cut into chunks, the result is the same. A comparison holds on to no part of the answer but the first 32
// characters of the first token that differs, so an answer of any length, or one endless token, costs no memory.
package compare

import (
	"fmt"
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
	want  []byte // the reference, valid UTF-8
	at    int    // what of it has been matched
	begin int    // where in it the token being matched began
	state state
	token int // number of tokens begun

	shown  [shownScalars * utf8.UTFMax]byte // the beginning of the token that differs
	length int
	count  int  // scalars in shown
	cut    bool // the token was longer

	pending decoder
	result  *Result
}

// New begins a comparison with a reference, which must not change while it lasts.
func New(reference []byte) *Comparison { return &Comparison{want: decode(reference)} }

// Whole compares an answer that is there in full.
func Whole(reference, answer []byte) Result {
	c := New(reference)
	c.Write(answer)
	return c.Finish()
}

// Write takes the next part of the answer and reports whether the comparison is settled: the answer differs, and the
// token in which it does is complete. A token counts as complete once ASCII white space has followed it (5.2), so a
// program writing one endless token is not stopped here but by its output limit. An answer is never settled as equal
// before its end.
func (c *Comparison) Write(chunk []byte) bool {
	for i := 0; i < len(chunk); {
		switch {
		case c.state == settled:
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
	return c.state == settled
}

// skip passes over the ASCII characters for which nothing has to be decided: those that match the reference, and those of
// a differing token of which enough has been seen.
func (c *Comparison) skip(chunk []byte) int {
	n := 0
	switch {
	case c.state == matching:
		want := c.want[c.at:]
		for n < len(chunk) && n < len(want) && chunk[n] == want[n] && ' ' < chunk[n] && chunk[n] < utf8.RuneSelf {
			n++
		}
		c.at += n
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
		c.at = skipSpace(c.want, c.at)
		c.begin = c.at
		c.state = matching
	}
	if c.state == matching {
		if rest := c.want[c.at:]; len(rest) >= len(text) && string(rest[:len(text)]) == string(text) {
			c.at += len(text)
			return
		}
		c.differ()
	}
	c.show(text)
}

// endToken ends a token that matched up to here. It is the expected one only if that ends here as well.
func (c *Comparison) endToken() {
	if skipSpace(c.want, c.at) > c.at || c.at == len(c.want) {
		c.state = between
		return
	}
	c.differ()
	c.state = over
}

// differ begins to remember the token being read. What was read of it so far is what was matched in the reference.
func (c *Comparison) differ() {
	c.state = differing
	for i := c.begin; i < c.at && !c.cut; {
		_, size := utf8.DecodeRune(c.want[i:])
		c.show(c.want[i : i+size])
		i += size
	}
}

func (c *Comparison) show(text []byte) {
	if c.count == shownScalars {
		c.cut = true
		return
	}
	c.length += copy(c.shown[c.length:], text)
	c.count++
}

// Finish ends the answer and returns the result. Nothing may be written afterwards.
func (c *Comparison) Finish() Result {
	if c.result == nil {
		result := c.finish()
		c.result, c.state = &result, settled
	}
	return *c.result
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
	if skipSpace(c.want, c.at) < len(c.want) {
		return Result{Token: c.token + 1, Note: fmt.Sprintf("token %d differs: got nothing", c.token+1)}
	}
	return Result{Equal: true}
}

// skipSpace returns where the white space at a place of a valid text ends.
func skipSpace(text []byte, at int) int {
	for at < len(text) {
		scalar, size := rune(text[at]), 1
		if scalar >= utf8.RuneSelf {
			scalar, size = utf8.DecodeRune(text[at:])
		}
		if !isSpace(scalar) {
			break
		}
		at += size
	}
	return at
}
