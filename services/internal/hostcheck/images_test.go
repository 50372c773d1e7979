package hostcheck

import (
	"context"
	"testing"
)

// Two hosts that judge alike tell the same digests, whatever ids their stores give.
func TestAnImageIsToldWithTheDigestItWasBuiltWith(t *testing.T) {
	const digest = "sha256:00000000000000000000000000000000000000000000000000000000000000aa"
	for name, c := range map[string]struct{ digest, want string }{
		"built by somebody who says so": {digest, "evalhost/lang-gcc:local " + digest},
		"without one":                   {"", "evalhost/lang-gcc:local"},
	} {
		m := &Machine{Images: []Image{{Key: "gcc", Ref: "evalhost/lang-gcc:local", Digest: c.digest, Look: func(context.Context) (string, []string, error) {
			return "sha256:the store's own", nil, nil
		}}}}
		proved := map[string]string{}
		found := imageRequirements(m, proved)[0].look(t.Context(), m)
		if found.status != OK || found.found != c.want || proved["gcc"] != "sha256:the store's own" {
			t.Errorf("%s: %+v, proved %v", name, found, proved)
		}
	}
}
