// Package identity is who a Runner is: one Ed25519 key on disk, the fingerprint that names it and the signatures that
// prove it (spec/protocol.md section 3). The key is the only secret a host has. Nothing in this package prints it: every
// way of formatting a Key yields its fingerprint.
package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// SeedSize is the size of a key file in bytes: the raw Ed25519 seed and nothing else (spec/protocol.md 3.1).
const SeedSize = ed25519.SeedSize

// Fingerprint names a key: the lower-case hex SHA-256 of its 32 raw public bytes, 64 characters (spec/protocol.md 3.2).
// It is public, and also the Runner's instance name.
type Fingerprint string

// Short is the beginning of the fingerprint, for people to read.
func (f Fingerprint) Short() string {
	if len(f) < 12 {
		return string(f)
	}
	return string(f[:12])
}

// ErrKeyMalformed: a public key on the wire that is not standard base64 (code runner.key.malformed).
var ErrKeyMalformed = errors.New("identity: the public key is not standard padded base64")

// ErrKeyLength: a public key on the wire of another length than 32 bytes (code runner.key.length).
var ErrKeyLength = errors.New("identity: the public key is not 32 bytes long")

// Key is a Runner's private key. It is immutable and safe for use by many goroutines; its zero value is not usable.
// A Key formats, logs and encodes as its fingerprint, whatever the verb; and because the private half lives in a closure
// alone, even a copy of the struct inside of another one cannot be printed.
type Key struct {
	sign        func(message []byte) []byte
	public      ed25519.PublicKey
	fingerprint Fingerprint
}

// FromSeed makes the key that belongs to 32 seed bytes. It fails on any other length and on 32 zero bytes, which is what
// an interrupted write can leave behind on some file systems and a key that everybody knows.
func FromSeed(seed []byte) (*Key, error) {
	if len(seed) != SeedSize {
		return nil, fmt.Errorf("identity: a seed is %d bytes, this one is %d", SeedSize, len(seed))
	}
	if [SeedSize]byte(seed) == [SeedSize]byte{} {
		return nil, errors.New("identity: the seed is all zeros, which is no secret")
	}
	return fromSeed(seed), nil
}

func fromSeed(seed []byte) *Key {
	private := ed25519.NewKeyFromSeed(seed)
	public := private.Public().(ed25519.PublicKey)
	return &Key{
		sign:   func(message []byte) []byte { return ed25519.Sign(private, message) },
		public: public, fingerprint: FingerprintOf(public),
	}
}

// generate makes a new key from the operating system's generator, and its seed to be kept.
func generate() (seed []byte, key *Key, err error) {
	seed = make([]byte, SeedSize)
	if _, err := io.ReadFull(rand.Reader, seed); err != nil {
		return nil, nil, fmt.Errorf("identity: draw a new key: %w", err)
	}
	key, err = FromSeed(seed)
	return seed, key, err
}

// Fingerprint names the key.
func (k *Key) Fingerprint() Fingerprint { return k.fingerprint }

// PublicKey is the public key as the wire carries it: standard padded base64 of the 32 raw bytes, 44 characters.
func (k *Key) PublicKey() string {
	return base64.StdEncoding.EncodeToString(k.public)
}

// Sign proves possession of the key: Ed25519 over the bytes of the nonce exactly as it was received, neither decoded nor
// hashed (spec/protocol.md 3.2), as standard padded base64, 88 characters.
func (k *Key) Sign(nonce string) string {
	return base64.StdEncoding.EncodeToString(k.sign([]byte(nonce)))
}

// String is the fingerprint, never the key.
func (k *Key) String() string {
	if k == nil {
		return "<no key>"
	}
	return string(k.fingerprint)
}

// GoString is what %#v prints: the fingerprint, never the key.
func (k *Key) GoString() string { return "identity.Key(" + k.String() + ")" }

// Format answers every verb with the fingerprint, so that no choice of verb reaches the key's bytes.
func (k *Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, k.String()) }

// LogValue is the fingerprint, never the key.
func (k *Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText is the fingerprint, never the key: an encoder that meets a Key by accident writes nothing secret.
func (k *Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// FingerprintOf names a raw public key.
func FingerprintOf(public ed25519.PublicKey) Fingerprint {
	sum := sha256.Sum256(public)
	return Fingerprint(hex.EncodeToString(sum[:]))
}

// ParsePublicKey reads a public key as the wire carries it. It fails with ErrKeyMalformed or ErrKeyLength, in the order
// in which a Server tells them apart (spec/protocol.md 2.2).
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, ErrKeyMalformed
	}
	if len(raw) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%w: it is %d", ErrKeyLength, len(raw))
	}
	return ed25519.PublicKey(raw), nil
}

// Verify says whether a signature as the wire carries it was made over exactly this nonce by the owner of the key.
func Verify(public ed25519.PublicKey, nonce, signature string) bool {
	raw, err := base64.StdEncoding.Strict().DecodeString(signature)
	return err == nil && len(public) == ed25519.PublicKeySize && ed25519.Verify(public, []byte(nonce), raw)
}
