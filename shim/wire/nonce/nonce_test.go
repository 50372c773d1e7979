package nonce

import (
	"regexp"
	"testing"
)

func TestANonceIs32HexadecimalDigitsAndNeverTheSameTwice(t *testing.T) {
	shape := regexp.MustCompile(`^[0-9a-f]{32}$`)
	seen := map[string]bool{}
	for range 1000 {
		made := New()
		if !shape.MatchString(made) {
			t.Fatalf("New() = %q, want 32 hexadecimal digits", made)
		}
		if seen[made] {
			t.Fatalf("New() gave %q twice", made)
		}
		seen[made] = true
	}
}
