// Package nonce makes the secret by which a Runner tells its shim's report from anything a submission writes.
package nonce

import (
	"crypto/rand"
	"encoding/hex"
)

// New returns 128 random bits as 32 lower-case hexadecimal digits. One is made for every run and never used again. It
// cannot fail: a kernel without randomness ends the process (crypto/rand).
func New() string {
	var secret [16]byte
	rand.Read(secret[:]) //nolint:errcheck // never returns an error
	return hex.EncodeToString(secret[:])
}
