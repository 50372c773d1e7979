package inside

import (
	"errors"
	"testing"
)

func TestASuiteRunsInAGuestOrWhereItWasAllowed(t *testing.T) {
	for name, c := range map[string]struct {
		line    string
		failure error
		env     string
		want    bool
	}{
		"a guest":                       {line: "console=hvc0 evalhost.variant=systemd psi=1\n", want: true},
		"a machine":                     {line: "root=/dev/sda1 quiet\n"},
		"a machine that may be ruined":  {line: "quiet", env: "1", want: true},
		"a machine that may perhaps be": {line: "quiet", env: "0"},
		"a word that only contains it":  {line: "x-evalhost.variant=systemd"},
		"a machine that cannot tell":    {failure: errors.New("gone")},
	} {
		t.Run(name, func(t *testing.T) {
			err := check(func(string) ([]byte, error) { return []byte(c.line), c.failure }, func(string) string { return c.env })
			if (err == nil) != c.want {
				t.Fatalf("got %v", err)
			}
		})
	}
}
