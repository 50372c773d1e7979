package compare

import (
	"math/rand/v2"
	"testing"
)

// FuzzCompare compares any answer with any reference, cut in any way, against the model.
func FuzzCompare(f *testing.F) {
	for i, c := range examples {
		if len(c.answer) < 200 {
			f.Add([]byte(c.reference), []byte(c.answer), uint64(i))
			f.Add([]byte(c.answer), []byte(c.reference), uint64(i))
		}
	}
	f.Fuzz(func(t *testing.T, reference, answer []byte, seed uint64) {
		if len(reference)+len(answer) > 2000 {
			t.Skip("the model takes the square of this") // longer answers are only more of the same
		}
		agree(t, string(reference), string(answer), rand.New(rand.NewPCG(seed, 0)))
	})
}
