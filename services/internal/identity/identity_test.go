package identity

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func mustKey(t *testing.T, seedHex string) *Key {
	t.Helper()
	seed, err := hex.DecodeString(seedHex)
	if err != nil {
		t.Fatal(err)
	}
	key, err := FromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

const (
	seedA  = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
	seedB  = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	nonce1 = "PT5A6oWQ0vJ0kQ2Y3n1a4Z9x8W7v6U5t4S3r2Q1p0O8="
	nonce2 = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	// wrongA is a signature of key A over the decoded bytes of nonce1, the classic mistake.
	wrongA = "xKlT4AMMT66gI7D9f9oxeclPTudFat46uheLbkbz9ltFk05bt0h4AtgzJLOmSjLlYHdHfjF0qNpxEZlYstzqBw=="
	spkiB  = "MCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="
)

// vectors are those of spec/protocol.md 3.4.
var vectors = []struct {
	name, seed, publicHex, public, fingerprint string
	signatures                                 map[string]string // nonce -> signature
}{
	{
		name: "A", seed: seedA,
		publicHex:   "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
		public:      "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
		fingerprint: "21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9",
		signatures: map[string]string{
			nonce1: "Xemi3LRmoUjgD+jcrTlxF2CT0mLfFRBhYOFAYSnZLydJ2lqTkE1etwW5sag52cCZTLBMv51A+NLGV4CP0GeTBA==",
			nonce2: "KmKgY/MTbGN8ucLpr8hx0Y9iMY1cGcJoxbXkwaLiGVbS6t3NPiQB21xWVGyCsfFpkQFEbxImVhRZESR23xRaAA==",
			"":     "5VZDAMNgrHKQhuLMgG6CioSHfx645dl02HPgZSJJAVVfuIIVkKM7rMYeOXAc+bRr0lv18FlbviRlUUFDjnoQCw==",
		},
	},
	{
		name: "B", seed: seedB,
		publicHex:   "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8",
		public:      "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=",
		fingerprint: "56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c",
		signatures: map[string]string{
			nonce1: "1f27YvgxPvkMGe//05DTPhpNj2K2g3ikH21ur5/m/z0RcE8mCP5CzIvC55Fv1Q4AirbgvKC18GBupG6JqrBiCQ==",
		},
	},
}

func TestTheVectorsOfTheContract(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			key := mustKey(t, v.seed)
			if got := key.PublicKey(); got != v.public {
				t.Errorf("public key %s, want %s", got, v.public)
			}
			if got := string(key.Fingerprint()); got != v.fingerprint {
				t.Errorf("fingerprint %s, want %s", got, v.fingerprint)
			}
			public, err := ParsePublicKey(v.public)
			if err != nil || hex.EncodeToString(public) != v.publicHex {
				t.Fatalf("parsed public key %x, %v; want %s", public, err, v.publicHex)
			}
			if FingerprintOf(public) != key.Fingerprint() {
				t.Error("the fingerprint is not the hash of what is published")
			}
			for nonce, want := range v.signatures {
				if got := key.Sign(nonce); got != want {
					t.Errorf("signature of %q is %s, want %s", nonce, got, want)
				}
				if !Verify(public, nonce, want) {
					t.Errorf("the signature of %q does not verify", nonce)
				}
				if Verify(public, nonce+" ", want) {
					t.Errorf("the signature of %q verifies over another nonce", nonce)
				}
			}
		})
	}
}

func TestASignatureOverTheDecodedNonceIsRefused(t *testing.T) {
	key := mustKey(t, seedA)
	decoded, err := base64.StdEncoding.DecodeString(nonce1)
	if err != nil {
		t.Fatal(err)
	}
	if got := base64.StdEncoding.EncodeToString(key.sign(decoded)); got != wrongA {
		t.Fatalf("the wrong signature of the vector is %s, want %s", got, wrongA)
	}
	public, _ := ParsePublicKey(key.PublicKey())
	if Verify(public, nonce1, wrongA) {
		t.Error("a signature over the decoded nonce verifies")
	}
}

func TestASignatureFromTheWrongKeyIsRefused(t *testing.T) {
	public, _ := ParsePublicKey(mustKey(t, seedA).PublicKey())
	if Verify(public, nonce1, mustKey(t, seedB).Sign(nonce1)) {
		t.Error("key A vouches for a signature of key B")
	}
	for _, rubbish := range []string{"", "AAAA", "not base64 !!", strings.Repeat("A", 88)} {
		if Verify(public, nonce1, rubbish) {
			t.Errorf("%q verifies", rubbish)
		}
	}
}

func TestAKeyThatIsNotThirtyTwoBytesIsRefused(t *testing.T) {
	for text, want := range map[string]error{
		"dG9vLXNob3J0":         ErrKeyLength,
		"not base64 at all !!": ErrKeyMalformed,
		spkiB:                  ErrKeyLength,
		"":                     ErrKeyLength,
	} {
		if _, err := ParsePublicKey(text); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	for _, size := range []int{0, 16, 31, 33, 64} {
		if _, err := FromSeed(bytes.Repeat([]byte{7}, size)); err == nil {
			t.Errorf("a seed of %d bytes is accepted", size)
		}
	}
	if _, err := FromSeed(make([]byte, SeedSize)); err == nil {
		t.Error("a seed of zeros is accepted")
	}
}

func TestNoWayOfPrintingAKeyShowsIt(t *testing.T) {
	key := mustKey(t, seedB)
	type holder struct {
		Name string
		Key  *Key
	}
	var out bytes.Buffer
	type private struct {
		key  *Key
		copy Key
	}
	h := holder{"x", key}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		fmt.Fprintf(&out, verb+"\n", key)
		fmt.Fprintf(&out, verb+"\n", h)
		fmt.Fprintf(&out, verb+"\n", &h)
		fmt.Fprintf(&out, verb+"\n", []*Key{key})
		fmt.Fprintf(&out, verb+"\n", *key)
		fmt.Fprintf(&out, verb+"\n", private{key, *key})
	}
	if err := json.NewEncoder(&out).Encode(map[string]any{"key": key, "holder": h}); err != nil {
		t.Fatal(err)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("key", "key", key, "holder", h)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("key", "key", key, "holder", h)
	text := strings.ToLower(out.String())
	seed, _ := hex.DecodeString(seedB)
	for _, secret := range []string{
		seedB, base64.StdEncoding.EncodeToString(seed), string(seed), fmt.Sprint(seed), "0x00, 0x01, 0x02", "[0 1 2 3",
	} {
		if strings.Contains(text, strings.ToLower(secret)) {
			t.Errorf("the key is shown as %q in\n%s", secret, text)
		}
	}
	if !strings.Contains(text, string(key.Fingerprint())) {
		t.Error("the fingerprint is not shown")
	}
	var none *Key
	if got := none.String(); got != "<no key>" {
		t.Errorf("no key prints as %q", got)
	}
}

func FuzzParsePublicKey(f *testing.F) {
	for _, seed := range []string{"dG9vLXNob3J0", spkiB, vectors[0].public, "", "====", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		public, err := ParsePublicKey(text)
		if err != nil {
			return
		}
		if len(public) != ed25519.PublicKeySize {
			t.Fatalf("accepted %d bytes", len(public))
		}
		Verify(public, text, text)
	})
}
