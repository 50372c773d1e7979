package compare

import (
	"unicode"
	"unicode/utf8"
)

// isSpace reports whether a scalar has the Unicode property White_Space (5.1). The standard library agrees with 5.1 on
// every scalar: a test says so. ASCII is answered here, for speed.
func isSpace(scalar rune) bool {
	if scalar < utf8.RuneSelf {
		return scalar == ' ' || '\t' <= scalar && scalar <= '\r'
	}
	return unicode.IsSpace(scalar)
}

// endsToken reports whether a byte is one of those at which an answer being written may be judged up to there: space,
// tab, line feed, form feed and carriage return, and not the vertical tab (5.2).
func endsToken(b byte) bool {
	return b == ' ' || b == '\n' || b == '\r' || b == '\t' || b == '\f'
}

// decoder puts together one character from its bytes. Each longest beginning of a character that is not completed becomes
// one U+FFFD, as in the Encoding Standard of the WHATWG; neither ranging over a string nor strings.ToValidUTF8 counts like
// that.
type decoder struct {
	n     int // bytes so far; 0 between two characters
	need  int
	value rune
	low   byte // the next byte must lie in low..high
	high  byte
}

// next takes one byte. It reports the character that the byte completes or shows to be broken, if any, and whether the
// byte was used: one that breaks off a character begins the next.
func (d *decoder) next(b byte) (scalar rune, complete, consumed bool) {
	if d.n == 0 {
		return d.first(b)
	}
	if b < d.low || b > d.high {
		d.n = 0
		return utf8.RuneError, true, false
	}
	d.low, d.high = 0x80, 0xBF
	d.value = d.value<<6 | rune(b&0x3F)
	d.n++
	if d.n < d.need {
		return 0, false, true
	}
	d.n = 0
	return d.value, true, true
}

func (d *decoder) first(b byte) (scalar rune, complete, consumed bool) {
	d.low, d.high = 0x80, 0xBF
	switch {
	case b < utf8.RuneSelf:
		return rune(b), true, true
	case 0xC2 <= b && b <= 0xDF:
		d.need, d.value = 2, rune(b&0x1F)
	case 0xE0 <= b && b <= 0xEF:
		d.need, d.value = 3, rune(b&0x0F)
		switch b {
		case 0xE0: // nothing that fits into two bytes
			d.low = 0xA0
		case 0xED: // no surrogates
			d.high = 0x9F
		}
	case 0xF0 <= b && b <= 0xF4:
		d.need, d.value = 4, rune(b&0x07)
		switch b {
		case 0xF0: // nothing that fits into three bytes
			d.low = 0x90
		case 0xF4: // nothing beyond U+10FFFF
			d.high = 0x8F
		}
	default:
		return utf8.RuneError, true, true
	}
	d.n = 1
	return 0, false, true
}
