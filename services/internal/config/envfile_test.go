package config

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAFileOfSettingsIsReadAsTheServiceManagerReadsIt(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                       nil,
		"# a\n; b\n\n  # c\nA=1":                 {"A=1"},
		"A=1\r\nB=2\n":                           {"A=1", "B=2"},
		"  A = one two \t\nB=":                   {"A=one two", "B="},
		"A=x # no comment\n":                     {"A=x # no comment"},
		`A="one \"two\" \$HOME \\ \n a=b "`:      {`A=one "two" $HOME \ \n a=b `},
		`A='one "two" $HOME \'` + "\nB=2":        {`A=one "two" $HOME \`, "B=2"},
		"A='over\ntwo lines'\nB=2":               {"A=over\ntwo lines", "B=2"},
		"A=\"joined \\\nlines\"\nB=x\\\ny":       {"A=joined lines", "B=xy"},
		`A='one'"two"` + "\n":                    {"A=onetwo"},
		`A=it's "plain"`:                         {`A=it's "plain"`},
		`A=one\ two\ ` + "\n":                    {"A=one two "},
		"A=1\nB=2\nA=3\n":                        {"A=3", "B=2"},
		`AJ_Runner__Name="hall \"2\" \$HOME \\"`: {`AJ_Runner__Name=hall "2" $HOME \`},
	} {
		got, err := ParseEnvironmentFile(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// What the service manager would pass over is refused by its line, and what it says is not repeated.
func TestALineOfSettingsThatWouldBeLostIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"A=1\n\nsecret\nB=1":       "line 3 is no KEY=value",
		"A='x\n'\nexport B=secret": `line 3: "export B" is no name`,
		"1A=x":                     `line 1: "1A" is no name`,
		"=x":                       `line 1: "" is no name`,
		"A=1\nB=\"secret\n":        "line 2: B: a quote has no end",
		"A='secret":                "line 1: A: a quote has no end",
		"# a \\\nA=1":              "line 1 is a comment that ends with a backslash",
		"A=\xff":                   "not text in UTF-8",
		"A=\x00":                   "not text in UTF-8",
	} {
		got, err := ParseEnvironmentFile(text)
		if err == nil || got != nil {
			t.Errorf("%q: %q", text, got)
		} else if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// The example that every setting is in is a file that can be read.
func TestTheExampleOfAllSettingsIsAFileOfSettings(t *testing.T) {
	var text strings.Builder
	if err := WriteExample(&text); err != nil {
		t.Fatal(err)
	}
	set := regexp.MustCompile(`(?m)^# ([A-Z][A-Za-z_]*=)`).ReplaceAllString(text.String(), "$1")
	entries, err := ParseEnvironmentFile(set)
	if err != nil || len(entries) < 20 {
		t.Errorf("%q: %v", entries, err)
	}
}
