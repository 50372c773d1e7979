// Package wire is the framed protocol between the host and the guest's agent over a virtio serial port.
//
// A serial port has no notion of a connection: the host side can go away in the middle of a frame, bytes of an earlier
// client may still be in flight when the next one connects, and a restored snapshot starts with whatever the port held
// when it was taken. So every frame is self-delimiting (COBS, ended by a zero byte), carries a checksum and the
// identity of the connection it belongs to. A receiver drops what it cannot read and what is not addressed to it; the
// first zero byte after any damage puts it back in step.
package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
)

// MaxPayload bounds one frame's payload, so that a control frame never waits behind more than this much data.
const MaxPayload = 32 << 10

// Header: connection (4), kind (1), session (4), stream (1). Trailer: CRC-32C of all that precedes it (4).
const (
	headerSize  = 10
	trailerSize = 4
	maxRaw      = headerSize + MaxPayload + trailerSize
	maxEncoded  = maxRaw + maxRaw/254 + 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Kind says what a frame is for.
type Kind byte

// The kinds of frame.
const (
	KindHello  Kind = iota + 1 // client -> agent: begin a connection; ends any earlier one on this port
	KindReady                  // agent -> client: the connection exists
	KindOpen                   // client -> agent: begin a session, payload is the request
	KindData                   // either way: bytes of a stream
	KindEnd                    // either way: no more bytes of a stream will follow
	KindCredit                 // either way: the receiver of a stream has room for so many more bytes
	KindDrop                   // either way: the receiver of a stream wants no more of it
	KindCancel                 // client -> agent: stop the session, its result is still sent
	KindResult                 // agent -> client: the session is over, payload is the result
)

// Frame is one message.
type Frame struct {
	Conn    uint32
	Kind    Kind
	Session uint32
	Stream  byte
	Payload []byte
}

// FrameWriter writes frames. It is safe for concurrent use: two connections that follow each other on one port share it.
type FrameWriter struct {
	mu       sync.Mutex
	w        io.Writer
	raw, enc []byte
}

// NewFrameWriter returns a writer of frames onto w. Each frame is one Write.
func NewFrameWriter(w io.Writer) *FrameWriter {
	return &FrameWriter{w: w, raw: make([]byte, 0, maxRaw), enc: make([]byte, 0, maxEncoded+2)}
}

// Write writes one frame.
func (fw *FrameWriter) Write(f Frame) error {
	if len(f.Payload) > MaxPayload {
		return fmt.Errorf("frame payload of %d bytes is above the limit of %d", len(f.Payload), MaxPayload)
	}
	fw.mu.Lock()
	defer fw.mu.Unlock()
	raw := binary.BigEndian.AppendUint32(fw.raw[:0], f.Conn)
	raw = append(raw, byte(f.Kind))
	raw = binary.BigEndian.AppendUint32(raw, f.Session)
	raw = append(raw, f.Stream)
	raw = append(raw, f.Payload...)
	raw = binary.BigEndian.AppendUint32(raw, crc32.Checksum(raw, castagnoli))
	enc := fw.enc[:0]
	if f.Kind == KindHello {
		enc = append(enc, 0) // ends whatever an earlier client left unfinished
	}
	enc = appendCOBS(enc, raw)
	enc = append(enc, 0)
	_, err := fw.w.Write(enc)
	return err
}

// FrameReader reads frames and silently skips what is damaged. It is not safe for concurrent use.
type FrameReader struct {
	r   *bufio.Reader
	raw []byte
	// Skipped counts runs of bytes that were no frame.
	Skipped int
}

// NewFrameReader returns a reader of frames from r.
func NewFrameReader(r io.Reader) *FrameReader {
	return &FrameReader{r: bufio.NewReaderSize(r, maxEncoded+64), raw: make([]byte, 0, maxRaw)}
}

// Reset forgets everything buffered and continues with r.
func (fr *FrameReader) Reset(r io.Reader) { fr.r.Reset(r) }

// Read returns the next whole frame. Its payload is the caller's to keep.
func (fr *FrameReader) Read() (Frame, error) {
	for {
		chunk, err := fr.r.ReadSlice(0)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			fr.Skipped++ // longer than any frame: skip to the next delimiter
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = fr.r.ReadSlice(0)
			}
			if err != nil {
				return Frame{}, err
			}
			continue
		case err != nil:
			return Frame{}, err
		case len(chunk) == 1:
			continue // an empty run between two delimiters
		}
		raw, ok := decodeCOBS(fr.raw[:0], chunk[:len(chunk)-1])
		if !ok || len(raw) < headerSize+trailerSize {
			fr.Skipped++
			continue
		}
		body, sum := raw[:len(raw)-trailerSize], binary.BigEndian.Uint32(raw[len(raw)-trailerSize:])
		if crc32.Checksum(body, castagnoli) != sum {
			fr.Skipped++
			continue
		}
		return Frame{
			Conn:    binary.BigEndian.Uint32(body),
			Kind:    Kind(body[4]),
			Session: binary.BigEndian.Uint32(body[5:]),
			Stream:  body[9],
			Payload: append([]byte(nil), body[headerSize:]...),
		}, nil
	}
}

// appendCOBS appends src with every zero byte encoded away (consistent overhead byte stuffing).
func appendCOBS(dst, src []byte) []byte {
	for {
		run := 0
		for run < len(src) && run < 254 && src[run] != 0 {
			run++
		}
		dst = append(dst, byte(run+1))
		dst = append(dst, src[:run]...)
		src = src[run:]
		if len(src) == 0 {
			return dst
		}
		if run < 254 {
			src = src[1:] // the zero byte that ended the run
			if len(src) == 0 {
				return append(dst, 1)
			}
		}
	}
}

// decodeCOBS undoes appendCOBS; src holds no zero byte.
func decodeCOBS(dst, src []byte) ([]byte, bool) {
	for len(src) > 0 {
		n := int(src[0])
		if n == 0 || n > len(src) {
			return nil, false
		}
		dst = append(dst, src[1:n]...)
		src = src[n:]
		if n < 255 && len(src) > 0 {
			dst = append(dst, 0)
		}
		if len(dst) > maxRaw {
			return nil, false
		}
	}
	return dst, true
}
