package judge

import (
	"strings"
	"testing"
	"unicode"
)

// Whatever a judging program writes, it is an acceptance only if its first line is OK and nothing about it is odd.
func FuzzAnyAnswerOfAJudgingProgramIsReadOrBreaksItsContract(f *testing.F) {
	for _, seed := range []string{
		"OK\n", "OK\nclose\n60\n", "OK\n\n0\n", "WRONG\nwhy\n100\n", "WRONG\n\n101\n", "", "ok", "\ufeffOK", " OK \r\n\r\n+060\r\n",
		"OK\n\n50.5", "OK\n\n-1", "OK\x00", "\nOK", "OK\n\n１００", "OK\n\n0x10", "OK\n\n1_0", "OK\n\n++1", "OK\n\n+",
	} {
		f.Add(0, []byte(seed))
	}
	f.Add(1, []byte("OK\n"))
	f.Fuzz(func(t *testing.T, code int, document []byte) {
		said, err := readAnswer(code, document)
		lines := strings.Split(string(document), "\n")
		first := strings.TrimFunc(lines[0], unicode.IsSpace)
		if err != nil {
			if said != (answer{}) {
				t.Fatalf("broken, and yet it said %+v", said)
			}
			return
		}
		switch {
		case code != 0, first != "OK" && first != "WRONG":
			t.Fatalf("exit code %d and %q were read as %+v", code, document, said)
		case said.accepted != (first == "OK"), !said.accepted && said.percentage != 0, said.percentage < 0, said.percentage > 100:
			t.Fatalf("%q was read as %+v", document, said)
		}
		if len(lines) > 2 {
			if third := strings.TrimFunc(lines[2], unicode.IsSpace); strings.Trim(third, "+0123456789") != "" {
				t.Fatalf("the third line %q was read as %d", third, said.percentage)
			}
		}
	})
}
