package wire

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCOBSRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	inputs := [][]byte{nil, {0}, {0, 0}, {1}, bytes.Repeat([]byte{7}, 253), bytes.Repeat([]byte{7}, 254), bytes.Repeat([]byte{7}, 255), bytes.Repeat([]byte{7}, 508)}
	inputs = append(inputs, append(bytes.Repeat([]byte{7}, 254), 0), append(bytes.Repeat([]byte{7}, 253), 0, 1))
	for range 2000 {
		b := make([]byte, rng.IntN(1200))
		for i := range b {
			if rng.IntN(40) > 0 {
				b[i] = byte(rng.IntN(256))
			}
		}
		inputs = append(inputs, b)
	}
	for _, in := range inputs {
		enc := appendCOBS(nil, in)
		if bytes.IndexByte(enc, 0) >= 0 {
			t.Fatalf("encoding of %d bytes holds a zero", len(in))
		}
		got, ok := decodeCOBS(nil, enc)
		if !ok || !bytes.Equal(got, in) {
			t.Fatalf("%x came back as %x (%t)", in, got, ok)
		}
	}
}

func TestFramesSurviveDamage(t *testing.T) {
	payload := bytes.Repeat([]byte{0, 1, 2, 255}, MaxPayload/4)
	var whole bytes.Buffer
	fw := NewFrameWriter(&whole)
	frames := []Frame{
		{Conn: 1, Kind: KindHello, Payload: []byte{}},
		{Conn: 1, Kind: KindData, Session: 9, Stream: 2, Payload: payload},
	}
	for _, f := range frames {
		if err := fw.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	one := bytes.Clone(whole.Bytes())
	for name, damage := range map[string][]byte{
		"nothing":            nil,
		"half a frame":       one[3 : len(one)/2],
		"noise":              []byte("kernel panic\x00\x01\x02\x03"),
		"more than a frame":  bytes.Repeat([]byte{5}, 3*maxEncoded),
		"a truncated header": {0, 3, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			// A hello begins with a delimiter, so what went before it cannot hide it.
			fr := NewFrameReader(io.MultiReader(bytes.NewReader(damage), bytes.NewReader(one)))
			for _, want := range frames {
				got, err := fr.Read()
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got, cmp.Transformer("payload", func(b []byte) string { return string(b) })); diff != "" {
					t.Fatal(diff[:min(len(diff), 400)])
				}
			}
			if _, err := fr.Read(); !errors.Is(err, io.EOF) {
				t.Fatalf("after the last frame: %v", err)
			}
		})
	}
}

func TestFlippedBitIsNoFrame(t *testing.T) {
	var buf bytes.Buffer
	if err := NewFrameWriter(&buf).Write(Frame{Conn: 7, Kind: KindData, Payload: []byte("hello")}); err != nil {
		t.Fatal(err)
	}
	good := buf.Bytes()
	for i := range len(good) - 1 {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			f, err := NewFrameReader(bytes.NewReader(bad)).Read()
			if err == nil {
				t.Fatalf("byte %d bit %d: read %+v", i, bit, f)
			}
		}
	}
}

func FuzzFrameReader(f *testing.F) {
	var buf bytes.Buffer
	if err := NewFrameWriter(&buf).Write(Frame{Conn: 7, Kind: KindData, Payload: []byte("hello")}); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Add([]byte{0, 0, 1, 1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		fr := NewFrameReader(bytes.NewReader(data))
		for {
			if _, err := fr.Read(); err != nil {
				return
			}
		}
	})
}
