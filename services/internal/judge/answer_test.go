package judge

import (
	"strings"
	"testing"
)

func TestAJudgingProgramIsReadByItsContract(t *testing.T) {
	broken := answer{percentage: -1}
	for _, c := range []struct {
		name     string
		exit     int
		document string
		want     answer
	}{
		{"accepted", 0, "OK\n", answer{true, 100, ""}},
		{"accepted without a line end", 0, "OK", answer{true, 100, ""}},
		{"accepted with carriage returns", 0, "OK\r\nfine\r\n50\r\n", answer{true, 50, "fine"}},
		{"white space around the words", 0, " OK \n\u00a0close \n\t60\n", answer{true, 60, "close"}},
		{"accepted in part", 0, "OK\nclose\n60\n", answer{true, 60, "close"}},
		{"accepted for nothing", 0, "OK\n\n0\n", answer{true, 0, ""}},
		{"a blank third line", 0, "OK\nfine\n  \n", answer{true, 100, "fine"}},
		{"further lines", 0, "OK\nfine\n10\nmore\nlines\n", answer{true, 10, "fine"}},
		{"a plus sign", 0, "OK\n\n+60\n", answer{true, 60, ""}},
		{"leading zeros", 0, "OK\n\n007\n", answer{true, 7, ""}},
		{"markup and letters of any kind", 0, "OK\n<b>größer</b> ✓\n", answer{true, 100, "<b>größer</b> ✓"}},
		{"bytes that are no text", 0, "WRONG\n\xff!\n", answer{false, 0, "\xff!"}},
		{"rejected", 0, "WRONG\n", answer{false, 0, ""}},
		{"rejected is worth nothing, whatever it says", 0, "WRONG\nwhy\n100\n", answer{false, 0, "why"}},
		{"rejected with a number out of range", 0, "WRONG\n\n101\n", broken},
		{"a number out of range", 0, "OK\n\n101\n", broken},
		{"a number far out of range", 0, "OK\n\n99999999999999999999999\n", broken},
		{"a negative number", 0, "OK\n\n-1\n", broken},
		{"two signs", 0, "OK\n\n++1\n", broken},
		{"a sign alone", 0, "OK\n\n+\n", broken},
		{"a word for a number", 0, "OK\n\nhalf\n", broken},
		{"a fraction", 0, "OK\n\n50.5\n", broken},
		{"an underscore", 0, "OK\n\n1_0\n", broken},
		{"another base", 0, "OK\n\n0x10\n", broken},
		{"nothing", 0, "", broken},
		{"a blank first line", 0, "\nOK\n", broken},
		{"small letters", 0, "ok\n", broken},
		{"another word", 0, "ACCEPTED\n", broken},
		{"more on the first line", 0, "OK 100\n", broken},
		{"a byte order mark", 0, "\ufeffOK\n", broken},
		{"an exit code, whatever was printed", 1, "WRONG\n", broken},
		{"a crash after accepting", 139, "OK\n", broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := readAnswer(c.exit, []byte(c.document))
			if c.want == broken {
				if err == nil {
					t.Errorf("readAnswer = %+v, want a broken program", got)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("readAnswer = %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}

func TestTheWordsOfABrokenProgramAreQuotedShort(t *testing.T) {
	_, err := readAnswer(0, []byte(strings.Repeat("é", 100_000)))
	if err == nil || len(err.Error()) > 300 {
		t.Errorf("readAnswer of a long line: %v", err)
	}
}
