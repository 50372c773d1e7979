package wire

import (
	"bytes"
	"math"
	"strconv"
	"time"
)

// Report is what the shim says about one submission (spec/sandbox.md 3.6). It comes from inside the container: precise,
// and not to be believed alone.
type Report struct {
	// ExitCode of the program, 0 to 255; 0 when a signal ended it.
	ExitCode int
	// Signal that ended the program, or 0 when it exited.
	Signal int
	// CPU is the processor time of the program and all its descendants: User + System. Microseconds on the wire.
	CPU time.Duration
	// Peak is the most memory the box held at once. 0 means that it could not be read, never that nothing was used.
	Peak Bytes
	// Wall is the time from just before the program started to its end. For people; nothing is decided on it.
	Wall time.Duration
	// User and System are the two halves of CPU.
	User, System time.Duration
}

// ExitStatus is the code the container exits with: the program's own, or 128 plus the signal (spec/sandbox.md 3.8).
func (r Report) ExitStatus() int {
	if r.Signal != 0 {
		return ExitSignalBase + r.Signal
	}
	return r.ExitCode
}

// AppendTo appends the report as one line ending in a newline. Durations are cut to microseconds. A line is far shorter
// than the 4096 bytes (PIPE_BUF) a FIFO takes in one piece.
func (r Report) AppendTo(line []byte, nonce string) []byte {
	line = appendPrefix(line, nonce)
	line = append(line, "ok"...)
	for _, number := range [...]int64{
		int64(r.ExitCode), int64(r.Signal),
		r.CPU.Microseconds(), int64(r.Peak), r.Wall.Microseconds(),
		r.User.Microseconds(), r.System.Microseconds(),
	} {
		line = append(line, ' ')
		line = strconv.AppendInt(line, number, 10)
	}
	return append(line, '\n')
}

// maxFailure bounds the text of a failed line, so that the line stays one atomic write whatever a path holds.
const maxFailure = 1024

// AppendFailure appends a line that tells why there is no measurement: `<nonce> aj-shim1 failed <what>`. The text says
// what was attempted, on which path and what the kernel answered. Control characters in it become `?`, so that a path
// cannot end the line; text beyond 1024 bytes is cut.
func AppendFailure(line []byte, nonce, what string) []byte {
	line = appendPrefix(line, nonce)
	line = append(line, "failed "...)
	if len(what) > maxFailure {
		what = what[:maxFailure]
	}
	for i := range len(what) {
		if c := what[i]; c < ' ' || c == 0x7f {
			line = append(line, '?')
		} else {
			line = append(line, c)
		}
	}
	return append(line, '\n')
}

func appendPrefix(line []byte, nonce string) []byte {
	line = append(line, nonce...)
	line = append(line, ' ')
	line = append(line, Version...)
	return append(line, ' ')
}

// Reading is what a Runner finds in a stream of bytes that a shim wrote to, and possibly others too.
type Reading struct {
	// Report is the measurement, nil if there is none. The last line with the right nonce decides: if that is a `failed`
	// line, there is no measurement, whatever stood before it.
	Report *Report
	// Failure is the text of the last `failed` line, "" if there is none. Beside a Report it explains it: a program that
	// could not be executed has both.
	Failure string
	// Rest is the stream without the lines that carry the nonce: everything the shim did not say.
	Rest []byte
}

// Parse looks for the shim's lines in a stream (spec/sandbox.md 3.7). It treats the stream as bytes, so Rest keeps invalid
// UTF-8 as it was; it counts complete lines only, because half a report reads as a smaller number; and it leaves lines
// with another nonce where they are. A line may begin with bytes of somebody else, which stay in Rest. An empty nonce
// matches nothing. Parse never fails: a stream without a report is a Reading without one, and what that means is the
// caller's decision.
func Parse(stream []byte, nonce string) Reading {
	var reading Reading
	if nonce == "" {
		reading.Rest = bytes.Clone(stream)
		return reading
	}
	prefix := appendPrefix(nil, nonce)
	for len(stream) > 0 {
		end := bytes.IndexByte(stream, '\n')
		if end < 0 {
			break
		}
		line := stream[:end]
		first := bytes.Index(line, prefix)
		if first < 0 {
			reading.Rest = append(reading.Rest, stream[:end+1]...)
			stream = stream[end+1:]
			continue
		}
		// Two marks in one line: the first was cut off and the second is whole, because a line is one write.
		last := bytes.LastIndex(line, prefix)
		reading.take(line[last+len(prefix):])
		reading.Rest = append(reading.Rest, line[:first]...)
		stream = stream[end+1:]
	}
	reading.Rest = append(reading.Rest, stream...)
	return reading
}

// take reads what follows the mark of one complete line, without its newline. Neither an `ok` line with fields missing
// nor any other word changes what is known.
func (r *Reading) take(text []byte) {
	if reason, isFailure := bytes.CutPrefix(text, []byte("failed ")); isFailure {
		r.Report, r.Failure = nil, string(reason)
		return
	}
	if fields, isReport := bytes.CutPrefix(text, []byte("ok ")); isReport {
		if report, whole := parseFields(fields); whole {
			r.Report = &report
		}
	}
}

// parseFields reads the seven numbers of an `ok` line. More fields are allowed, for a newer shim; fewer, or anything that
// is not a plain decimal number within its range, is not a report.
func parseFields(text []byte) (report Report, whole bool) {
	var number [7]int64
	for i := range number {
		field := text
		if space := bytes.IndexByte(text, ' '); space >= 0 {
			field, text = text[:space], text[space+1:]
		} else {
			text = nil
		}
		value, ok := parseNumber(field)
		if !ok {
			return Report{}, false
		}
		number[i] = value
	}
	const maxMicroseconds = math.MaxInt64 / int64(time.Microsecond)
	for _, duration := range [...]int64{number[2], number[4], number[5], number[6]} {
		if duration > maxMicroseconds {
			return Report{}, false
		}
	}
	if number[0] > 255 || number[1] > 127 {
		return Report{}, false
	}
	return Report{
		ExitCode: int(number[0]),
		Signal:   int(number[1]),
		CPU:      time.Duration(number[2]) * time.Microsecond,
		Peak:     Bytes(number[3]),
		Wall:     time.Duration(number[4]) * time.Microsecond,
		User:     time.Duration(number[5]) * time.Microsecond,
		System:   time.Duration(number[6]) * time.Microsecond,
	}, true
}

// parseNumber reads decimal digits only: no sign, no space, nothing else, and no more than an int64 holds.
func parseNumber(field []byte) (int64, bool) {
	if len(field) == 0 {
		return 0, false
	}
	for _, c := range field {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	value, err := strconv.ParseInt(string(field), 10, 64)
	return value, err == nil
}
