package problem

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Code says which rule a package broke (spec/judging.md 1.6; the last three are ours).
type Code string

const (
	// CodeArchive: not an archive at all, or one that cannot be read.
	CodeArchive Code = "package.archive"
	// CodeRefused: an archive that breaks a limit of 1.2 or a name that breaks 1.3.
	CodeRefused Code = "package.refused"
	// CodeConfigMissing: no config.yml at the root, or one that is not UTF-8 text.
	CodeConfigMissing Code = "package.config.missing"
	// CodeConfigMalformed: config.yml does not follow the schema of 1.5.
	CodeConfigMalformed Code = "package.config.malformed"
	// CodeTypeAbsent: neither type nor the pair format and version.
	CodeTypeAbsent Code = "package.type.absent"
	// CodeJudgeNotAllowed: a checker or an interactor where the problem type has none.
	CodeJudgeNotAllowed Code = "package.judge.not-allowed"
	// CodeTypeUnknown: another problem type than the expected one.
	CodeTypeUnknown Code = "package.type.unknown"
	// CodeLimitZero: a limit of zero.
	CodeLimitZero Code = "package.limit.zero"
	// CodeGroupsEmpty: no groups.
	CodeGroupsEmpty Code = "package.groups.empty"
	// CodeGroupDuplicate: one group number twice.
	CodeGroupDuplicate Code = "package.group.duplicate"
	// CodePath: a declared path breaks 1.3.
	CodePath Code = "package.path"
	// CodeTestsCount: a declared number of tests that is out of range or has no interactor.
	CodeTestsCount Code = "package.tests.count"
	// CodeJudgeBoth: a checker and an interactor.
	CodeJudgeBoth Code = "package.judge.both"
	// CodeOverlay: the assignment's configuration does not fit the package. The error beneath says why.
	CodeOverlay Code = "package.overlay"
	// CodeTests: the tests on disk and the declared groups do not match (1.8).
	CodeTests Code = "package.tests"
	// CodeFile: a file that judging needs cannot be read.
	CodeFile Code = "package.file"
	// CodeSolutions: the labelled solutions are not laid out as docs/decisions/0020 says.
	CodeSolutions Code = "package.solutions"
	// CodeTarget: the place to unpack into cannot be used. The package is not to blame.
	CodeTarget Code = "package.target"
)

// Error is why a package was refused: which rule, where, and what was expected instead.
type Error struct {
	Code Code
	// Where is "config.yml", the name of an entry, or whatever else the fault is in.
	Where string
	// Line and Col are set when Where is a text and the fault has a place in it; both count from 1.
	Line, Col int
	// Key is the member concerned, such as "groups[2].limits.timeMs".
	Key string
	Msg string
	// Err is what lies beneath, if anything does.
	Err error
}

// Error reads "config.yml:3:11: limits.timeMs: ... (package.limit.zero)". Names come from strangers, so whatever a
// terminal could act on is written as an escape.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Where)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Col)
	}
	for _, part := range []string{e.Key, e.Msg} {
		if part == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(part)
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	if e.Code != "" {
		fmt.Fprintf(&b, " (%s)", e.Code)
	}
	return printable(b.String())
}

// Reason reads "unpacks to more than 64 MiB": what is wrong, without the place and the code.
func (e *Error) Reason() string {
	switch {
	case e.Err == nil:
		return printable(e.Msg)
	case e.Msg == "":
		return printable(e.Err.Error())
	}
	return printable(e.Msg + ": " + e.Err.Error())
}

// Unwrap returns what lies beneath.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the outermost code of an error of this package, or "" for any other error.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// printable writes every character that is not plainly printable as an escape.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case strconv.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// shown quotes a text from a stranger for a message, cut to a length that leaves the message readable.
func shown(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "…"
	}
	return strconv.QuoteToASCII(s)
}

// place is the name of an entry as the place of an error: as it is where it is a name that a package may have, so that a script
// finds the file by it; quoted and cut where it is anything else.
func place(name string) string {
	if clean, err := cleanName(name); err == nil && clean == name {
		return name
	}
	return shown(name)
}
