package judge

import (
	"fmt"
	"strconv"
	"strings"
)

// answer is what a judging program said about a test.
type answer struct {
	accepted bool
	// percentage of the test's share, 0 to 100; always 0 when it was not accepted.
	percentage int
	// comment is for the participant, possibly empty. It is carried as it was written.
	comment string
}

// readAnswer reads a judging program's document (spec/judging.md 6.3). There are three outcomes: it accepted, it
// rejected, or it broke its contract, which is the error and never a wrong answer.
func readAnswer(exitCode int, document []byte) (answer, error) {
	if exitCode != 0 {
		return answer{}, fmt.Errorf("it ended with exit code %d; a judging program always ends with 0", exitCode)
	}
	lines := strings.Split(string(document), "\n")
	line := func(i int) string {
		if i < len(lines) {
			return strings.TrimSpace(lines[i])
		}
		return ""
	}
	if line(0) != "OK" && line(0) != "WRONG" {
		return answer{}, fmt.Errorf("its first line is %s; it must be OK or WRONG", shown(line(0)))
	}
	said := answer{accepted: line(0) == "OK", comment: line(1)}
	percentage := 100
	if third := line(2); third != "" {
		var err error
		// The check holds for WRONG too: a number out of range is a broken program, whatever it wanted to say.
		if percentage, err = readPercentage(third); err != nil {
			return answer{}, err
		}
	}
	if said.accepted {
		said.percentage = percentage
	}
	return said, nil
}

// readPercentage reads a whole number of 0 to 100, with or without a plus sign and leading zeros.
func readPercentage(text string) (int, error) {
	// ParseUint takes no sign; an underscore or a base prefix is refused because the base is given.
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "+"), 10, 64)
	if err != nil || n > 100 {
		return 0, fmt.Errorf("its third line is %s; it must be a whole number of 0 to 100", shown(text))
	}
	return int(n), nil
}

// shown quotes the beginning of what a program wrote, for the words of a failure.
func shown(text string) string { return shownUpTo(64, text) }

// shownUpTo quotes at most so many characters of it.
func shownUpTo(most int, text string) string {
	runes := []rune(text)
	if len(runes) > most {
		return strconv.Quote(string(runes[:most])) + "…"
	}
	return strconv.Quote(text)
}
