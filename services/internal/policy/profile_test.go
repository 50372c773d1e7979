package policy

import (
	"slices"
	"strings"
	"testing"
)

const small = `version: 1
id: test@1
matching: {stripComments: true, stripStringLiterals: true, reportAllMatches: true}
languages:
  cpp:
    deniedHeaders: [a.h, b/*]
    groups:
      Z: {name: Last letter, identifiers: [zed, both]}
      A: {name: First letter, default: on, identifiers: [ay, both], patterns: ['x\s*y']}
      Q: {name: Quiet, default: off, identifiers: [queue]}
  python: {deniedImports: [m], deniedBuiltins: [f], deniedPatterns: ['p\.q']}
  pypy3: {deniedImports: [n]}
`

func parse(t *testing.T, text string) *Profile {
	t.Helper()
	p, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func changed(t *testing.T, old, new string) string {
	t.Helper()
	text := strings.Replace(small, old, new, 1)
	if text == small {
		t.Fatalf("replacing %q changes nothing", old)
	}
	return text
}

func reports(t *testing.T, p *Profile, keys []string, source string, want ...string) {
	t.Helper()
	if got := p.Check(keys, []byte(source)).Lines(); !slices.Equal(got, want) {
		t.Errorf("%q: %q, want %q", source, got, want)
	}
}

func TestGroupsAreReportedInTheOrderInWhichTheyAreWritten(t *testing.T) {
	reports(t, parse(t, small), cpp, "x y both ay zed queue",
		"Last letter — zed (line 1)", "Last letter — both (line 1)", "First letter — ay (line 1)", "First letter — both (line 1)", "First letter — x y (line 1)")
}

func TestTheRulesUnderTheIdOfAToolchainTakeThePlaceOfThoseOfItsFamily(t *testing.T) {
	p := parse(t, small)
	reports(t, p, []string{"python", "python3"}, "import m, n", "forbidden module m — m (line 1)")
	reports(t, p, []string{"python", "pypy3"}, "import m, n", "forbidden module n — n (line 1)")
}

func TestASwitchIsAnyOfTheSixWords(t *testing.T) {
	for _, word := range []string{"on", "yes", "true", "\"on\""} {
		reports(t, parse(t, changed(t, "default: off", "default: "+word)), cpp, "queue", "Quiet — queue (line 1)")
	}
	for _, word := range []string{"off", "no", "false", "'no'"} {
		reports(t, parse(t, changed(t, "default: on", "default: "+word)), cpp, "ay")
	}
	reports(t, parse(t, changed(t, "default: on, ", "")), cpp, "ay", "First letter — ay (line 1)")
	for _, word := range []string{"maybe", "1", "0", "ON", "[on]", "{}", "''"} {
		if _, err := Parse([]byte(changed(t, "default: on", "default: "+word))); err == nil {
			t.Errorf("%q was accepted as a switch", word)
		}
	}
}

func TestMatchingSwitchesAreHonoured(t *testing.T) {
	source := "// zed\n'ay' zed"
	reports(t, parse(t, small), cpp, source, "Last letter — zed (line 2)")
	reports(t, parse(t, changed(t, "stripComments: true", "stripComments: no")), cpp, source, "Last letter — zed (line 1)", "Last letter — zed (line 2)")
	reports(t, parse(t, changed(t, "stripStringLiterals: true", "stripStringLiterals: off")), cpp, source, "Last letter — zed (line 2)", "First letter — ay (line 2)")
	reports(t, parse(t, changed(t, "reportAllMatches: true", "reportAllMatches: false")), cpp, "zed zed ay", "Last letter — zed (line 1)")
	comments := parse(t, changed(t, "stripComments: true", "stripComments: no"))
	reports(t, comments, cpp, "# /* a */ include <a.h>", "forbidden header <a.h> — a.h (line 1)")
	reports(t, comments, python, "# f(1)", "forbidden builtin f — f (line 1)")
}

func TestMatchingIsOnUnlessItIsSwitchedOff(t *testing.T) {
	reports(t, parse(t, changed(t, "matching: {stripComments: true, stripStringLiterals: true, reportAllMatches: true}\n", "")), cpp,
		"// zed\n'ay' zed zed", "Last letter — zed (line 2)", "Last letter — zed (line 2)")
}

func TestUnknownMembersArePassedOver(t *testing.T) {
	parse(t, changed(t, "version: 1", "version: 1\ncolour: red"))
	parse(t, changed(t, "deniedHeaders", "preprocessedGroups: [Z]\n    neverDenied: [zed]\n    deniedHeaders"))
	parse(t, changed(t, "{name: Quiet", "{why: because, name: Quiet"))
}

func TestAProfileThatDoesNotReadIsAnErrorAndNeverASetOfNoRules(t *testing.T) {
	for _, c := range []struct{ name, old, new string }{
		{"another version", "version: 1", "version: 2"},
		{"no version", "version: 1\n", ""},
		{"a version in words", "version: 1", "version: one"},
		{"no id", "id: test@1\n", ""},
		{"no languages", "languages:", "tongues:"},
		{"a member twice", "version: 1", "version: 1\nversion: 1"},
		{"a second document", "  pypy3:", "---\n  pypy3:"},
		{"an open bracket", "[a.h, b/*]", "[a.h, b/*"},
		{"a list for a map", "Z: {name: Last letter, identifiers: [zed, both]}", "- zed"},
		{"a text for a list", "[a.h, b/*]", "3"},
		{"an empty header", "[a.h, b/*]", "[a.h, '']"},
		{"a star alone", "[a.h, b/*]", "[a.h, '*']"},
		{"a star within", "[a.h, b/*]", "['a*.h']"},
		{"a header in its brackets", "[a.h, b/*]", "['<a.h>']"},
		{"a group without a name", "name: Quiet, ", ""},
		{"an identifier of two words", "[queue]", "['queue up']"},
		{"an empty identifier", "[queue]", "['']"},
		{"a pattern that does not compile", `x\s*y`, `x(`},
		{"a pattern that is found everywhere", `x\s*y`, `x*`},
		{"a pattern with a look ahead", `x\s*y`, `x(?=y)`},
		{"an import with a dot", "deniedImports: [m]", "deniedImports: [m.n]"},
		{"a builtin twice", "[f]", "[f, f]"},
		{"a builtin that is none", "[f]", "['f()']"},
		{"a Python pattern that does not compile", `p\.q`, `[`},
		{"a family with nothing to deny", "{deniedImports: [m], deniedBuiltins: [f], deniedPatterns: ['p\\.q']}", "{}"},
		{"a family that is null", "{deniedImports: [m], deniedBuiltins: [f], deniedPatterns: ['p\\.q']}", ""},
	} {
		if p, err := Parse([]byte(changed(t, c.old, c.new))); err == nil {
			t.Errorf("%s was accepted: %+v", c.name, p)
		} else if p != nil {
			t.Errorf("%s: an error and yet a profile", c.name)
		}
	}
	for _, text := range []string{"", "\n", "null", "[]", "x", "version: 1\nid: x\nlanguages: {}", "\xff"} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}
